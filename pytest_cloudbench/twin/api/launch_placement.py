"""The placement group of a launch, and the place of each instance in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from . import placement_admission as admission
from .backend import RegionBackend
from .placement_groups import PlacementGroup, RegionPlacement
from .refusal import invalid_combination, well_formed_id


@dataclass(frozen=True)
class LaunchPlacement:
    """The placement group of a launch, or None, and the partition of each of its instances."""

    group: PlacementGroup | None
    partitions: tuple[int | None, ...]

    @property
    def cluster(self) -> str | None:
        """The name of the group if it is a cluster, otherwise None."""
        if self.group is None or self.group.strategy != admission.CLUSTER:
            return None
        name: str = self.group.group_name
        return name

    def of(self, index: int, zone: str) -> RegionPlacement:
        """Return the placement of the instance with this launch index."""
        if self.group is None:
            return RegionPlacement(zone)
        return RegionPlacement(zone, self.group.group_name, self.group.id, self.partitions[index])


def admitted_group(placement: Mapping[str, Any], backend: RegionBackend) -> PlacementGroup | None:
    """Return the group that a request's Placement names, by name or id; None if it names none."""
    name, group_id = placement.get("GroupName"), placement.get("GroupId")
    if name and group_id:
        raise invalid_combination(
            "The parameters GroupName and GroupId of a placement may not be used together."
        )
    if group_id:
        return backend.placement_groups.with_id(well_formed_id("pg", group_id))
    return backend.placement_groups.known(name) if name else None


def zone_of(group: PlacementGroup | None) -> str | None:
    """Return the zone of a cluster's instances; None if the next instance may be in any zone."""
    if group is None or group.strategy != admission.CLUSTER or not group.members:
        return None
    zone: str = group.members[0].availability_zone
    return zone


def admitted_placement(
    placement: Mapping[str, Any],
    group: PlacementGroup | None,
    *,
    type_name: str,
    supported: Collection[str],
    zone: str,
    count: int,
) -> LaunchPlacement:
    """Return the places in a zone of ``count`` instances of a type that supports the strategies ``supported``."""
    number = placement.get("PartitionNumber")
    if group is None:
        if number is not None:
            raise invalid_combination(
                "A partition number may only be given with a partition placement group."
            )
        return LaunchPlacement(None, (None,) * count)
    admission.refuse_unsupported_strategy(type_name, supported, group.strategy)
    there = group.members
    if group.strategy == admission.CLUSTER:
        admission.refuse_second_zone(group.group_name, zone, {one.availability_zone for one in there})
    if group.strategy == admission.SPREAD:
        admission.refuse_crowded_spread(group.group_name, zone, group.running_in(zone), count)
    taken = [one.placement.partition_number for one in there if one.availability_zone == zone]
    partitions: list[int | None] = []
    for _ in range(count):
        partitions.append(
            admission.admitted_partition_number(
                group.group_name, group.strategy, group.partition_count, number, [*taken, *partitions]
            )
        )
    return LaunchPlacement(group, tuple(partitions))


def refuse_crowded_start(instances: Collection[Any], backend: RegionBackend) -> None:
    """Refuse to start stopped instances of a spread group that has no room for them."""
    for instance in instances:
        name = instance.placement.group_name
        group = backend.placement_groups.named(name) if name else None
        if group is not None and group.strategy == admission.SPREAD and instance.state == "stopped":
            zone = instance.availability_zone
            more = sum(
                one.state == "stopped"
                and one.placement.group_id == group.id
                and one.availability_zone == zone
                for one in instances
            )
            admission.refuse_crowded_spread(name, zone, group.running_in(zone), more)
