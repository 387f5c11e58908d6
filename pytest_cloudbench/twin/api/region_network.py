"""The region's networks as moto's EC2 state knows them: subnets, interfaces and public addresses.

A subnet of any VPC takes its addresses from the data plane, where all instances share one switch. Import only after
`moto_loading.load_moto`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Protocol

from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.subnets import Subnet
from moto.ec2.utils import random_subnet_id

from pytest_cloudbench.limits.network_options import NetworkOptions

from .moto_loading import ACCOUNT, REGION
from .refusal import Refusal, invalid_value

EVERYWHERE = "0.0.0.0/0"


class AddressSource(Protocol):
    """The source of instances' addresses: the data plane's network. Raises RuntimeError if no address is left."""

    def take_address(self, zone_index: int, network: ipaddress.IPv4Network | None = None) -> str: ...
    def reserve_address(self, zone_index: int, address: str) -> None: ...
    def take_public_address(self) -> str: ...
    def release_address(self, address: str) -> None: ...
    def is_free(self, address: str) -> bool: ...


class RegionSubnet(Subnet):  # type: ignore[misc]  # moto is not typed here
    """A subnet in which the data plane assigns the addresses."""

    zone_index: int

    def get_available_subnet_ip(self, instance: Any) -> str:
        address: str = self.ec2_backend.source.take_address(self.zone_index, self.cidr)
        self._subnet_ips[address] = instance
        return address

    def request_ip(self, ip: str, instance: Any) -> None:
        self.ec2_backend.source.reserve_address(self.zone_index, ip)
        self._subnet_ips[ip] = instance


class RegionInterface(NetworkInterface):  # type: ignore[misc]  # moto is not typed here
    """An instance's network interface, whose attachment has settings of ENA Express.

    With ``wants_public`` the instance gets a public address at each start, unless it has an Elastic IP address.
    """

    options: NetworkOptions
    wants_public: bool

    @classmethod
    def take_over(cls, interface: Any, options: NetworkOptions, *, wants_public: bool) -> None:
        """Turn moto's interface of a new instance into one with these settings."""
        interface.__class__, interface.options, interface.wants_public = cls, options, wants_public

    @property
    def availability_zone_id(self) -> str:
        return str(self.subnet.availability_zone_id)

    @property
    def attachment(self) -> Any:
        attachment = super().attachment
        if attachment is not None:
            attachment.ena_srd_specification = {
                "EnaSrdEnabled": self.options.ena_express,
                "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": self.options.ena_express_udp},
            }
        return attachment


class NetworkBackend(EC2Backend):  # type: ignore[misc]  # moto is not typed here
    """The default VPC over the slot's addresses, the VPCs of clients, and public addresses.

    ``zone_networks`` has the default subnet of each zone, in the order of their indices in the data plane.
    """

    def __init__(
        self,
        source: AddressSource,
        default_network: ipaddress.IPv4Network,
        zone_networks: Mapping[str, ipaddress.IPv4Network],
    ) -> None:
        self.source = source
        self._default_network = default_network
        self._zone_networks = dict(zone_networks)
        super().__init__(REGION, ACCOUNT)

    @property
    def zone_names(self) -> list[str]:
        """The names of the zones, in the order of their networks."""
        return list(self._zone_networks)

    def create_default_vpc(self) -> Any:
        vpc = self.create_vpc(cidr_block=str(self._default_network), is_default=True)
        for zone in self.zone_names:
            self._make_default_subnet(vpc.id, zone)
        gateway = self.create_internet_gateway()
        self.attach_internet_gateway(gateway.id, vpc.id)
        main = self.describe_route_tables(filters={"vpc-id": vpc.id, "association.main": "true"})[0]
        self.create_route(main.id, EVERYWHERE, gateway_id=gateway.id)
        return vpc

    def _make_default_subnet(self, vpc_id: str, zone: str) -> RegionSubnet:
        subnet = RegionSubnet(
            self,
            random_subnet_id(),
            vpc_id,
            str(self._zone_networks[zone]),
            None,
            self.get_zone_by_name(zone),
            True,
            False,
        )
        subnet.zone_index = self.zone_names.index(zone)
        self.associate_default_network_acl_with_subnet(subnet.id, vpc_id)
        self.subnets[zone][subnet.id] = subnet
        return subnet

    def create_default_subnet(self, availability_zone: str) -> Any:
        if availability_zone not in self.zone_names:
            raise invalid_value(f"Invalid availability zone: [{availability_zone}].")
        if availability_zone in self.get_default_subnets():
            raise Refusal(
                "DefaultSubnetAlreadyExistsInAvailabilityZone",
                f"{availability_zone} already has a default subnet.",
            )
        vpc = self.get_default_vpc()
        if vpc is None:
            raise Refusal("DefaultVpcDoesNotExist", "No default VPC exists for this account in this region.")
        return self._make_default_subnet(vpc.id, availability_zone)

    def create_subnet(self, *args: Any, **kwargs: Any) -> Any:
        subnet = super().create_subnet(*args, **kwargs)
        subnet.__class__ = RegionSubnet
        subnet.zone_index = self.zone_names.index(subnet.availability_zone)
        subnet.default_for_az = subnet.map_public_ip_on_launch = False  # moto sets both for a zone's first
        return subnet

    def netmask_of(self, subnet: Any) -> str | None:
        """Return the netmask of an instance in this subnet, that of its VPC; None in the default VPC."""
        vpc = self.get_vpc(subnet.vpc_id)
        if vpc.is_default:
            return None
        blocks = [ipaddress.IPv4Network(each["cidr_block"]) for each in vpc.get_cidr_block_association_set()]
        return str(next(block for block in blocks if subnet.cidr.subnet_of(block)).netmask)

    def has_gateway(self, vpc_id: str) -> bool:
        """Return True if an internet gateway is attached to the VPC."""
        return any(gateway.vpc and gateway.vpc.id == vpc_id for gateway in self.internet_gateways.values())

    def allocate_address(
        self, domain: str, address: str | None = None, tags: dict[str, str] | None = None
    ) -> Any:
        if address is not None:
            raise Refusal("InvalidAddress.NotFound", f"Address '{address}' not found.")
        try:
            taken = self.source.take_public_address()
        except RuntimeError as error:
            raise Refusal(
                "AddressLimitExceeded", f"The maximum number of addresses is reached: {error}."
            ) from None
        return super().allocate_address("vpc", taken, tags)

    def elastic_address_of(self, instance: Any) -> Any | None:
        """Return the Elastic IP address of an instance, if it has one."""
        return next((each for each in self.addresses if each.eni and each.eni.instance is instance), None)

    def give_public_address(self, instance: Any) -> str | None:
        """Return the public address of a starting instance: its own, or a new one; None if it should have none."""
        card = instance.nics[0]
        if card.public_ip is None and card.wants_public:
            card.public_ip = self.source.take_public_address()
        address: str | None = card.public_ip
        return address

    def take_public_address_from(self, instance: Any) -> None:
        """Release the public address that an instance got at its start. Without effect on an Elastic IP address."""
        card = instance.nics.get(0)
        if card is not None and card.public_ip is not None and self.elastic_address_of(instance) is None:
            address, card.public_ip = card.public_ip, None
            self.source.release_address(address)

    def forget_public_addresses(self, instance: Any) -> None:
        """Release the public address of an instance that has ended, and disassociate its Elastic IP address."""
        self.take_public_address_from(instance)
        elastic = self.elastic_address_of(instance)
        if elastic is not None:
            self.disassociate_address(association_id=elastic.association_id)
