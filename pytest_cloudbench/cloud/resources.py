"""What the control plane hands out: instances, volumes, places, images, as immutable facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pytest_cloudbench.promises.ceilings import MachineLimits
from pytest_cloudbench.promises.instances import InstanceLimits
from pytest_cloudbench.promises.quantities import Iops, Size, Throughput
from pytest_cloudbench.promises.volumes import VolumeSpec

from .tags import as_dict

# Tags that only the service itself can set ("aws:" is refused from anybody else): what the machine behind
# an instance can serve at all, where a region knows and publishes that.
MACHINE_IOPS_TAG = "aws:cloudbench:machine-iops"
MACHINE_THROUGHPUT_TAG = "aws:cloudbench:machine-bytes-per-second"
MACHINE_ROOM_TAG = "aws:cloudbench:machine-free-bytes"


@dataclass(frozen=True)
class Placement:
    """Where an instance goes: an availability zone and a subnet in it."""

    zone: str
    subnet_id: str
    vpc_id: str


@dataclass(frozen=True)
class ImageFacts:
    """A Linux machine image: `login_user` is who SSH logs in as, `asked` how it was named.

    `root_size_gib` is None where the image does not tell, or has no root volume in EBS.
    """

    id: str
    name: str
    architecture: str
    login_user: str
    root_device: str
    root_size_gib: int | None
    asked: str


@dataclass(frozen=True)
class Attachment:
    """A volume on an instance, under the device name of the AttachVolume call (not the name in /dev)."""

    volume_id: str
    instance_id: str
    device: str
    state: str


@dataclass(frozen=True)
class LaunchedInstance:
    """An instance of this run as the API last described it; `Cloud.refresh` gives a newer one.

    private_key is the OpenSSH private key that logs in as login_user; host_public_key is the line
    ("ssh-ed25519 AAAA...") that sshd must present. Both stay in memory and out of repr.
    """

    id: str
    type: str
    zone: str
    state: str
    private_ip: str | None
    public_ip: str | None
    address: str | None
    limits: InstanceLimits
    image: ImageFacts
    key_name: str
    private_key: str = field(repr=False)
    host_public_key: str = field(repr=False)
    vpc_id: str = ""
    subnet_id: str = ""
    launched: datetime | None = None
    attachments: tuple[Attachment, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def login_user(self) -> str:
        """Who SSH logs in as."""
        return self.image.login_user

    @property
    def machine_limits(self) -> MachineLimits | None:
        """What the machine behind this instance can serve, where the region publishes that, else None."""
        return machine_limits(self.tags)

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


@dataclass(frozen=True)
class CreatedVolume:
    """A volume of this run. `attachment` is where it hangs, None while it is free."""

    id: str
    spec: VolumeSpec
    zone: str
    size: Size
    state: str
    attachment: Attachment | None = None
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> str | None:
        """The device name of the AttachVolume call; on NVMe instances /dev shows another one."""
        return self.attachment.device if self.attachment else None

    @property
    def serial(self) -> str:
        """What the NVMe device shows as its serial number: the id without its dash."""
        return self.id.replace("-", "", 1)

    def __str__(self) -> str:
        return f"{self.spec} {self.id}"


@dataclass(frozen=True)
class Leftover:
    """Something tagged with the run that still exists. `kind` is a word for people: "instance", "volume" ..."""

    kind: str
    id: str
    state: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}" + (f" ({self.state})" if self.state else "")


def machine_limits(tags: Mapping[str, str]) -> MachineLimits | None:
    """The machine's own limits out of an instance's tags; None unless both figures are there and positive."""
    try:
        iops = float(tags[MACHINE_IOPS_TAG])
        bytes_per_second = float(tags[MACHINE_THROUGHPUT_TAG])
    except (KeyError, ValueError):
        return None
    if iops <= 0 or bytes_per_second <= 0:
        return None
    return MachineLimits(
        iops=Iops(iops),
        throughput=Throughput(bytes_per_second),
        source=f"instance tags {MACHINE_IOPS_TAG} and {MACHINE_THROUGHPUT_TAG}",
        room=Size(int(room)) if (room := tags.get(MACHINE_ROOM_TAG, "")).isdecimal() else None,
    )


def attachment_of(entry: Mapping[str, Any], *, volume_id: str = "", instance_id: str = "") -> Attachment:
    """An attachment as DescribeVolumes or AttachVolume shows it."""
    return Attachment(
        volume_id=entry.get("VolumeId", volume_id),
        instance_id=entry.get("InstanceId", instance_id),
        device=entry.get("Device", ""),
        state=entry.get("State", ""),
    )


def instance_attachments(description: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """The attachments in one instance of a DescribeInstances answer, the root volume among them."""
    return tuple(
        Attachment(
            volume_id=mapping["Ebs"]["VolumeId"],
            instance_id=description["InstanceId"],
            device=mapping.get("DeviceName", ""),
            state=mapping["Ebs"].get("Status", ""),
        )
        for mapping in description.get("BlockDeviceMappings", [])
        if mapping.get("Ebs", {}).get("VolumeId")
    )


def tags_of(description: Mapping[str, Any]) -> dict[str, str]:
    """The tags of one described resource."""
    return as_dict(description.get("Tags"))
