"""Reading and checking a RunInstances request: everything that a launch needs, or a refusal."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.bandwidth_weighting import DEFAULT
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.limits.recorded_limits import BadRecordedLimits, RecordedLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.twin.network.cables import RESERVED_ADDRESSES

from . import instance_admission, volume_admission
from .backend import RegionBackend, instance_catalogue
from .images import Image, known_images
from .moto_loading import ACCOUNT, REGION
from .placement_admission import LaunchPlacement, admitted_group, admitted_placement, zone_of
from .refusal import Refusal, invalid_combination, invalid_value, unsupported, well_formed_id

_NOT_OFFERED = (
    "ElasticGpuSpecification",
    "ElasticInferenceAccelerators",
    "EnablePrimaryIpv6",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "KernelId",
    "LicenseSpecifications",
    "RamdiskId",
    "SecondaryInterfaces",
)
DEFAULT_TYPE = "m1.small"  # the service's default


@dataclass(frozen=True)
class BlockDevice:
    """One EBS volume that is made with an instance."""

    device: str
    spec: VolumeSpec
    encrypted: bool
    delete_on_termination: bool
    card: int = 0


@dataclass(frozen=True)
class LaunchRequest:
    """An admitted request. ``key_line`` is the public key as in an authorized_keys file."""

    image: Image
    limits: InstanceLimits
    count: int
    subnet: Any
    zone: str
    placement: LaunchPlacement
    group_ids: tuple[str, ...]
    key_name: str | None
    key_line: str | None
    user_data: bytes
    root: BlockDevice
    data_volumes: tuple[BlockDevice, ...]
    network_options: NetworkOptions
    cpu_options: dict[str, int]
    ena_support: bool
    profile: dict[str, str] | None = None
    wants_public: bool = False
    private_ip: str | None = None


def admitted_launch(params: Mapping[str, Any], backend: RegionBackend) -> LaunchRequest:
    """Read a request, with its launch template merged in. Raises Refusal for the first rule that it breaks."""
    _refuse_ignored(params)
    image = instance_admission.admitted_image(_resolved_image(params.get("ImageId")), known_images())
    entry = instance_admission.admitted_type(params.get("InstanceType") or DEFAULT_TYPE, instance_catalogue())
    limits = InstanceLimits.from_describe(entry)
    options = _admitted_options(params, limits)
    limits = _admitted_limits(limits.with_weighting(options.weighting), params)
    instance_admission.refuse_other_architecture(image, limits.name, limits.architectures)
    count = instance_admission.admitted_count(params["MinCount"], params["MaxCount"])
    key_name, key_line = _admitted_key(params.get("KeyName"), backend)
    interface = _admitted_interface(params)
    asked = params.get("Placement") or {}
    _refuse_dedicated_hosts(asked)
    _refuse_other_markets(params.get("InstanceMarketOptions") or {})
    group = admitted_group(asked, backend)
    subnet = _admitted_subnet({**params, **interface}, limits.name, backend, zone_of(group))
    placement = admitted_placement(
        asked,
        group,
        type_name=limits.name,
        supported=(entry.get("PlacementGroupInfo") or {}).get("SupportedStrategies") or (),
        zone=subnet.availability_zone,
        count=count,
    )
    private_ip = _admitted_private_address({**params, **interface}, subnet, count, backend)
    root, data_volumes = _admitted_block_devices(params.get("BlockDeviceMappings") or [], image, limits)
    return LaunchRequest(
        image=image,
        limits=limits,
        count=count,
        subnet=subnet,
        zone=subnet.availability_zone,
        placement=placement,
        group_ids=_admitted_groups({**params, **interface}, subnet, backend),
        key_name=key_name,
        key_line=key_line,
        user_data=instance_admission.admitted_user_data(params.get("UserData")),
        root=root,
        data_volumes=data_volumes,
        network_options=options,
        cpu_options=instance_admission.admitted_cpu_options(params.get("CpuOptions") or {}, entry),
        ena_support=(entry.get("NetworkInfo") or {}).get("EnaSupport") in ("supported", "required"),
        profile=instance_admission.admitted_profile(params.get("IamInstanceProfile"), ACCOUNT),
        wants_public=interface.get("AssociatePublicIpAddress", subnet.map_public_ip_on_launch),
        private_ip=private_ip,
    )


def _refuse_ignored(params: Mapping[str, Any]) -> None:
    """Refuse parameters that a launch would otherwise ignore."""
    for name in _NOT_OFFERED:
        if params.get(name):
            raise unsupported(f"This region does not offer the parameter {name} of RunInstances.")
    for name, switch in (("HibernationOptions", "Configured"), ("EnclaveOptions", "Enabled")):
        if (params.get(name) or {}).get(switch):
            raise unsupported(f"This region does not offer {name}.{switch} of RunInstances.")


def _resolved_image(image_id: str | None) -> str | None:
    """Return the image id. `resolve:ssm:NAME`, or with `:VERSION` or `:LABEL`, is replaced by the parameter's value."""
    if image_id is None or not image_id.startswith("resolve:ssm:"):
        return image_id
    from moto.ssm.exceptions import ParameterVersionNotFound
    from moto.ssm.models import ssm_backends

    name = image_id.removeprefix("resolve:ssm:")
    try:
        found = ssm_backends[ACCOUNT][REGION].get_parameter(name)
    except ParameterVersionNotFound:
        found = None
    if found is None:
        raise invalid_value(
            f"Could not find the Systems Manager parameter '{name}' of the image id {image_id}."
        )
    return str(found.value)


