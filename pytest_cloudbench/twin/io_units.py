"""Counts the I/Os of volumes as EBS does: up to a unit of bytes is one, what follows on merges, larger ones split.

The kernel's own counters know how many requests there were and of how many bytes, not which of them followed on
each other. So a small program in the kernel looks at every I/O that passes the throttle, notes where it ended,
and counts one that begins there as its continuation, at no cost to the governor. Another one counts
in how many pieces the device takes them, since that is what the throttle counts.

Where the kernel cannot run it, `open_io_units` gives None and every request counts as one. What merges is what
follows on in place and time, from however many jobs; whether EBS would have merged it is not published.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_cloudbench.twin import bpf, linux
from pytest_cloudbench.twin.io_unit_program import (
    COUNTS_AT,
    DEVICE,
    LOOP_MAJOR,
    MINORS,
    STREAM_BITS,
    STREAM_BYTES,
    split_counter,
    unit_counter,
)
from pytest_cloudbench.twin.loop_devices import LoopDevice
from pytest_cloudbench.twin.workshop import Workshop

_SECTOR = 512
_SEQUEL_S = 1.0  # what comes later than this after its predecessor begins a new I/O
_COUNTS = struct.Struct("<4Q")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counted:
    """What passed the throttle since a volume was plugged in.

    ``units`` are I/Os as EBS counts them, ``pieces`` as the throttle does: as the device takes them, never merged.
    """

    read_units: int = 0
    read_pieces: int = 0
    write_units: int = 0
    write_pieces: int = 0


class IoUnits:
    """The counter of all volumes of a region."""

    def __init__(self, tracing: Path) -> None:
        with contextlib.ExitStack() as undo:
            queued = bpf.Tracepoint.find("block", "block_bio_queue", tracing)
            split = bpf.Tracepoint.find("block", "block_split", tracing)
            self._devices = bpf.Array(DEVICE.size, MINORS, mapped=True)
            undo.callback(self._devices.close)
            streams = bpf.Array(STREAM_BYTES, 1 << STREAM_BITS, mapped=False)
            undo.callback(streams.close)
            devices = self._devices.descriptor
            self._holds = []
            for tracepoint, code in (
                (queued, unit_counter(queued, devices, streams.descriptor)),
                (split, split_counter(split, devices)),
            ):
                program = bpf.load_program(code)
                try:
                    self._holds.append(tracepoint.run(program))
                finally:
                    os.close(program)
                undo.callback(os.close, self._holds[-1])
            undo.pop_all()
        streams.close()
        assert self._devices.memory is not None
        self._memory = self._devices.memory

    def watch(self, loop: LoopDevice, unit_bytes: int, *, merging: bool) -> bool:
        """Count the I/Os of a device from zero; False where it cannot be counted."""
        if loop.major != LOOP_MAJOR or loop.minor >= MINORS:
            return False
        window = int(_SEQUEL_S * 1e9) if merging else 0
        seen = time.monotonic_ns()  # far from what another volume behind this device had seen
        values = (max(1, unit_bytes // _SECTOR), window, 0, 0, 0, 0, seen, 0)
        DEVICE.pack_into(self._memory, loop.minor * DEVICE.size, *values)
        return True

    def forget(self, loop: LoopDevice) -> None:
        """Count a device no longer."""
        if loop.minor < MINORS:
            DEVICE.pack_into(self._memory, loop.minor * DEVICE.size, *[0] * 8)

    def counted(self, minor: int) -> Counted:
        """What passed so far."""
        return Counted(*_COUNTS.unpack_from(self._memory, minor * DEVICE.size + COUNTS_AT))

    def close(self) -> None:
        """Take the program out of the kernel."""
        for hold in self._holds:
            os.close(hold)
        self._devices.close()


def make_io_units(workshop: Workshop, directory: Path) -> IoUnits:
    """The counter; ``directory`` is for a mount that only the workshop sees, for a moment.

    Raises OSError, ValueError or KeyError where this kernel cannot do it.
    """

    def make() -> IoUnits:
        tracing = directory / "tracing"
        tracing.mkdir(exist_ok=True)
        linux.mount("tracefs", str(tracing), "tracefs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        try:
            return IoUnits(tracing)
        finally:
            linux.unmount(str(tracing), lazily=True)
            tracing.rmdir()

    return workshop.run(make)


def open_io_units(workshop: Workshop, directory: Path) -> IoUnits | None:
    """As `make_io_units`, or None where this kernel cannot do it."""
    try:
        return make_io_units(workshop, directory)
    except (OSError, ValueError, KeyError) as error:
        _log.warning("sequential I/O is not merged in the region's accounts, every request counts: %s", error)
        return None
