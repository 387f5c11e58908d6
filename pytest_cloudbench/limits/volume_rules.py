"""The rules that EBS applies to a request for a volume."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from pytest_cloudbench.limits.quantities import KIB, Size, figure
from pytest_cloudbench.limits.volume_types import DATE, SOURCE, VOLUME_TYPES, VolumeType

IO_UNIT_SOURCE = "pytest-cloudbench, the embedded region's accounting; 16 KiB as EBS counted in 2012"
SMALLEST_IO_UNIT = Size(4 * KIB)
FIRST_TOUCH_SOURCE = (
    "pytest-cloudbench, the embedded region's accounting; until 2014 the EC2 User Guide ('Pre-Warming Amazon EBS "
    "Volumes') spoke of 5 to 50 percent less at the first use of a block"
)
SMALLEST_SHARE = 0.01
LARGE_WRITES_SOURCE = "pytest-cloudbench, a weakness of the embedded region's volumes for tests"


@dataclass(frozen=True)
class RuleBroken:
    """One rule that a volume request breaks.

    ``code`` is EC2's error code, ``message`` the sentence with value and rule, ``rule`` the rule alone. ``source`` and
    ``date`` are those of the rule.
    """

    code: str
    message: str
    rule: str
    source: str = SOURCE
    date: str = DATE

    def __str__(self) -> str:
        return self.message


def volume_problems(
    type: str,
    size_gib: int | None,
    iops: int | None = None,
    throughput_mib: float | None = None,
    io_unit: Size | None = None,
    *,
    first_touch: float | None = None,
    large_writes: float | None = None,
) -> list[RuleBroken]:
    """Return every rule that a request for a volume breaks, in the order in which EBS checks them.

    ``throughput_mib`` is in MiB/s; None is a figure that the request leaves out. ``io_unit`` is a unit other than the
    type's own, ``first_touch`` the share of its rate that unused blocks deliver, ``large_writes`` that of large writes.
    """
    kind = VOLUME_TYPES.get(type)
    if kind is None:
        near = get_close_matches(str(type), VOLUME_TYPES, n=1)
        rule = f"volume types are {', '.join(sorted(VOLUME_TYPES))}"
        hint = f"; did you mean {near[0]}?" if near else ""
        return [RuleBroken("UnknownVolumeType", f"{type!r} is not a volume type: {rule}{hint}", rule)]
    return [
        *_size_problems(kind, size_gib),
        *_iops_problems(kind, size_gib, iops),
        *_throughput_problems(kind, iops, throughput_mib),
        *_io_unit_problems(kind, io_unit),
        *_share_problems("first_touch", first_touch, FIRST_TOUCH_SOURCE),
        *_share_problems("large_writes", large_writes, LARGE_WRITES_SOURCE),
    ]


def _size_problems(kind: VolumeType, size_gib: int | None) -> list[RuleBroken]:
    low, high = kind.size_range
    rule = f"{kind.name} volumes are {low:,} to {high:,} GiB"
    if size_gib is None:
        return [_broken(kind, "MissingParameter", "the request names no size", rule)]
    if size_gib < low:
        return [_broken(kind, "InvalidParameterValue", f"a size of {size_gib:,} GiB is too small", rule)]
    if size_gib > high:
        return [_broken(kind, "InvalidParameterValue", f"a size of {size_gib:,} GiB is too large", rule)]
    return []


def _iops_problems(kind: VolumeType, size_gib: int | None, iops: int | None) -> list[RuleBroken]:
    if kind.iops_range is None:
        if iops is None:
            return []
        rule = f"{kind.name} volumes take no IOPS figure: it follows from the size"
        return [_broken(kind, "InvalidParameterCombination", f"the request names {iops:,} IOPS", rule)]
    low, high = kind.iops_range
    rule = f"{kind.name} volumes take {low:,} to {high:,} IOPS"
    if iops is None:
        if kind.iops_default is not None:
            return []
        return [_broken(kind, "MissingParameter", "the request names no IOPS", rule)]
    if iops < low:
        return [_broken(kind, "InvalidParameterValue", f"{iops:,} IOPS are too few", rule)]
    found = []
    if iops > high:
        found.append(_broken(kind, "InvalidParameterValue", f"{iops:,} IOPS are too many", rule))
    if size_gib is not None and size_gib > 0 and kind.iops_per_gib is not None:
        most = max(kind.iops_free_of_ratio, kind.iops_per_gib * size_gib)
        if iops > most:
            per_gib = f"{kind.name} volumes take at most {kind.iops_per_gib:,} IOPS per GiB"
            what = f"{iops:,} IOPS on {size_gib:,} GiB are {figure(iops / size_gib)} per GiB"
            found.append(_broken(kind, "InvalidParameterValue", what, f"{per_gib}, here {most:,}"))
    return found


def _throughput_problems(
    kind: VolumeType, iops: int | None, throughput_mib: float | None
) -> list[RuleBroken]:
    if throughput_mib is None:
        return []
    asked = f"{figure(throughput_mib)} MiB/s"
    if kind.throughput_range is None:
        rule = f"{kind.name} volumes take no throughput figure"
        return [_broken(kind, "InvalidParameterCombination", f"the request names {asked}", rule)]
    low, high = kind.throughput_range
    rule = f"{kind.name} volumes take {low:,} to {high:,} MiB/s"
    if throughput_mib < low:
        return [_broken(kind, "InvalidParameterValue", f"{asked} are too few", rule)]
    found = []
    if throughput_mib > high:
        found.append(_broken(kind, "InvalidParameterValue", f"{asked} are too many", rule))
    effective = iops if iops is not None else kind.iops_default
    if kind.throughput_per_iops is not None and effective is not None and effective > 0:
        most = kind.throughput_per_iops * effective
        if throughput_mib > most:
            rule = (
                f"{kind.name} volumes take at most {kind.throughput_per_iops} MiB/s per IOPS, "
                f"here {figure(most)} MiB/s"
            )
            what = f"{asked} with {effective:,} IOPS are {throughput_mib / effective:.3f} per IOPS"
            found.append(_broken(kind, "InvalidParameterValue", what, rule))
    return found


def _io_unit_problems(kind: VolumeType, io_unit: Size | None) -> list[RuleBroken]:
    if io_unit is None:
        return []
    if kind.is_hdd:
        rule = f"{kind.name} volumes count in units of {kind.io_unit}, on which their throughput depends"
    elif SMALLEST_IO_UNIT <= io_unit <= kind.io_unit and io_unit.bytes.bit_count() == 1:
        return []
    else:
        rule = f"an I/O unit is a power of two from {SMALLEST_IO_UNIT} to {kind.io_unit}"
    message = f"invalid io_unit={io_unit}: {rule}"
    return [RuleBroken("InvalidParameterValue", message, rule, IO_UNIT_SOURCE, kind.date)]


def _share_problems(name: str, share: float | None, source: str) -> list[RuleBroken]:
    if share is None or SMALLEST_SHARE <= share < 1:
        return []
    rule = f"{name} is a share of the volume's rate, from {SMALLEST_SHARE} to less than 1"
    return [RuleBroken("InvalidParameterValue", f"invalid {name}={share:g}: {rule}", rule, source)]


def _broken(kind: VolumeType, code: str, what: str, rule: str) -> RuleBroken:
    return RuleBroken(code, f"{what}: {rule}", rule, kind.source, kind.date)
