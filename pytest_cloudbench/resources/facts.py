"""What a provider returns: instances, volumes, places and images, as immutable facts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.credits import volume_credits
from pytest_cloudbench.limits.instances import NOT_OPTIMISED, InstanceLimits
from pytest_cloudbench.limits.network_options import PLAIN_NETWORK, NetworkOptions
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Size, Throughput
from pytest_cloudbench.limits.recorded_limits import RecordedLimits
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.resources.errors import TeardownFailed

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.fio.data_pass import Initialisation

Command = str | Sequence[str]
"""A shell line, or a list of words that no shell sees."""

ModificationState = Literal["optimizing", "completed"]
Market = Literal["spot"]
_ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

# Tags that only a service can set, as "aws:" is reserved: the limits of the machine behind an instance, if the
# region publishes them.
MACHINE_IOPS_TAG = "aws:cloudbench:machine-iops"
MACHINE_THROUGHPUT_TAG = "aws:cloudbench:machine-bytes-per-second"
MACHINE_ROOM_TAG = "aws:cloudbench:machine-free-bytes"
MACHINE_NETWORK_TAG = "aws:cloudbench:machine-network-bytes-per-second"
# How many times faster than the clock its burst credits drain and refill.
TIME_COMPRESSION_TAG = "aws:cloudbench:time-compression"
# How the latency of its storage is modelled, "ebs" or "none".
LATENCY_TAG = "aws:cloudbench:latency"
# "limited" if its instance store is limited to the published figures, else "unlimited".
INSTANCE_STORE_TAG = "aws:cloudbench:instance-store"
# "folder" if its volumes' data is in a folder of its machine rather than in memory.
BACKING_TAG = "aws:cloudbench:backing"
# How many processors its machine has for it, if those are fewer than its type has.
MACHINE_VCPUS_TAG = "aws:cloudbench:machine-vcpus"
# The devices of a host without an API that its owner allows a load to overwrite, separated by spaces.
ALLOWED_DEVICES_TAG = "cloudbench:devices"

_EXISTING = "existing hardware: what else uses it is unknown"
_NOT_OPTIMISED = "launched without EBS optimisation: AWS states no EBS limits for it"


@dataclass(frozen=True)
class Placement:
    """The place of an instance: an availability zone and a subnet in it.

    assigns_public: the subnet gives its instances public addresses.
    """

    zone: str
    subnet_id: str
    vpc_id: str
    assigns_public: bool = False


@dataclass(frozen=True)
class PlacementGroup:
    """A placement group. `strategy` is cluster (close together, in one zone), partition or spread."""

    name: str
    id: str
    strategy: str
    state: str = "available"
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ImageFacts:
    """A Linux machine image. `login_user` is the user that logs in, `asked` how the image was requested.

    `root_size_gib` is None if it is unknown or the image has no root volume.
    """

    id: str = ""
    name: str = ""
    architecture: str = ""
    login_user: str = "root"
    root_device: str = ""
    root_size_gib: int | None = None
    asked: str = ""


@dataclass(frozen=True)
class Attachment:
    """A volume on an instance, under the device name of the AttachVolume call (not the name in /dev).

    `card` is the EBS card of the instance that it is attached to.
    """

    volume_id: str
    instance_id: str
    device: str
    state: str
    card: int = 0


@dataclass(frozen=True)
class LaunchedInstance:
    """An instance of a test as its provider last described it; `Provider.refresh` returns a newer description.

    address: where its host is reached. private_ip: where the load between instances goes. private_key: the OpenSSH
    private key of login_user. host_public_key: the line ("ssh-ed25519 AAAA...") that sshd must present. launched: its
    last start. Both keys stay in memory and out of repr. requested_type: the type that was requested first.
    state_reason: why it is in its state, as the service says it, such as "Server.SpotInstanceTermination". reached_by:
    which of its addresses SSH uses; "" if the provider does not distinguish them. existing: it was there before the
    run, which neither changes nor removes it. shared: the scope whose tests share it, such as "module"; "" if it
    belongs to one test. earlier_tests: how many of them used it before. store_initialised: how they initialised each
    disk of its instance store. unusable: why no later test may use it. waited_s: how long it ran before its test
    requested it, if it was launched ahead.
    """

    id: str
    type: str
    limits: InstanceLimits
    image: ImageFacts
    zone: str = ""
    state: str = "running"
    private_ip: str | None = None
    public_ip: str | None = None
    address: str | None = None
    key_name: str = ""
    private_key: str = field(default="", repr=False)
    host_public_key: str = field(default="", repr=False)
    vpc_id: str = ""
    subnet_id: str = ""
    placement_group: str | None = None
    launched: datetime | None = None
    attachments: tuple[Attachment, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)
    requested_type: str = ""
    market: Market | None = None
    state_reason: str = ""
    network_options: NetworkOptions = PLAIN_NETWORK
    reached_by: Literal["public", "private", ""] = ""
    existing: bool = False
    shared: str = ""
    earlier_tests: int = 0
    store_initialised: tuple[Initialisation | None, ...] = ()
    unusable: str = ""
    waited_s: float = 0.0

    @property
    def storage_credits(self) -> tuple[str, ...]:
        """Its burst credits for EBS that something else may have spent; none if its EBS does not burst."""
        used = self.earlier_tests or self.existing
        return ("EBS burst credits",) if used and self.limits.bursts else ()

    @property
    def network_credits(self) -> tuple[str, ...]:
        """Its burst credits of the network that something else may have spent; none if that does not burst."""
        bursts = (self.earlier_tests or self.existing) and self.limits.network_credits is not None
        return ("network burst credits",) if bursts else ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every measurement on this instance must say about it."""
        other = f"{self.type} instead of {self.requested_type}, for which there was no capacity"
        return (
            *([other] if self.requested_type not in ("", self.type) else []),
            *([f"{self.market} instance"] if self.market else []),
            *([str(self.network_options)] if self.network_options else []),
            *self._fewer_processors,
            *(_used_by_others((*self.storage_credits, *self.network_credits)) if self.existing else []),
            *([_NOT_OPTIMISED] if self.limits.ebs_optimised == NOT_OPTIMISED else []),
            *used_before("instance", self.earlier_tests, (*self.storage_credits, *self.network_credits)),
        )

    @property
    def _fewer_processors(self) -> tuple[str, ...]:
        cpus = self.tags.get(MACHINE_VCPUS_TAG)
        if cpus is None:
            return ()
        return (f"the embedded region's machine has {cpus} of the {self.limits.vcpus} vCPUs of {self.type}",)

    @property
    def login_user(self) -> str:
        """The user that logs in."""
        return self.image.login_user

    @property
    def machine_limits(self) -> MachineLimits | None:
        """The limits of the machine behind this instance; None if the region does not publish them, as on AWS."""
        return machine_limits(self.tags)

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock burst credits drain and refill; 1.0 unless the region says otherwise."""
        return _positive(self.tags.get(TIME_COMPRESSION_TAG)) or 1.0

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None if it does not say, as on AWS."""
        return self.tags.get(LATENCY_TAG)

    @property
    def store_unlimited(self) -> bool:
        """True if only the region's machine limits this instance's local disks."""
        return self.tags.get(INSTANCE_STORE_TAG) == "unlimited"

    @property
    def data_in_folder(self) -> bool:
        """True if its volumes' data is in a folder of the region's machine, which is slower than memory."""
        return self.tags.get(BACKING_TAG) == "folder"

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


