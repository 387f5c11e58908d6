"""Build the measurement of a run from the output of both its ends."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Error, Iperf3OutputError
from pytest_cloudbench.workloads.iperf3.output import ProcessFiles, ProcessOutput, parse_output
from pytest_cloudbench.workloads.iperf3.plan import THREADED_SINCE, Plan
from pytest_cloudbench.workloads.iperf3.streams import Pairing, pair_streams, read_streams, summed
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, StreamResult, sum_known

_SHORT_RUN = 0.95
"""A run that measured less than this part of its time is noted."""


@dataclass(frozen=True)
class EndResult:
    """The outputs of one end's processes, and the errors of processes that have none or ended early.

    `unreadable`: the output of a process is not iperf3's JSON.
    """

    outputs: tuple[ProcessOutput | None, ...]
    errors: tuple[str, ...]
    unreadable: bool = False

    @property
    def measured(self) -> bool:
        """True if any process measured an interval."""
        return any(output.measured for output in self.outputs if output is not None)

    @property
    def error(self) -> str | None:
        """The distinct errors in one line; None if there are none."""
        return "; ".join(dict.fromkeys(self.errors)) or None


def read_end(processes: Sequence[ProcessFiles], *, role: str, reverse: bool) -> EndResult:
    """Parse the output of every process of one end. Never raises; failures are in the result's errors."""
    outputs: list[ProcessOutput | None] = []
    errors: list[str] = []
    unreadable = False
    for each in processes:
        try:
            output = parse_output(each, role=role, reverse=reverse)
        except Iperf3Error as error:
            outputs.append(None)
            errors.append(str(error))
            unreadable = unreadable or isinstance(error, Iperf3OutputError)
            continue
        outputs.append(output)
        if output.error is not None:
            errors.append(output.error)
    return EndResult(tuple(outputs), tuple(errors), unreadable)


@dataclass(frozen=True)
class Gathered:
    """The output of a run: both ends' results and files, the commands, the counters, the start time."""

    client: EndResult
    server: EndResult
    client_commands: tuple[tuple[str, ...], ...]
    server_commands: tuple[tuple[str, ...], ...]
    raw: dict[str, bytes]
    counters: AllowancePair | None
    started_at: str

    @property
    def measured(self) -> bool:
        """True if either end measured an interval."""
        return self.client.measured or self.server.measured


def measurement_of(plan: Plan, gathered: Gathered) -> NetworkMeasurement:
    """Build the measurement; for a run that ended early, of the part that was measured."""
    job = plan.job
    pairs = [
        pairing
        for number, (client, server) in enumerate(
            zip(gathered.client.outputs, gathered.server.outputs, strict=True), 1
        )
        for pairing in pair_streams(number, client, server)
    ]
    whole = _measured(plan, gathered, pairs, reverse=job.reverse)
    if not job.bidirectional:
        return whole
    ways = []
    for reverse, way in ((False, "client to server"), (True, "server to client")):
        mine = [pairing for pairing in pairs if pairing.from_client != reverse]
        one = _measured(plan, gathered, mine, reverse=reverse)
        ways.append(dataclasses.replace(one, workload=f"{one.workload}, {way}"))
    return dataclasses.replace(whole, directions=tuple(ways))


def _measured(
    plan: Plan, gathered: Gathered, pairs: Sequence[Pairing], *, reverse: bool
) -> NetworkMeasurement:
    job, time = plan.job, plan.time
    streams, series = read_streams(pairs, step_s=time.interval_s, compression=time.compression)
    sent = summed([stream.sent for stream in streams])
    received = summed([stream.received for stream in streams])
    throughput = received if received is not None else sent
    runtime_s = series.seconds[-1] if series.seconds else 0.0
    client_cpu, server_cpu = _cpu(gathered)
    return NetworkMeasurement(
        workload=f"iperf3 {job}",
        protocol=job.protocol,
        throughput=throughput if throughput is not None else Bandwidth(0.0),
        sent=sent,
        received=received,
        streams=streams,
        series=series,
        runtime_s=runtime_s,
        path=plan.path.label,
        client=plan.client.label,
        server=plan.server.label,
        client_commands=tuple(shlex.join(command) for command in gathered.client_commands),
        server_commands=tuple(shlex.join(command) for command in gathered.server_commands),
        tool_versions={"client": plan.client.version_line, "server": plan.server.version_line},
        kernel=", ".join(dict.fromkeys((plan.client.kernel, plan.server.kernel))),
        started_at=gathered.started_at,
        reverse=reverse,
        cpu_client_percent=sum_known(client_cpu),
        cpu_server_percent=sum_known(server_cpu),
        processes=len(plan.processes),
        processes_why=plan.processes.why,
        time_compression=time.compression,
        envelope=plan.envelope,
        counters=gathered.counters,
        generator=_generator(plan, streams, client_cpu, server_cpu),
        rate_asked=job.bitrate,
        mss=min(
            (each.mss_bytes for each in gathered.client.outputs if each and each.mss_bytes), default=None
        ),
        conditions=(
            *plan.conditions,
            *_conditions(plan, received_known=received is not None, ran_s=runtime_s),
        ),
        asked=job.asked(),
        raw=gathered.raw,
    )


def _conditions(plan: Plan, *, received_known: bool, ran_s: float) -> tuple[str, ...]:
    found = []
    if not received_known:
        found.append("the receiver's output is missing: the figures are what was sent")
    meant_s = plan.time.duration_s * plan.time.compression
    if ran_s < meant_s * _SHORT_RUN:
        found.append(f"iperf3 measured {ran_s:,g} s of {meant_s:,g} s")
    return tuple(found)


def _cpu(gathered: Gathered) -> tuple[list[float | None], list[float | None]]:
    """Return each process's per cent of one core, as it reports itself or else as the other end reports it."""
    found: tuple[list[float | None], list[float | None]] = ([], [])
    for client, server in zip(gathered.client.outputs, gathered.server.outputs, strict=True):
        for mine, other, into in ((client, server, found[0]), (server, client, found[1])):
            own = mine.cpu_percent if mine is not None else None
            into.append(own if own is not None else other.other_cpu_percent if other is not None else None)
    return found


def _generator(
    plan: Plan,
    streams: Sequence[StreamResult],
    client_cpu: Sequence[float | None],
    server_cpu: Sequence[float | None],
) -> GeneratorLoad | None:
    """Return the load of the busiest thread of both ends, and of the end whose processors were busier."""
    client, server = sum_known(client_cpu), sum_known(server_cpu)
    if client is None and server is None:
        return None
    busiest = 0.0
    for tool, percents in ((plan.client, client_cpu), (plan.server, server_cpu)):
        for number, percent in enumerate(percents, 1):
            share = _busiest_thread(streams, number) if tool.version >= THREADED_SINCE else 1.0
            busiest = max(busiest, (percent or 0.0) * share)
    ends = ((plan.client, client, plan.client_cpus), (plan.server, server, plan.server_cpus))
    return GeneratorLoad.of_hosts(
        [(end.machine, GeneratorLoad(busiest, percent or 0.0, cpus)) for end, percent, cpus in ends]
    )


def _busiest_thread(streams: Sequence[StreamResult], process: int) -> float:
    """Return the share of a process's CPU time of its busiest stream's thread, estimated by its share of the bytes."""
    moved = [stream.throughput.bytes_per_second for stream in streams if stream.process == process]
    return max(moved) / sum(moved) if sum(moved) > 0 else 1.0
