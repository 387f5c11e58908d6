"""What tests would create in EC2, at what price and under which ceilings, and what it would refuse. Creates nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_cloudbench.limits.envelope import Envelope, storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network import network_envelope
from pytest_cloudbench.limits.quantities import KIB, Size
from pytest_cloudbench.reports.prices import Charge, Prices
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import ImageFacts, Launch, Placement
from pytest_cloudbench.resources.markers import RequestedVolumes

from .cloud import Cloud
from .instances import METADATA_OPTIONS
from .user_data import new_ssh_key
from .waits import gather

VCPU_QUOTA = "L-1216C47A"
"""Service Quotas: "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", in vCPUs."""
_STANDARD = "acdhimrtz"
_WOULD_SUCCEED = "DryRunOperation"


@dataclass(frozen=True)
class RequestedSet:
    """The hardware that the markers of a test request; ``cluster`` is True for a cluster placement group."""

    launches: tuple[Launch, ...]
    volumes: tuple[RequestedVolumes, ...] = ()
    cluster: bool = False


@dataclass(frozen=True)
class PlannedInstance:
    """One instance to be launched, and all that decides its price."""

    launch: Launch
    limits: InstanceLimits
    place: Placement
    image: ImageFacts
    public: bool

    @property
    def words(self) -> str:
        """What would be launched; a spot instance has the price of an On-Demand one, which it never passes."""
        others = " or ".join(other.type for other in self.launch.alternatives)
        market = f"{self.launch.market} instance " if self.launch.market else ""
        return f"{market}{self.launch.type}{f' (else {others})' if others else ''}"


@dataclass(frozen=True)
class PlannedSet:
    """The hardware of a test as it would be created. ``charges`` are empty without prices."""

    requested: RequestedSet
    instances: tuple[PlannedInstance, ...]
    charges: tuple[Charge, ...]

    @property
    def vcpus(self) -> int:
        """The vCPUs that count towards the quota of standard instances."""
        return sum(
            each.limits.vcpus or 0
            for each in self.instances
            if each.launch.type[:1] in _STANDARD and each.launch.market is None
        )

    @property
    def volume_count(self) -> int:
        """The number of its data volumes."""
        return sum(each.count for each in self.requested.volumes)

    def created(self) -> list[str]:
        """Return what would be created, in words."""
        words = []
        for each in self.instances:
            root = each.image.root_size_gib
            parts = [
                f"{each.words} in {each.place.zone}",
                f"subnet {each.place.subnet_id}",
                *([f"{root} GiB root volume"] if root else []),
                "a public IPv4 address" if each.public else "no public IPv4 address",
            ]
            words.append(", ".join(parts))
        words += [f"{each.count} x {each.spec}" for each in self.requested.volumes]
        return [*words, *(["a cluster placement group"] if self.requested.cluster else [])]

    def ceilings(self) -> list[str]:
        """Return what can limit usual kinds of load; the load itself is known only when its test runs."""
        limits = [each.limits for each in self.instances]
        if len(limits) == 2:
            express = all(each.launch.network_options.ena_express for each in self.instances)
            one_zone = len({each.place.zone for each in self.instances}) == 1
            envelope = network_envelope(
                *limits, streams=1, cluster=self.requested.cluster, ena_express=express and one_zone
            )
            return [f"network, 1 stream: {line}" for line in envelope.explain()]
        specs = [
            (f"{each.spec.type} volume", each.spec)
            for each in self.requested.volumes
            for _ in range(each.count)
        ]
        if not specs:
            return []
        cards: list[int] = []
        for each in self.requested.volumes:
            named = [each.card] * each.count if each.card is not None else None
            cards += named or limits[0].spread_over_cards(each.count, cards)
        shapes = ((16 * KIB, False, "random"), (128 * KIB, True, "sequential"))
        return [
            _binding(storage_envelope(limits[0], specs, Size(size), sequential=sequential, cards=cards), word)
            for size, sequential, word in shapes
        ]


def _binding(envelope: Envelope, word: str) -> str:
    binding = envelope.binding
    rate = envelope.throughput_of(binding[0]) if envelope.sequential else envelope.iops_of(binding[0])
    others = [each for each in envelope.ordered if each not in binding]
    then = f"; then {others[0].label}, {envelope.place_of(others[0])}" if others else ""
    labels = " and ".join(each.label for each in binding)
    return f"{envelope.block_size} {word}: at most {rate}, limited by {labels}{then}"


class Planner:
    """Plans hardware in the region of a cloud. It asks and creates nothing. ``prices`` may be None."""

    def __init__(self, cloud: Cloud, prices: Callable[[Sequence[str]], Prices | None]) -> None:
        self._cloud = cloud
        self._prices = prices

    def plan(self, requested: RequestedSet) -> PlannedSet:
        """Return the hardware as it would be created.

        Raises CloudError, or what `Ec2.check` raises, for what the region does not offer.
        """
        cloud, catalog = self._cloud, self._cloud.catalog
        subnet = cloud.access.subnet_id
        free = [launch.type for launch in requested.launches if launch.zone is None]
        shared = catalog.places.candidates(free, None, subnet)[0] if free else None
        instances = []
        for launch in requested.launches:
            limits = launch.limited(cloud.limits(launch.type))
            place = (
                shared
                if launch.zone is None and shared is not None
                else catalog.places.find(launch.type, launch.zone, subnet)
            )
            image = catalog.images.find(launch.type, limits.architectures, launch.image, launch.user)
            public = place.assigns_public or cloud.access.reach(place.assigns_public) == "public"
            instances.append(PlannedInstance(launch, limits, place, image, public))
        prices = self._prices([launch.type for launch in requested.launches])
        charges = [] if prices is None else _charges(prices, instances, requested.volumes)
        return PlannedSet(requested, tuple(instances), tuple(charges))

    def refusals(self, planned: Iterable[PlannedSet]) -> tuple[list[str], list[str]]:
        """Ask EC2, by dry runs, whether it would allow every creating call.

        Return a sentence for each call that it would refuse, and one for each thing that stays unknown.
        """
        planned = list(planned)
        calls = self._creating_calls(planned)
        refused: list[str] = []
        unknown: list[str] = []
        answers = gather([partial(self._dry_run, *call) for call in calls])
        for (what, _, _), answer in zip(calls, answers, strict=True):
            code = answer.code if isinstance(answer, CloudError) else ""
            if code == _WOULD_SUCCEED:
                continue
            (refused if code else unknown).append(str(answer) if answer else f"{what}: there was no dry run")
        vcpus = max((each.vcpus for each in planned), default=0)
        quota = self._vcpu_quota() if vcpus else None
        if isinstance(quota, str):
            unknown.append(f"the quota of vCPUs ({vcpus} are needed at once): {quota}")
        elif quota is not None and vcpus > quota:
            refused.append(
                f"the account's quota is {quota:,.0f} vCPUs of running standard instances ({VCPU_QUOTA}), and a test "
                f"needs {vcpus:,}: ask for a higher quota in Service Quotas, or use smaller types"
            )
        return list(dict.fromkeys(refused)), list(dict.fromkeys(unknown))

    def _creating_calls(self, planned: Sequence[PlannedSet]) -> list[tuple[str, str, dict[str, Any]]]:
        """Return every creating call, each once: what it creates, the operation and its parameters."""
        run = self._cloud.run
        name = f"cloudbench-{run.run_id}"
        calls: list[tuple[str, str, dict[str, Any]]] = []
        instances = [each for one in planned for each in one.instances]
        if instances:
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
        for each in instances:
            what = f"launch {each.words} in {each.place.zone}"
            calls.append((what, "run_instances", self._launch(each)))
        for one in planned:
            zone = one.instances[0].place.zone if one.instances else ""
            for asked in one.requested.volumes:
                spec = asked.spec
                volume = {
                    "AvailabilityZone": asked.zone or zone,
                    "VolumeType": spec.type,
                    "Size": spec.size_gib,
                    **self._cloud.access.settings.encryption,
                    "Iops": spec.requested_iops,
                    "Throughput": spec.requested_throughput_mib,
                    "TagSpecifications": run.tagged("plan", "volume", extra=spec.tags),
                }
                given = {key: value for key, value in volume.items() if value is not None}
                calls.append((f"create volume {spec} in {asked.zone or zone}", "create_volume", given))
        return list({what: (what, operation, asked) for what, operation, asked in calls}.values())

    def _launch(self, each: PlannedInstance) -> dict[str, Any]:
        # Without key pair and security group, which do not exist yet.
        settings = self._cloud.access.settings
        root = {
            "VolumeSize": each.image.root_size_gib,
            "DeleteOnTermination": True,
            **settings.encryption,
        }
        mappings = [{"DeviceName": each.image.root_device, "Ebs": root}] if each.image.root_size_gib else []
        options: dict[str, Any] = {}
        if each.launch.market is not None:
            options["InstanceMarketOptions"] = {"MarketType": each.launch.market}
        if (reservation := each.launch.capacity_reservation) is not None:
            target = {"CapacityReservationId": reservation}
            options["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
        if each.launch.tenancy is not None:
            options["Placement"] = {"Tenancy": each.launch.tenancy}
        return {
            **options,
            **settings.profile,
            "ImageId": each.image.id,
            "InstanceType": each.launch.type,
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": each.place.subnet_id,
            "BlockDeviceMappings": mappings,
            "MetadataOptions": METADATA_OPTIONS,
            "TagSpecifications": self._cloud.run.tagged("plan", "instance", "volume"),
        }

    def _dry_run(self, what: str, operation: str, parameters: dict[str, Any]) -> None:
        self._cloud.clients.call(what, "ec2", operation, DryRun=True, **parameters)

    def _vcpu_quota(self) -> float | str:
        """Return the quota, or why it is unknown."""
        try:
            answer = self._cloud.clients.call(
                "read the quota of vCPUs",
                "service-quotas",
                "get_service_quota",
                ServiceCode="ec2",
                QuotaCode=VCPU_QUOTA,
            )
            return float(answer["Quota"]["Value"])
        except (CloudError, KeyError) as error:
            return str(error)


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
