"""The two ends of every stream put together: what one sent is what the other received."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3.output import Flow, Interval, OtherEnd, ProcessOutput
from pytest_cloudbench.workloads.network_measurement import NetworkSeries, StreamResult


@dataclass(frozen=True)
class Pairing:
    """One stream: its sender's and its receiver's view, each None where that end told nothing."""

    process: int
    from_client: bool
    sent: Flow | None
    received: Flow | None
    told: OtherEnd | None = None

    @property
    def known(self) -> Flow:
        """The receiver's view, the sender's where there is none."""
        flow = self.received or self.sent
        assert flow is not None
        return flow


def pair_streams(process: int, client: ProcessOutput | None, server: ProcessOutput | None) -> list[Pairing]:
    """The streams of one pair of processes, by the client's port; by their order where ports say nothing."""
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
        told = client.others.get(mine.port) if client is not None and mine.port is not None else None
        pairings.append(_pairing(process, mine, theirs, told))
    for theirs in server_flows:
        pairings.append(_pairing(process, None, theirs, None))
    return [pairing for pairing in pairings if pairing.known.intervals]


def read_streams(
    pairings: Sequence[Pairing], *, step_s: float, compression: float
) -> tuple[tuple[StreamResult, ...], NetworkSeries]:
    """Each stream, and all of them in sum, on one grid of `step_s` real seconds, `compression` of the test each."""
    flows = [flow.intervals for each in pairings for flow in (each.sent, each.received) if flow]
    cells = cells_of(flows, step_s)
    seconds = tuple(round((number + 1) * step_s * compression, 6) for number in range(cells))
    streams = tuple(_stream(each, seconds, step_s) for each in pairings)
    return streams, _summed(seconds, [stream.series for stream in streams])


def summed(values: Sequence[Bandwidth | None]) -> Bandwidth | None:
    """The sum of what every stream knows; None where one does not."""
    known = [value.bytes_per_second for value in values if value is not None]
    return Bandwidth(sum(known)) if values and len(known) == len(values) else None


def _counterpart(mine: Flow, theirs: Sequence[Flow], ports: Collection[int]) -> Flow | None:
    """The other end of a stream; what has another stream's port, of those that the client names, is not it."""
    opposite = [flow for flow in theirs if flow.sender != mine.sender]
    same_port = [flow for flow in opposite if flow.port == mine.port]
    unnamed = [flow for flow in opposite if flow.port not in ports]
    return next(iter(same_port or unnamed), None)


def _pairing(process: int, mine: Flow | None, theirs: Flow | None, told: OtherEnd | None) -> Pairing:
    from_client = mine.sender if mine is not None else theirs is not None and not theirs.sender
    sent, received = (mine, theirs) if from_client else (theirs, mine)
    return Pairing(process, from_client, sent, received, told)


def _stream(pairing: Pairing, seconds: tuple[float, ...], step_s: float) -> StreamResult:
    sent, received, told = pairing.sent, pairing.received, pairing.told
    cells = len(seconds)
    sent_rates = rates(sent.intervals, step_s, cells) if sent else []
    received_rates = rates(received.intervals, step_s, cells) if received else []
    sender = sent.intervals if sent else ()
    receiver = received.intervals if received else ()
    series = NetworkSeries(
        seconds=seconds,
        throughput=_bandwidths(received_rates if received else sent_rates),
        sent=_bandwidths(sent_rates),
        retransmits=_counted(sender, step_s, cells, lambda each: each.retransmits),
        cwnd_bytes=_whole(_gauged(sender, step_s, cells, lambda each: each.cwnd_bytes)),
        rtt_s=_gauged(sender, step_s, cells, lambda each: each.rtt_s),
        jitter_s=_gauged(receiver, step_s, cells, lambda each: each.jitter_s),
        lost_packets=_counted(receiver, step_s, cells, lambda each: each.lost),
    )
    received_mean = _mean_rate(received, received_rates)
    if received_mean is None and told is not None and told.received_bytes_s and pairing.from_client:
        received_mean = Bandwidth(told.received_bytes_s)
    lost, packets = _sum(receiver, lambda each: each.lost), _sum(receiver, lambda each: each.packets)
    if lost is None and told is not None:
        lost, packets = told.lost, told.packets
    jitters = [each.jitter_s for each in receiver if each.jitter_s is not None]
    jitter_s = jitters[-1] if jitters else told.jitter_s if told is not None else None
    return StreamResult(
        process=pairing.process,
        port=pairing.known.port,
        from_client=pairing.from_client,
        sent=_mean_rate(sent, sent_rates),
        received=received_mean,
        series=series,
        retransmits=_sum(sender, lambda each: each.retransmits),
        cwnd_bytes=_mean([each.cwnd_bytes for each in sender]),
        rtt_s=_mean([each.rtt_s for each in sender]),
        jitter_s=jitter_s,
        lost_packets=None if lost is None else max(0, lost),
        packets=packets if lost is not None else None,
    )


