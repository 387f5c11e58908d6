"""Placement groups: creating them, finding them by name, and what may go into one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_cloudbench.resources.errors import CloudError, PlacementRefused, WaitTimeout, ZoneMismatch
from pytest_cloudbench.resources.facts import PlacementGroup

from .run import Run, belongs_to, tags_of
from .waits import poll

CREATE_PLACEMENT_GROUP = "create_placement_group"
CLUSTER = "cluster"
STRATEGIES = (CLUSTER, "partition", "spread")
UNKNOWN = "InvalidPlacementGroup.Unknown"


class PlacementGroups:
    """The calls on placement groups. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clients = run.clients
        self._numbers = itertools.count(1)

    def create(self, strategy: str, name: str) -> PlacementGroup:
        """Create and tag a placement group in one call, and wait until it is available.

        `name` is for its Name tag. Raises CloudError for an unknown strategy, before any call.
        """
        if strategy not in STRATEGIES:
            raise CloudError(
                f"invalid strategy {strategy!r} of a placement group: use {', '.join(STRATEGIES)}"
            )
        group_name = f"cloudbench-{self._run.run_id}-{next(self._numbers)}"
        try:
            with self._run.journal.creating(CREATE_PLACEMENT_GROUP, f"{strategy} {group_name}") as intention:
                tagged = self._run.tagged(name, "placement-group", token=intention.token)
                self._clients.repeat_call(
                    f"create {strategy} placement group {group_name}",
                    CREATE_PLACEMENT_GROUP,
                    GroupName=group_name,
                    Strategy=strategy,
                    TagSpecifications=tagged,
                )
                intention.done([group_name])
        except CloudError as error:
            # It is this run's if a first attempt created it and only its answer was lost.
            if error.code != "InvalidPlacementGroup.Duplicate" or not self._is_ours(group_name):
                raise
        return self._wait_available(group_name)

    def find(self, group: PlacementGroup | str | None) -> PlacementGroup | None:
        """Return the group of this name as the API describes it; a PlacementGroup or None is returned as it is.

        Raises PlacementRefused if the region has no group of this name.
        """
        if group is None or isinstance(group, PlacementGroup):
            return group
        description = self._clients.repeat(lambda: self._describe(group))
        if description is None:
            raise PlacementRefused(
                f"there is no placement group {group!r} in {self._clients.region}; create it first "
                "(Cloud.create_placement_group), or launch without one"
            )
        return _group(description)

    def zones_in_use(self, group: PlacementGroup) -> tuple[str, ...]:
        """Return the zones that contain instances of the group, including terminating ones, sorted."""
        reservations = self._clients.repeat_pages(
            f"list the instances in placement group {group}",
            "describe_instances",
            "Reservations",
            Filters=[{"Name": "placement-group-name", "Values": [group.name]}],
        )
        members = [one for reservation in reservations for one in reservation["Instances"]]
        there = [one for one in members if one["State"]["Name"] != "terminated"]
        return tuple(sorted({one["Placement"]["AvailabilityZone"] for one in there}))

    def _is_ours(self, group_name: str) -> bool:
        found = poll(lambda: self._describe(group_name), self._clients.settle_s, self._clients.pace)
        return found is not None and belongs_to(found, self._run.run_id)

    def _wait_available(self, group_name: str) -> PlacementGroup:
        state = "unknown to the service"

        def look() -> PlacementGroup | None:
            nonlocal state
            description = self._describe(group_name)
            if description is None:
                # It is invisible right after its creation.
                return None
            state = str(description["State"])
            return _group(description) if state == "available" else None

        found = poll(look, self._run.bounds.group_s, self._clients.pace)
        if found is None:
            raise WaitTimeout(
                f"placement group {group_name} did not become available in {self._run.bounds.group_s:.0f} s; "
                f"it is {state}"
            )
        return found

    def _describe(self, group_name: str) -> dict[str, Any] | None:
        try:
            found = self._clients.call(
                f"describe placement group {group_name}",
                "ec2",
                "describe_placement_groups",
                GroupNames=[group_name],
            )["PlacementGroups"]
        except CloudError as error:
            if error.code == UNKNOWN:
                return None
            raise
        return found[0] if found else None


def check_strategy(type_name: str, supported: Collection[str] | None, strategy: str) -> None:
    """Raise PlacementRefused if a type cannot be in such a group. `supported`: its strategies, None if unknown."""
    if supported is not None and strategy not in supported:
        can = f"only in {' or '.join(supported)} ones" if supported else "in none"
        raise PlacementRefused(
            f"{type_name} cannot be in a {strategy} placement group, {can}; "
            f"use a type that can, or launch it without the group"
        )


def check_one_zone(zones: Sequence[str], strategy: str = CLUSTER) -> None:
    """Raise ZoneMismatch if a cluster would span zones. `zones`: the requested ones."""
    different = sorted(set(zones))
    if strategy == CLUSTER and len(different) > 1:
        raise ZoneMismatch(
            f"a cluster placement group lies in one availability zone, but {' and '.join(different)} were requested: "
            "use the same zone for all its instances, or launch them without the group"
        )


def _group(description: Mapping[str, Any]) -> PlacementGroup:
    """Return a placement group as DescribePlacementGroups shows it."""
    return PlacementGroup(
        name=description["GroupName"],
        id=description.get("GroupId") or "",
        strategy=description.get("Strategy") or "",
        state=description.get("State") or "",
        tags=tags_of(description),
    )
