"""The EBS throttle counters of a volume, in the layout of NVMe log page 0xD0.

One file per volume, mapped into memory, so that an update is a store and a reader in an instance sees it
at once. Layout: little-endian, magic 0x3C23B510 in the first four bytes, then from byte 8 the counters in
the order of `Counters`; times in microseconds.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
MAGIC = 0x3C23B510
_LAYOUT = struct.Struct("<11Q")
_COUNTERS_AT = 8


@dataclass
class Counters:
    """What a volume has done and how long it was held back since it was attached."""

    read_ops: int = 0
    write_ops: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    read_time_s: float = 0.0
    write_time_s: float = 0.0
    volume_iops_exceeded_s: float = 0.0
    volume_throughput_exceeded_s: float = 0.0
    instance_iops_exceeded_s: float = 0.0
    instance_throughput_exceeded_s: float = 0.0
    queue_length: int = 0


class CountersPage:
    """The page of one volume, in a file that instances see read-only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, PAGE_BYTES)
            self._memory = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)
        struct.pack_into("<I", self._memory, 0, MAGIC)
        self.show(Counters())

    def show(self, counters: Counters) -> None:
        """Publish the counters."""
        _LAYOUT.pack_into(
            self._memory,
            _COUNTERS_AT,
            counters.read_ops,
            counters.write_ops,
            counters.read_bytes,
            counters.write_bytes,
            int(counters.read_time_s * 1e6),
            int(counters.write_time_s * 1e6),
            int(counters.volume_iops_exceeded_s * 1e6),
            int(counters.volume_throughput_exceeded_s * 1e6),
            int(counters.instance_iops_exceeded_s * 1e6),
            int(counters.instance_throughput_exceeded_s * 1e6),
            counters.queue_length,
        )

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
