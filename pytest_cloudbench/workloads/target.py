"""What a workload puts its load on: storage on one host, or the network between two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.counters import AllowancePair, ThrottleDelta
from pytest_cloudbench.verdicts.observation import MachineDelay

if TYPE_CHECKING:
    from typing_extensions import Self, TypeIs


class CountersSnapshot(Protocol):
    """The counters of a target's devices at one moment."""

    def since(self, earlier: Self) -> ThrottleDelta | None:
        """Return the increase of the throttle counters since ``earlier``; None if the devices have none."""

    def machine_delay(self, earlier: Self) -> MachineDelay | None:
        """Return what an embedded region counted since ``earlier``; None elsewhere."""


@dataclass(frozen=True)
class Gained:
    """The increase of the counters over a run; None for counters that the target does not have."""

    throttled: ThrottleDelta | None = None
    machine_delay: MachineDelay | None = None

    def within(self, load_s: float) -> Gained:
        """Leave out the time before the first and after the last I/O of a load of ``load_s``: no I/O waited then."""
        throttled = self.throttled
        if throttled is not None:
            throttled = replace(throttled, elapsed_s=min(throttled.elapsed_s, load_s))
        return replace(self, throttled=throttled)

    def on_files(self) -> Gained:
        """Leave out the written bytes: a file system writes more than its load, and files are laid out before it."""
        throttled = self.throttled
        return self if throttled is None else replace(self, throttled=replace(throttled, written_bytes=None))


def counters_gained(before: CountersSnapshot | None, after: CountersSnapshot | None) -> Gained:
    """Return the increase of a target's counters (`Target.counters`) between two moments."""
    if before is None or after is None:
        return Gained()
    return Gained(after.since(before), after.machine_delay(before))


def gained_by_load(target: Target, before: CountersSnapshot | None, load_s: float) -> Gained:
    """Return the increase of a target's counters since ``before``, by a load of ``load_s`` that has just ended."""
    after = target.counters() if before is not None else None
    gained = counters_gained(before, after).within(load_s)
    return gained if target.kind == "block" else gained.on_files()


class Target(Protocol):
    """Storage on one host: a block device, several of them, a directory, or one file.

    ``path`` is the first of ``paths``; a directory or a file has exactly one. A file exists in full before the load
    begins, and is read and written in place.
    """

    @property
    def host(self) -> Host: ...
    @property
    def kind(self) -> Literal["block", "directory", "file"]: ...
    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> Size:
        """The size of all devices together, or of the file."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences about how the target was prepared, which every measurement on it repeats."""

    @property
    def data_of_device(self) -> Size | None:
        """The amount of data, over all files together, for a job that names no size.

        Only a directory that stands for a device has it (a stripe by btrfs); None on every other target.
        """

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock the region drains and fills burst credits; 1.0 on AWS."""

    @property
    def modelled_latency(self) -> str | None:
        """How an embedded region models the latency of storage, "ebs" or "none"; None on AWS."""

    @property
    def label(self) -> str:
        """The name in messages: "io2 vol-0abc", "xfs on io2 vol-0abc"."""

    def prove_writable(self) -> None:
        """Raise, with the reason, unless everything at ``paths`` is proven to be ours to overwrite."""

    def check_content(self, *, overwrite: bool) -> None:
        """Raise, with what was found, if a load would destroy what a raw device carries, unless ``overwrite``."""

    def prove_readable(self) -> None:
        """Raise, with the reason, unless everything at ``paths`` is what it should be and nothing else uses it.

        It accepts partitions and read-only devices, which `prove_writable` refuses.
        """

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope | None:
        """Return every ceiling that applies to this I/O; None if none is known."""

    def room(self) -> Size | None:
        """Return how much more data the machine behind the target can hold; None if no such limit is known."""

    def counters(self) -> CountersSnapshot | None:
        """Return the throttle counters at this moment; None if the host has none."""


class FleetTarget(Protocol):
    """Storage on several hosts, under one load: a target on each host."""

    @property
    def parts(self) -> Sequence[Target]:
        """The target on each host."""

    @property
    def addresses(self) -> Sequence[str]:
        """The address of each host as the first one reaches it."""

    @property
    def hosts_label(self) -> str:
        """The name of the hosts in messages: "4 x m5.large"."""

    @property
    def label(self) -> str:
        """The name in messages."""


def is_fleet(target: Target | FleetTarget) -> TypeIs[FleetTarget]:
    """Return True for storage on several hosts."""
    return hasattr(target, "parts")


def prove_writable(target: Target, *, overwrite: bool) -> None:
    """Raise unless a load may write to the target: its own errors, or WouldDestroy if a raw device has content.

    A target from outside this package need not look for content.
    """
    target.prove_writable()
    if target.kind == "block" and (check := getattr(target, "check_content", None)) is not None:
        check(overwrite=overwrite)


def reads_nothing(target: Target, *, reads: bool) -> tuple[str, tuple[str, ...]]:
    """Return why reads of this target measure nothing, and a condition for the result; both empty if they do measure.

    If that is unknown, or a region models its storage and serves such reads like any other, there is a condition but
    no reason. A target from outside this package need not state it.
    """
    if not reads:
        return "", ()
    if unknown := str(getattr(target, "maybe_unwritten", "")):
        return "", (unknown,)
    reason = str(getattr(target, "never_written", ""))
    if reason and target.modelled_latency is not None:
        return "", (f"on AWS inconclusive: {reason}",)
    return reason, ()


class PathCounters(Protocol):
    """The network allowance counters of both ends at one moment."""

    def since(self, earlier: Any) -> AllowancePair:
        """Return the increase since ``earlier``, a snapshot of the same path."""


class NetworkPath(Protocol):
    """Two hosts and the network between them."""

    @property
    def client_host(self) -> Host:
        """The host that opens the connections."""

    @property
    def server_host(self) -> Host:
        """The host that accepts the connections."""

    @property
    def server_address(self) -> str:
        """The server's address as the client reaches it."""

    @property
    def label(self) -> str:
        """The name in messages: "m5.2xlarge i-0abc -> m5.2xlarge i-0def"."""

    @property
    def time_compression(self) -> float:
        """How many seconds of the test one real second represents; 1.0 on AWS."""

    @property
    def client_cpus(self) -> int | None:
        """Processors of the client's host; None if only the host itself knows."""

    @property
    def server_cpus(self) -> int | None:
        """Processors of the server's host; None if only the host itself knows."""

    def envelope(self, *, streams: int, reverse: bool) -> Envelope | None:
        """Return every ceiling of that many connections; None if none is known."""

    def counters(self) -> PathCounters | None:
        """Return the allowance counters at this moment; None if the hosts have none."""


class PathGroup(Protocol):
    """Several paths between hosts, under one load."""

    @property
    def pairs(self) -> Sequence[NetworkPath]:
        """The paths; a host may be an end of several."""

    @property
    def label(self) -> str:
        """The name in messages: "m5.large -> m5.large (16 pairs)"."""

    def envelope(self, *, streams: int, reverse: bool) -> Envelope | None:
        """Return every ceiling of that many connections on each path, all paths together; None if none is known."""

    def counters(self) -> GroupCounters | None:
        """Return the allowance counters at this moment; None if the hosts have none."""


class GroupCounters(Protocol):
    """The network allowance counters of several paths at one moment."""

    def since(self, earlier: Any) -> Sequence[AllowancePair]:
        """Return the increase on each path since ``earlier``, a snapshot of the same paths."""


def is_group(path: NetworkPath | PathGroup) -> TypeIs[PathGroup]:
    """Return True for several paths."""
    return hasattr(path, "pairs")
