"""Join both ends of every stream, and sample all streams on one common grid of time cells.

Every process has its own timer, which fires late when the processor is busy and then makes up with very short
intervals. The total moved by a moment is still exact, so totals are read at the grid's moments; within an interval
the rate is taken as constant. No byte is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3.output import Flow, Interval, OtherEnd, ProcessOutput
from pytest_cloudbench.workloads.network_measurement import NetworkSeries, StreamResult, mean_known, sum_known

_FULL = 0.9
"""The least measured part of a cell: an incomplete last cell is left out."""


@dataclass(frozen=True)
class Pairing:
    """One stream as its sender and its receiver report it; None for an end without output.

    `reported` holds the receiver's figures as the client reports them.
    """

    process: int
    from_client: bool
    sent: Flow | None
    received: Flow | None
    reported: OtherEnd | None = None

    @property
    def known(self) -> Flow:
        """The receiver's view, or the sender's if there is none."""
        flow = self.received or self.sent
        assert flow is not None
        return flow


def pair_streams(process: int, client: ProcessOutput | None, server: ProcessOutput | None) -> list[Pairing]:
    """Pair the streams of one pair of processes by the client's port, or by their order if ports are unknown."""
    if server is None and client is not None:
        server = client.server
    client_flows = client.flows if client is not None else ()
    server_flows = list(server.flows) if server is not None else []
    ports = {flow.port for flow in client_flows if flow.port is not None}
    pairings = []
    for mine in client_flows:
        theirs = _counterpart(mine, server_flows, ports)
        if theirs is not None:
            server_flows.remove(theirs)
        reported = client.others.get(mine.port) if client is not None and mine.port is not None else None
        pairings.append(_pairing(process, mine, theirs, reported))
    for theirs in server_flows:
        pairings.append(_pairing(process, None, theirs, None))
    return [pairing for pairing in pairings if pairing.known.intervals]


def read_streams(
    pairings: Sequence[Pairing], *, step_s: float, compression: float
) -> tuple[tuple[StreamResult, ...], NetworkSeries]:
    """Return each stream and the sum of all, on one grid with cells of `step_s` real seconds.

    compression: seconds of the test per real second.
    """
    flows = [flow.intervals for each in pairings for flow in (each.sent, each.received) if flow]
    cells = count_cells(flows, step_s)
    seconds = tuple(round((number + 1) * step_s * compression, 6) for number in range(cells))
    streams = tuple(_stream(each, seconds, step_s) for each in pairings)
    return streams, summed_series([stream.series for stream in streams])


def summed(values: Sequence[Bandwidth | None]) -> Bandwidth | None:
    """Return the sum; None if a value is unknown or there are none."""
    known = [value.bytes_per_second for value in values if value is not None]
    return Bandwidth(sum(known)) if values and len(known) == len(values) else None


def _counterpart(mine: Flow, theirs: Sequence[Flow], ports: Collection[int]) -> Flow | None:
    """Find a stream's other end: the flow with the same port, or one whose port the client does not name."""
    opposite = [flow for flow in theirs if flow.sender != mine.sender]
    same_port = [flow for flow in opposite if flow.port == mine.port]
    unnamed = [flow for flow in opposite if flow.port not in ports]
    return next(iter(same_port or unnamed), None)


def _pairing(process: int, mine: Flow | None, theirs: Flow | None, reported: OtherEnd | None) -> Pairing:
    from_client = mine.sender if mine is not None else theirs is not None and not theirs.sender
    sent, received = (mine, theirs) if from_client else (theirs, mine)
    return Pairing(process, from_client, sent, received, reported)


def _stream(pairing: Pairing, seconds: tuple[float, ...], step_s: float) -> StreamResult:
    sent, received, reported = pairing.sent, pairing.received, pairing.reported
    cells = len(seconds)
    sent_rates = cell_rates(sent.intervals, step_s, cells) if sent else []
    received_rates = cell_rates(received.intervals, step_s, cells) if received else []
    sender = sent.intervals if sent else ()
    receiver = received.intervals if received else ()
    series = NetworkSeries(
        seconds=seconds,
        throughput=tuple(map(Bandwidth, received_rates if received else sent_rates)),
        sent=tuple(map(Bandwidth, sent_rates)),
        retransmits=cell_counts(sender, step_s, cells, lambda each: each.retransmits),
        cwnd_bytes=tuple(
            None if value is None else int(value)
            for value in cell_gauges(sender, step_s, cells, lambda each: each.cwnd_bytes)
        ),
        rtt_s=cell_gauges(sender, step_s, cells, lambda each: each.rtt_s),
        jitter_s=cell_gauges(receiver, step_s, cells, lambda each: each.jitter_s),
        lost_packets=cell_counts(receiver, step_s, cells, lambda each: each.lost),
    )
    received_mean = _mean_rate(received, received_rates)
    if received_mean is None and reported is not None and reported.received_bytes_s and pairing.from_client:
        received_mean = Bandwidth(reported.received_bytes_s)
    lost, packets = sum_known(each.lost for each in receiver), sum_known(each.packets for each in receiver)
    if lost is None and reported is not None:
        lost, packets = reported.lost, reported.packets
    jitters = [each.jitter_s for each in receiver if each.jitter_s is not None]
    jitter_s = jitters[-1] if jitters else reported.jitter_s if reported is not None else None
    return StreamResult(
        process=pairing.process,
        port=pairing.known.port,
        from_client=pairing.from_client,
        sent=_mean_rate(sent, sent_rates),
        received=received_mean,
        series=series,
        retransmits=sum_known(each.retransmits for each in sender),
        cwnd_bytes=mean_known(each.cwnd_bytes for each in sender),
        rtt_s=mean_known(each.rtt_s for each in sender),
        jitter_s=jitter_s,
        lost_packets=None if lost is None else max(0, lost),
        packets=packets if lost is not None else None,
    )


