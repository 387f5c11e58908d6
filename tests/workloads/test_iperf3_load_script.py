"""The load script of one end, run by every available shell with simple processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cloudbench.workloads.iperf3 import load_script as load_script_module
from pytest_cloudbench.workloads.iperf3.load_script import load_script

_SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


@pytest.fixture(params=_SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    return {"bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}.get(request.param, [request.param])


@pytest.fixture
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the script check its limit every second instead of every five."""
    monkeypatch.setattr(load_script_module, "_GUARDED_EVERY_S", 1)


def _start(shell: list[str], directory: Path, script: bytes) -> subprocess.Popen[bytes]:
    (directory / "load").write_bytes(script)
    return subprocess.Popen([*shell, "load"], cwd=directory, stdout=subprocess.PIPE, start_new_session=True)


def _group_is_gone(group: int) -> bool:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, members_group = entry.read_text().rpartition(") ")[2].split()[:3]
        except OSError:
            continue
        if int(members_group) == group and state != "Z":
            return False
    return True


def _wait_for_group_end(group: int) -> None:
    deadline = time.monotonic() + 15
    while not _group_is_gone(group):
        assert time.monotonic() < deadline, "something of the script still runs"
        time.sleep(0.02)


def test_processes_that_end_at_once_do_not_delay_the_script(shell: list[str], tmp_path: Path) -> None:
    script = load_script([["sh", "-c", "echo out; echo err >&2; exit 3"], ["true"]], limit_s=600)
    for number in range(30):
        directory = tmp_path / str(number)
        directory.mkdir()
        began = time.monotonic()
        running = _start(shell, directory, script)
        assert running.wait(60) == 0
        assert time.monotonic() - began < 30
        assert (directory / "exit_codes").read_text().split() == ["3", "0"]
        assert (directory / "process-1.json").read_text() == "out\n"
        assert (directory / "process-1.err").read_text() == "err\n"
        _wait_for_group_end(running.pid)


@pytest.mark.usefixtures("_short_steps")
def test_an_interrupted_script_waits_for_the_processes_output(shell: list[str], tmp_path: Path) -> None:
    # iperf3 catches the interrupt by itself although a shell starts it with interrupts ignored.
    process = (
        "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.3), print('kept'), "
        "sys.exit(4))); print('up', flush=True); time.sleep(60)"
    )
    running = _start(shell, tmp_path, load_script([[sys.executable, "-c", process]], limit_s=600))
    output = tmp_path / "process-1.json"
    deadline = time.monotonic() + 30
    while not output.exists() or "up" not in output.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(30) == 0
    assert output.read_text() == "up\nkept\n"
    assert (tmp_path / "exit_codes").read_text().split() == ["4"]
    _wait_for_group_end(running.pid)


@pytest.mark.usefixtures("_short_steps")
def test_processes_that_exceed_the_limit_are_ended(shell: list[str], tmp_path: Path) -> None:
    process = "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler); time.sleep(600)"
    running = _start(shell, tmp_path, load_script([[sys.executable, "-c", process]], limit_s=1))
    assert running.wait(30) == 0
    assert (tmp_path / "exit_codes").read_text().split() != ["0"]
    _wait_for_group_end(running.pid)


def test_samples_are_written_once_a_second(shell: list[str], tmp_path: Path) -> None:
    script = load_script([["sleep", "2.5"]], limit_s=600, sampled_address="127.0.0.1")
    running = _start(shell, tmp_path, script)
    output, _ = running.communicate(timeout=30)
    lines = [line.split() for line in output.decode().splitlines()]
    assert 2 <= len(lines) <= 4
    assert all(float(words[0]) > 0 for words in lines)
    if shutil.which("ip"):
        assert all(len(words) == 3 and words[1] == words[2] for words in lines)  # loopback
    _wait_for_group_end(running.pid)


def test_samples_without_an_interface_hold_the_uptime(shell: list[str], tmp_path: Path) -> None:
    script = load_script([["true"]], limit_s=600, sampled_address="no.such.host.invalid")
    output, _ = _start(shell, tmp_path, script).communicate(timeout=30)
    assert all(len(line.split()) == 1 for line in output.decode().splitlines())
