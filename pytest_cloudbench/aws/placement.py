"""The zone and subnet that an instance is launched in."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_cloudbench.limits.instances import OVERRIDES
from pytest_cloudbench.resources.errors import CloudError, NotOffered, ZoneMismatch
from pytest_cloudbench.resources.facts import Launch, Placement

from .clients import Clients
from .errors import NoNetwork


class Places:
    """Finds a zone that offers a type, and a subnet in it. It creates nothing."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._zones: dict[str, tuple[str, ...]] = {}
        self._subnets: dict[str | None, list[dict[str, Any]]] = {}
        self._reservations: dict[str, dict[str, Any]] = {}

    def find(self, type_name: str, zone: str | None = None, subnet_id: str | None = None) -> Placement:
        """Return a place for an instance: in `zone`, in `subnet_id`, or in the first zone that fits.

        Raises NotOffered, NoNetwork, or ZoneMismatch if the subnet is in another zone.
        """
        return self.candidates([type_name], zone, subnet_id)[0]

    def candidates(
        self, type_names: Sequence[str], zone: str | None = None, subnet_id: str | None = None
    ) -> tuple[Placement, ...]:
        """Return every place for instances of all these types together, the first choice first; at least one.

        Raises NotOffered, NoNetwork, or ZoneMismatch if the subnet is in another zone.
        """
        with self._lock:
            offered = {name: self.zones_offering(name) for name in dict.fromkeys(type_names)}
            subnets = self._subnets_of(subnet_id)
        if zone is not None:
            for name, zones in offered.items():
                if zones and zone not in zones:
                    raise NotOffered(f"{name} is not offered in {zone}; it is in {', '.join(zones)}")
        if subnet_id is not None:
            return (self._in_subnet(offered, zone, self._reachable(subnets)[0]),)
        by_zone = {subnet["AvailabilityZone"]: subnet for subnet in reversed(self._reachable(subnets))}
        if not by_zone:
            raise NoNetwork(
                f"{self._clients.region} has no default VPC with default subnets; "
                "create one (`aws ec2 create-default-vpc`) or give a subnet (--cloudbench-subnet)"
            )
        if zone is not None and zone not in by_zone:
            raise NoNetwork(
                f"there is no default subnet in {zone}; there is one in {', '.join(sorted(by_zone))}, "
                "or set a subnet (--cloudbench-subnet)"
            )
        fitting = [zone] if zone else _zones_of_all(offered, by_zone)
        return tuple(
            Placement(name, by_zone[name]["SubnetId"], by_zone[name]["VpcId"], _assigns_public(by_zone[name]))
            for name in fitting
        )

    def _reachable(self, subnets: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the subnets whose instances can be reached; SSM reaches all.

        If SSH comes from this machine's public address, only those that assign public addresses are left. Raises
        NoNetwork if no subnet is left.
        """
        access = self._clients.access
        if access.way_in == "ssm" or access.address != "auto" or access.ssh_from_cidr is not None:
            return subnets
        public = [subnet for subnet in subnets if _assigns_public(subnet)]
        if subnets and not public:
            raise NoNetwork(
                f"{', '.join(sorted(subnet['SubnetId'] for subnet in subnets))} of {self._clients.region} assigns no "
                "public addresses (MapPublicIpOnLaunch): from inside its network, set that network, such as "
                "--cloudbench-ssh-from=10.0.0.0/16; from outside, request public addresses with "
                "--cloudbench-address=public, or set a subnet that assigns them (--cloudbench-subnet)"
            )
        return public

    def zones_offering(self, type_name: str) -> tuple[str, ...]:
        """Return the zones of the region that offer a type, sorted.

        Empty for a type that only this package's table has: then RunInstances decides. Raises NotOffered if no zone
        offers it.
        """
        if type_name not in self._zones:
            offers = self._clients.repeat_pages(
                f"find the zones that offer {type_name}",
                "describe_instance_type_offerings",
                "InstanceTypeOfferings",
                LocationType="availability-zone",
                Filters=[{"Name": "instance-type", "Values": [type_name]}],
            )
            zones = tuple(
                sorted({offer["Location"] for offer in offers if offer["InstanceType"] == type_name})
            )
            if not zones and type_name not in OVERRIDES:
                raise NotOffered(
                    f"{type_name} is not offered in any zone of {self._clients.region}; use another region"
                )
            self._zones[type_name] = zones
        return self._zones[type_name]

    def in_reservation(self, launch: Launch) -> Launch:
        """Return the launch in the zone of its Capacity Reservation, if it has one and no subnet.

        Raises NotOffered if there is no usable one for its type, ZoneMismatch if it is in another zone than the launch
        requests. A new one may be shown as pending for five minutes although it can be used (EC2 User Guide, "View the
        state").
        """
        reservation_id = launch.capacity_reservation
        if reservation_id is None or launch.subnet_id is not None:
            return launch
        if reservation_id not in self._reservations:
            try:
                [found] = self._clients.repeat_pages(
                    f"find Capacity Reservation {reservation_id}",
                    "describe_capacity_reservations",
                    "CapacityReservations",
                    CapacityReservationIds=[reservation_id],
                )
            except CloudError as error:
                if error.code.startswith("InvalidCapacityReservationId"):
                    raise NotOffered(
                        f"there is no Capacity Reservation {reservation_id} in {self._clients.region}: create it "
                        "first, or leave out capacity_reservation="
                    ) from None
                raise
            self._reservations[reservation_id] = found
        found = self._reservations[reservation_id]
        if found["State"] not in ("active", "pending"):
            raise NotOffered(
                f"Capacity Reservation {reservation_id} is {found['State']}: use one that is active or pending"
            )
        if found["InstanceType"] != launch.type:
            raise NotOffered(
                f"Capacity Reservation {reservation_id} is for {found['InstanceType']}, but {launch.type} was "
                "requested: use one of the same type"
            )
        if launch.zone not in (None, found["AvailabilityZone"]):
            raise ZoneMismatch(
                f"Capacity Reservation {reservation_id} is in {found['AvailabilityZone']}, but zone {launch.zone} was "
                "requested"
            )
        return replace(launch, zone=str(found["AvailabilityZone"]))

    @staticmethod
    def _in_subnet(
        offered: Mapping[str, tuple[str, ...]], zone: str | None, subnet: dict[str, Any]
    ) -> Placement:
        subnet_zone = subnet["AvailabilityZone"]
        if zone is not None and zone != subnet_zone:
            raise ZoneMismatch(
                f"subnet {subnet['SubnetId']} is in {subnet_zone}, but zone {zone} was requested"
            )
        for name, zones in offered.items():
            if zones and subnet_zone not in zones:
                raise NotOffered(
                    f"{name} is not offered in {subnet_zone}, the zone of subnet {subnet['SubnetId']}; "
                    f"it is in {', '.join(zones)}"
                )
        return Placement(subnet_zone, subnet["SubnetId"], subnet["VpcId"], _assigns_public(subnet))

    def _subnets_of(self, subnet_id: str | None) -> list[dict[str, Any]]:
        if subnet_id in self._subnets:
            return self._subnets[subnet_id]
        if subnet_id is None:
            found = self._clients.repeat_pages(
                "find the default subnets",
                "describe_subnets",
                "Subnets",
                Filters=[{"Name": "default-for-az", "Values": ["true"]}],
            )
            found.sort(key=lambda subnet: (subnet["AvailabilityZone"], subnet["SubnetId"]))
        else:
            try:
                found = self._clients.repeat_pages(
                    f"find subnet {subnet_id}",
                    "describe_subnets",
                    "Subnets",
                    SubnetIds=[subnet_id],
                )
            except CloudError as error:
                if not error.code.startswith("InvalidSubnet"):
                    raise
                found = []
            if not found:
                raise NoNetwork(f"there is no subnet {subnet_id} in {self._clients.region}")
        self._subnets[subnet_id] = found
        return found


def _assigns_public(subnet: Mapping[str, Any]) -> bool:
    return bool(subnet.get("MapPublicIpOnLaunch"))


def _zones_of_all(offered: Mapping[str, tuple[str, ...]], with_subnet: Collection[str]) -> list[str]:
    """Return the zones that offer every type and have a subnet, sorted. A type without zones is offered anywhere."""
    fitting = [
        zone for zone in sorted(with_subnet) if all(not zones or zone in zones for zones in offered.values())
    ]
    if fitting:
        return fitting
    for name, zones in offered.items():
        if zones and not set(zones) & set(with_subnet):
            raise NotOffered(
                f"{name} is offered in {', '.join(zones)}, but the default VPC has no subnet there "
                "that SSH can reach; give a subnet (--cloudbench-subnet), or the network that SSH comes from "
                "(--cloudbench-ssh-from)"
            )
    where = "; ".join(f"{name} is in {', '.join(zones)}" for name, zones in offered.items() if zones)
    raise NotOffered(
        f"no zone with a default subnet offers {' and '.join(offered)} together: {where}; "
        "use types that share a zone, or set a zone for each"
    )
