"""After success, a failing test, Ctrl-C and kill -9, nothing remains on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from leftovers import leftovers

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

HEAD = """
import pathlib
import pytest
from pytest_cloudbench import gp3

pytestmark = [pytest.mark.ec2_instance("m5.large"), pytest.mark.ebs_volume(gp3(size_gib=1))]
"""
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
LIMIT_S = 120


@pytest.fixture
def before(_cloudbench_cloud):
    """What there is while this session's own region is up; runs inside these tests must add nothing to it."""
    return leftovers()


@pytest.fixture
def project(tmp_path):
    """A folder with one test file, and a way to start pytest in it."""

    def start(text: str) -> subprocess.Popen[str]:
        (tmp_path / "test_it.py").write_text(text)
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def wait_until(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {LIMIT_S} s"
        time.sleep(0.05)


def gone(before):
    """Wait until nothing is left but what was there; what is left then is the failure's text."""
    deadline = time.monotonic() + 30
    while (left := leftovers() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


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
    ours = _region_of(process.pid)
    _kill_9(ours)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    again = project(PASSES)
    output, _ = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, output
    gone(before)


def _region_of(pid: int) -> list[int]:
    """The processes of the region that this pytest started, found as its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = []
    frontier = [pid]
    while frontier:
        children = [child for child, parent in parents.items() if parent == frontier[0]]
        found += children
        frontier = frontier[1:] + children
    return [
        each for each in found if "pytest_cloudbench.twin" in _command(each) and "serve" in _command(each)
    ]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _kill_9(pids: list[int]) -> None:
    assert pids, "the region's process was not found"
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    subprocess.run([*sudo, "kill", "-9", *map(str, pids)], check=True)
