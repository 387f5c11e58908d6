"""Burst credits of volumes and instances, and the law by which a bucket drains and refills.

Everything that bursts follows one law. A bucket of `capacity` is full at the start. It refills at `refill` per second
and is drained by what is served. Up to `spend` per second is served while it holds credits, and `refill` once it is
empty. So `refill` is the baseline, and above it a full bucket lasts capacity / (rate - refill) seconds. Credits are
I/Os or bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, plain
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES

if TYPE_CHECKING:
    from pytest_cloudbench.limits.instances import EbsLimit
    from pytest_cloudbench.limits.volumes import VolumeSpec

DATE = "2026-11"
DAY_S = 24 * 3600.0

EBS_BURST_S = 30 * 60.0
# AWS publishes neither the size of the bucket nor its refill. The size follows from the 30 minutes. This project infers
# that the unused baseline refills it: an idle t3.nano then needs 23.7 hours, every other type of its time less, which
# would explain the "24 hours". With the least gain, 24 hours at the baseline itself fill the bucket as well.
EBS_SOURCE = (
    "Amazon EC2 User Guide, Amazon EBS-optimized instances: maximum performance for 30 minutes at least once "
    "every 24 hours, then the baseline; the refill is this project's own reading of it"
)


@dataclass(frozen=True)
class CreditBucket:
    """A bucket at one moment; `advance` returns the bucket of a later moment.

    ``capacity`` and ``level`` are I/Os or bytes; ``refill``, ``spend`` and ``least_gain`` are per second. At or below
    the baseline the bucket gains at least ``least_gain``. With ``time_compression`` it drains and refills that many
    times faster than the clock.
    """

    capacity: float
    refill: float
    spend: float
    level: float
    least_gain: float = 0.0

    def __post_init__(self) -> None:
        figures = (self.capacity, self.refill, self.level, self.least_gain)
        if not all(0 <= figure < math.inf for figure in figures) or not self.spend >= self.refill:
            raise ValueError(f"invalid bucket {self}: figures must be at least 0, and spend at least refill")
        if self.level > self.capacity:
            raise ValueError(f"invalid bucket {self}: its level exceeds its capacity")

    def advance(
        self, rate: float, seconds: float, time_compression: float = 1.0, *, held_back: bool = False
    ) -> CreditBucket:
        """Return the bucket after ``seconds`` of serving ``rate`` per second.

        ``held_back`` is True if the load demanded more than it got: such a load earns no ``least_gain``.
        """
        level = self.level + self._gain(rate, held_back) * seconds * time_compression
        return replace(self, level=min(max(level, 0.0), self.capacity))

    def _gain(self, rate: float, held_back: bool) -> float:
        unused = self.refill - rate
        return max(unused, self.least_gain) if unused >= 0 and not held_back else unused

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1. A bucket without capacity counts as full, since it cannot run out."""
        return self.level / self.capacity if self.capacity else 1.0

    @property
    def empty(self) -> bool:
        """True if it holds no credits."""
        return self.level == 0.0

    def time_until_empty(self, rate: float | None = None, time_compression: float = 1.0) -> float:
        """Return the seconds until it is empty at a steady rate, by default ``spend``; infinity if never."""
        above = (self.spend if rate is None else min(rate, self.spend)) - self.refill
        return self.level / (above * time_compression) if above > 0 else math.inf

    def served(self, demand: float, seconds: float, time_compression: float = 1.0) -> float:
        """Return the amount served in ``seconds`` to a load of ``demand`` per second; credits are spent first."""
        burst_s = min(seconds, self.time_until_empty(demand, time_compression))
        return min(demand, self.spend) * burst_s + min(demand, self.refill) * (seconds - burst_s)


@dataclass(frozen=True)
class CreditRule:
    """The credits of one limit that bursts, with their source.

    ``name`` is for people ("gp2 I/O credits"). ``capacity`` is in I/Os or bytes, as the rates are IOPS or throughput.
    ``peak`` is allowed while credits last, ``baseline`` for good.
    """

    name: str
    capacity: float
    baseline: Rate
    peak: Rate
    source: str
    date: str = DATE
    least_gain: float = 0.0

    def bucket(self, share: float = 1.0) -> CreditBucket:
        """Return a bucket that is full to this share, from 0 to 1."""
        return CreditBucket(
            capacity=self.capacity,
            refill=plain(self.baseline),
            spend=plain(self.peak),
            level=self.capacity * share,
            least_gain=self.least_gain,
        )

    def time_until_empty(self, rate: Rate | None = None, time_compression: float = 1.0) -> float:
        """Return how many seconds a full bucket lasts at ``rate``, by default the peak; infinity at the baseline.

        Raises TypeError for a throughput if the credits are I/Os, and for IOPS if they are bytes.
        """
        return self.bucket().time_until_empty(self._like(rate), time_compression)

    def average(self, demand: Rate, seconds: float, time_compression: float = 1.0) -> Rate:
        """Return the mean rate of a load that demands ``demand``, over its first ``seconds`` from a full bucket."""
        served = self.bucket().served(self._like(demand) or 0.0, seconds, time_compression)
        return type(self.peak)(served / seconds)

    def _like(self, rate: Rate | None) -> float | None:
        if rate is None:
            return None
        if isinstance(rate, Iops) != isinstance(self.peak, Iops):
            raise TypeError(f"{self.name} need a rate such as {self.peak}, not {rate}")
        return plain(rate)


@dataclass(frozen=True)
class EbsCredits:
    """The two buckets of an instance, for I/Os and for bytes; each None if that limit does not burst."""

    iops: CreditRule | None = None
    throughput: CreditRule | None = None


def volume_credits(spec: VolumeSpec) -> CreditRule | None:
    """Return the burst credits of a volume; None if its type or size does not burst.

    SSD types have I/O credits. HDD types have throughput credits, of which every I/O takes whole I/O units.
    """
    kind = VOLUME_TYPES.get(spec.type)
    if kind is None or kind.burst is None or spec.iops is None or spec.burst_iops is None:
        return None
    base: Rate = Iops(spec.iops)
    peak: Rate = Iops(spec.burst_iops)
    if kind.is_hdd:
        base = Throughput.from_mib(spec.throughput_mib or 0.0)
        peak = Throughput.from_mib(spec.burst_throughput_mib or 0.0)
    if plain(peak) <= plain(base):
        return None
    name = f"{kind.name} {'throughput' if kind.is_hdd else 'I/O'} credits"
    capacity = kind.burst.credits.at(spec.size_gib)
    return CreditRule(name, capacity, base, peak, kind.burst.source, kind.burst.date)


def ebs_credits(baseline: EbsLimit | None, maximum: EbsLimit | None) -> EbsCredits:
    """Return the buckets of an instance that allows ``maximum`` for 30 minutes, then ``baseline``."""
    if baseline is None or maximum is None:
        return EbsCredits()
    return EbsCredits(
        _ebs_rule("EBS I/O credits", baseline.iops, maximum.iops),
        _ebs_rule("EBS throughput credits", baseline.throughput, maximum.throughput),
    )


def _ebs_rule(name: str, baseline: Rate, maximum: Rate) -> CreditRule | None:
    above = plain(maximum) - plain(baseline)
    if above <= 0:
        return None
    capacity = EBS_BURST_S * above
    return CreditRule(name, capacity, baseline, maximum, EBS_SOURCE, least_gain=capacity / DAY_S)
