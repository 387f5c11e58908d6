"""Run an iperf3 job on one path or several: check it, start it exactly once, watch it, read its output."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.reports.plots.kinds import network_plots
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.workloads.iperf3.ends import SERVER_ENDS_WITHIN_S, Side, start_client, start_server
from pytest_cloudbench.workloads.iperf3.failures import failure_of, stall_of, with_stall_noted
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.output import CLIENT, SERVER
from pytest_cloudbench.workloads.iperf3.plan import Plan, plan_run
from pytest_cloudbench.workloads.iperf3.result import Gathered, measurement_of, read_end
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.target import NetworkPath, PathGroup, is_group
from pytest_cloudbench.workloads.tool_run import cleaned_up
from pytest_cloudbench.workloads.workload import Workload


@dataclass(frozen=True)
class NetworkProgress:
    """The progress of a running load over its whole length, the omitted seconds included.

    `throughput` is the rate of the interface in the last second, headers included; None if unknown. `eta_s` is the
    remaining time in real seconds.
    """

    percent: float
    throughput: Bandwidth | None
    eta_s: float

    def __str__(self) -> str:
        rate = f" {self.throughput}" if self.throughput is not None else ""
        return f"{self.percent:.0f} %{rate}, {self.eta_s:.0f} s left"


class ProgressReader:
    """Parses the load script's samples ("UPTIME RECEIVED SENT", or only the uptime), in pieces as they arrive.

    iperf3 writes its JSON only at its end, so the samples are of the client's interface.
    """

    def __init__(self, job: Iperf3Job, length_s: float) -> None:
        self._ways = (job.reverse or job.bidirectional, not job.reverse)
        self._length_s = max(1.0, length_s)
        self._rest = ""
        self._first_s = 0.0
        self._last: tuple[float, int | None] | None = None

    def feed(self, text: str) -> list[NetworkProgress]:
        """Return the progress for each sample line that `text` completes, after the first; invalid ones are skipped."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [progress for line in lines if (progress := self._read(line)) is not None]

    def _read(self, line: str) -> NetworkProgress | None:
        words = line.split()
        try:
            at_s = float(words[0])
            moved = [int(word) for word in words[1:3]]
        except (IndexError, ValueError):
            return None
        before, self._last = self._last, (at_s, self._carried(moved))
        if before is None:
            self._first_s = at_s
            return None
        passed_s = at_s - before[0]
        if not 0 < passed_s < float("inf"):
            return None
        done_s = min(max(0.0, at_s - self._first_s), self._length_s)
        carried = self._last[1] - before[1] if self._last[1] is not None and before[1] is not None else None
        return NetworkProgress(
            percent=100.0 * done_s / self._length_s,
            throughput=None if carried is None else Bandwidth(max(0, carried) / passed_s),
            eta_s=self._length_s - done_s,
        )

    def _carried(self, moved: list[int]) -> int | None:
        """Return the bytes carried in the directions of the load; None if the sample has none."""
        if len(moved) < 2:
            return None
        return sum(each for each, ours in zip(moved, self._ways, strict=True) if ours)


_SPARE_S = 60.0
"""A run may take this much longer than its time: after a network failure at its end, up to half is needed."""


def run_iperf3(
    path: NetworkPath | PathGroup,
    job: Iperf3Job,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[NetworkProgress], None] | None = None,
) -> NetworkMeasurement:
    """Run `job` on `path` once, or on every pair of a group at once, and return the measurement.

    The bitrate of a group is the total over all its pairs.
    on_progress: called about once a second during the run; without it nothing is sampled.

    Raises BadIperf3Job, Iperf3TooOld or PortBusy before anything starts. Later raises ServerNotUp, Iperf3Refused,
    Iperf3OutputError, Iperf3TimedOut, Iperf3Interrupted (which holds the measured part), or the host's error if a
    host is lost before anything was measured. In every case, also on Ctrl-C, nothing is left running on a host that
    can be reached.
    """
    if not is_group(path):
        (one,), _ = _run_at_once(path, [plan_run(path, job, pace)], on_progress)
        return one
    from pytest_cloudbench.workloads.iperf3.group import together

    def show(progress: NetworkProgress) -> None:
        # The rate is that of one pair only.
        assert on_progress is not None
        on_progress(dataclasses.replace(progress, throughput=None))

    share = job if job.bitrate is None else dataclasses.replace(job, bitrate=job.bitrate / len(path.pairs))
    plans = [plan_run(pair, share, pace) for pair in path.pairs]
    parts, skew_s = _run_at_once(path, plans, None if on_progress is None else show)
    return together(path, job, plans, parts, skew_s)


