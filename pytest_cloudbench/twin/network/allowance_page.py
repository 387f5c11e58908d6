"""The allowance counters of an instance's network interface, as EC2's driver (ENA) counts them.

One file per instance, mapped into memory, so that an update is a store and a reader in the instance sees it at
once. Layout: the fields of `Allowances` in their order, each 8 bytes in the machine's byte order.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import astuple, dataclass
from pathlib import Path

PAGE_BYTES = 4096
_LAYOUT = struct.Struct("=5Q")


@dataclass
class Allowances:
    """Packets that were queued or dropped because an allowance of the instance was exceeded.

    A packet is what the kernel handles as one, up to 64 KiB. The region limits bandwidth alone; the other
    counters stay at zero.
    """

    bw_in: int = 0
    bw_out: int = 0
    pps: int = 0
    conntrack: int = 0
    linklocal: int = 0


class AllowancePage:
    """The page of one instance, in a file that it sees read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(descriptor, 0o644)  # whatever the umask: everybody may ask the driver
            os.ftruncate(descriptor, PAGE_BYTES)
            self._memory = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)

    def show(self, allowances: Allowances) -> None:
        """Publish the counters."""
        _LAYOUT.pack_into(self._memory, 0, *astuple(allowances))

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