def _mean_rate(flow: Flow | None, of_cells: Sequence[float]) -> Bandwidth | None:
    """The mean over the full cells, so that what trickles in after the end does not count as time or data."""
    if flow is None or not flow.intervals:
        return None
    if of_cells:
        return Bandwidth(fmean(of_cells))
    length_s = max(each.end_s for each in flow.intervals)
    return Bandwidth(sum(each.bytes for each in flow.intervals) / length_s) if length_s > 0 else None


def _summed(seconds: tuple[float, ...], series: Sequence[NetworkSeries]) -> NetworkSeries:
    return NetworkSeries(
        seconds=seconds,
        throughput=_sum_columns([each.throughput for each in series]),
        sent=_sum_columns([each.sent for each in series]),
        retransmits=_sum_counts([each.retransmits for each in series]),
        lost_packets=_sum_counts([each.lost_packets for each in series]),
    )


def _sum_columns(columns: Sequence[tuple[Bandwidth, ...]]) -> tuple[Bandwidth, ...]:
    """Column by column; empty where a stream has none."""
    if not all(columns):
        return ()
    return tuple(Bandwidth(sum(each.bytes_per_second for each in row)) for row in zip(*columns, strict=True))


def _sum_counts(columns: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(row) for row in zip(*columns, strict=True)) if all(columns) else ()


def _bandwidths(values: Sequence[float]) -> tuple[Bandwidth, ...]:
    return tuple(Bandwidth(value) for value in values)


def _counted(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], int | None]
) -> tuple[int, ...]:
    if all(what(each) is None for each in flow):
        return ()
    return tuple(counts(flow, step_s, cells, what))


def _gauged(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], float | None]
) -> tuple[float | None, ...]:
    if all(what(each) is None for each in flow):
        return ()
    return tuple(last_seen(flow, step_s, cells, what))


def _whole(values: Sequence[float | None]) -> tuple[int | None, ...]:
    return tuple(None if value is None else int(value) for value in values)


def _sum(flow: Sequence[Interval], what: Callable[[Interval], int | None]) -> int | None:
    known = [value for each in flow if (value := what(each)) is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


_FULL = 0.9
"""Part of a cell that must have been measured: an unfinished last one is left out."""


def cells_of(flows: Sequence[Sequence[Interval]], step_s: float) -> int:
    """How many full cells of `step_s` seconds all the streams have; a stream without intervals has none."""
    ends = [max((each.end_s for each in flow), default=0.0) for flow in flows]
    if not ends:
        return 0
    return int(min(ends) / step_s + (1 - _FULL))


def rates(flow: Sequence[Interval], step_s: float, cells: int) -> list[float]:
    """Bytes per second of each cell. A last cell that is not quite full counts for the time that it has."""
    end_s = max((each.end_s for each in flow), default=0.0)
    sums = sums_at(flow, [min(number * step_s, end_s) for number in range(cells + 1)], _bytes)
    found = []
    for number in range(cells):
        length_s = min((number + 1) * step_s, end_s) - number * step_s
        found.append((sums[number + 1] - sums[number]) / length_s if length_s > 0 else 0.0)
    return found


def counts(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], int | None]
) -> list[int]:
    """A whole count of each cell; what lies behind the last one is in it."""
    moments = [number * step_s for number in range(cells)]
    sums = [round(each) for each in sums_at(flow, moments, lambda each: what(each) or 0)]
    sums.append(sum(what(each) or 0 for each in flow))
    return [sums[number + 1] - sums[number] for number in range(cells)]


def sums_at(
    flow: Sequence[Interval], moments: Sequence[float], what: Callable[[Interval], float]
) -> list[float]:
    """What a stream had summed up to by each moment; the moments ascend."""
    found = []
    total = 0.0
    position = 0
    for moment in moments:
        while position < len(flow) and flow[position].end_s <= moment:
            total += what(flow[position])
            position += 1
        inside = 0.0
        if position < len(flow) and flow[position].start_s < moment:
            each = flow[position]
            inside = what(each) * (moment - each.start_s) / (each.end_s - each.start_s)
        found.append(total + inside)
    return found


def last_seen(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], float | None]
) -> list[float | None]:
    """A gauge at the end of each cell: the value of the interval that lasts longest within it."""
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
                best = (shared_s, what(each))
        found.append(best[1])
    return found


def _bytes(each: Interval) -> float:
    return each.bytes
