"""What the real service refuses about placement groups, before one is made or an instance goes into it.

Pure functions over plain values. Each returns what was admitted or raises `Refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .refusal import Refusal

CLUSTER, SPREAD, PARTITION = "cluster", "spread", "partition"
STRATEGIES = (CLUSTER, PARTITION, SPREAD)

# Amazon EC2 User Guide, "Placement groups", rules and limitations, 2026-11.
MAX_GROUPS = 500
MAX_PARTITIONS = 7
DEFAULT_PARTITIONS = 2
MAX_SPREAD_IN_A_ZONE = 7

_LONGEST_NAME = 255
_GROUP_ID = re.compile(r"pg-(?:[0-9a-f]{8}|[0-9a-f]{17})")


def admitted_name(name: str | None) -> str:
    """The name of a placement group: up to 255 ASCII characters."""
    if not name:
        raise Refusal("MissingParameter", "The request must contain the parameter groupName.")
    if len(name) > _LONGEST_NAME or not name.isascii() or not name.isprintable() or name != name.strip():
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({name}) for parameter groupName is invalid. A name has at most {_LONGEST_NAME} printable "
            f"ASCII characters and no space at its ends; this one has {len(name)}.",
        )
    return name


def admitted_group_id(group_id: str) -> str:
    """A well-formed id; whether the group exists is asked of the region."""
    if not _GROUP_ID.fullmatch(group_id):
        raise Refusal("InvalidPlacementGroupId.Malformed", f'Invalid id: "{group_id}" (expecting "pg-...").')
    return group_id


def admitted_strategy(strategy: str | None, partition_count: int | None) -> str:
    """The strategy of a group; a request that only counts partitions means partition."""
    if not strategy:
        if partition_count is None:
            raise Refusal("MissingParameter", "The request must contain the parameter strategy.")
        return PARTITION
    if strategy not in STRATEGIES:
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({strategy}) for parameter strategy is invalid. Valid strategies: {', '.join(STRATEGIES)}.",
        )
    return strategy


def admitted_partition_count(strategy: str, count: int | None) -> int | None:
    """How many partitions a group has; None where its strategy has none."""
    if strategy != PARTITION:
        if count is not None:
            raise Refusal(
                "InvalidParameterCombination",
                f"The parameter PartitionCount may only be used with the strategy 'partition', not '{strategy}'.",
            )
        return None
    if count is None:
        return DEFAULT_PARTITIONS
    if not 1 <= count <= MAX_PARTITIONS:
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({count}) for parameter partitionCount is invalid. A placement group has 1 to "
            f"{MAX_PARTITIONS} partitions.",
        )
    return count


def admitted_spread_level(strategy: str, level: str | None) -> str | None:
    """Over what a group spreads its instances; None where its strategy does not spread."""
    if strategy != SPREAD:
        if level:
            raise Refusal(
                "InvalidParameterCombination",
                f"The parameter SpreadLevel may only be used with the strategy 'spread', not '{strategy}'.",
            )
        return None
    if level == "host":
        raise Refusal(
            "InvalidParameterCombination",
            "The spread level 'host' is for placement groups on an Outpost; this region has none.",
        )
    if level not in (None, "", "rack"):
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({level}) for parameter spreadLevel is invalid. Valid levels: host, rack.",
        )
    return "rack"


def admitted_partition_number(
    group: str, strategy: str, partition_count: int | None, number: int | None, taken: Collection[int | None]
) -> int | None:
    """The partition for an instance: the one asked for, else the emptiest; None where the group has none.

    ``taken`` holds the partition of every instance that the group has already.
    """
    if strategy != PARTITION or partition_count is None:
        if number is not None:
            raise Refusal(
                "InvalidParameterCombination",
                f"A partition number may only be given with a partition placement group; '{group}' is a "
                f"{strategy} placement group.",
            )
        return None
    if number is None:
        counts = list(taken)
        return min(range(1, partition_count + 1), key=counts.count)
    if not 1 <= number <= partition_count:
        raise Refusal(
            "InvalidParameterValue",
            f"Value ({number}) for parameter partitionNumber is invalid. The placement group '{group}' has "
            f"{partition_count} partitions.",
        )
    return number


def refuse_unsupported_strategy(type_name: str, supported: Collection[str], strategy: str) -> None:
    """Not every type may be in every kind of group: t2 and t3 not in a cluster."""
    if strategy not in supported:
        raise Refusal(
            "InvalidParameterCombination",
            f"{strategy.capitalize()} placement groups are not supported by the '{type_name}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try again.",
        )


def refuse_second_zone(group: str, zone: str, occupied: Collection[str]) -> None:
    """A cluster lives in one zone. ``occupied`` holds the zones of the instances that it has already."""
    others = sorted(set(occupied) - {zone})
    if others:
        raise Refusal(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group}' is in use in another availability zone: {', '.join(others)}",
        )


def refuse_crowded_spread(group: str, zone: str, running: int, more: int) -> None:
    """A spread group runs seven instances in a zone. The service publishes the limit, but not these words."""
    if running + more > MAX_SPREAD_IN_A_ZONE:
        raise Refusal(
            "InsufficientInstanceCapacity",
            f"The spread placement group '{group}' may have {MAX_SPREAD_IN_A_ZONE} running instances in an "
            f"Availability Zone; it has {running} in {zone}, and {more} more were requested.",
            status=500,
        )
