"""What a volume or an instance is held to, as the region tells it to the process that paces them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from pytest_cloudbench.limits.credits import CreditRule, ebs_credits, per_second, volume_credits
from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import MIB
from pytest_cloudbench.limits.service_times import ServiceTime
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import VolumeSpec

PIECE_BYTES = 64 * 1024
"""The stretch of a volume that is touched as a whole: what a first read fetches from a snapshot."""


@dataclass(frozen=True)
class Burst:
    """A burst bucket in what its budget counts; ``factor`` times faster than the clock."""

    capacity: float
    refill: float
    spend: float
    least_gain: float = 0.0
    factor: float = 1.0

    @classmethod
    def of(cls, rule: CreditRule | None, factor: float) -> Burst | None:
        """Build the bucket of a rule; None without a rule."""
        if rule is None:
            return None
        return cls(rule.capacity, per_second(rule.baseline), per_second(rule.peak), rule.least_gain, factor)

    def percent(self, as_of: float, level: float | None, now: float) -> float:
        """Return its balance at ``now`` in percent: it held ``level`` at ``as_of``, or was full (None)."""
        if level is None:
            return 100.0
        return 100 * min(1.0, (level + max(0.0, now - as_of) * self.refill * self.factor) / self.capacity)


@dataclass(frozen=True)
class Limit:
    """One limit per second, infinity if there is none, with its bucket if it bursts."""

    per_second: float = math.inf
    burst: Burst | None = None


@dataclass(frozen=True)
class StageFigures:
    """The two limits of a stage."""

    iops: Limit = Limit()
    bytes: Limit = Limit()


@dataclass(frozen=True)
class VolumeFigures:
    """All that decides when a volume answers.

    ``unit`` is how many bytes count as one I/O, ``merging`` whether sequential ones share a unit. ``whole_units``:
    throughput counts in whole units, as on hard disks. ``writes`` are the limits of writes if they are held apart
    from reads. ``touch_per_s`` is how many pieces per second are read for the first time, ``touch_share`` the share
    of the rate that holds for a piece that was never used.
    """

    unit: int
    merging: bool = True
    limits: StageFigures = StageFigures()
    writes: StageFigures | None = None
    whole_units: bool = False
    service: ServiceTime | None = None
    touch_per_s: float = math.inf
    touch_share: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Return plain data; infinity travels as JSON's own extension."""
        return asdict(self)


def volume_figures(spec: VolumeSpec, *, factor: float, service: ServiceTime | None) -> VolumeFigures:
    """Return what a volume of this spec is held to; a figure that is not known does not limit."""
    kind = VOLUME_TYPES.get(spec.type)
    unit = spec.io_unit.bytes
    rule = volume_credits(spec)
    throughput = math.inf if spec.burst_throughput_mib is None else spec.burst_throughput_mib * MIB
    hdd = kind is not None and kind.is_hdd
    iops = math.inf if hdd or spec.burst_iops is None else float(spec.burst_iops)
    burst = Burst.of(rule, factor)
    return VolumeFigures(
        unit,
        merging=spec.merging,
        whole_units=hdd,
        limits=StageFigures(Limit(iops, None if hdd else burst), Limit(throughput, burst if hdd else None)),
        service=service,
        touch_share=spec.first_touch or 1.0,
    )


def instance_figures(maximum: EbsLimit | None, baseline: EbsLimit | None, *, factor: float) -> StageFigures:
    """Return what all volumes of an instance are held to together."""
    if maximum is None:
        return StageFigures()
    rules = ebs_credits(baseline, maximum)
    return StageFigures(
        Limit(maximum.iops.per_second, Burst.of(rules.iops, factor)),
        Limit(maximum.throughput.bytes_per_second, Burst.of(rules.throughput, factor)),
    )


def volume_figures_from_json(data: dict[str, Any]) -> VolumeFigures:
    """Read what `VolumeFigures.to_json` wrote."""
    writes, service = data["writes"], data["service"]
    return VolumeFigures(
        **{
            **data,
            "limits": stage_figures_from_json(data["limits"]),
            "writes": None if writes is None else stage_figures_from_json(writes),
            "service": None if service is None else ServiceTime(**service),
        }
    )


def stage_figures_from_json(data: dict[str, Any]) -> StageFigures:
    """Read a stage's limits."""
    limits = [
        Limit(one["per_second"], None if one["burst"] is None else Burst(**one["burst"]))
        for one in (data["iops"], data["bytes"])
    ]
    return StageFigures(*limits)
