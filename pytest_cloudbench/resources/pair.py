"""Two instances with a network between them, as a test sees them: the path of a network workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.network import NetworkEnvelope, network_envelope
from pytest_cloudbench.resources.facts import may_not_be_full, used_before
from pytest_cloudbench.resources.instance import Instance, NoPromise
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.workloads.target import NetworkPath

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.network_counters import AllowanceSnapshot


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
        from pytest_cloudbench.hosts.network_counters import read_allowances

        client, server = (
            read_allowances(instance.host, private_address(instance))
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
