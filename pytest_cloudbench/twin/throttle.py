"""Throttles: the kernel's limits on a block device, by cgroup v1 or v2.

v1: lines in the root blkio group limit the device whoever does the I/O, write-back included. v2: ``io.max``
in the instance's own group, with the memory controller on so that write-back is charged to it.
Limits outlive the device number they name, so every device gets its limits lifted when it goes, and a
journal in the slot's directory names the devices for the sweep of the next start.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CGROUP = Path("/sys/fs/cgroup")
_JOURNAL = "devices"
_V1_FILES = ("read_iops", "write_iops", "read_bps", "write_bps")
_LARGEST_IOPS = 2**32 - 1
_TWIN_LEAF = "twin"
_LAST_PROCESS_S = 2.0


class ThrottleUnavailable(RuntimeError):
    """This machine cannot limit a block device; the message says what is missing."""


@dataclass(frozen=True)
class Limits:
    """The four limits of a device, per second. Infinity: none."""

    read_iops: float
    write_iops: float
    read_bytes: float
    write_bytes: float

    @property
    def values(self) -> tuple[float, float, float, float]:
        """All four, in that order."""
        return self.read_iops, self.write_iops, self.read_bytes, self.write_bytes


class Throttle(Protocol):
    """What can limit devices."""

    version: int

    def open_group(self, instance_id: str) -> list[str]:
        """Make an instance's group; the files that a process enters it by."""

    def close_group(self, instance_id: str) -> None:
        """Remove an instance's group once nothing runs in it."""

    def set(self, instance_id: str, device: str, limits: Limits) -> None:
        """Limit device "MAJOR:MINOR" for the instance."""

    def lift(self, instance_id: str, device: str) -> None:
        """Let the device run free."""

    def close(self) -> None:
        """Remove every group and limit."""


def blkio_root() -> Path | None:
    """The root group of the v1 blkio hierarchy if it can throttle."""
    for name in ("blkio", "io"):
        if (CGROUP / name / "blkio.throttle.read_iops_device").exists():
            return CGROUP / name
    return None


def cgroup_version() -> int | None:
    """1 or 2: which version can limit I/O on this machine; None when neither can."""
    if blkio_root() is not None:
        return 1
    with contextlib.suppress(OSError):
        if "io" in (CGROUP / "cgroup.controllers").read_text().split():
            return 2
    return None


def own_group() -> Path:
    """This process's group in the v2 hierarchy."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return CGROUP / line[3:].lstrip("/")
    return CGROUP


def needs_delegated_scope() -> bool:
    """Whether this process should be run again in a scope that systemd delegates (cgroup v2 only).

    Without that, systemd takes the io controller back whenever it likes.
    """
    if cgroup_version() != 2 or not Path("/run/systemd/system").is_dir():
        return False
    group = own_group()
    if group.name == _TWIN_LEAF:
        group = group.parent
    return not _delegated(group)


def _delegated(group: Path) -> bool:
    for attribute in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(group, attribute) == b"1":
                return True
    return False


def open_throttle(slot_name: str, journal_directory: Path) -> Throttle:
    """The throttle of this machine. Raises `ThrottleUnavailable`."""
    version = cgroup_version()
    if version == 1:
        root = blkio_root()
        assert root is not None
        return ThrottleV1(root, Journal(journal_directory))
    if version == 2:
        return ThrottleV2(prepare_subtree(), slot_name, Journal(journal_directory))
    raise ThrottleUnavailable(
        "this machine cannot limit a block device: neither blkio.throttle (cgroup v1) nor the io controller "
        "(cgroup v2) is there; boot a kernel with CONFIG_BLK_DEV_THROTTLING"
    )


@contextlib.contextmanager
def exclusively(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; other regions and sweeps that want it wait."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Journal:
    """What the sweep of a later start must know: devices that carry limits, groups that were made."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _JOURNAL
        self._known: set[str] = set()

    def note(self, entry: str) -> None:
        """Write an entry down before the thing it names is made."""
        if entry not in self._known:
            # No sweep may be between looking at the journals and lifting limits when this is written.
            with exclusively(self._path.parent.parent), open(self._path, "a", encoding="utf-8") as file:
                file.write(entry + "\n")
            self._known.add(entry)

    @staticmethod
    def read(directory: Path) -> set[str]:
        """All entries of a slot's journal."""
        with contextlib.suppress(FileNotFoundError):
            return set((directory / _JOURNAL).read_text().split())
        return set()


def _number(value: float, largest: float) -> int:
    return max(1, round(min(value, largest)))


def _or_max(value: float, largest: float) -> int | str:
    # A huge number is no substitute: the kernel carries what it left unused over to the next limit.
    return "max" if math.isinf(value) else _number(value, largest)


