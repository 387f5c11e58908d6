"""Two instances with a network between them, as a test sees them, and several such paths loaded at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.hosts import network_counters
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.hosts.network_counters import AllowanceSnapshot
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.fleet import summed_ceiling
from pytest_cloudbench.limits.network import NetworkEnvelope, envelope_of_ends, network_envelope
from pytest_cloudbench.resources.facts import may_not_be_full, used_before
from pytest_cloudbench.resources.instance import Instance, NoPromise
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.workloads.target import NetworkPath, PathGroup


@dataclass(frozen=True)
class PairSnapshot:
    """The allowance counters of both ends at one moment; None for an end without counters."""

    client: AllowanceSnapshot | None
    server: AllowanceSnapshot | None

    def since(self, earlier: PairSnapshot) -> AllowancePair:
        """Return the increase of each end's counters since `earlier`."""
        return AllowancePair(
            client=self.client.since(earlier.client) if self.client and earlier.client else None,
            server=self.server.since(earlier.server) if self.server and earlier.server else None,
        )


class Pair(NetworkPath):
    """A client and a server; as the path of a workload, the network between their private addresses.

    ``cluster`` is True if both are in one cluster placement group.
    """

    def __init__(self, client: Instance, server: Instance, *, cluster: bool = False) -> None:
        self.client = client
        self.server = server
        self.cluster = cluster

    @property
    def client_host(self) -> Host:
        return self.client.host

    @property
    def server_host(self) -> Host:
        return self.server.host

    @property
    def server_address(self) -> str:
        """The server's private address, where the load goes, however SSH reaches the host."""
        return private_address(self.server)

    @property
    def label(self) -> str:
        where = ", in a cluster placement group" if self.cluster else ""
        return f"{self.client.launched} -> {self.server.launched}{where}"

    @property
    def time_compression(self) -> float:
        return self.client.time_compression

    @property
    def used_before(self) -> tuple[str, ...]:
        """Which test this is on each end, as conditions of every measurement; none on new instances."""
        return tuple(
            f"{name}: {each}"
            for name, end in (("client", self.client), ("server", self.server))
            for each in used_before("instance", end.launched.earlier_tests, end.launched.network_credits)
        )

    @property
    def credits_unsure(self) -> str:
        """Which burst credits of its ends may not be full; "" if none."""
        ends = (self.client.launched, self.server.launched)
        return may_not_be_full(each for end in ends for each in end.network_credits)

    @property
    def client_cpus(self) -> int:
        return self.client.cpus

    @property
    def server_cpus(self) -> int:
        return self.server.cpus

    def ena_express(self, *, udp: bool = False) -> bool:
        """Return True if its connections use ENA Express: both ends have it, for this protocol, in one zone."""
        ends = [instance.launched.network_options for instance in (self.client, self.server)]
        enabled = all(end.ena_express_udp if udp else end.ena_express for end in ends)
        return enabled and self.client.zone == self.server.zone

    def envelope(self, *, streams: int, reverse: bool = False, udp: bool = False) -> NetworkEnvelope:
        """Return the ceilings of ``streams`` connections; the slower end decides. ``reverse``: the server sends."""
        # A type promises the same figure for each direction, so the ends keep their places in reverse.
        return network_envelope(
            self.client.limits,
            self.server.limits,
            streams=streams,
            cluster=self.cluster,
            machine=self.client.machine_limits(),
            ena_express=self.ena_express(udp=udp),
        )

    def counters(self) -> PairSnapshot | None:
        """Return the allowance counters of both ends now; None if neither has any."""
        client, server = (
            network_counters.read_allowances(instance.host, private_address(instance))
            for instance in (self.client, self.server)
        )
        return PairSnapshot(client, server) if client or server else None

    def __repr__(self) -> str:
        return f"<{self.label}>"


def private_address(instance: Instance) -> str:
    """Return the address for loads between instances. Raises NoPromise if the instance has none."""
    address = instance.launched.private_ip
    if address is None:
        raise NoPromise(f"{instance.launched} has no private address for a load between instances to go to")
    return address


@dataclass(frozen=True)
class GroupSnapshot:
    """The allowance counters of several pairs at one moment."""

    pairs: tuple[PairSnapshot, ...]

    def since(self, earlier: GroupSnapshot) -> tuple[AllowancePair, ...]:
        """Return the increase of each pair's counters since `earlier`."""
        return tuple(now.since(then) for now, then in zip(self.pairs, earlier.pairs, strict=True))


class PairGroup(PathGroup, Sequence[Pair]):
    """Several pairs; as the target of iperf3, the network of all of them at once.

    An instance may be an end of several pairs: its own limit then counts once. ``name`` begins the label.
    """

    def __init__(self, pairs: Sequence[Pair], name: str = "") -> None:
        if not pairs:
            raise ValueError("a group of pairs needs at least one: a fleet of one instance has none")
        self._pairs = tuple(pairs)
        ends = dict.fromkeys(f"{pair.client.type} -> {pair.server.type}" for pair in pairs)
        self._name = name or " and ".join(ends)

    def __getitem__(self, index: Any) -> Any:
        return self._pairs[index]

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self._pairs

    @property
    def label(self) -> str:
        return f"{self._name} ({len(self)} pairs)"

    def envelope(self, *, streams: int, reverse: bool = False, udp: bool = False) -> NetworkEnvelope:
        """Return the ceilings of ``streams`` connections of each pair, for all pairs together.

        The limits of the instances are the sum over all clients, and the sum over all servers.
        """
        return envelope_of_ends(
            _network_of(pair.client for pair in self),
            _network_of(pair.server for pair in self),
            streams=streams * len(self),
            cluster=all(pair.cluster for pair in self),
            machine=self[0].client.machine_limits(),
            ena_express=all(pair.ena_express(udp=udp) for pair in self),
        )

    def counters(self) -> GroupSnapshot | None:
        """Return the allowance counters of all instances now; None if none has any."""
        ends = dict.fromkeys(end for pair in self for end in (pair.client, pair.server))
        found = {end: network_counters.read_allowances(end.host, private_address(end)) for end in ends}
        if not any(found.values()):
            return None
        return GroupSnapshot(tuple(PairSnapshot(found[pair.client], found[pair.server]) for pair in self))

    def __repr__(self) -> str:
        return f"<{self.label}>"


def _network_of(instances: Iterator[Instance]) -> Ceiling | None:
    """Return the network limit of all these instances together, each counted once; None if one has no figure."""
    distinct = dict.fromkeys(instances)
    peaks = [peak for each in distinct if (peak := each.limits.network_peak) is not None]
    return summed_ceiling(peaks) if len(peaks) == len(distinct) else None
