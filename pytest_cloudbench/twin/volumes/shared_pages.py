"""Pages of memory that the region shares with the process that paces its volumes. Only that process writes them.

They outlive the process, so a volume keeps its credits and counters if the process is killed.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from typing import NamedTuple

LOG_PAGE_BYTES = 4096
MAGIC = 0x3C23B510
_LOG_LAYOUT = struct.Struct("<11Q")
_LOG_AT = 8
_REGION_MAGIC = 0x626C6370_61636564
_REGION_LAYOUT = struct.Struct("<4Q")
_REGION_AT = LOG_PAGE_BYTES
PAGE_BYTES = _REGION_AT + _REGION_LAYOUT.size

_BALANCES = struct.Struct("<4d")
_UNTOUCHED = struct.Struct("<Q")
UNTOUCHED_AT = _BALANCES.size
BITS_AT = UNTOUCHED_AT + _UNTOUCHED.size


class Figures(NamedTuple):
    """The counters of a volume since it was attached: I/Os, bytes, seconds.

    Each ``..._exceeded_s`` counts a second once, however many I/Os waited. ``modelled_s`` is the time of all
    ``answered`` I/Os by the model, ``late_s`` how much later this machine answered them.
    """

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
    answered: int = 0
    modelled_s: float = 0.0
    late_s: float = 0.0

    def after(self, earlier: Figures) -> Figures:
        """Return the sum of these counters and those of an earlier period. The queue length is the present one."""
        sums = Figures._make(one + other for one, other in zip(self, earlier, strict=True))
        return sums._replace(queue_length=self.queue_length)

    def since(self, earlier: Figures) -> Figures:
        """Return what was counted since earlier figures. The queue length is the present one."""
        gained = Figures._make(one - other for one, other in zip(self, earlier, strict=True))
        return gained._replace(queue_length=self.queue_length)


_TIMES = tuple(name.endswith("_s") for name in Figures._fields)


class _SharedMemory:
    """An open file, mapped into memory. `close` closes its descriptor too."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.memory = mmap.mmap(descriptor, 0)

    def close(self) -> None:
        self.memory.close()
        os.close(self.descriptor)


class VolumePage(_SharedMemory):
    """The counters of one volume, which its instance can read.

    The page begins with NVMe log page 0xD0 in the layout of EBS: little-endian, `MAGIC` in the first four bytes, from
    byte 8 the first eleven fields of `Figures`, times in microseconds. `_REGION_MAGIC` and the other three fields,
    which EBS does not have, follow.
    """

    @classmethod
    def create(cls, path: str | None = None) -> VolumePage:
        """Make a page in the file at ``path``; without a path, one that no instance can read."""
        if path is None:
            descriptor = os.memfd_create("volume-page", os.MFD_CLOEXEC)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, PAGE_BYTES)
            page = cls(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        page.clear()
        return page

    def clear(self) -> None:
        self.memory[:] = bytes(PAGE_BYTES)
        struct.pack_into("<I", self.memory, 0, MAGIC)
        self.show(Figures())

    def show(self, figures: Figures) -> None:
        values = [int(value * 1e6) if time else value for value, time in zip(figures, _TIMES, strict=True)]
        _LOG_LAYOUT.pack_into(self.memory, _LOG_AT, *values[:11])
        _REGION_LAYOUT.pack_into(self.memory, _REGION_AT, _REGION_MAGIC, *values[11:])

    @property
    def figures(self) -> Figures:
        """The figures published last."""
        shown = _LOG_LAYOUT.unpack_from(self.memory, _LOG_AT)
        values = (*shown, *_REGION_LAYOUT.unpack_from(self.memory, _REGION_AT)[1:])
        return Figures._make(
            value / 1e6 if time else value for value, time in zip(values, _TIMES, strict=True)
        )


Levels = tuple[float | None, float | None]


class VolumeState(_SharedMemory):
    """The state that a volume keeps between attachments: its credits, and which pieces were never used.

    An instance has one too, for its credits.
    """

    @classmethod
    def create(cls, pieces: int = 0) -> VolumeState:
        """Make a state with this many pieces, all of them used."""
        descriptor = os.memfd_create("volume-state", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, BITS_AT + (pieces + 7) // 8)
        return cls(descriptor)

    def show_levels(self, now: float, levels: tuple[float, float]) -> None:
        """Publish the levels of two buckets at ``now``; NaN if there is no bucket."""
        _BALANCES.pack_into(self.memory, 0, now, 1.0, *levels)

    @property
    def levels(self) -> tuple[float, Levels]:
        """The time and levels published last. None counts as full: there is no bucket, or nothing was published yet."""
        at, known, *levels = _BALANCES.unpack_from(self.memory)
        iops, size = (level if known and not math.isnan(level) else None for level in levels)
        return at, (iops, size)

    @property
    def untouched(self) -> int:
        """The number of pieces that were never used."""
        count: int = _UNTOUCHED.unpack_from(self.memory, UNTOUCHED_AT)[0]
        return count

    def set_untouched(self, first: int, end: int) -> None:
        """Mark the pieces from ``first`` up to ``end`` as never used."""
        memory, count = self.memory, self.untouched
        for piece in range(first, end):
            at, bit = BITS_AT + (piece >> 3), 1 << (piece & 7)
            count += not memory[at] & bit
            memory[at] |= bit
        _UNTOUCHED.pack_into(memory, UNTOUCHED_AT, count)

    def set_all_untouched(self, pieces: int) -> None:
        """Mark the first ``pieces`` as never used."""
        whole = pieces // 8
        self.memory[BITS_AT : BITS_AT + whole] = b"\xff" * whole
        _UNTOUCHED.pack_into(self.memory, _BALANCES.size, whole * 8)
        self.set_untouched(whole * 8, pieces)

    def touch(self, first: int, end: int) -> int:
        """Mark the pieces from ``first`` up to ``end`` as used; return how many of them were unused before."""
        memory, found = self.memory, 0
        for piece in range(first, end):
            at, bit = BITS_AT + (piece >> 3), 1 << (piece & 7)
            if at < len(memory) and memory[at] & bit:
                memory[at] ^= bit
                found += 1
        if found:
            _UNTOUCHED.pack_into(memory, UNTOUCHED_AT, self.untouched - found)
        return found
