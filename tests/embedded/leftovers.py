"""What a run could leave on this machine, as it is right now."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from other_processes import candidates

GONE_WITHIN_S = 30
_KINDS = ("net", "mnt", "pid")


@dataclass(frozen=True)
class Leftover:
    """One thing that is there; ``detail`` says more of it and does not tell it from others."""

    name: str
    detail: str = field(default="", compare=False)


def leftovers() -> set[Leftover]:
    """Everything on this machine that a run of the embedded region could have made."""
    names = (*_loop_devices(), *_links(), *_mounts(), *_groups(), *_slots())
    return {*map(Leftover, names), *_processes(), *_namespaces()}


def gone(before: set[Leftover]) -> None:
    """Wait until nothing is left but what was there ``before``; what is left then is the failure's text."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := leftovers() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, left


def _loop_devices() -> Iterator[str]:
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        yield f"loop device {backing.parts[3]} on {backing.read_text().strip()}"


def _links() -> Iterator[str]:
    for link in os.listdir("/sys/class/net"):
        if link.startswith("cloudbench"):
            yield f"network interface {link}"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if "cloudbench" in line or " nsfs " in line:
            yield f"mount {line}"


def _groups() -> Iterator[str]:
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        for folder in folders:
            if "cloudbench" in folder:
                yield f"control group {root}/{folder}"


def _processes() -> Iterator[Leftover]:
    for process in candidates():
        yield Leftover(f"process {process.pid} started at tick {process.started}", process.command)


def _namespaces() -> Iterator[Leftover]:
    own = {os.readlink(f"/proc/self/ns/{kind}") for kind in _KINDS}
    every = list(candidates())
    held = _namespaces_of([process.pid for process in every])
    for process in every:
        for found in held.get(process.pid, set()) - own:
            yield Leftover(f"namespace {found}", f"held by process {process.pid} {process.command}")


def _namespaces_of(pids: list[int]) -> dict[int, set[str]]:
    """The namespaces of each process that still lives, asked of root for those that are another user's."""
    found: dict[int, set[str]] = {}
    hidden = []
    for pid in pids:
        try:
            found[pid] = {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in _KINDS}
        except PermissionError:
            hidden += [f"/proc/{pid}/ns/{kind}" for kind in _KINDS]
        except OSError:  # gone since
            continue
    if hidden:
        script = 'for path in "$@"; do echo "$path $(readlink "$path")"; done'
        told = subprocess.run(
            ["sudo", "-n", "sh", "-c", script, "sh", *hidden], capture_output=True, text=True, check=False
        )
        for line in told.stdout.splitlines():
            path, _, namespace = line.partition(" ")
            if namespace:
                found.setdefault(int(path.split("/")[2]), set()).add(namespace)
    return found


def _slots() -> Iterator[str]:
    for path in Path("/run/cloudbench").glob("[0-9]*/*"):
        yield f"file {path}"