class ThrottleV1:
    """Limits as lines in the root blkio group."""

    version = 1

    def __init__(self, root: Path, journal: Journal) -> None:
        self._journal = journal
        self._root = root
        self._files = {
            name: os.open(root / f"blkio.throttle.{name}_device", os.O_WRONLY | os.O_CLOEXEC)
            for name in _V1_FILES
        }
        self._set: dict[str, tuple[int, int, int, int]] = {}

    def open_group(self, instance_id: str) -> list[str]:
        """Instances run in the root group, where the limits are."""
        return [str(self._root / "cgroup.procs")]

    def close_group(self, instance_id: str) -> None:
        """There is none."""

    def set(self, instance_id: str, device: str, limits: Limits) -> None:
        """Limit the device; only what differs is written."""
        self._journal.note(device)
        wanted = (
            _number(limits.read_iops, _LARGEST_IOPS),
            _number(limits.write_iops, _LARGEST_IOPS),
            _number(limits.read_bytes, 2**62),
            _number(limits.write_bytes, 2**62),
        )
        before = self._set.get(device, (0, 0, 0, 0))
        for name, value, old in zip(_V1_FILES, wanted, before, strict=True):
            if value != old:
                os.pwrite(self._files[name], f"{device} {value}".encode(), 0)
        self._set[device] = wanted

    def lift(self, instance_id: str, device: str) -> None:
        """Remove the device's lines."""
        if self._set.pop(device, None) is not None:
            for file in self._files.values():
                os.pwrite(file, f"{device} 0".encode(), 0)

    def close(self) -> None:
        """Remove every line that is left."""
        for device in list(self._set):
            self.lift("", device)
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class ThrottleV2:
    """Limits in ``io.max`` of a group per instance."""

    version = 2

    def __init__(self, base: Path, slot_name: str, journal: Journal) -> None:
        self._base = base
        self._slot_name = slot_name
        self._journal = journal
        self._files: dict[str, int] = {}
        self._set: set[tuple[str, str]] = set()

    def _group(self, instance_id: str) -> Path:
        return self._base / f"{self._slot_name}-{instance_id}"

    def open_group(self, instance_id: str) -> list[str]:
        """Make the instance's group."""
        group = self._group(instance_id)
        if instance_id not in self._files:
            self._journal.note(str(group))
            group.mkdir(exist_ok=True)
            try:
                self._files[instance_id] = os.open(group / "io.max", os.O_WRONLY | os.O_CLOEXEC)
            except OSError:
                _remove_group(group)
                raise
        return [str(group / "cgroup.procs")]

    def close_group(self, instance_id: str) -> None:
        """Remove the instance's group."""
        if instance_id not in self._files:
            return
        _remove_group(self._group(instance_id))  # first: a group that stays must be tried again at the end
        os.close(self._files.pop(instance_id))
        self._set = {entry for entry in self._set if entry[0] != instance_id}

    def set(self, instance_id: str, device: str, limits: Limits) -> None:
        """Limit the device for the instance."""
        self._set.add((instance_id, device))
        line = (
            f"{device} rbps={_or_max(limits.read_bytes, 2**62)} wbps={_or_max(limits.write_bytes, 2**62)} "
            f"riops={_or_max(limits.read_iops, _LARGEST_IOPS)} wiops={_or_max(limits.write_iops, _LARGEST_IOPS)}"
        )
        os.pwrite(self._files[instance_id], line.encode(), 0)

    def lift(self, instance_id: str, device: str) -> None:
        """Remove the device's limits."""
        if (instance_id, device) in self._set:
            self._set.discard((instance_id, device))
            os.pwrite(self._files[instance_id], f"{device} rbps=max wbps=max riops=max wiops=max".encode(), 0)

    def close(self) -> None:
        """Remove every group that is left."""
        for instance_id in list(self._files):
            self.close_group(instance_id)


def _remove_group(group: Path) -> None:
    """Remove a group whose last process may have ended a moment ago."""
    deadline = time.monotonic() + _LAST_PROCESS_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def prepare_subtree() -> Path:
    """Make this process's group one that can hold instances' groups with io and memory control.

    A group with processes of its own cannot have controlled children (except the real root), so this
    process moves into a leaf first. Raises `ThrottleUnavailable` where other processes are in the way.
    """
    base = own_group()
    if base.name == _TWIN_LEAF:
        base = base.parent
    real_root = not (base / "cgroup.type").exists()
    try:
        if not real_root:
            _move_into_leaf(base)
        wanted = [
            name
            for name in ("io", "memory")
            if name not in (base / "cgroup.subtree_control").read_text().split()
        ]
        for name in wanted:
            (base / "cgroup.subtree_control").write_text(f"+{name}")
    except OSError as error:
        raise ThrottleUnavailable(
            f"the cgroup {base} cannot get io and memory control for instances ({error.strerror}); run the region "
            "in a scope of its own: systemd-run --scope -p Delegate=yes"
        ) from error
    return base


def _move_into_leaf(base: Path) -> None:
    leaf = base / _TWIN_LEAF
    if not _delegated(base) and (base / "cgroup.procs").read_text().split() != [str(os.getpid())]:
        raise OSError(errno.EBUSY, "other processes live in it and it is not delegated to this one")
    leaf.mkdir(exist_ok=True)
    for _ in range(3):  # a process may fork while it is being moved
        for pid in (base / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid)


def lift_leftovers(entries: set[str], still_used: set[str]) -> None:
    """Lift the limits of the devices that a killed region's journal names, except those a living one uses by now."""
    root = blkio_root()
    for entry in entries:
        if not entry.startswith("/") and root is not None and entry not in still_used:
            for name in _V1_FILES:
                with contextlib.suppress(OSError):
                    (root / f"blkio.throttle.{name}_device").write_text(f"{entry} 0")


def remove_left_groups(entries: set[str]) -> bool:
    """Remove the groups that a killed region's journal names; whether none is left.

    The processes of a region that was killed a moment ago may still be ending.
    """
    all_gone = True
    for entry in entries:
        if entry.startswith("/"):
            try:
                _remove_group(Path(entry))
            except OSError:
                all_gone = False
    return all_gone