def _admitted_options(params: Mapping[str, Any], limits: InstanceLimits) -> NetworkOptions:
    """Return the bandwidth weighting and the ENA Express settings of a launch."""
    weighting = (params.get("NetworkPerformanceOptions") or {}).get("BandwidthWeighting") or DEFAULT
    interfaces = params.get("NetworkInterfaces") or [{}]
    asked = interfaces[0].get("EnaSrdSpecification") or {}
    udp = (asked.get("EnaSrdUdpSpecification") or {}).get("EnaSrdUdpEnabled") is True
    options = NetworkOptions(weighting, asked.get("EnaSrdEnabled") is True, udp)
    if udp and not options.ena_express:
        raise invalid_combination("EnaSrdUdpEnabled requires EnaSrdEnabled.")
    try:
        options.check(limits)
    except ValueError as error:
        raise unsupported(f"{error}.") from None
    return options


def _admitted_limits(limits: InstanceLimits, params: Mapping[str, Any]) -> InstanceLimits:
    """Return the limits of the type, or the recorded ones in the instance's tags, which only this region reads."""
    tags = {
        tag.get("Key", ""): tag.get("Value", "")
        for specification in params.get("TagSpecifications") or []
        if specification.get("ResourceType") == "instance"
        for tag in specification.get("Tags") or []
    }
    try:
        return limits.with_recorded(RecordedLimits.of_tags(tags))
    except BadRecordedLimits as error:
        raise invalid_value(str(error)) from None


def with_launch_template(params: dict[str, Any], backend: RegionBackend) -> dict[str, Any]:
    """Return the request with its launch template's parameters; the request's own take precedence."""
    asked = params.get("LaunchTemplate")
    if not asked:
        return params
    template = backend._get_template_from_args(asked)
    merged = {**template.data, **{key: value for key, value in params.items() if key != "LaunchTemplate"}}
    own = {
        "aws:ec2launchtemplate:id": template.template.id,
        "aws:ec2launchtemplate:version": str(template.number),
    }
    merged["LaunchTemplateTags"] = own
    return merged


def _admitted_key(name: str | None, backend: RegionBackend) -> tuple[str | None, str | None]:
    if not name:
        return None, None
    pair = backend.key_pairs.get(name)
    if pair is None:
        raise Refusal("InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist")
    return name, pair.material_public.decode().strip()