@dataclass(frozen=True)
class CreatedVolume:
    """A volume of a test. `attachment` is None while it is free, `snapshot_id` is None if it was created empty.

    existing: it was there before the run, which neither changes nor removes it. shared, earlier_tests: as in
    `LaunchedInstance`. initialisation: how an earlier test initialised it.
    """

    id: str
    spec: VolumeSpec
    zone: str
    size: Size
    state: str
    attachment: Attachment | None = None
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)
    snapshot_id: str | None = None
    existing: bool = False
    shared: str = ""
    earlier_tests: int = 0
    initialisation: Initialisation | None = None

    @property
    def storage_credits(self) -> tuple[str, ...]:
        """Its burst credits that something else may have spent; none if it does not burst."""
        rule = volume_credits(self.spec) if self.earlier_tests or self.existing else None
        return () if rule is None else (rule.name,)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What every measurement on this volume must say about it."""
        if self.existing and self.storage_credits:
            return (may_not_be_full(self.storage_credits),)
        return used_before("volume", self.earlier_tests, self.storage_credits)

    @property
    def device(self) -> str | None:
        """The device name of the attachment; on NVMe instances the name in /dev differs."""
        return self.attachment.device if self.attachment else None

    @property
    def card(self) -> int:
        """The EBS card of its instance that it is attached to."""
        return self.attachment.card if self.attachment else 0

    @property
    def serial(self) -> str:
        """The serial number of its NVMe device: the id without its dash."""
        return self.id.replace("-", "", 1)

    def __str__(self) -> str:
        return f"{self.spec} {self.id}"


def used_before(kind: str, earlier_tests: int, burst_credits: Sequence[str]) -> tuple[str, ...]:
    """Return a condition such as "second test on this volume; blocks may be written already"; none for the first."""
    if not earlier_tests:
        return ()
    number = earlier_tests + 1
    nth = _ORDINALS[number - 2] if number < len(_ORDINALS) + 2 else f"{number}th"
    written = "; blocks may be written already" if kind == "volume" else ""
    unsure = f"; {may_not_be_full(burst_credits)}" if burst_credits else ""
    return (f"{nth} test on this {kind}{written}{unsure}",)


def _used_by_others(burst_credits: Sequence[str]) -> tuple[str, ...]:
    unsure = may_not_be_full(burst_credits)
    return (f"{_EXISTING}; {unsure}" if unsure else _EXISTING,)


def may_not_be_full(burst_credits: Iterable[str]) -> str:
    """Return the remark that these credits may not be full; "" without credits."""
    names = " and ".join(dict.fromkeys(burst_credits))
    return f"{names} may not be full" if names else ""


@dataclass(frozen=True)
class CreatedSnapshot:
    """A snapshot of a volume. ``ec2.create_volume(spec, instance, snapshot=...)`` creates a volume from it.

    Such a volume is slow until each of its blocks was read once; `Volume.initialised` reads them. `size` is the size of
    the snapshot's volume at that time; a volume created from it is at least as large.
    """

    id: str
    volume_id: str
    size: Size
    state: str
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"snapshot {self.id} of {self.volume_id}"


Snapshot = CreatedSnapshot
"""The value of `Volume.snapshot`."""
Resource = LaunchedInstance | CreatedVolume | CreatedSnapshot | PlacementGroup
"""What a test creates and a provider removes."""


@dataclass(frozen=True)
class Identity:
    """The account and the user (ARN) of a provider's credentials."""

    account: str
    arn: str


