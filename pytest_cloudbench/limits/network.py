"""What the network between two instances promises: each end's bandwidth, one flow's, and all of it together.

Sources: EC2 DescribeInstanceTypes for the figures of a type; the EC2 user guide, "Amazon EC2 instance
network bandwidth", for the limit of one flow and for bursts. A type's figure holds for each direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import (
    FLOW,
    INSTANCE,
    MACHINE,
    MACHINE_OWNER,
    Ceiling,
    MachineLimits,
)
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.instances import InstanceLimits, NetworkCard
from pytest_cloudbench.limits.network_credits import CASES_OF_2018, shaped_rates
from pytest_cloudbench.limits.network_credits import DATE as MEASURED
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Size, Throughput

PEAK = "network bandwidth"
BASELINE = "network baseline"

SOURCE = 'EC2 user guide, "Amazon EC2 instance network bandwidth"'
DATE = "2026-11"

FLOW_LIMIT = Bandwidth.from_gbit(5)
FLOW_LIMIT_IN_CLUSTER = Bandwidth.from_gbit(10)

CLIENT_END = "the client's end"
SERVER_END = "the server's end"
BOTH_ENDS = "either end"

ONE_BYTE = Size(1)


def network_peak(limits: InstanceLimits) -> Ceiling | None:
    """The most that an instance of this type sends, and the most that it receives.

    Where it bursts, ``base`` is what remains once its network credits are spent. Where AWS describes the
    network of an old type by a word, the figure is what was measured of it. None for a type without
    network figures.
    """
    card, rates = _card(limits), shaped_rates(limits)
    if card is None or rates is None:
        return None
    notes = [f"while network credits last, then {rates.baseline}"] if rates.bursts else []
    source, date = limits.source, limits.date
    if card.peak is not None and rates.peak < card.peak:
        notes.append(
            f'AWS calls it "{card.performance}" and states a peak of {card.peak}, which was not measured'
        )
        source, date = CASES_OF_2018, MEASURED
    base = rates.baseline if rates.bursts else None
    return Ceiling(limits.name, PEAK, INSTANCE, rates.peak, source, date, base, note="; ".join(notes))


def network_baseline(limits: InstanceLimits) -> Ceiling | None:
    """What an instance of this type sends and receives for good; None for a type without the figure.

    Equals the peak for a type that does not burst.
    """
    card = _card(limits)
    if card is None or card.baseline is None:
        return None
    return Ceiling(limits.name, BASELINE, INSTANCE, card.baseline, limits.source, limits.date)


def flow_limit(cluster: bool) -> Ceiling:
    """The most that one connection carries: 5 Gbit/s, or 10 within a cluster placement group."""
    limit = FLOW_LIMIT_IN_CLUSTER if cluster else FLOW_LIMIT
    where = "in a cluster placement group" if cluster else "outside a cluster placement group"
    return Ceiling("a single flow's", "flow limit", FLOW, limit, SOURCE, DATE, detail=where)


@dataclass(frozen=True)
class NetworkEnvelope(Envelope):
    """The ceilings of a load of ``streams`` connections from one instance to another.

    It is counted in bytes, so its ``block_size`` is one byte and an "I/O" is one byte as well. The
    limit of one flow allows ``streams`` times its figure.
    """

    block_size: Size = ONE_BYTE
    sequential: bool = True
    streams: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.streams < 1:
            raise ValueError(f"a load of {self.streams} streams has no envelope: it needs at least one")

    def bandwidth_of(self, ceiling: Ceiling) -> Bandwidth:
        """What the ceiling allows all the streams together."""
        return self._all_streams(ceiling, ceiling.limit)

    def throughput_of(self, ceiling: Ceiling) -> Throughput:
        """What the ceiling allows all the streams together."""
        return self.bandwidth_of(ceiling)

    def iops_of(self, ceiling: Ceiling) -> Iops:
        """What the ceiling allows all the streams together, in bytes per second."""
        return self.bandwidth_of(ceiling).in_ios_of(self.block_size)

    def unmerged_iops_of(self, ceiling: Ceiling) -> Iops:
        """As `iops_of`: nothing is merged on a network."""
        return self.iops_of(ceiling)

    def levels_of(self, ceiling: Ceiling) -> tuple[Level, ...]:
        """The limit over all the streams and, where it bursts, what is left when credits are spent."""
        found = [(self.bandwidth_of(ceiling), "")]
        if ceiling.base is not None:
            found.append((self._all_streams(ceiling, ceiling.base), "network credits spent"))
        return tuple(Level(rate.in_ios_of(self.block_size), rate, how) for rate, how in found)

    def explain(self) -> list[str]:
        """One line per ceiling, lowest first: what it allows and how far above the lowest it lies."""
        lines = []
        for ceiling in self.ordered:
            remarks = [remark for remark in (ceiling.detail, ceiling.note) if remark]
            streams = f" x {self.streams} streams" if ceiling.scope == FLOW and self.streams > 1 else ""
            total = f" = {self.bandwidth_of(ceiling)}" if streams else ""
            limit = Bandwidth.of(_bytes(ceiling.limit))
            line = f"{ceiling.label}: {limit}{streams}{total} ({self.place_of(ceiling)})"
            lines.append("; ".join([line, *remarks]))
        return lines

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
) -> NetworkEnvelope:
    """Every ceiling of ``streams`` connections between ``client`` and ``server``, in either direction.

    The slower end decides; two ends of one type are one ceiling. An end that is not known, or whose
    type has no network figures, sets none. ``cluster`` says whether both are in one cluster placement
    group; ``machine`` are the limits of the machine under an embedded region, None everywhere else.
    """
    ceilings = [flow_limit(cluster), *_ends(client, server)]
    if machine is not None and machine.network is not None:
        rate = Bandwidth.of(machine.network)
        ceilings.append(
            Ceiling(MACHINE_OWNER, "machine network", MACHINE, rate, machine.source, machine.date)
        )
    return NetworkEnvelope(tuple(ceilings), streams=streams)


def _ends(client: InstanceLimits | None, server: InstanceLimits | None) -> list[Ceiling]:
    sends = network_peak(client) if client is not None else None
    receives = network_peak(server) if server is not None else None
    if sends is not None and receives is not None and sends.same_as(receives):
        return [replace(sends, detail=BOTH_ENDS)]
    ends = ((sends, CLIENT_END), (receives, SERVER_END))
    return [replace(ceiling, detail=end) for ceiling, end in ends if ceiling is not None]


def _card(limits: InstanceLimits) -> NetworkCard | None:
    # An instance launched with one interface has it on its first card.
    return limits.network_cards[0] if limits.network_cards else None


def _bytes(limit: Rate) -> Throughput:
    if isinstance(limit, Iops):
        raise TypeError(f"{limit} is no limit of a network: it is stated in Gbit/s")
    return limit
