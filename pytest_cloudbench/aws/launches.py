"""Launching several instances as one: checked together, in one zone if possible, all or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.errors import CloudError, ZoneMismatch
from pytest_cloudbench.resources.facts import ImageFacts, Launch, LaunchedInstance, Placement, PlacementGroup

from .doorway import Doorway
from .images import Images
from .instance_types import InstanceTypes
from .instances import Instances, LaunchPlan, make_plan
from .placement import Places
from .placement_groups import CLUSTER, PlacementGroups, check_one_zone, check_strategy
from .waits import all_of, gather

NO_CAPACITY = "InsufficientInstanceCapacity"

Layout = tuple[Placement, ...]


class Catalog(NamedTuple):
    """What a region offers: instance types, images and places. Asking it creates nothing."""

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
    ) -> None:
        """`release` takes the instances of a launch that failed."""
        self._types = catalog.types
        self._images = catalog.images
        self._places = catalog.places
        self._doorway = doorway
        self._groups = groups
        self._instances = instances
        self._release = release

    def check(self, launches: Sequence[Launch], strategy: str | None) -> None:
        """Raise if the region cannot launch these together into a placement group of `strategy` (None: no group).

        Raises UnknownInstanceType, PlacementRefused, ZoneMismatch, NotOffered or NoNetwork.
        """
        self._limits(launches)
        self._check_group(launches, strategy)
        self._layouts(launches, strategy, ())

    def run(
        self, launches: Sequence[Launch], placement_group: PlacementGroup | str | None
    ) -> tuple[LaunchedInstance, ...]:
        """Launch all of them and wait until they run and have addresses; return them in their order."""
        if not launches:
            raise CloudError("cannot launch 0 instances: request at least one")
        limits = self._limits(launches)
        self._instances.run.bind()
        group = self._groups.find(placement_group)
        strategy = group.strategy if group else None
        self._check_group(launches, strategy)
        images = {(one.type, one.image, one.user): one for one in launches}.values()
        places = dict.fromkeys((one.type, one.zone, one.subnet_id) for one in launches)
        questions: list[Callable[[], object]] = [
            *(partial(self._image, launch, limits[launch.type]) for launch in images),
            *(partial(self._places.find, *place) for place in places),
            self._doorway.ssh_from,
        ]
        all_of(questions)
        # The answers are known by now; no question is asked twice.
        layouts = self._layouts(launches, strategy, self._groups.zones_in_use(group) if group else ())
        plans = [
            make_plan(
                launch.limited(limits[launch.type]),
                self._image(launch, limits[launch.type]),
                place,
                launch.name,
                launch.commands,
                placement_group=group.name if group else None,
                network_options=launch.network_options,
                lease_s=self._instances.run.lease_s,
            )
            for launch, place in zip(launches, layouts[0], strict=True)
        ]
        vpcs = dict.fromkeys(place.vpc_id for layout in layouts for place in layout)
        ways_in: list[Callable[[], object]] = [
            self._doorway.key_pair,
            *(partial(self._doorway.group, vpc_id) for vpc_id in vpcs),
        ]
        all_of(ways_in)
        return self._wait(self._ask_in_turn(plans, layouts, group))

    # What is known before

    def _limits(self, launches: Sequence[Launch]) -> dict[str, InstanceLimits]:
        names = list(dict.fromkeys(launch.type for launch in launches))
        found = all_of([partial(self._types.limits, name) for name in names])
        return dict(zip(names, found, strict=True))

    def _check_group(self, launches: Sequence[Launch], strategy: str | None) -> None:
        if strategy is None:
            return
        for name in dict.fromkeys(launch.type for launch in launches):
            check_strategy(name, self._types.placement_strategies(name), strategy)
        check_one_zone([launch.zone for launch in launches if launch.zone is not None], strategy)

    def _image(self, launch: Launch, limits: InstanceLimits) -> ImageFacts:
        return self._images.find(launch.type, limits.architectures, launch.image, launch.user)

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
        self, plans: Sequence[LaunchPlan], layouts: Sequence[Layout], group: PlacementGroup | None
    ) -> list[LaunchedInstance]:
        """Launch in the first zone that has room for all. Only a lack of capacity leads to the next zone."""
        shortages: dict[str, CloudError] = {}
        for layout in layouts:
            here = [replace(plan, place=place) for plan, place in zip(plans, layout, strict=True)]
            results = gather([partial(self._ask, plan) for plan in here])
            pending = [result for result in results if isinstance(result, LaunchedInstance)]
            failures = [result for result in results if isinstance(result, Exception)]
            if not failures:
                return pending
            self._release(pending)
            for failure in failures:
                if not isinstance(failure, CloudError) or failure.code != NO_CAPACITY:
                    raise failure
                shortages.setdefault(layout[results.index(failure)].zone, failure)
            if group is not None and layout is not layouts[-1]:
                # A cluster stays tied to this zone until its instances here have terminated.
                all_of([partial(self._instances.wait_until_ended, instance) for instance in pending])
        raise _short_of_capacity(shortages, group)

    def _ask(self, plan: LaunchPlan) -> LaunchedInstance:
        key, group_id = self._doorway.key_pair(), self._doorway.group(plan.place.vpc_id)
        return self._instances.launch(plan, key, group_id)

    def _wait(self, pending: Sequence[LaunchedInstance]) -> tuple[LaunchedInstance, ...]:
        results = gather([partial(self._instances.wait_until_running, instance) for instance in pending])
        for result in results:
            if isinstance(result, Exception):
                self._release(pending)
                raise result
        return tuple(result for result in results if isinstance(result, LaunchedInstance))


def _short_of_capacity(shortages: Mapping[str, CloudError], group: PlacementGroup | None) -> CloudError:
    """Return one error for all zones that had no room."""
    first, *others = shortages
    error = shortages[first]
    sentence = str(error)
    if others:
        sentence += f"; {', '.join(others)} had none either"
    if group is not None and group.strategy == CLUSTER:
        sentence += (
            f"; the machines of cluster placement group {group} must also be close together: launch instances of one "
            "type, together, or launch them without the group"
        )
    return CloudError(sentence, code=error.code, asked=error.asked)
