"""The embedded region is killed while pytest lives on: one sentence, soon, and what follows is not tried in vain."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from inner_runs import HEAD, LIMIT_S, kill_9, region_of, start_pytest, wait_until
from leftovers import leftovers

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

LOAD = """
    pathlib.Path("loaded").touch()
    fio(ebs_volume, rw="randread", runtime=300)
"""
COMMAND = """
    pathlib.Path("loaded").touch()
    ebs_volume.instance.run(["sleep", "600"], timeout_s=600)
"""
FURTHER = """

def test_further(ebs_volume, fio):
    fio(ebs_volume, rw="randread", runtime=1)

def test_the_last(ec2, fio):
    ec2.launch("m5.large")
"""
SENTENCE = re.compile(
    r"RegionEnded: the embedded region \(process \d+\) ended while it was needed, with exit code (?:-9|137), SIGKILL, "
    r"perhaps by the kernel because memory ran out \(see dmesg\): what ran on it is lost\. Start the tests again; "
    r"that start, or `cloudbench twin down`, removes what it left"
)


@pytest.mark.usefixtures("_cloudbench_cloud")  # this session's own region is up all the while
@pytest.mark.parametrize("busy_with", [LOAD, COMMAND], ids=["fio", "a command"])
def test_each_test_that_needed_it_says_so_at_once(tmp_path, busy_with):
    before = leftovers()
    text = f"{HEAD}\ndef test_it(ebs_volume, fio):{busy_with}{FURTHER}"
    process = start_pytest(tmp_path, text, "--cloudbench-pace=full")
    wait_until(Path(tmp_path, "loaded").exists, "the load inside the run")
    time.sleep(1)  # well within what it does for minutes
    kill_9(region_of(process.pid)[-1:])
    killed = time.monotonic()
    output, _ = process.communicate(timeout=LIMIT_S)
    took_s = time.monotonic() - killed
    assert process.returncode == 1, output
    assert "1 failed, 2 errors" in output
    reports, _, _ = output.partition("short test summary info")  # whose lines are cut off, but not under CI
    assert len(SENTENCE.findall(reports)) == 3, output
    assert "teardown of" not in output
    assert not [line for line in output.splitlines() if line.startswith("E ") and "RegionEnded" not in line]
    assert took_s < 20, output
    again = start_pytest(tmp_path, f"{HEAD}\ndef test_it(ebs_volume):\n    pass\n")
    output, _ = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, output
    assert not leftovers() - before
