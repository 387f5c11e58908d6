"""What a run could leave on this machine, as it is right now."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def leftovers() -> set[str]:
    """Everything of the embedded region's kind that exists on this machine."""
    return {*_loop_devices(), *_links(), *_mounts(), *_throttle_lines(), *_groups(), *_processes(), *_slots()}


def _loop_devices() -> Iterator[str]:
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        yield f"loop device {backing.parts[3]} on {backing.read_text().strip()}"


def _links() -> Iterator[str]:
    for link in os.listdir("/sys/class/net"):
        if link.startswith("cloudbench"):
            yield f"network interface {link}"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if "cloudbench" in line:
            yield f"mount {line}"


def _throttle_lines() -> Iterator[str]:
    for path in Path("/sys/fs/cgroup/blkio").glob("blkio.throttle.*_device"):
        for line in path.read_text().splitlines():
            yield f"throttle {path.name} {line}"


def _groups() -> Iterator[str]:
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        for folder in folders:
            if "cloudbench" in folder:
                yield f"control group {root}/{folder}"


def _processes() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "pytest_cloudbench.twin" in command or "pytest_cloudbench/twin" in command:
                yield f"process {entry.name} {command}"


def _slots() -> Iterator[str]:
    for path in Path("/run/cloudbench").glob("[0-9]*/*"):
        yield f"file {path}"
