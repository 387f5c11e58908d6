"""The pacing law and the request loop of `core.c`, with the interfaces of `pacer` and `request_loop`."""

from __future__ import annotations

import zlib
from array import array
from pathlib import Path

from pytest_cloudbench.limits.volume_types import STATED_AT_BYTES
from pytest_cloudbench.limits.volumes import LARGE_WRITE
from pytest_cloudbench.twin.volumes import core, fuse
from pytest_cloudbench.twin.volumes.figures import PIECE_BYTES, Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.pacer import service_factors
from pytest_cloudbench.twin.volumes.shared_pages import BITS_AT, UNTOUCHED_AT, Figures, Levels, VolumeState

_SOURCE = Path(__file__).with_name("core.c")
if _SOURCE.exists() and zlib.crc32(_SOURCE.read_bytes()) != core.SOURCE:
    raise ImportError("the compiled core was built from another core.c: install the package again")


class Pacer(core.Pacer):
    """See `pacer.Pacer`."""

    def limit_instance(self, figures: StageFigures, levels: Levels, as_of: float) -> None:
        self.set_limits(None, False, *_limits(figures, levels), as_of)

    def add(self, node: int, backing: int, state: VolumeState, path_s: float) -> None:
        self.add_volume(node, backing, path_s, state.memory, UNTOUCHED_AT, BITS_AT, PIECE_BYTES)

    def limit_volume(self, node: int, figures: VolumeFigures, levels: Levels, as_of: float) -> None:
        self.set_counting(
            node, figures.unit, figures.merging, figures.whole_units, figures.touch_per_s, figures.touch_share,
            LARGE_WRITE.bytes, figures.large_write_share,
        )  # fmt: skip
        self.set_limits(node, False, *_limits(figures.limits, levels), as_of)
        if figures.writes is not None:
            self.set_limits(node, True, *_limits(figures.writes, (None, None)), as_of)
        service = figures.service
        if service is not None:
            means = [
                service.mean(write=write, sequential=each)
                for each in (False, True)
                for write in (False, True)
            ]
            factors = array("d", service_factors(service.spread))
            self.set_service_times(node, tuple(means), service.bytes_per_s, STATED_AT_BYTES, factors)

    def figures(self, node: int, now: float) -> Figures:
        return Figures._make(self.counts(node, now))


class RequestLoop(core.RequestLoop):
    """See `request_loop.RequestLoop`."""

    def __new__(cls, pacer: Pacer, device: int, control: int) -> RequestLoop:
        """Serve ``device`` by the law of ``pacer``; the region's messages arrive on ``control``."""
        return super().__new__(cls, pacer, device, control, fuse.LARGEST_REQUEST)  # type: ignore[return-value]


_Limit = tuple[float, bool, float, float, float, float, float, float]


def _limits(figures: StageFigures, levels: Levels) -> tuple[_Limit, _Limit]:
    return _limit(figures.iops, levels[0]), _limit(figures.bytes, levels[1])


def _limit(limit: Limit, level: float | None) -> _Limit:
    burst = limit.burst
    if burst is None:
        return limit.per_second, False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    level = burst.capacity if level is None else min(level, burst.capacity)
    bucket = burst.capacity, burst.refill, burst.spend, level, burst.factor, burst.least_gain
    return limit.per_second, True, *bucket
