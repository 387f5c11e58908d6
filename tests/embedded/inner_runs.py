"""Runs of pytest inside a test, in a folder of their own, and the region that such a run has started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

LIMIT_S = 120
_AT_A_TIME = 8

HEAD = """
import pathlib
import pytest
from pytest_cloudbench import gp3

pytestmark = [pytest.mark.ec2_instance("m5.large"), pytest.mark.ebs_volume(gp3(size_gib=1))]
"""


def start_pytest(
    folder: Path,
    text: str,
    *options: str,
    prefix: Sequence[str] = (),
    **streams: Any,
) -> subprocess.Popen[str]:
    """Start pytest in ``folder`` with one test file.

    Its output, errors included, is the process's stdout, unless ``streams`` names others. The words of ``prefix`` come
    before the command.
    """
    (folder / "test_it.py").write_text(text)
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *options],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        text=True,
        **(streams or {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}),
    )


class Ended(NamedTuple):
    """A run that has ended: its folder, its exit code, its output, and how long its end was waited for."""

    folder: Path
    code: int
    output: str
    waited_s: float


def run_all(runs: Mapping[str, Callable[[Path], Ended]], folder: Path) -> dict[str, Ended]:
    """Make all these runs, each in a folder of its own and a few at a time, and return how each ended."""

    def run(name: str) -> Ended:
        own = folder / name.replace(" ", "-")
        own.mkdir()
        return runs[name](own)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(runs, pool.map(run, runs), strict=True))


def finish(process: subprocess.Popen[str], folder: Path) -> Ended:
    """Wait for a run's end."""
    began = time.monotonic()
    output, _ = process.communicate(timeout=LIMIT_S)
    return Ended(folder, process.returncode, output, time.monotonic() - began)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; fails after LIMIT_S, saying what did not happen."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {LIMIT_S} s"
        time.sleep(0.02)


def region_of(pid: int) -> list[int]:
    """The processes of the region that this pytest started, found as its descendants; sudo's come first."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: list[int] = []
    frontier = [pid]
    while frontier:
        children = [child for child, parent in parents.items() if parent == frontier[0]]
        found += children
        frontier = frontier[1:] + children
    return [each for each in found if _serves(command_of(each))]


def kill_9(pids: list[int]) -> None:
    """Kill processes that are root's."""
    assert pids, "the region's process was not found"
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    subprocess.run([*sudo, "kill", "-9", *map(str, pids)], check=True)


def command_of(pid: int) -> str:
    """The command line of a process; nothing once it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _serves(command: str) -> bool:
    return "pytest_cloudbench.twin" in command and "serve" in command