@dataclass(frozen=True)
class Launch:
    """One instance to launch. What is None or empty is left to the provider.

    zone: by default the first that offers the type. image: AMI id or SSM parameter path; by default Amazon Linux 2023
    of the type's architecture. user: the login user; by default derived from the image. name: for display, in its Name
    tag. commands: shell lines or lists of words that run as root at the first boot. recorded: EBS limits that replace
    those of the type. alternatives: launches of other types, tried in this order if no zone has room for the type.
    market: "spot" for a spot instance. capacity_reservation: the id of the Capacity Reservation to launch into.
    tenancy: "dedicated" or "host"; None for shared hardware. security_group: the id of an existing group that replaces
    the run's own. ahead: True if it is launched before its test requests it.
    """

    type: str
    zone: str | None = None
    image: str | None = None
    user: str | None = None
    name: str = ""
    commands: Sequence[Command] = ()
    subnet_id: str | None = None
    recorded: RecordedLimits | None = None
    alternatives: Sequence[Launch] = ()
    market: Market | None = None
    capacity_reservation: str | None = None
    network_options: NetworkOptions = PLAIN_NETWORK
    tenancy: str | None = None
    security_group: str | None = None
    ahead: bool | None = None

    def limited(self, limits: InstanceLimits) -> InstanceLimits:
        """Return the limits of its type as they apply to this launch. Raises UnsupportedOption."""
        self.network_options.check(limits)
        return limits.with_weighting(self.network_options.weighting).with_recorded(self.recorded)


