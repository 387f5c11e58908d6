"""moto's EC2 state with this region's own zones, addresses, images and volume states.

Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from moto.core.utils import utcnow
from moto.ec2 import utils as moto_utils
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.elastic_block_store import Snapshot, Volume
from moto.ec2.models.instance_types import (
    INSTANCE_TYPE_OFFERINGS,
    INSTANCE_TYPES,
    InstanceType,
    InstanceTypeBackend,
)
from moto.ec2.utils import random_snapshot_id, random_volume_id

from pytest_cloudbench.limits.instances import OVERRIDES
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.twin.slots import ZONES, Slot

from . import capacity_reservations, placement_groups
from .capacity_reservations import CapacityReservations
from .images import Image, known_images
from .moto_loading import ACCOUNT, REGION
from .placement_groups import PlacementGroups
from .region_network import AddressSource, NetworkBackend

EBS_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0c10dbe0-0000-4000-8000-00000000eb50"


# Families that AWS calls previous generation. moto's catalogue wrongly adds c5, m5, r5 and six later ones.
_PREVIOUS_GENERATION = frozenset("a1 c1 c3 c4 d2 g3 i2 m1 m2 m3 m4 p2 r3 r4 t1".split())  # noqa: SIM905


class RegionVolume(Volume):  # type: ignore[misc]  # moto is not typed here
    """A volume whose state follows its disk; moto's volumes are only available or in use.

    ``disk_state`` is creating, available, deleting or error; a volume with an attachment is in use. If it
    ``backs_root``, it is the root volume of an instance and has no disk of its own.
    """

    def __init__(self, *args: Any, spec: VolumeSpec, **kwargs: Any) -> None:
        super().__init__(*args, size=spec.size_gib, **kwargs)
        self.disk_state = "creating"
        self.multi_attach_enabled = False
        self.backs_root = False
        self.set_spec(spec)

    @property
    def availability_zone_id(self) -> str:
        return str(self.zone.zone_id)

    @property
    def status(self) -> str:
        return "in-use" if self.attachment else self.disk_state

    def set_spec(self, spec: VolumeSpec) -> None:
        """Describe the volume by ``spec`` from now on."""
        self.spec = spec
        for name, figure in described_figures(spec).items():
            setattr(self, name, figure)


def described_figures(spec: VolumeSpec) -> dict[str, Any]:
    """Return the figures that the service shows for a volume, by their names in moto."""
    kind = VOLUME_TYPES[spec.type]
    shows_iops = kind.takes_iops or (kind.iops is not None and kind.iops.per > 0)
    return {
        "size": spec.size_gib,
        "volume_type": spec.type,
        "iops": spec.iops if shows_iops else None,
        "throughput": int(spec.throughput_mib or 0) if kind.takes_throughput else None,
    }


class RegionSnapshot(Snapshot):  # type: ignore[misc]  # moto is not typed here
    """A snapshot of a volume of the region, whose state follows its data: pending, completed or error."""

    def __init__(self, volume: RegionVolume, description: str, percent: Callable[[str], int]) -> None:
        super().__init__(
            volume.ec2_backend,
            random_snapshot_id(),
            volume,
            description,
            encrypted=volume.encrypted,
            kms_key_id=volume.kms_key_id,
        )
        self.status = "pending"
        self.status_message: str | None = None
        self._size_gib = int(volume.size)  # the volume may grow later
        self._percent = percent

    @property
    def volume_size(self) -> int:
        return self._size_gib

    @property
    def progress(self) -> str:
        return "100%" if self.status == "completed" else f"{self._percent(self.id)}%"


class RegionImage(Ami):  # type: ignore[misc]  # moto is not typed here
    """An image, with the root volume of its instances."""

    def __init__(self, backend: Any, image: Image) -> None:
        self.root_size_gib = image.root_size_gib
        super().__init__(
            backend,
            image.id,
            name=image.name,
            description=image.description,
            owner_id=image.owner_id,
            owner_alias=image.owner_alias,
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            image_location=f"{image.owner_alias or image.owner_id}/{image.name}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=image.root_device_name,
            region_name=backend.zone_names[0],
            boot_mode=image.boot_mode,
        )
        self.creation_date = datetime.strptime(image.creation_date, "%Y-%m-%dT%H:%M:%S.%f%z")
        self.image_owner_alias = self.ebs_snapshot.owner_alias = image.owner_alias
        self.ena_support = True
        self.sriov_net_support = "simple"
        self.platform_details = "Linux/UNIX"
        self.usage_operation = "RunInstances"
        self.imds_support = "v2.0" if image.owner_alias == "amazon" else None

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        return [
            {
                "DeviceName": self.root_device_name,
                "Ebs": {
                    "SnapshotId": self.ebs_snapshot.id,
                    "VolumeSize": self.root_size_gib,
                    "DeleteOnTermination": True,
                    "VolumeType": "gp3",
                    "Iops": 3000,
                    "Throughput": 125,
                    "Encrypted": False,
                },
            }
        ]


class RegionBackend(NetworkBackend):
    """The EC2 state of one region: networks, the region's images, instances and volumes."""

    def __init__(self, slot: Slot, addresses: AddressSource) -> None:
        zones = RegionsAndZonesBackend.zones
        zones[REGION] = zones[REGION][:ZONES]
        zone_networks = {zone.name: slot.zone_network(index) for index, zone in enumerate(zones[REGION])}
        self.placement_groups = PlacementGroups()
        self.capacity_reservations = CapacityReservations()
        super().__init__(addresses, slot.network, zone_networks)
        self.regions = [region for region in RegionsAndZonesBackend.regions if region.name == REGION]
        # With this set, moto does not load its key service for an encrypted volume.
        self.default_kms_key_id = EBS_KEY
        for image in known_images().values():
            self.amis[image.id] = RegionImage(self, image)

    def create_volume(
        self,
        *,
        zone_name: str = "",
        snapshot_id: str | None = None,
        encrypted: bool = False,
        kms_key_id: str | None = None,
        spec: VolumeSpec | None = None,
        size: int | None = None,
        volume_type: str | None = None,
        **_unused: Any,
    ) -> RegionVolume:
        """Return a new volume in the state creating. The caller has checked ``spec``.

        moto calls this for root volumes, with ``size`` and ``volume_type`` only.
        """
        spec = spec or VolumeSpec(volume_type or "gp2", int(size or 1))
        encrypted = encrypted or self.ebs_encryption_by_default
        volume = RegionVolume(
            self,
            volume_id=random_volume_id(),
            zone=self.get_zone_by_name(zone_name),
            snapshot_id=snapshot_id,
            encrypted=encrypted,
            kms_key_id=(kms_key_id or self.default_kms_key_id) if encrypted else None,
            spec=spec,
        )
        self.volumes[volume.id] = volume
        return volume

    def record_attachment(
        self,
        volume: RegionVolume,
        instance: Any,
        device: str,
        *,
        delete_too: bool,
        card: int,
    ) -> Any:
        """Record on volume and instance that the volume is attaching. ``delete_too``: delete it with the instance."""
        attachment = self.attach_volume(volume.id, instance.id, device, delete_too)
        attachment.delete_on_termination = delete_too
        attachment.ebs_card_index = instance.block_device_mapping[device].ebs_card_index = card
        self.set_attachment_status(volume, "attaching")
        return attachment

    def set_attachment_status(self, volume: RegionVolume, status: str) -> None:
        """Set the state of an attachment, which the volume and its instance both show."""
        attachment = volume.attachment
        attachment.status = status
        mapping = attachment.instance.block_device_mapping.get(attachment.device)
        if mapping is not None:
            mapping.status = status

    def remove_attachment(self, volume: RegionVolume) -> None:
        """Remove the attachment from volume and instance; the volume is available again."""
        attachment = volume.attachment
        if attachment is None:
            return
        attachment.instance.block_device_mapping.pop(attachment.device, None)
        attachment.status = "detached"
        volume.attachment = None
        volume.disk_state = "available"

    def forget(self, resource: RegionVolume | RegionSnapshot) -> None:
        """Remove a volume or a snapshot and its tags."""
        for resources in (self.volumes, self.snapshots, self.tags):
            resources.pop(resource.id, None)

    def forget_tags_of_removed(self) -> None:
        """Remove the tags that moto keeps of deleted resources."""
        groups = [group for of_vpc in self.groups.values() for group in of_vpc.values()]
        rules = [rule for group in groups for rule in (*group.ingress_rules, *group.egress_rules)]
        living: dict[str, Collection[str]] = {
            "eipalloc": [address.allocation_id for address in self.addresses],
            "eni": self.enis,
            "igw": self.internet_gateways,
            "key": [pair.id for pair in self.key_pairs.values()],
            "lt": self.launch_templates,
            "rtb": self.route_tables,
            "sg": [group.id for group in groups],
            "sgr": [rule.id for rule in rules],
            "subnet": [subnet.id for subnet in self.describe_subnets()],
            "vpc": self.vpcs,
        }
        for resource_id in list(self.tags):
            prefix = resource_id.partition("-")[0]
            if prefix in living and resource_id not in living[prefix]:
                del self.tags[resource_id]

    def attached_volumes(self, instance_id: str) -> list[RegionVolume]:
        """Return all volumes of an instance, including its root volume."""
        return [
            volume
            for volume in self.volumes.values()
            if volume.attachment and volume.attachment.instance.id == instance_id
        ]

    def forget_reservations(self, reservation_ids: Collection[str]) -> list[str]:
        """Remove incomplete launches with their volumes and interfaces; return the addresses of their instances."""
        addresses = []
        for reservation_id in reservation_ids:
            for instance in self.reservations.pop(reservation_id).instances:
                addresses.append(instance.private_ip)
                self.take_public_address_from(instance)
                for volume in self.attached_volumes(instance.id):
                    self.forget(volume)
                for card in instance.nics.values():
                    self.enis.pop(card.id, None)
                self.tags.pop(instance.id, None)
        return addresses

    def do_resources_exist(self, resource_ids: list[str]) -> bool:
        """Return True if all resources of a request on tags exist. Raises the service's refusal otherwise."""
        for resource_id in resource_ids:
            if resource_id.startswith("pg-"):
                self.placement_groups.with_id(resource_id)
            if resource_id.startswith("cr-"):
                self.capacity_reservations.known(resource_id)
        return bool(super().do_resources_exist(resource_ids))

    def describe_instance_type_offerings(
        self, location_type: str | None = None, filters: Any = None
    ) -> list[dict[str, str]]:
        """Return where each type can be launched: in this region, and in which of its zones."""
        kind = location_type or "region"
        if kind == "region":
            places = {REGION: REGION}
        elif kind in ("availability-zone", "availability-zone-id"):
            zones = [self.get_zone_by_name(name) for name in self.zone_names]
            places = {zone.name: zone.name if kind == "availability-zone" else zone.zone_id for zone in zones}
        else:
            places = {}  # the region has no Outposts
        return [
            {"InstanceType": name, "Location": location, "LocationType": kind}
            for name in INSTANCE_TYPES
            for place, location in places.items()
            if place == REGION or place in (self.zones_offering(name) & set(places) or places)
        ]

    def zones_offering(self, instance_type: str) -> set[str]:
        """Return the catalogue's zones that offer a type; empty if the catalogue has none."""
        return _offerings().get(instance_type, set())


