"""How much of each device a sweep goes over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size, figure
from pytest_cloudbench.workloads.room_check import KEPT_FREE
from pytest_cloudbench.workloads.sweep.errors import BadSweep
from pytest_cloudbench.workloads.sweep.mixes import Mix

DEFAULT = "12%"
"""Of each device, as in the published review of i3.metal that a scenario repeats."""
_PLACES = 8
"""How many places there must be for each I/O in flight, so that they do not all meet on the same blocks."""
_GRAIN = 1 << 20
_WRITTEN = Size(1 << 30)
"""What is written to altogether where the data is kept by a machine behind the devices."""


@dataclass(frozen=True)
class WorkingSet:
    """A share of each device, or as many bytes of each."""

    percent: float | None = None
    size: Size | None = None

    @classmethod
    def of(cls, given: object) -> WorkingSet:
        """From "12%", "20g" or a Size. Raises BadSweep for anything else."""
        if isinstance(given, Size):
            return cls(size=given)
        text = str(given).strip()
        if text.endswith("%"):
            try:
                percent = float(text[:-1])
            except ValueError:
                percent = math.nan
            if not 0 < percent <= 100:
                raise BadSweep(
                    f"working_set={given!r}: a share of each device lies above 0 and at 100 % at most"
                )
            return cls(percent=percent)
        try:
            return cls(size=Size.parse(given))  # type: ignore[arg-type]  # what is no size raises
        except (ValueError, TypeError):
            raise BadSweep(
                f"working_set={given!r} is neither a share such as '12%' nor a size such as '20g'"
            ) from None

    def on(self, device: Size, mix: Mix, threads: int) -> Size:
        """How much of a device of that size it is, in whole MiB.

        Raises BadSweep where the device is too small for it, or it for so many I/Os in flight.
        """
        wanted = (
            device.bytes * self.percent / 100 if self.percent is not None else (self.size or Size(0)).bytes
        )
        if wanted > device.bytes:
            raise BadSweep(f"working_set={self}: the device has {device} only")
        found = Size(int(wanted) // _GRAIN * _GRAIN)
        least = threads * mix.largest_block.bytes * _PLACES
        if found.bytes < max(least, _GRAIN):
            raise BadSweep(
                f"a working set of {self} on a device of {device} is {found}, too small for {threads} threads of mix "
                f"{mix.name}: {_PLACES} blocks of {mix.largest_block} for each need {Size(max(least, _GRAIN))}; take "
                "larger volumes, a larger working_set= or fewer threads"
            )
        return found

    def __str__(self) -> str:
        return f"{figure(self.percent)} %" if self.percent is not None else str(self.size)


def within_room(sets: Sequence[Size], room: Size | None, mix: Mix, threads: int) -> Size | None:
    """The part of each working set that is written to where the machine behind the devices keeps their data.

    None where no such machine is known. Such a machine must first find a place for every block that is written,
    which takes longer than the I/O that is measured: so it is few blocks, again and again. Raises BadSweep where it
    has room for so little that the I/Os in flight would meet on the same blocks.
    """
    if room is None or not mix.writes:
        return None
    least = max(_GRAIN, -(-threads * mix.largest_block.bytes * _PLACES // _GRAIN) * _GRAIN)
    if least * len(sets) > room.bytes * (1 - KEPT_FREE):
        raise BadSweep(
            f"mix {mix.name} writes, and the machine behind the devices has room for {room} only: give the embedded "
            "region a folder with --cloudbench-twin-backing=DIR"
        )
    share = Size(max(least, _WRITTEN.bytes // len(sets) // _GRAIN * _GRAIN))
    return share if any(share < each for each in sets) else None