@dataclass(frozen=True)
class Answer:
    """One call of the service and its answer, without secrets. `time` is UTC, ISO 8601."""

    time: str
    service: str
    operation: str
    asked: Mapping[str, Any]
    answer: Mapping[str, Any]


@dataclass(frozen=True)
class Leftover:
    """A resource of the run that still exists. `kind` is for display: "instance", "volume" ...

    hourly: what it costs, such as "0.096 USD an hour" or "unknown price"; "" if it costs nothing.
    """

    kind: str
    id: str
    state: str
    hourly: str = ""

    def __str__(self) -> str:
        about = ", ".join(each for each in (self.state, self.hourly) if each)
        return f"{self.kind} {self.id}" + (f" ({about})" if about else "")


@dataclass(frozen=True)
class KeptInstance:
    """An instance that stays after its run, with its volumes, because its test failed.

    until: when it ends by itself at the latest. login, removal: the commands that log in and that remove it.
    """

    id: str
    type: str
    until: datetime
    login: str
    removal: str

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


def counted(kinds: Iterable[str]) -> str:
    """Return how many there are of each kind: "2 instances, 1 key pair"; "nothing" if there are none."""
    counts = Counter(kinds).items()
    return ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts) or "nothing"


@dataclass(frozen=True)
class TeardownReport:
    """The result of a teardown: one sentence for each problem, and what still exists.

    remedy: how to remove what still exists, a sentence. removed: the kind of each resource that was removed. kept: the
    instances that stay on request.
    """

    problems: tuple[str, ...] = ()
    remaining: tuple[Leftover, ...] = ()
    remedy: str = ""
    removed: tuple[str, ...] = ()
    kept: tuple[KeptInstance, ...] = ()

    @property
    def clean(self) -> bool:
        """True if nothing failed and nothing remains."""
        return not self.problems and not self.remaining

    def sentences(self) -> tuple[str, ...]:
        """Return the problems, one sentence for each resource that remains, and the remedy."""
        if self.clean:
            return ()
        left = (f"{leftover} still exists" for leftover in self.remaining)
        return (*self.problems, *left, *([self.remedy] if self.remedy else []))

    def summary(self) -> str:
        """Return one sentence: how much was removed, and how much is left."""
        left = counted(one.kind for one in self.remaining)
        kept = f"; kept {', '.join(map(str, self.kept))}" if self.kept else ""
        return f"removed {counted(self.removed)}; {left} {'is' if left == 'nothing' else 'are'} left{kept}"

    def raise_unless_clean(self) -> None:
        """Raise TeardownFailed with all sentences if there are any."""
        if not self.clean:
            raise TeardownFailed(self.sentences())


def machine_limits(tags: Mapping[str, str]) -> MachineLimits | None:
    """Return the machine's limits from an instance's tags; None unless both figures of its disks are there."""
    iops, throughput = _positive(tags.get(MACHINE_IOPS_TAG)), _positive(tags.get(MACHINE_THROUGHPUT_TAG))
    if iops is None or throughput is None:
        return None
    network = _positive(tags.get(MACHINE_NETWORK_TAG))
    tagged = [MACHINE_IOPS_TAG, MACHINE_THROUGHPUT_TAG, *([MACHINE_NETWORK_TAG] if network else [])]
    return MachineLimits(
        iops=Iops(iops),
        throughput=Throughput(throughput),
        source=f"instance tags {', '.join(tagged[:-1])} and {tagged[-1]}",
        room=Size(int(room)) if (room := tags.get(MACHINE_ROOM_TAG, "")).isdecimal() else None,
        network=Bandwidth(network) if network else None,
    )


def _positive(text: str | None) -> float | None:
    """Return the figure of a tag; None if it is missing, not a number or not above zero."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
