"""What the real service refuses about volumes, before anything is created or changed.

Pure functions over plain values. Each returns what was admitted or raises `Refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_rules import volume_problems
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import FIRST_TOUCH_TAG, IO_UNIT_TAG, VolumeSpec

from .refusal import Refusal

MODIFICATIONS_A_DAY = 4  # Amazon EBS User Guide, "Requirements for EBS volume modifications", 2026-11

# /dev/sda1 is for root devices; /dev/sd[b-z] and /dev/xvd[a-z] with one more letter or a partition number.
_DEVICE_NAME = re.compile(r"(?:/dev/)?(?:sd[a-z](?:1[0-5]|[1-9])?|xvd[a-z]|xvd[b-d][a-z]|xvda[0-9]?)")
_VOLUME_ID = re.compile(r"vol-(?:[0-9a-f]{8}|[0-9a-f]{17})")


def admitted_spec(
    volume_type: str,
    size_gib: int | None,
    iops: int | None,
    throughput_mib: int | None,
    io_unit: Size | None = None,
    *,
    first_touch: float | None = None,
) -> VolumeSpec:
    """The volume that a request describes, proven against the rules of its type.

    ``io_unit`` is one other than the type's own, as `admitted_io_unit` finds it, ``first_touch`` what
    `admitted_first_touch` finds.
    """
    if volume_type not in VOLUME_TYPES:
        known = ", ".join(VOLUME_TYPES)
        raise Refusal(
            "InvalidParameterValue", f"Invalid value '{volume_type}' for VolumeType. Valid types: {known}."
        )
    if size_gib is None:
        raise Refusal("MissingParameter", "The request must contain the parameter size or snapshotId.")
    if problems := volume_problems(
        volume_type, size_gib, iops, throughput_mib, io_unit, first_touch=first_touch
    ):
        raise Refusal(problems[0].code, " ".join(problem.message for problem in problems))
    return VolumeSpec.of(volume_type, size_gib, iops, throughput_mib, io_unit, first_touch=first_touch)


def admitted_io_unit(tags: Mapping[str, str]) -> Size | None:
    """The I/O unit that a new volume's tags ask for, None where they do not: a matter of this region alone."""
    text = tags.get(IO_UNIT_TAG)
    if text is None:
        return None
    try:
        return Size.parse(text)
    except ValueError as error:
        raise Refusal("InvalidParameterValue", f"The tag {IO_UNIT_TAG} is no I/O unit: {error}") from None


def admitted_first_touch(tags: Mapping[str, str], *, from_snapshot: bool) -> float | None:
    """The share of its rate that a new volume gives at first, as its tags ask for it: a matter of this region alone."""
    text = tags.get(FIRST_TOUCH_TAG)
    if text is None:
        return None
    if from_snapshot:
        raise Refusal(
            "InvalidParameterCombination",
            f"The tag {FIRST_TOUCH_TAG} is for empty volumes: one made from a snapshot is slow by itself until it "
            "was read.",
        )
    try:
        return float(text)
    except ValueError:
        raise Refusal(
            "InvalidParameterValue", f"The tag {FIRST_TOUCH_TAG} is no share of a rate such as 0.5: {text!r}."
        ) from None


def admitted_volume_id(volume_id: str | None) -> str:
    """A well-formed volume id; whether the volume exists is asked of the region."""
    if not volume_id:
        raise Refusal("MissingParameter", "The request must contain the parameter volumeId.")
    if not _VOLUME_ID.fullmatch(volume_id):
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({volume_id}) for parameter volume is invalid. Expected: 'vol-...'.",
        )
    return volume_id


def admitted_device_name(device_name: str | None) -> str:
    """A device name as the service accepts it: /dev/sdf, xvdba, /dev/sdf1."""
    if not device_name:
        raise Refusal("MissingParameter", "The request must contain the parameter device.")
    if not _DEVICE_NAME.fullmatch(device_name):
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({device_name}) for parameter device is invalid. {device_name} is not a valid EBS device "
            "name. Names look like /dev/sdf or /dev/xvdf.",
        )
    return device_name


def same_attachment_point(one: str, other: str) -> bool:
    """Whether two device names mean the same place: /dev/sdf and xvdf do."""
    return _attachment_point(one) == _attachment_point(other)


def _attachment_point(device_name: str) -> str:
    name = device_name.removeprefix("/dev/").removeprefix("xv").removeprefix("s")
    return name.removesuffix("1") if name in ("da", "da1") else name


def refuse_shrinking(volume_id: str, size_gib: int, target_gib: int) -> None:
    """A volume never becomes smaller."""
    if target_gib < size_gib:
        raise Refusal(
            "InvalidParameterValue",
            f"New size cannot be smaller than existing size: volume {volume_id} has {size_gib} GiB, "
            f"{target_gib} GiB were asked for.",
        )
