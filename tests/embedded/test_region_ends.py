"""The embedded region is killed while pytest lives on: one sentence, soon, and what follows is not tried in vain."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

import pytest
from inner_runs import HEAD, Ended, finish, kill_9, region_of, start_pytest, wait_until
from leftovers import gone

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


def loses_its_region(busy_with: str, folder: Path) -> Ended:
    text = f"{HEAD}\ndef test_it(ebs_volume, fio):{busy_with}{FURTHER}"
    process = start_pytest(folder, text, "--cloudbench-pace=full")
    wait_until(Path(folder, "loaded").exists, "the load inside the run")
    time.sleep(1)  # well within what it does for minutes
    kill_9(region_of(process.pid)[-1:])
    return finish(process, folder)


RUNS = {"fio": partial(loses_its_region, LOAD), "a command": partial(loses_its_region, COMMAND)}


@pytest.mark.fault("kill", "the region is killed under a running session")
@pytest.mark.parametrize("busy_with", RUNS)
def test_each_test_that_needed_it_says_so_at_once(ended, busy_with):
    _, code, output, waited_s = ended[busy_with]
    assert code == 1, output
    assert "1 failed, 2 errors" in output
    reports, _, _ = output.partition("short test summary info")  # whose lines are cut off, but not under CI
    assert len(SENTENCE.findall(reports)) == 3, output
    assert "teardown of" not in output
    assert not [line for line in output.splitlines() if line.startswith("E ") and "RegionEnded" not in line]
    assert waited_s < 20, output


@pytest.mark.fault("kill", "the region is killed under a running session", leak=True)
@pytest.mark.usefixtures("ended")
def test_the_next_start_removes_what_they_left(before, tmp_path):
    again = finish(start_pytest(tmp_path, f"{HEAD}\ndef test_it(ebs_volume):\n    pass\n"), tmp_path)
    assert again.code == 0, again.output
    gone(before)
