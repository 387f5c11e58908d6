"""Two volumes measured on the embedded region and recorded; pytest-benchmark's gate judges them without any region."""

import json
import sys

import pytest

pytest.importorskip("pytest_benchmark")

pytestmark = pytest.mark.embedded

BODY = """
import os
import pytest
from pytest_cloudbench import gp3


@pytest.mark.ec2_instance("m5.2xlarge")
@pytest.mark.ebs_volume(gp3(size_gib=20, iops=int(os.environ["PROVISIONED"])))
def test_it(ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=32, runtime=4, ramp_time=1)
    assert run.reaches(ebs_volume.iops)
"""


def test_a_faster_volume_passes_the_gate_and_a_slower_one_does_not(pytester, monkeypatch):
    pytester.makepyfile(test_it=BODY)

    def run(provisioned, *options):
        monkeypatch.setenv("PROVISIONED", str(provisioned))
        quiet = ("-p", "no:cacheprovider", "-p", "no:allure_pytest")
        return pytester.run(sys.executable, "-m", "pytest", *quiet, *options, "test_it.py")

    for provisioned in (3_000, 4_000):
        recorded = run(provisioned, f"--cloudbench-evidence=kept-{provisioned}", "-p", "no:benchmark")
        recorded.assert_outcomes(passed=1)
    for base, other, passes in ((3_000, 4_000, True), (4_000, 3_000, False)):
        replayed = run(base, f"--cloudbench-replay=kept-{base}", f"--benchmark-save=of-{base}")
        replayed.assert_outcomes(passed=1)
        (saved,) = pytester.path.glob(f".benchmarks/*/*_of-{base}.json")
        (row,) = json.loads(saved.read_text())["benchmarks"]
        assert row["stats"]["ops"] == pytest.approx(base, rel=0.1)
        number = saved.name.partition("_")[0]
        gate = (f"--benchmark-compare={number}", "--benchmark-compare-fail=mean:5%")
        judged = run(other, f"--cloudbench-replay=kept-{other}", *gate)
        assert (judged.ret == 0) is passes
        assert ("Performance has regressed" in str(judged.stdout) + str(judged.stderr)) is not passes