def _admitted_interface(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the subnet and groups of the first network interface, which are those of the instance."""
    interfaces = params.get("NetworkInterfaces") or []
    if len(interfaces) > 1 or any(interface.get("NetworkInterfaceId") for interface in interfaces):
        raise unsupported("An instance of this region has one network interface, made with it.")
    if interfaces and (params.get("SubnetId") or params.get("SecurityGroupIds")):
        own = "subnet ID" if params.get("SubnetId") else "security groups"
        raise invalid_combination(
            f"Network interfaces and an instance-level {own} may not be specified on the same request"
        )
    names = {"SubnetId": "SubnetId", "Groups": "SecurityGroupIds", "PrivateIpAddress": "PrivateIpAddress"}
    found = {
        name: interface[key] for interface in interfaces for key, name in names.items() if interface.get(key)
    }
    for interface in interfaces:
        if (public := interface.get("AssociatePublicIpAddress")) is not None:
            found["AssociatePublicIpAddress"] = public
        _refuse_other_interfaces(interface)
    return found


def _refuse_other_interfaces(interface: Mapping[str, Any]) -> None:
    for name in ("SecondaryPrivateIpAddressCount", "PrivateIpAddresses", "Ipv6AddressCount", "Ipv6Addresses"):
        if interface.get(name):
            raise unsupported(f"An instance of this region has one private address: {name} is not available.")
    if (kind := interface.get("InterfaceType")) not in (None, "interface"):
        raise unsupported(f"This region has no network interfaces of the type '{kind}'.")
    if interface.get("DeviceIndex"):
        raise invalid_value("The primary network interface of an instance has the device index 0.")


def _admitted_private_address(
    params: Mapping[str, Any], subnet: Any, count: int, backend: RegionBackend
) -> str | None:
    asked: str | None = params.get("PrivateIpAddress")
    if not asked:
        return None
    try:
        address = ipaddress.IPv4Address(asked)
    except ValueError:
        raise invalid_value(f"Invalid value '{asked}' for PrivateIpAddress: not an IPv4 address.") from None
    if count > 1:
        raise invalid_combination("The parameter PrivateIpAddress is for a launch of one instance.")
    if address not in subnet.cidr:
        raise invalid_value("Address does not fall within the subnet's address range")
    number = int(address) - int(subnet.cidr.network_address)
    if number < RESERVED_ADDRESSES or address == subnet.cidr.broadcast_address:
        raise invalid_value("Address is in subnet's reserved address range")
    if not backend.source.is_free(asked):
        raise Refusal(
            "InvalidIPAddress.InUse",
            f"Address {asked} is in use. All VPCs of this region share one switch: an address is used once.",
        )
    return asked


def _admitted_subnet(
    params: Mapping[str, Any], type_name: str, backend: RegionBackend, cluster_zone: str | None
) -> Any:
    asked_zone = (params.get("Placement") or {}).get("AvailabilityZone")
    offered = backend.zones_offering(type_name)
    subnet_id = params.get("SubnetId")
    if not subnet_id:
        zone = instance_admission.admitted_zone(
            type_name, asked_zone or cluster_zone, offered, backend.zone_names
        )
        default = backend.get_default_subnets().get(zone)
        if default is None:
            raise Refusal("MissingInput", f"No default subnet for availability zone: '{zone}'.")
        return default
    well_formed_id("subnet", subnet_id)
    subnet = backend.get_subnet(subnet_id)
    if asked_zone and asked_zone != subnet.availability_zone:
        raise invalid_value(
            f"The availability zone '{asked_zone}' does not match that of subnet '{subnet_id}', "
            f"'{subnet.availability_zone}'."
        )
    instance_admission.admitted_zone(type_name, subnet.availability_zone, offered, backend.zone_names)
    return subnet


def _admitted_groups(params: Mapping[str, Any], subnet: Any, backend: RegionBackend) -> tuple[str, ...]:
    groups = []
    for group_id in [well_formed_id("sg", one) for one in params.get("SecurityGroupIds") or []]:
        group = backend.get_security_group_from_id(group_id)
        if group is None:
            raise Refusal("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
        groups.append(group)
    for name in params.get("SecurityGroups") or []:
        group = backend.get_security_group_from_name(name, subnet.vpc_id)
        if group is None:
            raise Refusal(
                "InvalidGroup.NotFound",
                f"The security group '{name}' does not exist in default VPC '{subnet.vpc_id}'",
            )
        groups.append(group)
    for group in groups:
        if group.vpc_id != subnet.vpc_id:
            raise Refusal(
                "InvalidParameter",
                f"Security group {group.id} and subnet {subnet.id} belong to different networks.",
            )
    return tuple(group.id for group in groups) or (
        backend.get_security_group_from_name("default", subnet.vpc_id).id,
    )


def _refuse_other_markets(market: Mapping[str, Any]) -> None:
    if market and market.get("MarketType") != "spot":
        raise unsupported("This region launches on-demand and spot instances only.")
    if (market.get("SpotOptions") or {}).get("SpotInstanceType", "one-time") != "one-time":
        raise unsupported("This region has one-time spot instance requests only.")


def _refuse_dedicated_hosts(placement: Mapping[str, Any]) -> None:
    if placement.get("HostId") or placement.get("Tenancy") in ("dedicated", "host"):
        raise unsupported("This region has no dedicated hosts.")


def _admitted_block_devices(
    mappings: list[Mapping[str, Any]], image: Image, limits: InstanceLimits
) -> tuple[BlockDevice, tuple[BlockDevice, ...]]:
    root = BlockDevice(image.root_device_name, VolumeSpec.of("gp3", image.root_size_gib), False, True)
    data: list[BlockDevice] = []
    for mapping in mappings:
        ebs = mapping.get("Ebs")
        if ebs is None or "NoDevice" in mapping:  # an instance store or a removed mapping
            continue
        device = volume_admission.admitted_device_name(mapping.get("DeviceName"))
        is_root = _names_root(device, image)
        if ebs.get("SnapshotId") and not is_root:
            raise unsupported(
                "This region launches no volumes from snapshots: give the size of an empty one."
            )
        size = ebs.get("VolumeSize") or (image.root_size_gib if is_root else None)
        spec = volume_admission.admitted_spec(
            ebs.get("VolumeType") or ("gp3" if is_root else "gp2"),
            size,
            ebs.get("Iops"),
            ebs.get("Throughput"),
        )
        encrypted, goes_too = bool(ebs.get("Encrypted")), ebs.get("DeleteOnTermination", True)
        if is_root:
            _refuse_small_root(spec, image)
            root = BlockDevice(image.root_device_name, spec, encrypted, goes_too)
            continue
        if any(volume_admission.same_attachment_point(device, one.device) for one in data):
            raise Refusal(
                "InvalidBlockDeviceMapping", f"The device '{device}' is used in more than one mapping."
            )
        card = volume_admission.admitted_card(ebs.get("EbsCardIndex"), limits)
        data.append(BlockDevice(device, spec, encrypted, goes_too, card))
    if limits.max_ebs_attachments is not None and 1 + len(data) > limits.max_ebs_attachments:
        raise Refusal(
            "AttachmentLimitExceeded",
            f"{1 + len(data)} volumes exceed the limit of {limits.max_ebs_attachments} for {limits.name}.",
        )
    return root, tuple(data)


def _names_root(device: str, image: Image) -> bool:
    """Return True if a mapping is for the image's root volume. Refuses a different name for its attachment point."""
    if device.removeprefix("/dev/") == image.root_device_name.removeprefix("/dev/"):
        return True
    if volume_admission.same_attachment_point(device, image.root_device_name):
        raise Refusal(
            "InvalidBlockDeviceMapping",
            f"The device name '{device}' is that of a root volume, but the root device of image {image.id} is "
            f"'{image.root_device_name}': name that to change the root volume.",
        )
    return False


def _refuse_small_root(spec: VolumeSpec, image: Image) -> None:
    if spec.size_gib < image.root_size_gib:
        raise Refusal(
            "InvalidBlockDeviceMapping",
            f"Volume of size {spec.size_gib}GB is smaller than the image's root volume, expect size >= "
            f"{image.root_size_gib}GB",
        )
