"""The region's Capacity Reservations, which moto does not have, and the launches that use them.

Amazon EC2 User Guide, "On-Demand Capacity Reservations", read 2026-11. Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow
from moto.ec2.models.core import TaggedEC2Resource
from moto.moto_api._internal import mock_random

from .moto_loading import ACCOUNT, REGION
from .refusal import Refusal, invalid_combination, required, well_formed_id

if TYPE_CHECKING:
    from .backend import RegionBackend
    from .launch_request import LaunchRequest

RESOURCE_TYPE, ID_PREFIX = "capacity-reservation", "cr"


class CapacityReservation(TaggedEC2Resource):  # type: ignore[misc]  # moto is not typed here
    """Capacity for instances of one type in one zone, with the attributes that DescribeCapacityReservations shows.

    An "open" reservation is also used by launches that name no reservation.
    """

    instance_platform, tenancy, owner_id = "Linux/UNIX", "default", ACCOUNT

    def __init__(
        self, backend: RegionBackend, instance_type: str, availability_zone: str, count: int
    ) -> None:
        self.ec2_backend = backend
        self.id = self.capacity_reservation_id = f"{ID_PREFIX}-{mock_random.get_random_hex(17)}"
        self.capacity_reservation_arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:{RESOURCE_TYPE}/{self.id}"
        self.instance_type = instance_type
        self.availability_zone = availability_zone
        self.total_instance_count = count
        self.instance_match_criteria = "open"
        self.create_date = self.start_date = utcnow()
        self.end_date: datetime | None = None
        self.cancelled = False

    @property
    def end_date_type(self) -> str:
        """``limited`` if it ends by itself, else ``unlimited``."""
        return "limited" if self.end_date else "unlimited"

    @property
    def state(self) -> str:
        """``active`` if its capacity can be used, else ``cancelled`` or ``expired``."""
        if self.cancelled:
            return "cancelled"
        return "expired" if self.end_date and self.end_date <= utcnow() else "active"

    @property
    def available_instance_count(self) -> int:
        """How many more instances it has room for. Stopped and terminated instances do not use it."""
        used = sum(
            one.capacity_reservation_id == self.id and one.state not in ("stopped", "terminated")
            for reservation in self.ec2_backend.reservations.values()
            for one in reservation.instances
        )
        return int(self.total_instance_count - used)

    def fits(self, instance_type: str, zone: str) -> bool:
        """Return True if its instances are of this type and in this zone."""
        return bool(self.instance_type == instance_type and self.availability_zone == zone)


class CapacityReservations(dict[str, CapacityReservation]):
    """All Capacity Reservations of the region by id. The caller holds the region's lock."""

    def known(self, reservation_id: str | None) -> CapacityReservation:
        """Return the reservation of this id. Raises Refusal if there is none."""
        reservation_id = well_formed_id(ID_PREFIX, required(reservation_id, "CapacityReservationId"))
        if reservation_id not in self:
            raise Refusal(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation '{reservation_id}' does not exist.",
            )
        return self[reservation_id]

    def of_launch(self, params: Mapping[str, Any], request: LaunchRequest) -> CapacityReservation | None:
        """Return the reservation that a RunInstances request uses, None for ordinary capacity."""
        instance_type, zone, count = request.limits.name, request.zone, request.count
        asked = params.get("CapacityReservationSpecification") or {}
        target = asked.get("CapacityReservationTarget") or {}
        spot = bool(params.get("InstanceMarketOptions"))
        if not target:
            usable = () if spot or asked.get("CapacityReservationPreference") == "none" else self.values()
            return next(
                (
                    one
                    for one in usable
                    if (one.state, one.instance_match_criteria) == ("active", "open")
                    and one.fits(instance_type, zone)
                    and one.available_instance_count >= count
                ),
                None,
            )
        found = self.known(target.get("CapacityReservationId"))
        if spot:
            raise invalid_combination("Spot Instances cannot be launched into a Capacity Reservation.")
        # The service publishes these rules, but not the codes and texts of their refusals.
        if not found.fits(instance_type, zone):
            raise invalid_combination(
                f"The Capacity Reservation {found.id} is for {found.instance_type} in {found.availability_zone}, not "
                f"for {instance_type} in {zone}."
            )
        if found.state != "active":
            raise Refusal(
                "InvalidCapacityReservationState", f"The Capacity Reservation {found.id} is {found.state}."
            )
        if (free := found.available_instance_count) < count:
            raise Refusal(
                "ReservationCapacityExceeded",
                f"The Capacity Reservation {found.id} has room for {free} more instances; {count} were requested.",
            )
        return found
