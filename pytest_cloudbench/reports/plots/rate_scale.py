"""In which quantity and unit a rate is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.quantities import MIB, Bandwidth, Iops, Rate, Throughput, figure
from pytest_cloudbench.verdicts.run import is_of_network
from pytest_cloudbench.verdicts.targets import plain

_LARGE_BLOCK = 64 * 1024
"""From here on people speak of throughput, where no ceiling says which of the two they are about."""


@dataclass(frozen=True)
class RateScale:
    """A unit, how much of it one I/O or byte per second is, and the quantity (as an example of it)."""

    unit: str
    factor: float
    like: Rate

    @property
    def noun(self) -> str:
        """What is drawn: "IOPS", "throughput"."""
        return "IOPS" if isinstance(self.like, Iops) else "throughput"

    def of(self, rate: Rate) -> float:
        """A rate in this unit."""
        return plain(rate) * self.factor

    def text(self, value: float) -> str:
        """A value of this scale as people read it: "80,012 IOPS", "2.49 Gbit/s"."""
        return f"{self.number(value)} {self.unit}"

    def number(self, value: float) -> str:
        """As `text`, without the unit."""
        whole_from = 100 if isinstance(self.like, Iops) else 1000
        return figure(value, 0 if abs(value) >= whole_from else 1 if abs(value) >= 100 else 2)


def scale_of(measurement: Any) -> RateScale:
    """Network: bits. Storage: IOPS or MiB/s, whichever its lowest ceiling limits, else by the block size."""
    if is_of_network(measurement):
        return bits_for(measurement.throughput.bytes_per_second)
    envelope = measurement.envelope
    binding = envelope.promised.binding if envelope is not None else ()
    kinds = {ceiling.of_iops for ceiling in binding}
    of_iops = kinds.pop() if len(kinds) == 1 else measurement.block_size.bytes < _LARGE_BLOCK
    return IOPS if of_iops else MIB_PER_S


def bits_for(bytes_per_second: float) -> RateScale:
    """Gbit/s, or Mbit/s for a rate below one of them."""
    if bytes_per_second * 8 >= 1e9:
        return RateScale("Gbit/s", 8e-9, Bandwidth(0.0))
    return RateScale("Mbit/s", 8e-6, Bandwidth(0.0))


IOPS = RateScale("IOPS", 1.0, Iops(0.0))
MIB_PER_S = RateScale("MiB/s", 1 / MIB, Throughput(0.0))


def time_scale(largest_s: float) -> tuple[str, float]:
    """The unit for a time axis of a run and how many of it are a second: seconds up to ten minutes."""
    return ("min", 1 / 60) if largest_s > 600 else ("s", 1.0)


def latency_scale(values_s: Iterable[float]) -> tuple[str, float]:
    """The unit for latencies and how many of it are a second, by the middle of what is to be shown."""
    known = sorted(values_s)
    middle = known[len(known) // 2] if known else 1.0
    if middle < 0.5e-3:
        return "µs", 1e6
    return ("ms", 1e3) if middle < 1 else ("s", 1.0)


def latency_text(seconds: float) -> str:
    """A latency with the unit that suits it, three digits: "348 µs", "12.8 ms"."""
    unit, factor = ("µs", 1e6) if seconds < 1e-3 else ("ms", 1e3) if seconds < 1 else ("s", 1.0)
    value = seconds * factor
    return f"{figure(value, 0 if value >= 100 else 1 if value >= 10 else 2)} {unit}"
