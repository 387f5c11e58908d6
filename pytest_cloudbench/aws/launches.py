"""Launching several instances as one: checked together, in one zone if possible, all or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pytest_cloudbench.resources.errors import CloudError, NotOffered, ZoneMismatch
from pytest_cloudbench.resources.facts import ImageFacts, Launch, LaunchedInstance, Placement, PlacementGroup

from .doorway import Doorway
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances, LaunchPlan
from .placement import Places
from .placement_groups import CLUSTER, PlacementGroups, check_one_zone, check_strategy
from .waits import all_of, gather

# EC2 API Reference, "Error codes": refusals that another zone or type need not give. The codes of the first line
# also occur later, as the StateReason of an instance that ends instead of running; InternalError means a
# failed machine.
NO_ROOM = frozenset(
    {
        *("InsufficientInstanceCapacity", "InsufficientVolumeCapacity", "InternalError"),
        *("InsufficientHostCapacity", "InsufficientCapacityOnHost", "InsufficientCapacity"),
        *("InsufficientFreeAddressesInSubnet", "Unsupported"),
    }
)

Layout = tuple[Placement, ...]


class Catalog(NamedTuple):
    """What a region offers: instance types, images and places. Queries create nothing."""

    types: InstanceTypes
    images: Images
    places: Places


class Launches:
    """Launches several instances as one: checked together, side by side, released together on a failure."""

    def __init__(
        self,
        catalog: Catalog,
        doorway: Doorway,
        groups: PlacementGroups,
        instances: Instances,
        release: Callable[[Sequence[LaunchedInstance]], None],
        *,
        hold: Callable[[Sequence[LaunchedInstance]], None],
    ) -> None:
        """`release` is called with the instances of a failed launch, `hold` with each instance once it is launched."""
        self._types = catalog.types
        self._images = catalog.images
        self._places = catalog.places
        self._doorway = doorway
        self._groups = groups
        self._instances = instances
        self._release = release
        self._hold = hold

    def check(self, launches: Sequence[Launch], strategy: str | None) -> None:
        """Raise if the region cannot launch these together into a placement group of `strategy` (None: no group).

        Raises UnknownInstanceType, PlacementRefused, ZoneMismatch, NotOffered or NoNetwork.
        """
        self._doorway.check()
        options = self._options(launches)
        for option in options:
            self._check_group(option, strategy)
        self._laid_out(options, strategy, ())

    def run(
        self, launches: Sequence[Launch], placement_group: PlacementGroup | str | None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch all of them and wait until they run and have addresses; return them in the given order."""
        if not launches:
            raise CloudError("cannot launch 0 instances: request at least one")
        self._doorway.check()
        options = self._options(launches)
        self._instances.run.bind()
        group = self._groups.find(placement_group)
        strategy = group.strategy if group else None
        for option in options:
            self._check_group(option, strategy)
        every = [launch for option in options for launch in option]
        images = {(one.type, one.image, one.user): one for one in every}.values()
        places = dict.fromkeys((one.type, one.zone, one.subnet_id) for one in every)
        questions: list[Callable[[], object]] = [
            *(partial(self._image, launch) for launch in images),
            *(partial(self._look_ahead, *place) for place in places),
            self._doorway.ssh_from,
        ]
        all_of(questions)
        # The answers are cached by now: no query is made twice.
        zones = self._groups.zones_in_use(group) if group else ()
        attempts = self._attempts(options, strategy, zones, group.name if group else None)
        plans = [plan for attempt in attempts for plan in attempt]
        for group_id, vpc_id in dict.fromkeys((each.security_group, each.place.vpc_id) for each in plans):
            if group_id is not None:
                self._doorway.check_group(group_id, vpc_id)
        vpcs = dict.fromkeys(each.place.vpc_id for each in plans if each.security_group is None)
        ways_in: list[Callable[[], object]] = [
            self._doorway.key_pair,
            *(partial(self._doorway.group, vpc_id) for vpc_id in vpcs),
        ]
        all_of(ways_in)
        return self._ask_in_turn(attempts, group)

    # Before anything is created

    def _options(self, launches: Sequence[Launch]) -> list[list[Launch]]:
        """Return the launches as requested, then each set of alternatives. Raises UnknownInstanceType.

        A launch that has fewer alternatives than others keeps its last one.
        """
        ways = [tuple(map(self._places.in_reservation, (one, *one.alternatives))) for one in launches]
        options = [[way[min(number, len(way) - 1)] for way in ways] for number in range(max(map(len, ways)))]
        names = dict.fromkeys(launch.type for way in ways for launch in way)
        all_of([partial(self._types.limits, name) for name in names])
        return options

    def _attempts(
        self,
        options: Sequence[Sequence[Launch]],
        strategy: str | None,
        in_use: Sequence[str],
        group_name: str | None,
    ) -> list[list[LaunchPlan]]:
        """Return what to try, in turn: each option in each of its layouts."""
        attempts: list[list[LaunchPlan]] = []
        for option, layouts in self._laid_out(options, strategy, in_use):
            plans = [
                replace(
                    self._instances.plan(
                        launch, self._types.limits(launch.type), self._image(launch), place, group_name
                    ),
                    requested_type=first.type,
                )
                for launch, place, first in zip(option, layouts[0], options[0], strict=True)
            ]
            attempts += [
                [replace(plan, place=place) for plan, place in zip(plans, layout, strict=True)]
                for layout in layouts
            ]
        return attempts

    def _laid_out(
        self, options: Sequence[Sequence[Launch]], strategy: str | None, in_use: Sequence[str]
    ) -> list[tuple[Sequence[Launch], list[Layout]]]:
        """Return the options that have a place, with their layouts. Raises the error of the first if none has."""
        found: list[tuple[Sequence[Launch], list[Layout]]] = []
        refusals: list[NotOffered] = []
        for option in options:
            try:
                found.append((option, self._layouts(option, strategy, in_use)))
            except NotOffered as error:
                refusals.append(error)
        if not found:
            raise refusals[0]
        return found

    def _look_ahead(self, type_name: str, zone: str | None, subnet_id: str | None) -> None:
        """Find in advance where a type can be launched; errors are raised when the answer is needed."""
        with suppress(CloudError):
            self._places.find(type_name, zone, subnet_id)

    def _check_group(self, launches: Sequence[Launch], strategy: str | None) -> None:
        if strategy is None:
            return
        for name in dict.fromkeys(launch.type for launch in launches):
            check_strategy(name, self._types.placement_strategies(name), strategy)
        check_one_zone([launch.zone for launch in launches if launch.zone is not None], strategy)

    def _image(self, launch: Launch) -> ImageFacts:
        architectures = self._types.limits(launch.type).architectures
        return self._images.find(launch.type, architectures, launch.image, launch.user)

    def _layouts(
        self, launches: Sequence[Launch], strategy: str | None, in_use: Sequence[str]
    ) -> list[Layout]:
        """Return the possible layouts, each with a place for every instance, the first choice first.

        Instances with a zone or a subnet go there. The others stay together: with those, if they are in one zone, or
        with the cluster's instances (`in_use`), else in any zone that offers all their types.
        """
        fixed = {
            index: self._places.find(launch.type, launch.zone, launch.subnet_id)
            for index, launch in enumerate(launches)
            if launch.zone is not None or launch.subnet_id is not None
        }
        zones = {place.zone for place in fixed.values()}
        occupied = set(in_use) if strategy == CLUSTER else set()
        if strategy is not None:
            check_one_zone(sorted(zones), strategy)
        if zones and occupied - zones:
            raise ZoneMismatch(
                f"the cluster placement group has instances in {', '.join(sorted(occupied))} already, and "
                f"{', '.join(sorted(zones))} was asked for; such a group lies in one availability zone"
            )
        count = len(launches)
        free = [launch.type for index, launch in enumerate(launches) if index not in fixed]
        if not free:
            return [tuple(fixed[index] for index in range(count))]
        bound = sorted(zones or occupied)
        shared = self._places.candidates(free, bound[0] if len(bound) == 1 else None)
        return [tuple(fixed.get(index, place) for index in range(count)) for place in shared]

    # Launching

    def _ask_in_turn(
        self, attempts: Sequence[Sequence[LaunchPlan]], group: PlacementGroup | None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch where there is room for all, and wait until they run. Only a lack of room leads to another attempt."""
        shortages: list[tuple[LaunchPlan, CloudError]] = []
        for attempt in attempts:
            launched: list[LaunchedInstance] = []
            try:
                results = gather([partial(self._ask, plan, launched) for plan in attempt])
                pending = [result for result in results if isinstance(result, LaunchedInstance)]
                if len(pending) == len(attempt):
                    results = gather([partial(self._instances.wait_until_running, one) for one in pending])
            except BaseException:  # the test is interrupted: nobody else knows of them
                self._release(launched)
                raise
            failures = [result for result in results if isinstance(result, Exception)]
            if not failures:
                return tuple(result for result in results if isinstance(result, LaunchedInstance))
            self._release(pending)
            for plan, result in zip(attempt, results, strict=True):
                if not isinstance(result, Exception):
                    continue
                if not isinstance(result, CloudError) or result.code not in NO_ROOM:
                    raise result
                shortages.append((plan, result))
            if group is not None and attempt is not attempts[-1]:
                # A cluster stays tied to this zone until its instances here have terminated.
                all_of([partial(self._instances.wait_until_ended, instance) for instance in pending])
        raise _short_of_room(shortages, group)

    def _ask(self, plan: LaunchPlan, launched: list[LaunchedInstance]) -> LaunchedInstance:
        """Launch one instance, and append it to `launched`."""
        group_id = plan.security_group or self._doorway.group(plan.place.vpc_id)
        one = self._instances.launch(plan, self._doorway.key_pair(), group_id)
        launched.append(one)
        self._hold([one])  # the launch of another may take longer than a lease
        return one


def _short_of_room(
    shortages: Sequence[tuple[LaunchPlan, CloudError]], group: PlacementGroup | None
) -> CloudError:
    """Return one error for all attempts, none of which found room."""
    (first, error), *_ = shortages
    places = dict.fromkeys(f"{plan.limits.name} in {plan.place.zone}" for plan, _ in shortages)
    others = [place for place in places if place != f"{first.limits.name} in {first.place.zone}"]
    sentence = str(error)
    if others:
        sentence += f"; also without success: {', '.join(others)}"
    if group is not None and group.strategy == CLUSTER:
        sentence += (
            f"; the machines of cluster placement group {group} must also be close together: launch instances of one "
            "type, together, or launch them without the group"
        )
    return CloudError(sentence, code=error.code, asked=error.asked)
