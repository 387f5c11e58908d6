"""After success, a failing test, Ctrl-C and kill -9, nothing remains on this machine."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from inner_runs import HEAD, LIMIT_S, kill_9, region_of, start_pytest, wait_until
from leftovers import gone, leftovers

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


@pytest.fixture
def before(_cloudbench_cloud):
    """What there is while this session's own region is up; runs inside these tests must add nothing to it."""
    return leftovers()


@pytest.fixture
def project(tmp_path):
    """A folder with one test file, and a way to start pytest in it."""

    def start(text: str, *options: str) -> subprocess.Popen[str]:
        return start_pytest(tmp_path, text, *options)

    return start


@pytest.mark.parametrize(("text", "code"), [(PASSES, 0), (FAILS, 1)], ids=["success", "failing test"])
def test_after_an_ordinary_end(project, before, text, code):
    process = project(text)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, output
    gone(before)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_after_an_interrupt(project, before, tmp_path, ending):
    process = project(RUNS_LONG)
    wait_until(Path(tmp_path, "mounted").exists, "the mount inside the run")
    process.send_signal(ending)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2, output
    assert "KeyboardInterrupt" in output
    gone(before)


def test_after_kill_9_of_pytest(project, before, tmp_path):
    """The region ends itself: its lease is gone."""
    process = project(RUNS_LONG)
    wait_until(Path(tmp_path, "mounted").exists, "the mount inside the run")
    process.kill()
    process.communicate(timeout=LIMIT_S)
    gone(before)


def test_after_kill_9_of_the_region_and_a_new_start(project, before, tmp_path):
    process = project(RUNS_LONG)
    wait_until(Path(tmp_path, "mounted").exists, "the mount inside the run")
    ours = region_of(process.pid)
    kill_9(ours)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    again = project(PASSES)
    output, _ = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, output
    gone(before)
