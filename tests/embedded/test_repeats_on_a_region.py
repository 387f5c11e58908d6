"""Repeats of a test on an embedded region: real hardware, used again or fresh."""

import re
import subprocess
import sys

import pytest

BODY = """
import pytest
from pytest_cloudbench import gp3

pytestmark = [
    pytest.mark.cloudbench_repeats(2, on="same"),
    pytest.mark.ec2_instance("m5.large"),
    pytest.mark.ebs_volume(gp3(size_gib=1)),
]


def test_a_mounted_volume(ec2_instance, ebs_volume, fio):
    print("used", ec2_instance.id, ebs_volume.id)
    run = fio(ebs_volume.mounted("xfs"), rw="randread", iodepth=32, size="64m", runtime=3)
    assert run.reaches(ebs_volume.iops)
"""


@pytest.mark.embedded
def test_repeats_on_the_same_volume_find_it_unmounted_and_are_replayed(tmp_path):
    (tmp_path / "test_it.py").write_text(BODY)

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rP", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

    done = run("--cloudbench-evidence=kept", "--cloudbench-inconclusive=fail")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    used = re.findall(r"^used (i-\w+) (vol-\w+)$", done.stdout, re.MULTILINE)
    assert len(used) == 2
    assert len(set(used)) == 1
    assert re.search(r"^  inconclusive: reaches .* of 2 repeats", done.stdout, re.MULTILINE), done.stdout
    again = run("--cloudbench-replay=kept", "--cloudbench-inconclusive=fail")
    assert "2 passed" in again.stdout, again.stdout + again.stderr
