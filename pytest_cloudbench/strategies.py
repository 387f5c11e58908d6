"""Strategies of hypothesis: valid volumes, instance types that can carry them, fio jobs, and mixes.

    from pytest_cloudbench.strategies import fio_jobs, volume_specs

Each draws only what the plugin and EBS accept, and shrinks to the smallest: fewer GiB and IOPS, smaller blocks, fewer
I/Os outstanding. This module is public. It needs the extra `hypothesis`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES, VolumeType
from pytest_cloudbench.limits.volumes import MOST_IOPS_BEFORE_NITRO, VolumeSpec
from pytest_cloudbench.workloads.sweep.mixes import Mix, Skew

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "pytest_cloudbench.strategies needs hypothesis: pip install pytest-cloudbench[hypothesis]"
    ) from error

PATTERNS = ("randread", "read", "randwrite", "write", "randrw", "rw")
BLOCKS = ("4k", "8k", "16k", "32k", "64k", "128k", "256k")
DEPTHS = (1, 2, 4, 8, 16, 32, 64)


@st.composite
def volume_specs(
    draw: st.DrawFn,
    /,
    types: Collection[str] | None = None,
    *,
    most_gib: int | None = None,
    most_iops: int | None = None,
) -> VolumeSpec:
    """Draw valid volumes of these types (default: all known ones), with at most this size and these IOPS.

    ``most_iops`` limits the IOPS that a volume sustains; burst credits may allow more.

    Raises ValueError for an unknown type, for no type, and for bounds that no volume of these types meets.
    """
    if unknown := [name for name in types or () if name not in VOLUME_TYPES]:
        raise ValueError(f"unknown volume type {unknown[0]!r}: use {', '.join(sorted(VOLUME_TYPES))}")
    if types is not None and not types:
        raise ValueError(f"types={types!r} names no volume type: use {', '.join(sorted(VOLUME_TYPES))}")
    kinds = [kind for kind in VOLUME_TYPES.values() if types is None or kind.name in types]
    sizes = {kind.name: _sizes(kind, most_gib, most_iops) for kind in kinds}
    kinds = [kind for kind in kinds if sizes[kind.name]]
    if not kinds:
        bounds = ((most_gib, "GiB", "most_gib"), (most_iops, "IOPS", "most_iops"))
        given = [(f"{most:,} {unit}", name) for most, unit, name in bounds if most is not None]
        raise ValueError(
            f"no volume of these types has at most {' and '.join(text for text, _ in given)}: "
            f"raise {' or '.join(name for _, name in given)}"
        )
    kind = draw(st.sampled_from(kinds))
    size = draw(st.integers(sizes[kind.name][0], sizes[kind.name][-1]))
    iops = throughput = None
    if kind.iops_range is not None:
        least, most = kind.iops_range
        if kind.iops_per_gib is not None:
            most = min(most, max(kind.iops_free_of_ratio, kind.iops_per_gib * size))
        most = most if most_iops is None else min(most, most_iops)
        figures = st.integers(least, most)
        allowed = kind.iops_default is not None and kind.iops_default <= most
        iops = draw(st.none() | figures if allowed else figures)
    if kind.throughput_range is not None:
        least, most = kind.throughput_range
        if kind.throughput_per_iops is not None:
            most = min(most, int(kind.throughput_per_iops * (iops or kind.iops_default or 0)))
        throughput = draw(st.none() | st.integers(least, most))
    return VolumeSpec.of(kind.name, size, iops, throughput)


def _sizes(kind: VolumeType, most_gib: int | None, most_iops: int | None) -> range:
    """Return the sizes in GiB of volumes of this type within the bounds."""
    low, high = kind.size_range
    sizes = range(low, (high if most_gib is None else min(high, most_gib)) + 1)
    if most_iops is None:
        return sizes
    if kind.iops_range is not None:
        return sizes if kind.iops_range[0] <= most_iops else range(0)
    return sizes[: bisect_right(sizes, most_iops, key=lambda size: kind.figures(size)[0])]


def instance_types(spec: VolumeSpec, offered: Iterable[InstanceLimits]) -> st.SearchStrategy[InstanceLimits]:
    """Draw an instance type that can carry the volume: its EBS baseline is at least the volume's limits.

    ``offered`` are the limits of the types to choose from. Raises ValueError if none of them can carry it.
    """
    able = sorted(
        (limits for limits in offered if can_carry(limits, spec)),
        key=lambda each: (each.vcpus or 0, each.name),
    )
    if not able:
        raise ValueError(f"none of the offered instance types can carry {spec}: offer larger ones")
    return st.sampled_from(able)


def can_carry(limits: InstanceLimits, spec: VolumeSpec) -> bool:
    """Return True if an instance of this type serves all that the volume promises, bursts included.

    False for a type whose EBS limits are unknown.
    """
    held, iops, throughput = limits.ebs_baseline, spec.burst_iops, spec.burst_throughput_mib
    if held is None or iops is None or throughput is None or limits.max_ebs_attachments == 0:
        return False
    if not limits.nitro and iops > MOST_IOPS_BEFORE_NITRO:
        return False
    return held.iops >= Iops(float(iops)) and held.throughput >= Throughput.from_mib(throughput)


@st.composite
def fio_jobs(
    draw: st.DrawFn,
    /,
    *,
    patterns: Sequence[str] = PATTERNS,
    blocks: Sequence[str] = BLOCKS,
    depths: Sequence[int] = DEPTHS,
    numjobs: Sequence[int] = (1, 2, 4),
    **fixed: Any,
) -> dict[str, Any]:
    """Draw arguments of a fio call: ``fio(target, **job)``. The first of each sequence is the simplest.

    ``fixed`` are further arguments, the same for all jobs: ``fio_jobs(runtime=2, size="64m")``.
    """
    job: dict[str, Any] = {
        "rw": draw(st.sampled_from(patterns)),
        "bs": draw(st.sampled_from(blocks)),
        "iodepth": draw(st.sampled_from(depths)),
        "numjobs": draw(st.sampled_from(numjobs)),
    }
    if job["rw"] in ("rw", "randrw"):
        job["rwmixread"] = draw(st.sampled_from((50, 30, 70, 10, 90)))
    return {**job, **fixed}


@st.composite
def mixes(draw: st.DrawFn, /, *, blocks: Sequence[str] = BLOCKS, writes: bool = True) -> Mix:
    """Draw mixes for a sweep; without ``writes`` only those that read."""
    sizes = draw(st.lists(st.sampled_from(blocks), min_size=1, max_size=min(4, len(blocks)), unique=True))
    cuts = draw(
        st.lists(st.integers(1, 99), min_size=len(sizes) - 1, max_size=len(sizes) - 1, unique=True).map(
            sorted
        )
    )
    edges = [0, *cuts, 100]
    shares = [high - low for low, high in pairwise(edges)]
    random_percent = draw(st.sampled_from((100, 0)) | st.integers(1, 99))
    skew = None
    if random_percent and draw(st.booleans()):
        space = draw(st.integers(1, 98))
        skew = Skew(percent_of_io=draw(st.integers(space + 1, 99)), percent_of_space=space)
    return Mix(
        "drawn",
        tuple(sorted((Size.parse(size), share) for size, share in zip(sizes, shares, strict=True))),
        draw(st.sampled_from((100, 0)) | st.integers(1, 99)) if writes else 100,
        random_percent,
        "drawn by hypothesis",
        skew,
    )
