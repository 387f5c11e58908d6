"""After success, a failing test, Ctrl-C and kill -9, nothing remains on this machine."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest
from inner_runs import HEAD, Ended, finish, kill_9, region_of, start_pytest, wait_until
from leftovers import gone

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

PASSES = f"""{HEAD}
def test_it(ebs_volume, fio):
    assert fio(ebs_volume, rw="randread", runtime=1).iops > 0
"""
FAILS = f"""{HEAD}
def test_it(ebs_volume):
    assert ebs_volume.mounted("xfs").path == "/nowhere"
"""
RUNS_LONG = f"""{HEAD}
def test_it(ebs_volume, fio):
    ebs_volume.mounted("ext4")
    pathlib.Path("mounted").touch()
    ebs_volume.instance.run(["sleep", "600"], timeout_s=600)
"""


def ends_by_itself(text: str, folder: Path) -> Ended:
    return finish(start_pytest(folder, text), folder)


def is_interrupted(ending: signal.Signals, folder: Path) -> Ended:
    process = start_pytest(folder, RUNS_LONG)
    wait_until(Path(folder, "mounted").exists, "the mount inside the run")
    process.send_signal(ending)
    return finish(process, folder)


def is_killed(folder: Path) -> Ended:
    """The region ends itself: its lease is gone."""
    return is_interrupted(signal.SIGKILL, folder)


def is_killed_with_its_region(folder: Path) -> Ended:
    """The next start removes what both left."""
    process = start_pytest(folder, RUNS_LONG)
    wait_until(Path(folder, "mounted").exists, "the mount inside the run")
    kill_9(region_of(process.pid))
    process.kill()
    finish(process, folder)
    return ends_by_itself(PASSES, folder)


RUNS = {
    "kill -9 of both": is_killed_with_its_region,
    "kill -9": is_killed,
    "Ctrl-C": partial(is_interrupted, signal.SIGINT),
    "SIGTERM": partial(is_interrupted, signal.SIGTERM),
    "failing test": partial(ends_by_itself, FAILS),
    "success": partial(ends_by_itself, PASSES),
}


@pytest.mark.fault("kill", "a session is killed, also with its region")
@pytest.mark.parametrize(
    ("run", "code"), [("success", 0), ("failing test", 1), ("kill -9", -9), ("kill -9 of both", 0)]
)
def test_a_run_ends_with_its_code(ended, run, code):
    assert ended[run].code == code, ended[run].output


@pytest.mark.fault("kill", "a session is interrupted in a test")
@pytest.mark.parametrize("run", ["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_says_so(ended, run):
    assert ended[run].code == 2, ended[run].output
    assert "KeyboardInterrupt" in ended[run].output


@pytest.mark.fault("kill", "a session is killed, also with its region", leak=True)
@pytest.mark.usefixtures("ended")
def test_nothing_is_left_of_any(before):
    gone(before)
