"""The region's placement groups, which moto does not have: their attributes and members.

Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import InstancePlacement
from moto.moto_api._internal import mock_random

from .moto_loading import ACCOUNT, REGION
from .refusal import Refusal

RESOURCE_TYPE, ID_PREFIX = "placement-group", "pg"

_RUNS = ("pending", "running")


class PlacementGroup(TaggedEC2Resource):  # type: ignore[misc]  # moto is not typed here
    """A placement group, with the attributes that DescribePlacementGroups shows."""

    def __init__(
        self, backend: Any, name: str, strategy: str, partition_count: int | None, spread_level: str | None
    ) -> None:
        self.ec2_backend = backend
        self.id = f"{ID_PREFIX}-{mock_random.get_random_hex(17)}"
        self.group_id = self.id
        self.group_name = name
        self.group_arn = f"arn:aws:ec2:{REGION}:{ACCOUNT}:{RESOURCE_TYPE}/{name}"
        self.strategy = strategy
        self.partition_count = partition_count
        self.spread_level = spread_level
        self.state = "available"

    @property
    def members(self) -> list[Any]:
        """The instances in the group that are not terminated."""
        return [
            instance
            for reservation in self.ec2_backend.reservations.values()
            for instance in reservation.instances
            if instance.placement.group_id == self.id and instance.state != "terminated"
        ]

    def running_in(self, zone: str) -> int:
        """Return how many of its instances are pending or running in a zone."""
        return sum(one.availability_zone == zone and one.state in _RUNS for one in self.members)


@dataclass
class RegionPlacement(InstancePlacement):  # type: ignore[misc]  # moto is not typed here
    """The place of an instance: its zone, and its placement group if it has one."""

    zone: str | None = None
    group_name: str = ""
    group_id: str | None = None
    partition_number: int | None = None
    tenancy: str = "default"
    host_id: str | None = None


class PlacementGroups(dict[str, PlacementGroup]):
    """All placement groups of the region by name. The caller holds the region's lock."""

    def known(self, name: str) -> PlacementGroup:
        """Return the group of this name. Raises Refusal if there is none."""
        group = self.get(name)
        if group is None:
            raise _unknown(name)
        return group

    def with_id(self, group_id: str) -> PlacementGroup:
        """Return the group of this id. Raises Refusal if there is none."""
        for group in self.values():
            if group.id == group_id:
                return group
        raise _unknown(group_id)


def _unknown(name: str) -> Refusal:
    return Refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
