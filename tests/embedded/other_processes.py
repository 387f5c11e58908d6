"""Processes that a run of the embedded region could have left behind, told from everybody else's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_INIT = 1
PART = "CLOUDBENCH_TEST_PART"
"""The variable in which .ci/part says which part of the tests a process belongs to."""
_MADE_BY_A_REGION = re.compile(r"cloudbench|/run-[^/]*\.scope")


@dataclass(frozen=True)
class Process:
    """A living process. ``started`` is in clock ticks since the boot."""

    pid: int
    parent: int
    session: int
    started: int
    command: str


def candidates() -> Iterator[Process]:
    """Every process that is not plainly somebody else's.

    Left out are kernel threads, this process's ancestors and descendants, control groups of other units (services,
    other logins), sessions older than this process, what another process of its own session keeps, and what another
    part of the tests started: `PART` in its environment, or in that of a process above it (.ci/keep_orphans), says so.
    An orphan of a run is none of these: its parent is gone, and a session of its own is younger.
    """
    every = {process.pid: process for process in _all()}
    me = every[os.getpid()]
    groups = _groups(me.pid)
    of_other_parts = {pid for pid in every if _part(pid) not in (None, os.environ.get(PART))}
    for process in every.values():
        family = me.pid in _line(process.pid, every) or process.pid in _line(me.pid, every)
        if family or not process.command or _of_another_unit(_groups(process.pid), groups):
            continue
        if not of_other_parts.isdisjoint(_line(process.pid, every)):
            continue
        leader = every.get(process.session)
        if process.session == me.session:
            parent = every.get(process.parent)
            if process.parent != _INIT and parent is not None and parent.session == me.session:
                continue
        elif leader is not None and leader.started < me.started:
            continue
        yield process


def _all() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        yield Process(int(entry.name), int(fields[1]), int(fields[3]), int(fields[19]), command)


def _line(pid: int, every: dict[int, Process]) -> Iterator[int]:
    """A process and its ancestors."""
    while pid in every:
        yield pid
        pid = every[pid].parent


def _groups(pid: int) -> dict[str, str]:
    """The control group of each hierarchy; nothing of a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}


def _part(pid: int) -> str | None:
    """The part of the tests that started a process, if its environment can be read and says so."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    named = f"{PART}=".encode()
    return next((each.removeprefix(named).decode() for each in variables if each.startswith(named)), None)


def _of_another_unit(groups: dict[str, str], mine: dict[str, str]) -> bool:
    return any(
        path != mine.get(hierarchy) and not _MADE_BY_A_REGION.search(path)
        for hierarchy, path in groups.items()
    )
