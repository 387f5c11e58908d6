"""Checks of requests on placement groups and of launches in them, before anything changes.

They refuse what the real service refuses. Each returns the admitted value or raises `Refusal`. Import only after
`moto_loading.load_moto`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .placement_groups import PlacementGroup, RegionPlacement
from .refusal import Refusal, invalid_combination, invalid_value, required, well_formed_id

if TYPE_CHECKING:
    from .backend import RegionBackend

CLUSTER, SPREAD, PARTITION = "cluster", "spread", "partition"
STRATEGIES = (CLUSTER, PARTITION, SPREAD)

# Amazon EC2 User Guide, "Placement groups", rules and limitations, 2026-11.
MAX_GROUPS = 500
MAX_PARTITIONS = 7
DEFAULT_PARTITIONS = 2
MAX_SPREAD_IN_A_ZONE = 7

_LONGEST_NAME = 255


def admitted_name(name: str | None) -> str:
    """Return the name of a placement group: up to 255 ASCII characters."""
    name = required(name, "groupName")
    if len(name) > _LONGEST_NAME or not name.isascii() or not name.isprintable() or name != name.strip():
        raise invalid_value(
            f"Value ({name}) for parameter groupName is invalid. A name has at most {_LONGEST_NAME} printable "
            f"ASCII characters and no space at its ends; this one has {len(name)}."
        )
    return name


def admitted_strategy(strategy: str | None, partition_count: int | None) -> str:
    """Return the strategy of a group: partition if the request only has a number of partitions."""
    if not strategy and partition_count is not None:
        return PARTITION
    strategy = required(strategy, "strategy")
    if strategy not in STRATEGIES:
        raise invalid_value(
            f"Value ({strategy}) for parameter strategy is invalid. Valid strategies: {', '.join(STRATEGIES)}."
        )
    return strategy


def admitted_partition_count(strategy: str, count: int | None) -> int | None:
    """Return how many partitions a group has; None if its strategy has none."""
    if strategy != PARTITION:
        _refuse_parameter("PartitionCount", count, PARTITION, strategy)
        return None
    if count is None:
        return DEFAULT_PARTITIONS
    if not 1 <= count <= MAX_PARTITIONS:
        raise invalid_value(
            f"Value ({count}) for parameter partitionCount is invalid. A placement group has 1 to "
            f"{MAX_PARTITIONS} partitions."
        )
    return count


def admitted_spread_level(strategy: str, level: str | None) -> str | None:
    """Return the level over which a group spreads its instances; None for strategies other than spread."""
    if strategy != SPREAD:
        _refuse_parameter("SpreadLevel", level or None, SPREAD, strategy)
        return None
    if level == "host":
        raise invalid_combination(
            "The spread level 'host' is for placement groups on an Outpost; this region has none."
        )
    if level not in (None, "", "rack"):
        raise invalid_value(
            f"Value ({level}) for parameter spreadLevel is invalid. Valid levels: host, rack."
        )
    return "rack"


def _refuse_parameter(name: str, value: Any, of: str, strategy: str) -> None:
    if value is not None:
        raise invalid_combination(
            f"The parameter {name} may only be used with the strategy '{of}', not '{strategy}'."
        )


# --- launches --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaunchPlacement:
    """The placement group of a launch, or None, and the partition of each of its instances."""

    group: PlacementGroup | None
    partitions: tuple[int | None, ...]

    @property
    def cluster(self) -> str | None:
        """The name of the group if it is a cluster, otherwise None."""
        group = self.group
        return group.group_name if group is not None and group.strategy == CLUSTER else None

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
    if group is None or group.strategy != CLUSTER or not group.members:
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
    """Return the placement of ``count`` instances in a zone; their type supports the strategies ``supported``."""
    number = placement.get("PartitionNumber")
    if group is None:
        if number is not None:
            raise invalid_combination(
                "A partition number may only be given with a partition placement group."
            )
        return LaunchPlacement(None, (None,) * count)
    if group.strategy not in supported:
        raise invalid_combination(
            f"{group.strategy.capitalize()} placement groups are not supported by the '{type_name}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try again."
        )
    there = group.members
    others = sorted({one.availability_zone for one in there} - {zone})
    if group.strategy == CLUSTER and others:
        raise Refusal(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.group_name}' is in use in another availability zone: {', '.join(others)}",
        )
    if group.strategy == SPREAD:
        _refuse_crowded_spread(group, zone, count)
    taken = [one.placement.partition_number for one in there if one.availability_zone == zone]
    partitions: list[int | None] = []
    for _ in range(count):
        partitions.append(admitted_partition_number(group, number, [*taken, *partitions]))
    return LaunchPlacement(group, tuple(partitions))


def admitted_partition_number(
    group: PlacementGroup, number: int | None, taken: Collection[int | None]
) -> int | None:
    """Return the partition for an instance: the requested one, else the emptiest; None if the group has none.

    ``taken`` holds the partition of every instance in the group.
    """
    count = group.partition_count
    if count is None:
        if number is not None:
            raise invalid_combination(
                "A partition number may only be given with a partition placement group; "
                f"'{group.group_name}' is a {group.strategy} placement group."
            )
        return None
    if number is None:
        return min(range(1, count + 1), key=list(taken).count)
    if not 1 <= number <= count:
        raise invalid_value(
            f"Value ({number}) for parameter partitionNumber is invalid. The placement group '{group.group_name}' "
            f"has {count} partitions."
        )
    return number


def refuse_crowded_start(instances: Collection[Any], backend: RegionBackend) -> None:
    """Refuse to start stopped instances of a spread group that has no room for them."""
    for instance in instances:
        name, zone = instance.placement.group_name, instance.availability_zone
        group = backend.placement_groups.get(name)
        if group is not None and group.strategy == SPREAD and instance.state == "stopped":
            more = sum(
                one.state == "stopped"
                and one.placement.group_id == group.id
                and one.availability_zone == zone
                for one in instances
            )
            _refuse_crowded_spread(group, zone, more)


def _refuse_crowded_spread(group: PlacementGroup, zone: str, more: int) -> None:
    """Refuse more than seven running instances of a spread group in a zone.

    The service publishes the limit but not the text of this message.
    """
    running = group.running_in(zone)
    if running + more > MAX_SPREAD_IN_A_ZONE:
        raise Refusal(
            "InsufficientInstanceCapacity",
            f"The spread placement group '{group.group_name}' may have {MAX_SPREAD_IN_A_ZONE} running instances in "
            f"an Availability Zone; it has {running} in {zone}, and {more} more were requested.",
            status=500,
        )
