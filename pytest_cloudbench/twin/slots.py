"""Slots: which of the 32 embedded regions of this machine a process owns, and its addresses.

A slot is a number N. Its owner holds a lock on ``/run/cloudbench/N.lock``. The kernel releases the lock when the
process ends, so a slot that can be locked is free. The directory ``/run/cloudbench/N`` has the owner's records, with
which the next start can sweep what a killed owner left.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BASE = Path("/run/cloudbench")
SLOTS = 32
ZONES = 4
# 198.18.0.0/15 is reserved for benchmarks (RFC 2544).
_REGION = ipaddress.IPv4Address("198.18.0.0")
_PUBLIC = ipaddress.IPv4Address("198.19.0.0")
PUBLIC_NETMASK = "255.254.0.0"  # an instance with a public address reaches all of 198.18.0.0/15


class NoFreeSlot(RuntimeError):
    """Running embedded regions own all slots of this machine."""


@dataclass
class Slot:
    """A slot owned by this process, with its directory and its addresses."""

    number: int
    base: Path = BASE
    _lock: int = field(default=-1, repr=False)
    _keeps_records: bool = field(default=False, repr=False)

    @property
    def directory(self) -> Path:
        """The directory of the owner's records. `release` removes it."""
        return self.base / str(self.number)

    @property
    def name(self) -> str:
        """The prefix of the names of everything made for this slot."""
        return f"cloudbench-{self.number}"

    @property
    def interface(self) -> str:
        """The interface through which this machine reaches the region's instances."""
        return self.name.replace("-", "")

    @property
    def network(self) -> ipaddress.IPv4Network:
        """The region's addresses: a /22 of 198.18.0.0/15."""
        return ipaddress.IPv4Network((int(_REGION) + self.number * 1024, 22))

    @property
    def public_network(self) -> ipaddress.IPv4Network:
        """The public addresses of the region's instances: a /24 of 198.19.0.0/16."""
        return ipaddress.IPv4Network((int(_PUBLIC) + self.number * 256, 24))

    def zone_network(self, zone_index: int) -> ipaddress.IPv4Network:
        """Return the /24 of one availability zone (0 to 3)."""
        if not 0 <= zone_index < ZONES:
            raise ValueError(f"zone index {zone_index} is not between 0 and {ZONES - 1}")
        return list(self.network.subnets(new_prefix=24))[zone_index]

    @property
    def caller_address(self) -> str:
        """The address from which this machine talks to the instances."""
        return str(self.network.network_address + 1)

    def keep_records(self) -> None:
        """Make `release` keep the directory: something remains that the next start must sweep."""
        self._keeps_records = True

    def release(self) -> None:
        """Remove the directory and the lock. A second call does nothing."""
        if self._lock < 0:
            return
        if not self._keeps_records:
            shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            (self.base / f"{self.number}.lock").unlink()
        os.close(self._lock)
        self._lock = -1


def try_lock(number: int, base: Path = BASE) -> int | None:
    """Lock a slot; return the descriptor of its lock file, or None if another process holds it."""
    path = base / f"{number}.lock"
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        # Its last owner may have removed the file between our open and our lock.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        os.close(descriptor)


def regions_at_most(base: Path = BASE) -> int:
    """Return an upper bound for the running regions: the number of lock files, which killed ones may leave behind."""
    return max(1, sum(path.stem.isdigit() for path in base.glob("*.lock")))


def take_slot(sweep: Callable[[int], object] | None = None, base: Path = BASE) -> Slot:
    """Take the first free slot and call ``sweep(number)`` once it is locked.

    Raises `NoFreeSlot` if all are taken.
    """
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    base.chmod(0o755)  # whatever the umask: the user of a kept region reads its key here
    for number in range(SLOTS):
        lock = try_lock(number, base)
        if lock is None:
            continue
        slot = Slot(number, base, lock)
        if sweep is not None:
            sweep(number)
        slot.directory.mkdir(mode=0o700, exist_ok=True)
        return slot
    raise NoFreeSlot(
        f"all {SLOTS} embedded regions of this machine are in use; end one with `cloudbench twin down SLOT`"
    )


def numbers_with_records(base: Path = BASE) -> list[int]:
    """Return the slots that have a directory or a lock file, also those without a living owner."""
    if not base.is_dir():
        return []
    stems = {entry.name.removesuffix(".lock") for entry in base.iterdir()}
    return sorted(int(stem) for stem in stems if stem.isdigit() and int(stem) < SLOTS)
