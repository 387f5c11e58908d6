"""Checks of requests on instances, which refuse what the real service refuses before anything changes.

Pure functions of plain values. Each returns the admitted value or raises `Refusal`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pytest_cloudbench.limits.instances import nearest_names

from .images import Image
from .refusal import Refusal, invalid_combination, invalid_value, required, unsupported, well_formed_id

MAX_USER_DATA_BYTES = 16 * 1024  # Amazon EC2 User Guide, "Run commands when you launch", 2026-11

_PROFILE_NAME = re.compile(r"[\w+=,.@-]{1,128}")
_PROFILE_ARN = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:instance-profile/[\w+=,.@/-]{1,512}")


def admitted_image(image_id: str | None, images: Mapping[str, Image]) -> Image:
    """Return the image of this id."""
    image_id = well_formed_id("ami", required(image_id, "ImageId"))
    if image_id not in images:
        raise Refusal("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist.")
    return images[image_id]


def admitted_profile(asked: Mapping[str, Any] | None, account: str) -> dict[str, str] | None:
    """Return an instance profile as instances show it, by its ARN and id. Every well-formed name is accepted."""
    if not asked:
        return None
    name, arn = asked.get("Name"), asked.get("Arn")
    if name and arn:
        raise invalid_combination(
            "The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'"
        )
    if arn and not _PROFILE_ARN.fullmatch(arn):
        raise invalid_value(
            f"Value ({arn}) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN"
        )
    if not arn and not _PROFILE_NAME.fullmatch(name or ""):
        raise invalid_value(
            f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        )
    arn = arn or f"arn:aws:iam::{account}:instance-profile/{name}"
    return {"Arn": arn, "Id": f"AIPA{hashlib.sha256(arn.encode()).hexdigest()[:17].upper()}"}


def admitted_type(name: str, catalogue: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the catalogue's entry of an instance type, in the form of DescribeInstanceTypes."""
    if name not in catalogue:
        raise invalid_value(f"Invalid value '{name}' for InstanceType.{_did_you_mean(name, catalogue)}")
    return catalogue[name]


def refuse_unknown_types(names: Iterable[str], catalogue: Mapping[str, dict[str, Any]]) -> None:
    """Refuse a DescribeInstanceTypes request if any of its names is unknown, as the service does."""
    unknown = [name for name in names if name not in catalogue]
    if unknown:
        hints = "".join(_did_you_mean(name, catalogue) for name in unknown)
        raise Refusal(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(unknown)}].{hints}",
        )


def _did_you_mean(name: str, catalogue: Collection[str]) -> str:
    near = nearest_names(name, catalogue)
    return f" Nearest names: {', '.join(near)}." if near else ""


def refuse_other_architecture(image: Image, type_name: str, architectures: Collection[str]) -> None:
    """Refuse an image on a type of another architecture."""
    if image.architecture not in architectures:
        raise invalid_value(
            f"The architecture '{image.architecture}' of the specified image {image.id} ({image.name}) does not "
            f"match the architecture '{', '.join(architectures)}' of the specified instance type {type_name}. "
            "Specify an instance type and an image that have the same architecture."
        )


def admitted_cpu_options(asked: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, int]:
    """Return the cores and threads of an instance, which are those of its type."""
    cpu = entry.get("VCpuInfo") or {}
    threads = cpu.get("DefaultThreadsPerCore") or 1
    options = {
        "CoreCount": cpu.get("DefaultCores") or cpu.get("DefaultVCpus", 1) // threads,
        "ThreadsPerCore": threads,
    }
    for name, value in asked.items():
        if value != options.get(name):
            raise unsupported(
                f"This region launches instances with the CPU options of their type only: {options}."
            )
    return options


def admitted_count(least: int, most: int) -> int:
    """Return how many instances a request launches: its maximum, since capacity is never short here."""
    if least < 1 or most < 1:
        raise invalid_value("MinCount and MaxCount must each be at least 1.")
    if least > most:
        raise invalid_combination(f"MinCount ({least}) must not be greater than MaxCount ({most}).")
    return most


def admitted_zone(type_name: str, asked: str | None, offered: Collection[str], zones: Collection[str]) -> str:
    """Return the zone for a launch: the requested one, or the first that offers the type.

    ``offered`` are the zones that offer the type. If none of them is in this region, all its zones offer it.
    """
    if asked and asked not in zones:
        raise invalid_value(f"Invalid availability zone: [{asked}]. This region has {', '.join(zones)}.")
    possible = [zone for zone in zones if zone in offered] or list(zones)
    if asked and asked not in possible:
        raise Refusal(
            "Unsupported",
            f"Your requested instance type ({type_name}) is not supported in your requested Availability Zone "
            f"({asked}). Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(possible)}.",
        )
    return asked or possible[0]


def admitted_user_data(encoded: Any) -> bytes:
    """Return the decoded user data; empty if there is none."""
    if encoded is None or encoded == "":
        return b""
    raw = encoded if isinstance(encoded, bytes) else str(encoded).encode()
    try:
        user_data = base64.b64decode(raw, validate=True)
    except binascii.Error:
        raise Refusal("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(user_data) > MAX_USER_DATA_BYTES:
        raise invalid_value(
            f"User data is limited to {MAX_USER_DATA_BYTES} bytes before encoding; this has {len(user_data)}."
        )
    return user_data
