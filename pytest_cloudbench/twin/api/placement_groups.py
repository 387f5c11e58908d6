"""The region's placement groups, which moto does not have: their attributes, members and filters.

Import only after `moto_loading.load_moto`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.ec2 import utils as moto_utils
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import InstancePlacement
from moto.moto_api._internal import mock_random

from .moto_loading import ACCOUNT, REGION
from .refusal import Refusal, invalid_value

RESOURCE_TYPE, ID_PREFIX = "placement-group", "pg"

# Amazon EC2 API Reference, DescribePlacementGroups, 2026-11; also tag:<key> and tag-key.
_FILTERS = frozenset({"group-arn", "group-name", "spread-level", "state", "strategy"})
_INSTANCE_FILTERS = {
    "placement-group-name": "placement.group_name",
    "placement-partition-number": "placement.partition",
}
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

    def passes(self, filters: Mapping[str, Sequence[str]]) -> bool:
        """Return True if every filter has a matching value, in which * and ? are wildcards."""
        return all(
            any(
                re.match(moto_utils.simple_aws_filter_to_re(pattern), value)
                for value in self._values_of(name)
                for pattern in patterns
            )
            for name, patterns in filters.items()
        )

    def _values_of(self, filter_name: str) -> list[str]:
        if filter_name == "spread-level" and self.spread_level is None:
            return []
        value = self.get_filter_value(filter_name)
        return value if isinstance(value, list) else [] if value is None else [value]


@dataclass
class RegionPlacement(InstancePlacement):  # type: ignore[misc]  # moto is not typed here
    """The place of an instance: its zone, and its placement group if it has one."""

    zone: str | None = None
    group_name: str = ""
    group_id: str | None = None
    partition_number: int | None = None
    tenancy: str = "default"
    host_id: str | None = None

    @property
    def partition(self) -> str:
        """The partition's number as text, for filters; empty if there is none."""
        return "" if self.partition_number is None else str(self.partition_number)


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


def refuse_unknown_filters(names: Iterable[str]) -> None:
    """Refuse a filter that DescribePlacementGroups does not have."""
    for name in names:
        if name not in _FILTERS and name != "tag-key" and not name.startswith("tag:"):
            raise invalid_value(f"The filter '{name}' is invalid")


def register_placement_groups() -> None:
    """Register placement groups with moto as resources with tags, and as filters of instances."""
    moto_utils.EC2_RESOURCE_TO_PREFIX[RESOURCE_TYPE] = ID_PREFIX
    moto_utils.EC2_PREFIX_TO_RESOURCE[ID_PREFIX] = RESOURCE_TYPE
    moto_utils.filter_dict_attribute_mapping.update(_INSTANCE_FILTERS)


def _unknown(name: str) -> Refusal:
    return Refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
