"""The limits and service time of a volume or an instance, as the region sends them to the pacing process."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cloudbench.limits.credits import CreditRule, ebs_credits, volume_credits
from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import MIB, plain
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES, ServiceTime
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.twin.volumes.shared_pages import VolumeState

PIECE_BYTES = 64 * 1024
"""First reads fetch a volume's data from a snapshot in pieces of this size."""


@dataclass(frozen=True)
class Burst:
    """A burst bucket in I/Os or bytes, rates per second. It drains and fills ``factor`` times faster than the clock."""

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
        return cls(rule.capacity, plain(rule.baseline), plain(rule.peak), rule.least_gain, factor)

    def percent(self, as_of: float, level: float | None, now: float) -> float:
        """Return the balance at ``now`` in percent, given the level at ``as_of`` (None if full)."""
        if level is None:
            return 100.0
        return 100 * min(1.0, (level + max(0.0, now - as_of) * self.refill * self.factor) / self.capacity)


@dataclass(frozen=True)
class Limit:
    """A limit per second (infinity does not limit), with its bucket if it bursts."""

    per_second: float = math.inf
    burst: Burst | None = None


@dataclass(frozen=True)
class StageFigures:
    """The two limits of a stage."""

    iops: Limit = Limit()
    bytes: Limit = Limit()

    def balances(self, state: VolumeState, now: float) -> tuple[float | None, float | None]:
        """Return the credits of I/Os and of bytes in percent of a full bucket; None for a limit that does not burst."""
        as_of, levels = state.levels
        bursts = self.iops.burst, self.bytes.burst
        iops, size = (
            None if burst is None else burst.percent(as_of, level, now)
            for burst, level in zip(bursts, levels, strict=True)
        )
        return iops, size


@dataclass(frozen=True)
class VolumeFigures:
    """Everything that decides when a volume answers.

    Up to ``unit`` bytes count as one I/O. With ``merging`` sequential I/Os share a unit. With ``whole_units``
    throughput counts whole units, as on hard disks. ``writes`` are the limits of writes if ``limits`` are for
    reads alone. ``touch_per_s`` pieces per second can be read for the first time. The first use of a piece gets
    ``touch_share`` of the rate, a write above LARGE_WRITE ``large_write_share`` of it.
    """

    unit: int
    merging: bool = True
    limits: StageFigures = StageFigures()
    writes: StageFigures | None = None
    whole_units: bool = False
    service: ServiceTime | None = None
    touch_per_s: float = math.inf
    touch_share: float = 1.0
    large_write_share: float = 1.0


def volume_figures(spec: VolumeSpec, *, factor: float, service: ServiceTime | None) -> VolumeFigures:
    """Return the figures of a volume of this spec. Unknown figures do not limit."""
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
        large_write_share=spec.large_writes or 1.0,
    )


def instance_figures(maximum: EbsLimit | None, baseline: EbsLimit | None, *, factor: float) -> StageFigures:
    """Return the limits of all volumes of an instance together."""
    if maximum is None:
        return StageFigures()
    rules = ebs_credits(baseline, maximum)
    return StageFigures(
        Limit(maximum.iops.per_second, Burst.of(rules.iops, factor)),
        Limit(maximum.throughput.bytes_per_second, Burst.of(rules.throughput, factor)),
    )
