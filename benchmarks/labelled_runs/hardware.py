"""Instances, volumes and their limits, and what tools report of a load on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from labelled_runs.labels import StorageFacts
from pytest_cloudbench.limits.ceilings import INSTANCE, VOLUME, Ceiling
from pytest_cloudbench.limits.envelope import Envelope, storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.limits.volumes import VolumeSpec, gp3, io1, io2

SMALL, LARGE = Size.parse("4k"), Size.parse("256k")
BASE_LATENCY_S = 0.0007


def instance(name: str, iops: float, mb: float, base: tuple[float, float] | None = None) -> InstanceLimits:
    """Return an instance type with these limits of EBS; ``base`` remains of them once credits are spent."""
    base_iops, base_mb = base or (iops, mb)
    figures = {
        "MaximumIops": round(iops),
        "MaximumThroughputInMBps": mb,
        "BaselineIops": round(base_iops),
        "BaselineThroughputInMBps": base_mb,
    }
    described = {"InstanceType": name, "EbsInfo": {"EbsOptimizedInfo": figures}}
    return InstanceLimits.from_describe(described, date="2026-11")


BIG = instance("c5.18xlarge", 80_000, 2_375.0)


def some_volume(rng: random.Random, iops: int | None = None) -> VolumeSpec:
    """Return a volume without burst credits whose throughput does not limit 4 KiB I/O."""
    iops = iops or rng.choice([3_000, 4_000, 6_000, 8_000, 12_000, 16_000])
    kind = rng.choice(["gp3", "io1", "io2"])
    if kind == "gp3" and 3_000 <= iops <= 16_000:
        return gp3(size_gib=500, iops=iops, throughput_mib=500)
    return (io1 if kind == "io1" else io2)(size_gib=1_000, iops=iops)


def envelope_of(
    on: InstanceLimits, *specs: VolumeSpec, block: Size = SMALL, sequential: bool = False
) -> Envelope:
    """Return the limits of a load on volumes of an instance."""
    volumes = [(f"vol-{number:02x}", spec) for number, spec in enumerate(specs, 1)]
    return storage_envelope(on, volumes, block, sequential=sequential)


def volume_iops(envelope: Envelope) -> Ceiling:
    """Return the limit of the volumes' IOPS."""
    return _only(envelope, VOLUME, of_iops=True)


def volume_throughput(envelope: Envelope) -> Ceiling:
    """Return the limit of the volumes' throughput."""
    return _only(envelope, VOLUME, of_iops=False)


def instance_iops(envelope: Envelope) -> Ceiling:
    """Return the limit of the instance's IOPS."""
    return _only(envelope, INSTANCE, of_iops=True)


def instance_throughput(envelope: Envelope) -> Ceiling:
    """Return the limit of the instance's throughput."""
    return _only(envelope, INSTANCE, of_iops=False)


def _only(envelope: Envelope, scope: str, *, of_iops: bool) -> Ceiling:
    (found,) = [one for one in envelope.ceilings if one.scope == scope and one.of_iops == of_iops]
    return found


def counted(count: int, *limits: str, share: float = 0.98) -> dict[str, float]:
    """Return throttle counters that saw only these limits act, for ``share`` of the run."""
    names = ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")
    return {name: share * count if name in limits else 0.0 for name in names}


def deep(rng: random.Random, iops: float) -> int:
    """Return more I/Os outstanding than this rate can ever need."""
    return max(32, round(iops / 1_000) * rng.choice([4, 8, 16]))


def storage(
    values: Sequence[float],
    envelope: Envelope,
    outstanding: int,
    *,
    latency_s: float | None = None,
    **more: Any,
) -> StorageFacts:
    """Return what tools report of a load that keeps its I/Os outstanding, or takes ``latency_s`` for each.

    By Little's law the mean latency is the number outstanding over the rate.
    """
    mean = fmean(values)
    if latency_s is None:
        latency_s = outstanding / mean
        each = tuple(outstanding / value if value > 0 else latency_s for value in values)
    else:
        each = (latency_s,) * len(values)
    facts = {"total_iops": mean, "sample_latency_s": each, "generator": (35.0, 60.0, 8)} | more
    return StorageFacts(
        tuple(values), envelope.block_size, envelope.sequential, envelope, outstanding, latency_s, **facts
    )


def far_from_limits(envelope: Envelope, iops: float, share: float = 0.08) -> bool:
    """Return True if no level of any limit lies within ``share`` of a rate."""
    return all(
        abs(iops / level.iops.per_second - 1) > share
        for ceiling in envelope.ceilings
        for level in envelope.levels_of(ceiling)
    )


def as_iops(value: float) -> Iops:
    """Return a plain figure as a quantity."""
    return Iops(float(value))


def as_mib(value: float) -> Throughput:
    """Return a figure in MiB/s as a quantity."""
    return Throughput.from_mib(float(value))
