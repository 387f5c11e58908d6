"""What tests would create in EC2, its price and ceilings, and what EC2 would refuse. Nothing is created.

An account has quotas of vCPUs that run at once, one for each group of instance families.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.reports.prices import Charge, Prices
from pytest_cloudbench.resources.errors import CloudError, NotOffered
from pytest_cloudbench.resources.facts import ImageFacts, Launch, Market, Placement
from pytest_cloudbench.resources.markers import RequestedVolumes

from .clients import Clients
from .cloud import Cloud
from .doorway import Doorway
from .errors import is_temporary
from .user_data import new_ssh_key
from .waits import gather

_WOULD_SUCCEED = "DryRunOperation"
_NOT_ASKED = (
    "the permissions to attach, tag, change, stop and remove what was created: a dry run of these calls needs an "
    "existing resource"
)
# Parameters that do not change EC2's answer to a dry run.
_OF_ONE_CALL = ("TagSpecifications", "UserData", "PublicKeyMaterial")

_NO_QUOTA = "NoSuchResourceException"
"""The error code of Service Quotas for a quota that does not exist, as in an embedded region without quotas."""
_NOT_ALLOWED = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
# What every run reads: to plan its launches, to wait for them, and to see that all is gone.
_READS = (
    *("describe_instance_types", "describe_instance_type_offerings", "describe_images", "describe_subnets"),
    *("describe_instances", "describe_volumes", "describe_security_groups"),
)

DryRun = tuple[str, str, dict[str, Any]]
"""What a call does, in words, its operation and its parameters."""


@dataclass(frozen=True)
class RequestedSet:
    """The hardware that the markers of a test request; ``cluster`` is True for a cluster placement group."""

    launches: tuple[Launch, ...]
    volumes: tuple[RequestedVolumes, ...] = ()
    cluster: bool = False


@dataclass(frozen=True)
class PlannedInstance:
    """One instance to be launched, and all that decides its price; ``others`` are tried if there is no room for it."""

    launch: Launch
    limits: InstanceLimits
    place: Placement
    image: ImageFacts
    public: bool
    others: tuple[PlannedInstance, ...] = ()

    @property
    def options(self) -> tuple[PlannedInstance, ...]:
        """The instances to try, in this order, until there is room for one."""
        return (self, *self.others)


@dataclass(frozen=True)
class PlannedSet:
    """The hardware of a test as it would be created. ``charges`` are empty without prices."""

    requested: RequestedSet
    instances: tuple[PlannedInstance, ...]
    charges: tuple[Charge, ...]

    @property
    def volume_count(self) -> int:
        """The number of its data volumes."""
        return sum(each.count for each in self.requested.volumes)


class Planner:
    """Plans hardware in the region of a cloud, and creates nothing. ``prices`` may return None."""

    def __init__(self, cloud: Cloud, prices: Callable[[Sequence[str]], Prices | None]) -> None:
        self._cloud = cloud
        self._prices = prices

    def plan(self, requested: RequestedSet) -> PlannedSet:
        """Return the hardware as it would be created.

        Raises CloudError, or what `Ec2.check` raises, for what the region does not offer.
        """
        if requested.launches:
            Doorway(self._cloud.run).check()
        places, subnet = self._cloud.catalog.places, self._cloud.access.subnet_id
        launches = list(requested.launches if subnet else map(places.in_reservation, requested.launches))
        free = [launch.type for launch in launches if launch.zone is None]
        shared = places.candidates(free, None, subnet)[0] if free else None
        instances = [self._instance(launch, shared if launch.zone is None else None) for launch in launches]
        prices = self._prices([launch.type for launch in requested.launches])
        charges = [] if prices is None else _charges(prices, instances, requested.volumes)
        return PlannedSet(requested, tuple(instances), tuple(charges))

    def _instance(self, launch: Launch, place: Placement | None = None) -> PlannedInstance:
        """Return an instance as it would be launched in ``place``, by default the first that offers it."""
        cloud, catalog = self._cloud, self._cloud.catalog
        limits = launch.limited(cloud.limits(launch.type))
        place = place or catalog.places.find(launch.type, launch.zone, cloud.access.subnet_id)
        image = catalog.images.find(launch.type, limits.architectures, launch.image, launch.user)
        public = place.assigns_public or cloud.access.reach(place.assigns_public) == "public"
        others = []
        for other in launch.alternatives:
            with suppress(NotOffered):  # the launch leaves out an alternative that is offered nowhere
                others.append(self._instance(other))
        return PlannedInstance(launch, limits, place, image, public, tuple(others))

    def refusals(self, planned: Iterable[PlannedSet]) -> tuple[list[str], list[str]]:
        """Ask EC2, by dry runs, whether it would allow the creating calls and the reads of a run.

        Return two lists of sentences: refused calls, exceeded quotas and all missing permissions; and what stays
        unknown.
        """
        planned = list(planned)
        calls = [*self._creating_calls(planned), *self._reading_calls(planned)]
        refused: list[str] = []
        unknown: list[str] = []
        missing: list[str] = []
        names = self._cloud.clients.client("ec2").meta.method_to_api_mapping
        answers = gather([partial(self._dry_run, *call) for call in calls])
        for (what, operation, _), answer in zip(calls, answers, strict=True):
            code = answer.code if isinstance(answer, CloudError) else ""
            if code in _NOT_ALLOWED:
                missing.append(f"ec2:{names[operation]}")
            # A read that is answered is allowed; one that is not allowed is named with the other permissions.
            named = answer is None or code in _NOT_ALLOWED
            if code == _WOULD_SUCCEED or (named and operation.startswith("describe_")):
                continue
            definite = isinstance(answer, CloudError) and code and not is_temporary(answer)
            (refused if definite else unknown).append(
                str(answer) if answer else f"{what}: there was no dry run"
            )
        for code, vcpus in _vcpus_at_once(planned).items():
            try:
                quota = read_quota(self._cloud.clients, code)
            except CloudError as error:
                if self._cloud.access.is_loopback and error.code == _NO_QUOTA:
                    continue
                unknown.append(f"the quota of vCPUs ({vcpus} are needed at once): {error}")
                continue
            if vcpus > quota:
                refused.append(
                    f"the account's quota is {quota:,.0f} vCPUs at once ({code}), and a test needs {vcpus:,}: ask "
                    "for a higher quota in Service Quotas, or use smaller types"
                )
        unknown += [f"the quota of vCPUs that {each} counts towards" for each in _without_quota(planned)]
        unknown.append(_NOT_ASKED)
        if missing:
            refused.append(f"the credentials lack the permissions {', '.join(dict.fromkeys(missing))}")
        return list(dict.fromkeys(refused)), list(dict.fromkeys(unknown))

    def _creating_calls(self, planned: Sequence[PlannedSet]) -> list[DryRun]:
        """Return every creating call, each once."""
        run = self._cloud.run
        name = f"cloudbench-{run.run_id}"
        calls: list[DryRun] = []
        instances = [each for one in planned for each in one.instances]
        if instances and self._cloud.access.makes_key_pair:
            calls.append(
                (
                    "create a key pair",
                    "import_key_pair",
                    {
                        "KeyName": name,
                        "PublicKeyMaterial": new_ssh_key().public_line.encode(),
                        "TagSpecifications": run.tagged("plan", "key-pair"),
                    },
                )
            )
        own_group = self._cloud.access.settings.security_group
        without = [each for each in instances if not (each.launch.security_group or own_group)]
        for vpc_id in dict.fromkeys(each.place.vpc_id for each in without):
            group = {
                "GroupName": name,
                "Description": "cloudbench plan",
                "VpcId": vpc_id,
                "TagSpecifications": run.tagged("plan", "security-group"),
            }
            calls.append((f"create a security group in {vpc_id}", "create_security_group", group))
        if any(one.requested.cluster for one in planned):
            cluster = {
                "GroupName": name,
                "Strategy": "cluster",
                "TagSpecifications": run.tagged("plan", "placement-group"),
            }
            calls.append(("create a placement group", "create_placement_group", cluster))
        calls += [self._launch(option) for each in instances for option in each.options]
        for one in planned:
            zone = one.instances[0].place.zone if one.instances else ""
            for asked in one.requested.volumes:
                spec = asked.spec
                place = asked.zone or zone
                volume = {
                    **self._cloud.volumes.parameters(spec, place),
                    "TagSpecifications": run.tagged("plan", "volume", extra=spec.tags),
                }
                calls.append((f"create volume {spec} in {place}", "create_volume", volume))
        return list({_key(call): call for call in reversed(calls)}.values())[::-1]

    def _reading_calls(self, planned: Sequence[PlannedSet]) -> list[DryRun]:
        """Return the reads of a run of this hardware."""
        launches = [each.launch for one in planned for each in one.instances]
        more = {
            "describe_key_pairs": self._cloud.access.makes_key_pair,
            "describe_placement_groups": any(one.requested.cluster for one in planned),
            "describe_capacity_reservations": any(each.capacity_reservation for each in launches),
        }
        asked = [*_READS, *(operation for operation, needed in more.items() if needed)]
        # Only the planned types: the answer about all types is by far the largest, and an endpoint may ignore DryRun.
        types = {"InstanceTypes": list(dict.fromkeys(each.type for each in launches))[:100]}
        parameters = {"describe_instance_types": types} if launches else {}
        return [(each.replace("_", " "), each, parameters.get(each, {})) for each in asked]

    def _launch(self, each: PlannedInstance) -> DryRun:
        # Without the key pair, the placement group and the run's own security group, which do not exist yet.
        launches = self._cloud.instances
        plan = launches.plan(each.launch, self._cloud.limits(each.launch.type), each.image, each.place, None)
        return f"launch {plan.what}", "run_instances", launches.parameters(plan, plan.security_group)

    def _dry_run(self, what: str, operation: str, parameters: dict[str, Any]) -> None:
        self._cloud.clients.repeat_call(what, operation, secret=True, DryRun=True, **parameters)


def _key(call: DryRun) -> str:
    """Return what determines EC2's answer to a call."""
    _, operation, parameters = call
    return repr((operation, {name: each for name, each in parameters.items() if name not in _OF_ONE_CALL}))


