"""The process that removes what a killed run left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_cloudbench.aws.survivor import Survivor

RUN = """
import os, signal, sys, time
from pytest_cloudbench.aws.survivor import Survivor
survivor = Survivor("run-7", "eu-west-1", python=sys.argv[1], pauses_s=(0, 0.1))
print(survivor._process.pid, flush=True)
if sys.argv[2] == "dismiss":
    survivor.dismiss()
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A program in Python's place, which writes its arguments down."""
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "$*" >> "${0%/*}/calls"\n')
    program.chmod(0o755)
    return program


def end(python: Path, how: str) -> int:
    """Let a run with a survivor end; return the exit code of the run once the survivor has ended too."""
    command = [sys.executable, "-c", RUN, python, how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{run.stdout.strip()}").exists():
        assert time.monotonic() < deadline, "the survivor did not end"
        time.sleep(0.02)
    return run.returncode


@pytest.mark.fault("kill", "a run on AWS is killed", leak=True)
def test_what_a_killed_run_left_is_removed_twice(python: Path) -> None:
    assert end(python, "kill -9") == -signal.SIGKILL
    reap = "-m pytest_cloudbench.cli reap --run run-7 --region eu-west-1 --yes\n"
    assert (python.parent / "calls").read_text() == reap * 2  # what the first did not see yet


def test_a_run_that_has_ended_as_it_should_needs_nothing_more(python: Path) -> None:
    assert end(python, "dismiss") == 0
    assert not (python.parent / "calls").exists()


def test_a_survivor_that_does_not_end_in_time_fails_nothing(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor = Survivor("run-7", "eu-west-1", python=str(python))
    late = subprocess.TimeoutExpired("sh", 5)
    with monkeypatch.context() as patched:
        patched.setattr(survivor._process, "communicate", Mock(side_effect=late))
        survivor.dismiss()
    survivor.dismiss()
    assert survivor._process.returncode == 0
