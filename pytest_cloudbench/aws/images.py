"""The machine image that an instance boots, and the user that logs in to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import ImageFacts

from .clients import Clients
from .errors import UnusableImage

# AWS publishes the newest Amazon Linux 2023 image of each architecture under these SSM parameters.
DEFAULT_PARAMETER = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{architecture}"
_LINUX_ARCHITECTURES = ("x86_64", "arm64")

# Login users of the vendors' own images: (owner account or alias, pattern of the image's name, user). Owners from the
# vendors' pages, 2026-11. The name alone suffices, because copies of an image may keep it.
_LOGIN_USERS: tuple[tuple[str, str, str], ...] = (
    ("137112412989", r"^(al2023|amzn)", "ec2-user"),
    ("099720109477", r"ubuntu", "ubuntu"),
    ("136693071363", r"^debian", "admin"),
    ("309956199498", r"^rhel", "ec2-user"),
    ("013907871322", r"^suse", "ec2-user"),
    ("792107900819", r"^rocky", "rocky"),
    ("764336703387", r"^almalinux", "ec2-user"),
)


def architecture_for(type_name: str, architectures: Sequence[str]) -> str:
    """Return the architecture of the Linux image for a type. Raises UnusableImage for types without Linux (Mac)."""
    for architecture in _LINUX_ARCHITECTURES:
        if architecture in architectures:
            return architecture
    raise UnusableImage(
        f"{type_name} has the architecture {', '.join(architectures) or 'unknown'}; "
        f"cloudbench runs Linux on {' or '.join(_LINUX_ARCHITECTURES)} only"
    )


def guess_login_user(name: str, owner: str) -> str | None:
    """Return the login user of an image by its name and owner; None if unknown."""
    for known_owner, pattern, user in _LOGIN_USERS:
        if owner == known_owner or re.search(pattern, name, re.IGNORECASE):
            return user
    return None


class Images:
    """Finds images. It creates nothing."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._found: dict[str, dict[str, Any]] = {}

    def find(
        self, type_name: str, architectures: Sequence[str], image: str | None = None, user: str | None = None
    ) -> ImageFacts:
        """Return the image for an instance of `type_name`.

        image: an AMI id, the path of an SSM parameter (with or without "resolve:ssm:"), or None for Amazon Linux 2023.
        user: the login user; None to derive it from the image's name and owner.
        Raises UnusableImage if it does not exist, is not Linux, has another architecture or an unknown login user.
        """
        own = architecture_for(type_name, architectures)
        asked = image or DEFAULT_PARAMETER.format(architecture=own)
        description = self._describe(self._resolve(asked))
        _check(description, type_name, architectures)
        name, owner = description.get("Name", ""), description.get("OwnerId", "")
        login_user = user or guess_login_user(name, owner)
        if not login_user:
            raise UnusableImage(
                f"the login user of image {description['ImageId']} ({name or 'no name'}) is unknown: give user=..."
            )
        root_device = description.get("RootDeviceName", "")
        return ImageFacts(
            id=description["ImageId"],
            name=name,
            architecture=description.get("Architecture", own),
            login_user=login_user,
            root_device=root_device,
            root_size_gib=_size_of(root_device, description),
            asked=asked,
        )

    def of_instance(self, instance: Mapping[str, Any], user: str | None) -> ImageFacts:
        """Return the image of an existing instance; the name is "" if the image no longer exists.

        Raises UnusableImage if the login user is neither given nor known.
        """
        image_id = str(instance.get("ImageId") or "")
        try:
            description = self._describe(image_id)
        except UnusableImage:
            description = {}
        name, owner = description.get("Name", ""), description.get("OwnerId", "")
        login_user = user or guess_login_user(name, owner)
        if not login_user:
            raise UnusableImage(
                f"the login user of instance {instance['InstanceId']} is unknown, as its image {image_id} "
                f"({name or 'which no longer exists'}) does not tell: give user=..., or --cloudbench-user"
            )
        return ImageFacts(
            id=image_id,
            name=name,
            architecture=str(instance.get("Architecture") or ""),
            login_user=login_user,
            root_device=str(instance.get("RootDeviceName") or ""),
        )

    def _resolve(self, asked: str) -> str:
        parameter = asked.removeprefix("resolve:ssm:")
        if asked.startswith("ami-"):
            return asked
        if not (parameter.startswith("/") or asked != parameter):
            raise UnusableImage(
                f"image {asked!r} is neither an AMI id (ami-...) nor an SSM parameter path (/aws/service/...)"
            )
        if parameter not in self._found:
            try:
                answer = self._clients.repeat_call(
                    f"read the SSM parameter {parameter}", "get_parameter", service="ssm", Name=parameter
                )
            except CloudError as error:
                if error.code in ("ParameterNotFound", "ParameterVersionNotFound"):
                    raise UnusableImage(
                        f"there is no SSM parameter {parameter} in {self._clients.region}", code=error.code
                    ) from error
                raise
            self._found[parameter] = answer["Parameter"]
        value = str(self._found[parameter].get("Value", ""))
        if not value.startswith("ami-"):
            raise UnusableImage(f"the SSM parameter {parameter} holds {value[:60]!r}, which is not an AMI id")
        return value

    def _describe(self, image_id: str) -> dict[str, Any]:
        if image_id not in self._found:
            try:
                images = self._clients.repeat_call(
                    f"describe image {image_id}", "describe_images", ImageIds=[image_id]
                )["Images"]
            except CloudError as error:
                if not error.code.startswith("InvalidAMIID"):
                    raise
                images = []
            if not images:
                raise UnusableImage(
                    f"there is no image {image_id} in {self._clients.region} that these credentials may use",
                    code="InvalidAMIID.NotFound",
                )
            self._found[image_id] = images[0]
        return self._found[image_id]


def _size_of(device: str, description: Mapping[str, Any]) -> int | None:
    for mapping in description.get("BlockDeviceMappings", []):
        if mapping.get("DeviceName") == device:
            size: int | None = mapping.get("Ebs", {}).get("VolumeSize")
            return size
    return None


def _check(description: Mapping[str, Any], type_name: str, architectures: Sequence[str]) -> None:
    image_id = description["ImageId"]
    platform = f"{description.get('Platform', '')} {description.get('PlatformDetails', '')}".lower()
    if "windows" in platform:
        raise UnusableImage(
            f"image {image_id} ({description.get('Name', '')}) is Windows; cloudbench runs Linux only"
        )
    state = description.get("State", "available")
    if state != "available":
        raise UnusableImage(f"image {image_id} is {state!r}, not available")
    architecture = description.get("Architecture")
    if architecture and architecture not in architectures:
        raise UnusableImage(
            f"image {image_id} is for {architecture}, {type_name} needs {' or '.join(architectures)}"
        )