def _vcpus_at_once(planned: Sequence[PlannedSet]) -> dict[str, int]:
    """Return the most vCPUs that a test runs at once, by the code of the quota that they count towards."""
    needed: dict[str, int] = {}
    for one in planned:
        for number in range(max((len(each.options) for each in one.instances), default=0)):
            counted: Counter[str] = Counter()
            for each in one.instances:
                option = each.options[min(number, len(each.options) - 1)]
                if code := quota_of(option.launch.type, option.launch.market):
                    counted[code] += option.limits.vcpus or 0
            needed = {code: max(needed.get(code, 0), counted[code]) for code in {**needed, **counted}}
    return needed


def _without_quota(planned: Sequence[PlannedSet]) -> list[str]:
    launches = [option.launch for one in planned for each in one.instances for option in each.options]
    return [
        f"a {f'{one.market} ' if one.market else ''}{one.type}"
        for one in launches
        if quota_of(one.type, one.market) is None
    ]


def _charges(
    prices: Prices, instances: Sequence[PlannedInstance], volumes: Sequence[RequestedVolumes]
) -> list[Charge]:
    charges = []
    for each in instances:
        charges.append(prices.instance(each.launch.type))
        if each.image.root_size_gib:
            charges.append(prices.root_volume(each.image.root_size_gib))
        if each.public:
            charges.append(prices.address())
    return charges + [prices.volume(asked.spec) for asked in volumes for _ in range(asked.count)]