def _mean_rate(flow: Flow | None, of_cells: Sequence[float]) -> Bandwidth | None:
    """Return the mean over the full cells, so that data that arrives after the end adds neither time nor bytes."""
    if flow is None or not flow.intervals:
        return None
    if of_cells:
        return Bandwidth(fmean(of_cells))
    length_s = max(each.end_s for each in flow.intervals)
    return Bandwidth(sum(each.bytes for each in flow.intervals) / length_s) if length_s > 0 else None


def summed_series(each: Sequence[NetworkSeries]) -> NetworkSeries:
    """Return the sums of the samples that all series have; a column that one of them lacks is empty.

    Windows, round trips and jitter are of single streams.
    """
    count = min(map(len, each), default=0)

    def rows(name: str) -> Iterable[tuple[Any, ...]]:
        columns = [getattr(series, name)[:count] for series in each]
        return zip(*columns, strict=True) if all(len(column) == count for column in columns) else ()

    def rates(name: str) -> tuple[Bandwidth, ...]:
        return tuple(Bandwidth(sum(rate.bytes_per_second for rate in row)) for row in rows(name))

    return NetworkSeries(
        seconds=each[0].seconds[:count] if each else (),
        throughput=rates("throughput"),
        sent=rates("sent"),
        retransmits=tuple(map(sum, rows("retransmits"))),
        lost_packets=tuple(map(sum, rows("lost_packets"))),
    )


def count_cells(flows: Sequence[Sequence[Interval]], step_s: float) -> int:
    """Return how many full cells of `step_s` seconds all streams have; a stream without intervals has none."""
    ends = [max((each.end_s for each in flow), default=0.0) for flow in flows]
    if not ends:
        return 0
    return int(min(ends) / step_s + (1 - _FULL))


def cell_rates(flow: Sequence[Interval], step_s: float, cells: int) -> list[float]:
    """Return the bytes per second of each cell. An incomplete last cell is divided by its measured time."""
    end_s = max((each.end_s for each in flow), default=0.0)
    sums = totals_at(
        flow, [min(number * step_s, end_s) for number in range(cells + 1)], lambda each: each.bytes
    )
    found = []
    for number in range(cells):
        length_s = min((number + 1) * step_s, end_s) - number * step_s
        found.append((sums[number + 1] - sums[number]) / length_s if length_s > 0 else 0.0)
    return found


def cell_counts(
    flow: Sequence[Interval], step_s: float, cells: int, count: Callable[[Interval], int | None]
) -> tuple[int, ...]:
    """Return a whole count for each cell, the last including all later ones; empty if no interval has this count."""
    if all(count(each) is None for each in flow):
        return ()
    moments = [number * step_s for number in range(cells)]
    sums = [round(each) for each in totals_at(flow, moments, lambda each: count(each) or 0)]
    sums.append(sum(count(each) or 0 for each in flow))
    return tuple(sums[number + 1] - sums[number] for number in range(cells))


def totals_at(
    flow: Sequence[Interval], moments: Sequence[float], amount: Callable[[Interval], float]
) -> list[float]:
    """Return a stream's total amount by each moment. The moments must ascend."""
    found = []
    total = 0.0
    position = 0
    for moment in moments:
        while position < len(flow) and flow[position].end_s <= moment:
            total += amount(flow[position])
            position += 1
        inside = 0.0
        if position < len(flow) and flow[position].start_s < moment:
            each = flow[position]
            inside = amount(each) * (moment - each.start_s) / (each.end_s - each.start_s)
        found.append(total + inside)
    return found


def cell_gauges(
    flow: Sequence[Interval], step_s: float, cells: int, gauge: Callable[[Interval], float | None]
) -> tuple[float | None, ...]:
    """Return a gauge for each cell, that of the interval that covers most of it; empty if no interval has one."""
    if all(gauge(each) is None for each in flow):
        return ()
    found: list[float | None] = []
    position = 0
    for number in range(cells):
        begin_s, end_s = number * step_s, (number + 1) * step_s
        while position < len(flow) and flow[position].end_s <= begin_s:
            position += 1
        best: tuple[float, float | None] = (0.0, None)
        here = position
        while here < len(flow) and (each := flow[here]).start_s < end_s:
            here += 1
            shared_s = min(each.end_s, end_s) - max(each.start_s, begin_s)
            if shared_s > best[0]:
                best = (shared_s, gauge(each))
        found.append(best[1])
    return tuple(found)
