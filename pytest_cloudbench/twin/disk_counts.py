"""What an attached volume serves: the kernel's counters of its device, and how EBS would count the same I/O."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pytest_cloudbench.twin.counters import Counters
from pytest_cloudbench.twin.io_units import Counted, IoUnits
from pytest_cloudbench.twin.loop_devices import LoopDevice

_SECTOR = 512


@dataclass(frozen=True)
class DiskStat:
    """What /sys/block/loopN/stat counts, as far as it is of use."""

    read_ops: int = 0
    read_bytes: int = 0
    read_ms: int = 0
    write_ops: int = 0
    write_bytes: int = 0
    write_ms: int = 0
    in_flight: int = 0

    @classmethod
    def parse(cls, line: bytes) -> DiskStat:
        """Read the file's one line."""
        fields = line.split()
        return cls(
            int(fields[0]), int(fields[2]) * _SECTOR, int(fields[3]),
            int(fields[4]), int(fields[6]) * _SECTOR, int(fields[7]), int(fields[8]),
        )  # fmt: skip


@dataclass(frozen=True)
class Served:
    """What was served between two looks. ``ops`` are requests of the device.

    ``units`` are I/Os as EBS counts them, ``pieces`` as the kernel's throttle does.
    """

    read_units: int
    write_units: int
    read_pieces: int
    write_pieces: int
    read_bytes: int
    write_bytes: int
    ops: int

    @property
    def units(self) -> int:
        """Reads and writes together."""
        return self.read_units + self.write_units

    @property
    def size(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.write_bytes


class DiskCounts:
    """The counters of one device, read through descriptors that stay open."""

    def __init__(self, loop: LoopDevice, io_units: IoUnits | None) -> None:
        self._file = os.open(loop.sysfs / "stat", os.O_RDONLY | os.O_CLOEXEC)
        self._line = os.pread(self._file, 512, 0)
        self._start = self._stat = DiskStat.parse(self._line)
        self._minor = loop.minor
        self.count_by(io_units)

    def count_by(self, io_units: IoUnits | None) -> None:
        """Count I/Os by a counter that was set to zero just now; None: every request is one."""
        self._io_units = io_units
        self._counted = Counted()

    def since_last_look(self) -> Served | None:
        """What was served meanwhile; None when nothing has changed, which costs one read and nothing else."""
        line = os.pread(self._file, 512, 0)
        if line == self._line:
            return None
        self._line = line
        stat, before = DiskStat.parse(line), self._stat
        self._stat = stat
        reads, writes = stat.read_ops - before.read_ops, stat.write_ops - before.write_ops
        pieces = units = (reads, writes)
        if self._io_units is not None:
            now, then = self._io_units.counted(self._minor), self._counted
            self._counted = now
            units = now.read_units - then.read_units, now.write_units - then.write_units
            pieces = now.read_pieces - then.read_pieces, now.write_pieces - then.write_pieces
        return Served(
            *units, *pieces, stat.read_bytes - before.read_bytes, stat.write_bytes - before.write_bytes,
            reads + writes,
        )  # fmt: skip

    def show_in(self, counters: Counters) -> None:
        """Write what was done since the volume was attached into its counters."""
        stat, start = self._stat, self._start
        counters.read_ops = stat.read_ops - start.read_ops
        counters.write_ops = stat.write_ops - start.write_ops
        counters.read_bytes = stat.read_bytes - start.read_bytes
        counters.write_bytes = stat.write_bytes - start.write_bytes
        counters.read_time_s = (stat.read_ms - start.read_ms) / 1e3
        counters.write_time_s = (stat.write_ms - start.write_ms) / 1e3
        counters.queue_length = stat.in_flight

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._file)


class PiecesPerUnit:
    """How many I/Os the throttle lately saw for one that EBS counts: 1 unless small ones follow on each other.

    What may be served is counted in units; the throttle is told so many times as many.
    """

    def __init__(self) -> None:
        self._units = self._pieces = 0.0

    def take(self, units: int, pieces: int, weight: float) -> None:
        """Take a look's counts in, with a weight of 0 to 1 against all that went before."""
        self._units += weight * (units - self._units)
        self._pieces += weight * (pieces - self._pieces)

    def forget(self) -> None:
        """Know nothing, as at the start: what comes next may be of another kind."""
        self._units = self._pieces = 0.0

    @property
    def value(self) -> float:
        """The ratio, at least 1."""
        return max(1.0, self._pieces / self._units) if self._units > 0 else 1.0
