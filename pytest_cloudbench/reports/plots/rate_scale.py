"""The quantity and unit in which a rate is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.quantities import MIB, Bandwidth, Iops, Rate, Throughput, figure, plain
from pytest_cloudbench.verdicts.run import is_of_network, run_of

_LARGE_BLOCK = 64 * 1024
"""From this block size on, throughput is drawn, unless a ceiling decides."""


@dataclass(frozen=True)
class RateScale:
    """A unit, the value of one I/O or byte per second in it, and an example of its quantity."""

    unit: str
    factor: float
    like: Rate

    @property
    def noun(self) -> str:
        """The name of the quantity: "IOPS", "throughput"."""
        return "IOPS" if isinstance(self.like, Iops) else "throughput"

    def of(self, rate: Rate) -> float:
        """Return a rate in this unit."""
        return plain(rate) * self.factor

    def mean_of(self, measurement: Any) -> float:
        """Return the mean rate of a measurement in this unit."""
        return self.of(run_of(measurement).rate_like(self.like))

    def text(self, value: float) -> str:
        """Return a value with its unit: "80,012 IOPS", "2.49 Gbit/s"."""
        return f"{self.number(value)} {self.unit}"

    def number(self, value: float) -> str:
        """Return a value without its unit."""
        whole_from = 100 if isinstance(self.like, Iops) else 1000
        return figure(value, 0 if abs(value) >= whole_from else 1 if abs(value) >= 100 else 2)


def scale_of(measurement: Any) -> RateScale:
    """Return bits for a network; for storage IOPS or MiB/s, by its lowest ceiling, else by the block size."""
    if is_of_network(measurement):
        return bits_for(measurement.throughput.bytes_per_second)
    envelope = measurement.envelope
    binding = envelope.promised.binding if envelope is not None else ()
    kinds = {ceiling.of_iops for ceiling in binding}
    of_iops = kinds.pop() if len(kinds) == 1 else measurement.block_size.bytes < _LARGE_BLOCK
    return IOPS if of_iops else MIB_PER_S


def scale_for(rates: Sequence[Rate]) -> RateScale:
    """Return the unit in which rates of one quantity, at least one, are shown together."""
    first = rates[0]
    if isinstance(first, Bandwidth):
        return bits_for(max(map(plain, rates)))
    return IOPS if isinstance(first, Iops) else MIB_PER_S


def bits_for(bytes_per_second: float) -> RateScale:
    """Return Gbit/s, or Mbit/s for a rate below 1 Gbit/s."""
    if bytes_per_second * 8 >= 1e9:
        return RateScale("Gbit/s", 8e-9, Bandwidth(0.0))
    return RateScale("Mbit/s", 8e-6, Bandwidth(0.0))


IOPS = RateScale("IOPS", 1.0, Iops(0.0))
MIB_PER_S = RateScale("MiB/s", 1 / MIB, Throughput(0.0))


def time_scale(largest_s: float) -> tuple[str, float]:
    """Return the unit of a time axis and the value of one second in it: seconds up to ten minutes, then minutes."""
    return ("min", 1 / 60) if largest_s > 600 else ("s", 1.0)


def latency_scale(values_s: Iterable[float]) -> tuple[str, float]:
    """Return the unit for latencies, by their median, and the value of one second in it."""
    known = sorted(values_s)
    middle = known[len(known) // 2] if known else 1.0
    if middle < 0.5e-3:
        return "µs", 1e6
    return ("ms", 1e3) if middle < 1 else ("s", 1.0)


def latency_text(seconds: float) -> str:
    """Return a latency in a suitable unit, with three digits: "348 µs", "12.8 ms"."""
    unit, factor = ("µs", 1e6) if seconds < 1e-3 else ("ms", 1e3) if seconds < 1 else ("s", 1.0)
    value = seconds * factor
    return f"{figure(value, 0 if value >= 100 else 1 if value >= 10 else 2)} {unit}"
