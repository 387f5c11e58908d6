"""The ceilings of the network between two instances: the bandwidth of each end and the limit of one flow.

Sources: EC2 DescribeInstanceTypes for a type's figures, which hold for each direction; the EC2 user guide, "Amazon EC2
instance network bandwidth", for the limit of one flow and for bursts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import FLOW, MACHINE, MACHINE_OWNER, Ceiling, MachineLimits
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.instances import NETWORK_BASELINE, NETWORK_PEAK, InstanceLimits
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Size, Throughput

PEAK = NETWORK_PEAK
BASELINE = NETWORK_BASELINE

SOURCE = 'EC2 user guide, "Amazon EC2 instance network bandwidth"'
DATE = "2026-11"

FLOW_LIMIT = Bandwidth.from_gbit(5)
FLOW_LIMIT_IN_CLUSTER = Bandwidth.from_gbit(10)
# EC2 user guide, "Improve network performance between EC2 instances with ENA Express", 2026-11.
FLOW_LIMIT_WITH_ENA_EXPRESS = Bandwidth.from_gbit(25)
FLOW_LIMITS = (FLOW_LIMIT, FLOW_LIMIT_IN_CLUSTER, FLOW_LIMIT_WITH_ENA_EXPRESS)

CLIENT_END = "the client's end"
SERVER_END = "the server's end"
BOTH_ENDS = "either end"

ONE_BYTE = Size(1)


def flow_limit(cluster: bool, *, ena_express: bool = False) -> Ceiling:
    """Return the ceiling of one connection.

    5 Gbit/s, 10 Gbit/s inside a cluster placement group, or 25 Gbit/s with ENA Express, which works inside a group too.
    """
    if ena_express:
        limit, where = FLOW_LIMIT_WITH_ENA_EXPRESS, "with ENA Express"
    elif cluster:
        limit, where = FLOW_LIMIT_IN_CLUSTER, "in a cluster placement group"
    else:
        limit, where = FLOW_LIMIT, "outside a cluster placement group"
    return Ceiling("a single flow's", "flow limit", FLOW, limit, SOURCE, DATE, detail=where)


@dataclass(frozen=True)
class NetworkEnvelope(Envelope):
    """The ceilings of a load of ``streams`` connections from one instance to another.

    A network load is counted in bytes, so ``block_size`` is one byte and an "I/O" is one byte too. The limit of one
    flow allows ``streams`` times its figure.
    """

    block_size: Size = ONE_BYTE
    sequential: bool = True
    streams: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.streams < 1:
            raise ValueError(f"a load needs at least one stream to have an envelope, not {self.streams}")

    def bandwidth_of(self, ceiling: Ceiling) -> Bandwidth:
        """Return what the ceiling allows all streams together."""
        return self._all_streams(ceiling, ceiling.limit)

    throughput_of = bandwidth_of

    def levels_of(self, ceiling: Ceiling) -> tuple[Level, ...]:
        """Return the limit over all streams and, if it bursts, the level that remains once credits are spent."""
        found = [(self.bandwidth_of(ceiling), "")]
        if ceiling.base is not None:
            found.append((self._all_streams(ceiling, ceiling.base), "network credits spent"))
        return tuple(Level(rate.in_ios_of(self.block_size), rate, how) for rate, how in found)

    def explain(self) -> list[str]:
        """Return one line per ceiling, lowest first: what it allows and how far it is above the lowest."""
        lines = []
        for ceiling in self.ordered:
            remarks = [remark for remark in (ceiling.detail, ceiling.note) if remark]
            streams = f" x {self.streams} streams" if ceiling.scope == FLOW and self.streams > 1 else ""
            total = f" = {self.bandwidth_of(ceiling)}" if streams else ""
            limit = Bandwidth.of(_bytes(ceiling.limit))
            line = f"{ceiling.label}: {limit}{streams}{total} ({self.place_of(ceiling)})"
            lines.append("; ".join([line, *remarks]))
        return lines

    def _iops(self, ceiling: Ceiling, limit: Rate, *, merged: bool) -> Iops:
        return self._all_streams(ceiling, limit).in_ios_of(self.block_size)

    def _all_streams(self, ceiling: Ceiling, limit: Rate) -> Bandwidth:
        rate = Bandwidth.of(_bytes(limit))
        return rate * self.streams if ceiling.scope == FLOW else rate


def network_envelope(
    client: InstanceLimits | None,
    server: InstanceLimits | None,
    *,
    streams: int,
    cluster: bool,
    machine: MachineLimits | None = None,
    ena_express: bool = False,
) -> NetworkEnvelope:
    """Return every ceiling of ``streams`` connections between ``client`` and ``server``, in either direction.

    Two ends of one type are one ceiling, unless their limits differ. An unknown end, or one whose type has no network
    figures, has none. ``cluster`` is True if both are in one cluster placement group, ``ena_express`` if the
    connections use it; ``machine`` is None unless the region is an embedded one.
    """
    sends = client.network_peak if client is not None else None
    receives = server.network_peak if server is not None else None
    return envelope_of_ends(
        sends, receives, streams=streams, cluster=cluster, machine=machine, ena_express=ena_express
    )


def envelope_of_ends(
    sends: Ceiling | None,
    receives: Ceiling | None,
    *,
    streams: int,
    cluster: bool,
    machine: MachineLimits | None = None,
    ena_express: bool = False,
) -> NetworkEnvelope:
    """Return every ceiling of ``streams`` connections between two ends, each of which may be several instances."""
    ceilings = [flow_limit(cluster, ena_express=ena_express), *_ends(sends, receives)]
    if machine is not None and machine.network is not None:
        rate = Bandwidth.of(machine.network)
        ceilings.append(
            Ceiling(MACHINE_OWNER, "machine network", MACHINE, rate, machine.source, machine.date)
        )
    return NetworkEnvelope(tuple(ceilings), streams=streams)


def _ends(sends: Ceiling | None, receives: Ceiling | None) -> list[Ceiling]:
    if sends is not None and receives is not None and _alike(sends, receives):
        return [replace(sends, detail=BOTH_ENDS)]
    ends = ((sends, CLIENT_END), (receives, SERVER_END))
    return [replace(ceiling, detail=end) for ceiling, end in ends if ceiling is not None]


def _alike(one: Ceiling, other: Ceiling) -> bool:
    return one.same_as(other) and (one.limit, one.base) == (other.limit, other.base)


def _bytes(limit: Rate) -> Throughput:
    if isinstance(limit, Iops):
        raise TypeError(f"{limit} is not a network limit: network limits are throughputs, such as 5 Gbit/s")
    return limit
