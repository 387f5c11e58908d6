"""Checks of requests on volumes, which refuse what the real service refuses before anything changes.

Pure functions of plain values. Each returns the admitted value or raises `Refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_rules import volume_problems
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import (
    FIRST_TOUCH_TAG,
    IO_UNIT_TAG,
    LARGE_WRITES_TAG,
    InvalidSpec,
    VolumeSpec,
)

from .refusal import Refusal, invalid_combination, invalid_value, required

MODIFICATIONS_A_DAY = 4  # Amazon EBS User Guide, "Requirements for EBS volume modifications", 2026-11

# /dev/sd[a-z], /dev/sd[a-z] with a partition number from 1 to 15, /dev/xvd[a-z], two letters up to /dev/xvddx, and
# /dev/xvda[0-9]. /dev/sda1 is for root devices.
_DEVICE_NAME = re.compile(
    r"(?:/dev/)?(?:sd[a-z](?:1[0-5]|[1-9])?|xvd[a-z]|xvd[a-c][a-z]|xvdd[a-x]|xvda[0-9])"
)


def admitted_spec(
    volume_type: str,
    size_gib: int | None,
    iops: int | None,
    throughput_mib: int | None,
    io_unit: Size | None = None,
    *,
    first_touch: float | None = None,
) -> VolumeSpec:
    """Return the spec of the volume that a request describes, checked against the rules of its type.

    ``io_unit`` comes from `admitted_io_unit`, ``first_touch`` from `admitted_first_touch`.
    """
    if volume_type not in VOLUME_TYPES:
        known = ", ".join(VOLUME_TYPES)
        raise invalid_value(f"Invalid value '{volume_type}' for VolumeType. Valid types: {known}.")
    size_gib = required(size_gib, "size/snapshot")
    if problems := volume_problems(
        volume_type, size_gib, iops, throughput_mib, io_unit, first_touch=first_touch
    ):
        raise Refusal(problems[0].code, "; ".join(problem.message for problem in problems))
    return VolumeSpec.of(volume_type, size_gib, iops, throughput_mib, io_unit, first_touch=first_touch)


def admitted_io_unit(tags: Mapping[str, str]) -> Size | None:
    """Return the I/O unit in a new volume's tags, which only this region reads; None if there is none."""
    text = tags.get(IO_UNIT_TAG)
    if text is None:
        return None
    try:
        return Size.parse(text)
    except ValueError as error:
        raise invalid_value(f"The tag {IO_UNIT_TAG} is not an I/O unit: {error}") from None


def admitted_first_touch(tags: Mapping[str, str], *, from_snapshot: bool) -> float | None:
    """Return the share of the rate that blocks deliver until first use, from tags that only this region reads."""
    share = _tagged_share(tags, FIRST_TOUCH_TAG, 0.5)
    if share is not None and from_snapshot:
        raise invalid_combination(
            f"The tag {FIRST_TOUCH_TAG} is for empty volumes: a volume made from a snapshot is slow until its data "
            "has been read."
        )
    return share


def with_planted_weakness(spec: VolumeSpec, tags: Mapping[str, str]) -> VolumeSpec:
    """Return the spec with the share of the rate that large writes get, from tags that only this region reads."""
    share = _tagged_share(tags, LARGE_WRITES_TAG, 0.25)
    if share is None:
        return spec
    try:
        return replace(spec, large_writes=share).check()
    except InvalidSpec as error:
        raise invalid_value(str(error)) from None


def _tagged_share(tags: Mapping[str, str], tag: str, example: float) -> float | None:
    text = tags.get(tag)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise invalid_value(
            f"The tag {tag} must be a share of a rate such as {example}, got {text!r}."
        ) from None


def admitted_device_name(device_name: str | None) -> str:
    """Return the given device name if EC2 accepts it: /dev/sdf, xvdba, /dev/sdf1."""
    device_name = required(device_name, "device")
    if not _DEVICE_NAME.fullmatch(device_name):
        raise invalid_value(
            f"Value ({device_name}) for parameter device is invalid. {device_name} is not a valid EBS device "
            "name. Names look like /dev/sdf or /dev/xvdf."
        )
    return device_name


def admitted_card(index: int | None, limits: InstanceLimits) -> int:
    """Return the EBS card of an attachment, card 0 if the request names none."""
    if index:
        try:
            limits.ebs_card(index)
        except ValueError as error:
            raise invalid_value(f"Invalid value '{index}' for EbsCardIndex: {error}") from None
    return index or 0


def same_attachment_point(one: str, other: str) -> bool:
    """Return True if two device names mean the same place, as /dev/sdf and xvdf do."""
    return _attachment_point(one) == _attachment_point(other)


def _attachment_point(device_name: str) -> str:
    name = device_name.removeprefix("/dev/").removeprefix("xv").removeprefix("s")
    return name.removesuffix("1") if name in ("da", "da1") else name
