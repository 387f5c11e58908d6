"""The memory of instances: a control group for each, with the memory of its type, and a tmpfs for its root disk.

The data of a root disk is in memory too, and the kernel charges a page of a tmpfs to the group of the process that
wrote it. On EC2 that data is on a volume, so a thread raises each limit by the space used on the instance's root disk.
The data of volumes is charged to the process that paces them, which is in no such group.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.workshop import Workshop

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")
_MIB = 1024**2
_FOLLOW_S = 0.1
_SLACK_BYTES = 128 * _MIB
"""An instance has this much more memory than its type: its root disk may grow by that between two updates (chosen)."""
_RESIZE_STEP_BYTES = 64 * _MIB
_REMOVAL_S = 2.0

_log = logging.getLogger(__name__)


@dataclass
class _Memory:
    """The root disk of one instance, its group if it runs with a limit, and what was last written to both."""

    disk: Path
    descriptor: int
    group: Path | None = None
    limit_bytes: int = 0
    written_bytes: int = sys.maxsize
    disk_bytes: int = 0

    def used_bytes(self) -> int:
        facts = os.fstatvfs(self.descriptor)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


class InstanceMemory:
    """The memory of a region's instances. Methods may be called from any thread.

    All root disks together take at most ``disks_bytes``.
    """

    def __init__(self, slot: Slot, workshop: Workshop, disks_bytes: int) -> None:
        self._slot = slot
        self._workshop = workshop
        self._disks_bytes = disks_bytes
        self._lock = threading.Lock()
        self._known: dict[str, _Memory] = {}
        self._closed = threading.Event()
        self._parent = _make_parent(slot.name)
        self._follower = threading.Thread(target=self._follow, name="memory of instances", daemon=True)
        self._follower.start()

    @property
    def charges_devices(self) -> bool:
        """True if the kernel charges the data of a bare loop device to the instance that writes it (cgroup v2)."""
        return self._parent is not None and self._parent.parent == _V2

    def make_disk(self, instance_id: str, place: Path) -> None:
        """Mount the tmpfs of a new instance's root disk."""
        size = self._disks_bytes

        def make() -> int:
            place.mkdir(parents=True)
            linux.mount("cloudbench", str(place), "tmpfs", options=f"mode=755,size={size}")
            return os.open(place, os.O_RDONLY | os.O_DIRECTORY)

        memory = _Memory(place, self._workshop.run(make), disk_bytes=size)
        with self._lock:
            self._known[instance_id] = memory

    def hold(self, instance_id: str, pid: int, limit_bytes: int | None) -> bool:
        """Limit a process and everything it will start; return False if that is impossible or there is no limit."""
        if self._parent is None or limit_bytes is None:
            return False
        group = self._parent / instance_id
        try:
            with self._lock:
                memory = self._known.get(instance_id)
                if memory is None:  # it has ended meanwhile
                    return False
                group.mkdir(exist_ok=True)
                memory.limit_bytes, memory.group = limit_bytes, group
                _set_limit(memory)
            (group / "cgroup.procs").write_text(f"{pid}")
        except OSError as error:
            _log.error("%s runs without a limit of memory: %s", instance_id, error)
            return False
        return True

    def processes_file(self, instance_id: str) -> str:
        """Return the file into which a process writes its PID to be limited with the instance."""
        memory = self._known.get(instance_id)
        return str(memory.group / "cgroup.procs") if memory is not None and memory.group else os.devnull

    def forget(self, instance_id: str) -> None:
        """Remove the group and the root disk of an instance whose processes have ended."""
        with self._lock:
            memory = self._known.pop(instance_id, None)
        if memory is None:
            return
        os.close(memory.descriptor)
        self._workshop.run(lambda: linux.unmount(str(memory.disk), lazily=True))
        if memory.group is not None:
            _remove(memory.group)

    def _follow(self) -> None:
        while not self._closed.wait(_FOLLOW_S):
            with self._lock:
                known = list(self._known.values())
                used = [memory.used_bytes() for memory in known]
                left = max(_MIB, self._disks_bytes - sum(used))
                for memory in known:
                    with contextlib.suppress(OSError):  # it has just ended
                        _set_limit(memory)
            for memory, bytes_ in zip(known, used, strict=True):
                if abs(bytes_ + left - memory.disk_bytes) >= _RESIZE_STEP_BYTES:
                    memory.disk_bytes = bytes_ + left
                    with contextlib.suppress(OSError):
                        self._workshop.run(partial(_resize, memory.disk, memory.disk_bytes))

    def close(self) -> None:
        """End the thread and remove the groups. The mounts vanish with the workshop."""
        self._closed.set()
        self._follower.join()
        for instance_id in list(self._known):
            self.forget(instance_id)
        if self._parent is not None:
            _remove(self._parent)


def _resize(place: Path, size: int) -> None:
    linux.mount("cloudbench", str(place), "tmpfs", linux.MS_REMOUNT, f"size={size}")


def _set_limit(memory: _Memory) -> None:
    """Write the limit of a group if it has changed by a MiB. Raises OSError."""
    if memory.group is None:
        return
    limit = memory.limit_bytes + memory.used_bytes() + _SLACK_BYTES
    if abs(limit - memory.written_bytes) < _MIB:
        return
    # Instances have no swap. cgroup v1 also limits memory plus swap, and never lets that be the smaller limit.
    v1, v2 = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), ("memory.max",)
    files = [memory.group / name for name in (v1 if (memory.group / v1[0]).exists() else v2)]
    if limit > memory.written_bytes:
        files.reverse()
    for file in files:
        if file.exists():
            file.write_text(f"{limit}")
    if (memory.group / "memory.swap.max").exists():
        (memory.group / "memory.swap.max").write_text("0")
    memory.written_bytes = limit


def _make_parent(name: str) -> Path | None:
    """Make the group of a region's instances; return None if this machine does not permit it."""
    try:
        if (_V1 / "memory.limit_in_bytes").exists():
            parent = _V1 / name
            parent.mkdir(exist_ok=True)
        else:
            parent = _V2 / name
            (_V2 / "cgroup.subtree_control").write_text("+memory")
            parent.mkdir(exist_ok=True)
            (parent / "cgroup.subtree_control").write_text("+memory")
    except OSError as error:
        _log.error("instances run without a limit of memory: %s", error)
        return None
    return parent


def remove_groups(name: str) -> None:
    """Remove the groups that a region of this name left."""
    for root in (_V1, _V2):
        parent = root / name
        if parent.is_dir():
            for group in parent.iterdir():
                if group.is_dir():
                    _remove(group)
            _remove(parent)


def _remove(group: Path) -> None:
    """Remove an empty group. The kernel still counts a process for a moment after its end."""
    deadline = time.monotonic() + _REMOVAL_S
    while True:
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() >= deadline:
                _log.error("%s cannot be removed: it has processes", group)
                return
            time.sleep(0.01)
