"""Repeats of a test on an embedded region: real hardware, used again or fresh."""

import re
import subprocess
import sys

import pytest

WORDS = ("used", "fresh")
BODY = """
import pytest
from pytest_cloudbench import gp3

pytestmark = [pytest.mark.ec2_instance("m5.large"), pytest.mark.ebs_volume(gp3(size_gib=1))]


@pytest.mark.cloudbench_repeats(2, on="same")
def test_a_mounted_volume(ec2_instance, ebs_volume, fio):
    print("used", ec2_instance.id, ebs_volume.id)
    run = fio(ebs_volume.mounted("xfs"), rw="randread", iodepth=32, size="64m", runtime=3)
    assert run.reaches(ebs_volume.iops)


@pytest.mark.cloudbench_repeats(2)
def test_fresh_hardware(ec2_instance, ebs_volume, fio):
    print("fresh", ec2_instance.id, ebs_volume.id)
    assert fio(ebs_volume, rw="randread", iodepth=32, runtime=1, ramp_time=0).reaches(ebs_volume.iops)
"""


@pytest.mark.embedded
def test_repeats_on_fresh_hardware_or_on_the_same_unmounted_volume_are_replayed(tmp_path):
    (tmp_path / "test_it.py").write_text(BODY)

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rP", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

    done = run("--cloudbench-evidence=kept", "--cloudbench-inconclusive=fail")
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    used, fresh = (re.findall(rf"^{word} (i-\w+) (vol-\w+)$", done.stdout, re.MULTILINE) for word in WORDS)
    assert (len(used), len(set(used))) == (2, 1)
    assert len({each for pair in fresh for each in pair} - set(used[0])) == 4
    found = re.findall(r"^Inconclusive: inconclusive: reaches .* of 2 repeats", done.stdout, re.MULTILINE)
    assert len(found) == 2, done.stdout
    again = run("--cloudbench-replay=kept", "--cloudbench-inconclusive=fail")
    assert "4 passed" in again.stdout, again.stdout + again.stderr