# Amazon EC2 endpoints and quotas (AWS General Reference), read 2026-11: by the letters before a family's generation,
# the quotas of On-Demand and of spot instances. None: the quota depends on more than the family, or the family has no
# spot instances. Mac instances are counted by hosts, not by vCPUs.
_STANDARD = ("L-1216C47A", "L-34B43A08")
_QUOTAS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), _STANDARD),
    "dl": ("L-6E869C2A", "L-85EED4F7"),
    "f": ("L-74FC7D96", "L-88CF9481"),
    **dict.fromkeys(("g", "gr", "vt"), ("L-DB2E81BA", "L-3819A6DF")),
    "hpc": ("L-F7808C92", None),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "p": ("L-417A185B", None),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
    "u": ("L-43DA4232", None),
    "x": ("L-7295265B", "L-E3A00192"),
}


def quota_of(type_name: str, market: Market | None) -> str | None:
    """Return the code of the quota that the vCPUs of an instance count towards; None if unknown."""
    letters = re.match("[a-z]*", type_name)
    on_demand, spot = _QUOTAS.get(letters[0] if letters else "", (None, None))
    return spot if market == "spot" else on_demand


def read_quota(clients: Clients, code: str) -> float:
    """Return the number of vCPUs that a quota allows. Raises CloudError if it cannot be read."""
    answer = clients.repeat_call(
        f"read the quota {code} of vCPUs",
        "get_service_quota",
        service="service-quotas",
        ServiceCode="ec2",
        QuotaCode=code,
    )
    try:
        return float(answer["Quota"]["Value"])
    except KeyError as error:
        raise CloudError(f"the answer about the quota {code} of vCPUs has no {error}") from None
