"""Burst credits: the rules of volumes and instances as data, and the law by which a bucket empties and fills.

Everything that bursts follows one law. A bucket of `capacity` is full at the start. It refills at `refill` a
second and is drained by what is served; while anything is in it up to `spend` a second may be served, and
once it is empty what refills. So what lasts is `refill`, the baseline, and above it a full bucket lasts
capacity / (rate - refill) seconds. Credits are I/Os or bytes, rates are per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES

if TYPE_CHECKING:
    from pytest_cloudbench.limits.instances import EbsLimit
    from pytest_cloudbench.limits.volumes import VolumeSpec

DATE = "2026-11"
DAY_S = 24 * 3600.0

EBS_BURST_S = 30 * 60.0
# AWS publishes neither the size of the bucket nor its refill. The size follows from the 30 minutes. The refill, by the
# unused baseline, is inferred: an idle t3.nano needs 23.7 hours and every other type of its time less, which would
# explain the "24 hours". The least gain makes 24 hours at the baseline itself fill the bucket as well.
EBS_SOURCE = (
    "Amazon EC2 User Guide, Amazon EBS-optimized instances: maximum performance for 30 minutes at least once "
    "every 24 hours, then the baseline; the refill is this project's own reading of it"
)


@dataclass(frozen=True)
class CreditBucket:
    """A bucket at one moment. Pure: `advance` gives the bucket of a later moment.

    ``capacity`` and ``level`` are I/Os or bytes; ``refill``, ``spend`` and ``least_gain`` are per second.
    ``least_gain`` is gained at or below the baseline even where less of it is left unused.
    ``time_compression`` lets a bucket empty and fill that many times faster than the clock.
    """

    capacity: float
    refill: float
    spend: float
    level: float
    least_gain: float = 0.0

    def __post_init__(self) -> None:
        figures = (self.capacity, self.refill, self.level, self.least_gain)
        if not all(0 <= figure < math.inf for figure in figures) or not self.spend >= self.refill:
            raise ValueError(f"{self} is no bucket: figures are not below zero, and spend is at least refill")
        if self.level > self.capacity:
            raise ValueError(f"{self} holds more than its capacity")

    def advance(
        self, rate: float, seconds: float, time_compression: float = 1.0, *, held_back: bool = False
    ) -> CreditBucket:
        """The bucket after ``seconds`` of serving ``rate`` a second.

        ``held_back``: the load wanted more than it got, so it does not stay at the baseline of its own
        accord and earns no ``least_gain``.
        """
        level = self.level + self._gain(rate, held_back) * seconds * time_compression
        return replace(self, level=min(max(level, 0.0), self.capacity))

    def _gain(self, rate: float, held_back: bool) -> float:
        unused = self.refill - rate
        return max(unused, self.least_gain) if unused >= 0 and not held_back else unused

    @property
    def share(self) -> float:
        """How full it is, 0 to 1. A bucket without capacity counts as full: nothing can run out."""
        return self.level / self.capacity if self.capacity else 1.0

    @property
    def empty(self) -> bool:
        """Whether only what refills is left."""
        return self.level == 0.0

    def allowed(self, within_s: float, time_compression: float = 1.0) -> float:
        """The rate at which it is just empty in ``within_s``, at most ``spend``, at least what refills."""
        return min(self.spend, self.refill + self.level / (within_s * time_compression))

    def time_until_empty(self, rate: float | None = None, time_compression: float = 1.0) -> float:
        """Seconds until it is empty at a steady rate (``spend`` unless given); infinity when it never is."""
        above = (self.spend if rate is None else min(rate, self.spend)) - self.refill
        return self.level / (above * time_compression) if above > 0 else math.inf

    def time_until_full(self, rate: float = 0.0, time_compression: float = 1.0) -> float:
        """Seconds until it is full at a steady rate; infinity above the baseline."""
        missing = self.capacity - self.level
        if missing == 0:
            return 0.0
        gain = self._gain(rate, held_back=False)
        return missing / (gain * time_compression) if gain > 0 else math.inf

    def served(self, demand: float, seconds: float, time_compression: float = 1.0) -> float:
        """How much a load that wants ``demand`` a second gets in ``seconds``, first from credits."""
        burst_s = min(seconds, self.time_until_empty(demand, time_compression))
        return min(demand, self.spend) * burst_s + min(demand, self.refill) * (seconds - burst_s)


@dataclass(frozen=True)
class CreditRule:
    """What bursts, how far and for how long, and who says so.

    ``name`` is for people ("gp2 I/O credits"). ``capacity`` is I/Os or bytes, as the rates are IOPS or
    throughput. ``peak`` is what may be had while credits last, ``baseline`` what refills and lasts.
    """

    name: str
    capacity: float
    baseline: Rate
    peak: Rate
    source: str
    date: str = DATE
    least_gain: float = 0.0

    def bucket(self, share: float = 1.0) -> CreditBucket:
        """A bucket, full unless told otherwise."""
        return CreditBucket(
            capacity=self.capacity,
            refill=per_second(self.baseline),
            spend=per_second(self.peak),
            level=self.capacity * share,
            least_gain=self.least_gain,
        )

    def time_until_empty(self, rate: Rate | None = None, time_compression: float = 1.0) -> float:
        """Seconds that a full bucket lasts at ``rate`` (the peak unless given); infinity at the baseline.

        Raises TypeError for a throughput where I/Os are counted, and the other way round.
        """
        return self.bucket().time_until_empty(self._like(rate), time_compression)

    def average(self, demand: Rate, seconds: float, time_compression: float = 1.0) -> Rate:
        """The mean rate of a load that wants ``demand`` over its first ``seconds``, from a full bucket."""
        served = self.bucket().served(self._like(demand) or 0.0, seconds, time_compression)
        return type(self.peak)(served / seconds)

    def _like(self, rate: Rate | None) -> float | None:
        if rate is None:
            return None
        if isinstance(rate, Iops) != isinstance(self.peak, Iops):
            raise TypeError(f"{self.name} are drained by a rate such as {self.peak}, not by {rate}")
        return per_second(rate)


@dataclass(frozen=True)
class EbsCredits:
    """The two buckets of an instance, for I/Os and for bytes; None for what does not burst."""

    iops: CreditRule | None = None
    throughput: CreditRule | None = None


def per_second(rate: Rate) -> float:
    """The bare figure of a rate: I/Os or bytes a second."""
    return rate.per_second if isinstance(rate, Iops) else rate.bytes_per_second


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
    if per_second(peak) <= per_second(base):
        return None
    name = f"{kind.name} {'throughput' if kind.is_hdd else 'I/O'} credits"
    capacity = kind.burst.credits.at(spec.size_gib)
    return CreditRule(name, capacity, base, peak, kind.burst.source, kind.burst.date)


def ebs_credits(baseline: EbsLimit | None, maximum: EbsLimit | None) -> EbsCredits:
    """The buckets of an instance that holds ``maximum`` for 30 minutes, then ``baseline``."""
    if baseline is None or maximum is None:
        return EbsCredits()
    return EbsCredits(
        _ebs_rule("EBS I/O credits", baseline.iops, maximum.iops),
        _ebs_rule("EBS throughput credits", baseline.throughput, maximum.throughput),
    )


def _ebs_rule(name: str, baseline: Rate, maximum: Rate) -> CreditRule | None:
    above = per_second(maximum) - per_second(baseline)
    if above <= 0:
        return None
    capacity = EBS_BURST_S * above
    return CreditRule(name, capacity, baseline, maximum, EBS_SOURCE, least_gain=capacity / DAY_S)