def _run_at_once(
    path: NetworkPath | PathGroup,
    plans: Sequence[Plan],
    on_progress: Callable[[NetworkProgress], None] | None,
) -> tuple[list[NetworkMeasurement], float]:
    """Run all plans at once: all servers first, then all clients at one moment.

    Return what each measured, and within how many seconds the clients started.
    """
    with contextlib.ExitStack() as stack:
        before = _counters(path)
        began = time.monotonic()
        servers: list[tuple[Side, tuple[int, ...]]] = []
        for plan in plans:
            servers.append(start_server(plan))
            stack.enter_context(cleaned_up(servers[-1][0].job))
        # Several clients wait for one moment. A client starts faster than a server, which must listen first.
        start_at = time.monotonic() + (time.monotonic() - began if len(plans) > 1 else 0.0)
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        clients: list[Side] = []
        delays_s = []
        for plan, (_, ports) in zip(plans, servers, strict=True):
            left_s = max(0.0, start_at - time.monotonic())
            sampled = on_progress is not None and not clients
            clients.append(start_client(plan, ports, with_samples=sampled, start_in_s=left_s))
            stack.enter_context(cleaned_up(clients[-1].job))
            # The client began to wait at some time during the call.
            delays_s.append(time.monotonic() + left_s - start_at)
        causes = _watched(plans, clients, on_progress, start_in_s=max(0.0, start_at - time.monotonic()))
        after = _counters(path) if before is not None else None
        gained: Sequence[AllowancePair | None] = [None] * len(plans)
        if before is not None and after is not None:
            each = after.since(before) if is_group(path) else [after.since(before)]
            gained = [_within_load(plan, pair) for plan, pair in zip(plans, each, strict=True)]
        gathered = []
        for plan, client, (server, _), counters in zip(plans, clients, servers, gained, strict=True):
            _let_end(server, at_once=any(causes))
            gathered.append(_gather(plan, client, server, counters, started_at))
    # Report a pair that failed by itself before those that were ended because of it.
    order = sorted(range(len(plans)), key=lambda number: causes[number] is None)
    parts = {number: _measured(plans[number], gathered[number], causes[number]) for number in order}
    return [parts[number] for number in range(len(plans))], max(delays_s)


def _watched(
    plans: Sequence[Plan],
    clients: Sequence[Side],
    on_progress: Callable[[NetworkProgress], None] | None,
    *,
    start_in_s: float,
) -> list[Exception | None]:
    """Wait for all clients, and return the error of each, if any; after an error the others are ended.

    An error is raised by the caller, after reading what all ends measured.
    """
    reader = ProgressReader(plans[0].job, plans[0].length_s)
    causes: list[Exception | None] = []

    def take(output: str) -> None:
        if on_progress is not None and not causes:  # only the first client writes samples
            for progress in reader.feed(output):
                on_progress(progress)

    for plan, client in zip(plans, clients, strict=True):
        if any(causes):
            client.end()
        try:
            client.job.wait(start_in_s + plan.length_s + _SPARE_S, on_output=take)
            causes.append(None)
        except Exception as error:
            causes.append(error)
            client.end()
    return causes


def _measured(plan: Plan, gathered: Gathered, cause: Exception | None) -> NetworkMeasurement:
    """Return the measurement of a run that has ended. Raises the error of one that failed or stalled.

    cause: the error that ended the watching, if any.
    """
    failure = failure_of(plan, gathered, cause)
    if failure is not None:
        if cause is not None and not gathered.measured and not isinstance(cause, TimeoutError):
            raise cause
        raise failure from cause
    measurement = with_stall_noted(plan, measurement_of(plan, gathered))
    if (stalled := stall_of(plan, measurement)) is not None:
        raise stalled
    return measurement


def _let_end(server: Side, *, at_once: bool) -> None:
    """Wait for the one-off server, which ends with its client; end it if the client never connected."""
    if not at_once:
        with contextlib.suppress(Exception):
            server.job.wait(SERVER_ENDS_WITHIN_S)
            return
    server.end()


def _gather(
    plan: Plan, client: Side, server: Side, counters: AllowancePair | None, started_at: str
) -> Gathered:
    client_files, server_files = client.fetch(), server.fetch()
    reverse = plan.job.reverse
    raw = {
        name.replace("process", role, 1): content
        for role, files in ((CLIENT, client_files), (SERVER, server_files))
        for name, content in files.items()
        if name.startswith("process") and content
    }
    return Gathered(
        client=read_end(client.processes(client_files), role=CLIENT, reverse=reverse),
        server=read_end(server.processes(server_files), role=SERVER, reverse=reverse),
        client_commands=client.commands,
        server_commands=server.commands,
        raw=raw,
        counters=counters,
        started_at=started_at,
    )


def _counters(path: NetworkPath | PathGroup) -> Any:
    # Counters are only evidence: a run without them does not fail.
    with contextlib.suppress(Exception):
        return path.counters()
    return None


def _within_load(plan: Plan, gained: AllowancePair) -> AllowancePair:
    """Leave out the time before the first and after the last byte: it could not exceed an allowance."""
    client, server = (
        end and dataclasses.replace(end, elapsed_s=min(end.elapsed_s, plan.length_s))
        for end in (gained.client, gained.server)
    )
    return dataclasses.replace(gained, client=client, server=server)


IPERF3 = Workload("iperf3", parse=Iperf3Job.of, run=run_iperf3, plots=network_plots)
