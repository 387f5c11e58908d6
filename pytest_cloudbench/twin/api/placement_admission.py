"""Checks of requests on placement groups, which refuse what the real service refuses before anything changes.

Pure functions of plain values. Each returns the admitted value or raises `Refusal`.
"""

from __future__ import annotations

from collections.abc import Collection

from .refusal import Refusal, invalid_combination, invalid_value, required

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
        if count is not None:
            raise invalid_combination(
                f"The parameter PartitionCount may only be used with the strategy 'partition', not '{strategy}'."
            )
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
    """Return the level over which a group spreads its instances; None for other strategies than spread."""
    if strategy != SPREAD:
        if level:
            raise invalid_combination(
                f"The parameter SpreadLevel may only be used with the strategy 'spread', not '{strategy}'."
            )
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


def admitted_partition_number(
    group: str, strategy: str, partition_count: int | None, number: int | None, taken: Collection[int | None]
) -> int | None:
    """Return the partition for an instance: the requested one, else the emptiest; None if the group has none.

    ``taken`` holds the partition of every instance in the group.
    """
    if strategy != PARTITION or partition_count is None:
        if number is not None:
            raise invalid_combination(
                f"A partition number may only be given with a partition placement group; '{group}' is a "
                f"{strategy} placement group."
            )
        return None
    if number is None:
        counts = list(taken)
        return min(range(1, partition_count + 1), key=counts.count)
    if not 1 <= number <= partition_count:
        raise invalid_value(
            f"Value ({number}) for parameter partitionNumber is invalid. The placement group '{group}' has "
            f"{partition_count} partitions."
        )
    return number


def refuse_unsupported_strategy(type_name: str, supported: Collection[str], strategy: str) -> None:
    """Refuse a type that does not support the group's strategy, such as t3 in a cluster."""
    if strategy not in supported:
        raise invalid_combination(
            f"{strategy.capitalize()} placement groups are not supported by the '{type_name}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try again."
        )


def refuse_second_zone(group: str, zone: str, occupied: Collection[str]) -> None:
    """Refuse a second zone for a cluster, whose instances are in the zones ``occupied``."""
    others = sorted(set(occupied) - {zone})
    if others:
        raise Refusal(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group}' is in use in another availability zone: {', '.join(others)}",
        )


def refuse_crowded_spread(group: str, zone: str, running: int, more: int) -> None:
    """Refuse more than seven running instances of a spread group in a zone.

    The service publishes the limit but not the text of this message.
    """
    if running + more > MAX_SPREAD_IN_A_ZONE:
        raise Refusal(
            "InsufficientInstanceCapacity",
            f"The spread placement group '{group}' may have {MAX_SPREAD_IN_A_ZONE} running instances in an "
            f"Availability Zone; it has {running} in {zone}, and {more} more were requested.",
            status=500,
        )