def build_backend(slot: Slot, addresses: AddressSource) -> RegionBackend:
    """Return the region's EC2 state, registered with moto, with the public SSM parameters of its images."""
    _complete_the_catalogue()
    for kind in (placement_groups, capacity_reservations):  # resources with tags, which moto does not have
        moto_utils.EC2_RESOURCE_TO_PREFIX[kind.RESOURCE_TYPE] = kind.ID_PREFIX
        moto_utils.EC2_PREFIX_TO_RESOURCE[kind.ID_PREFIX] = kind.RESOURCE_TYPE
    backend = RegionBackend(slot, addresses)
    ec2_backends[ACCOUNT][REGION] = backend
    _publish_images()
    return backend


@functools.cache
def _offerings() -> dict[str, set[str]]:
    """Return the catalogue's zones that offer each type."""
    zones: dict[str, set[str]] = {}
    for entry in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(REGION, []):
        zones.setdefault(entry["InstanceType"], set()).add(entry["Location"])
    return zones


def instance_catalogue() -> Mapping[str, dict[str, Any]]:
    """Return every instance type of the region, in the form of DescribeInstanceTypes."""
    catalogue: dict[str, dict[str, Any]] = INSTANCE_TYPES
    return catalogue


def _complete_the_catalogue() -> None:
    for name, entry in INSTANCE_TYPES.items():
        entry["CurrentGeneration"] = name.partition(".")[0] not in _PREVIOUS_GENERATION
    for name, entry in OVERRIDES.items():
        if name in INSTANCE_TYPES:
            continue
        INSTANCE_TYPES[name] = entry
        InstanceTypeBackend.instance_types.append(InstanceType(name))
        INSTANCE_TYPE_OFFERINGS["region"][REGION].append(
            {"InstanceType": name, "Location": REGION, "LocationType": "region"}
        )


def _publish_images() -> None:
    from moto.ssm.models import Parameter, ssm_backends

    parameters = ssm_backends[ACCOUNT][REGION]._parameters
    # Otherwise moto adds parameters of images that this region does not have.
    parameters.latest_amis_loaded = parameters.latest_ecs_amis_loaded = True
    for image in known_images().values():
        for name in image.ssm_parameters:
            parameters[name] = [
                Parameter(
                    account_id=ACCOUNT,
                    name=name,
                    value=image.id,
                    parameter_type="String",
                    description=image.description,
                    allowed_pattern=None,
                    keyid=None,
                    last_modified_date=utcnow(),
                    version=1,
                    data_type="aws:ec2:image" if "canonical" in name else "text",
                )
            ]
