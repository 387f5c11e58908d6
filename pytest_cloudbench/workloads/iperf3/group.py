"""One iperf3 job on several pairs at once: all servers first, then all clients at one moment."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.iperf3.ends import Side, start_client, start_server
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.plan import Plan, plan_run
from pytest_cloudbench.workloads.iperf3.run import (
    NetworkProgress,
    gather,
    let_end,
    measured,
    watch,
    within_load,
)
from pytest_cloudbench.workloads.iperf3.streams import summed_series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, sum_known
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.target import GroupCounters, PathGroup
from pytest_cloudbench.workloads.tool_run import cleaned_up, started_apart


def run_on_pairs(
    group: PathGroup,
    job: Iperf3Job,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[NetworkProgress], None] | None = None,
) -> NetworkMeasurement:
    """Run `job` on every pair of a group at once, and return what all of them measured together.

    The bitrate is the total over all pairs. Raises as `run_iperf3` does, with the pair in the message. In every case,
    also on Ctrl-C, nothing is left running on a host that can be reached.
    """
    count = len(group.pairs)
    share = job if job.bitrate is None else dataclasses.replace(job, bitrate=job.bitrate / count)
    plans = [plan_run(pair, share, pace) for pair in group.pairs]

    def show(progress: NetworkProgress) -> None:
        # The rate is that of one pair only.
        assert on_progress is not None
        on_progress(dataclasses.replace(progress, throughput=None))

    by_clock = None if on_progress is None else show
    with contextlib.ExitStack() as stack:
        before = _counters(group)
        began = time.monotonic()
        servers: list[tuple[Side, tuple[int, ...]]] = []
        for plan in plans:
            servers.append(start_server(plan))
            stack.enter_context(cleaned_up(servers[-1][0].job))
        # Each client waits for the same moment. A client starts faster than a server, which must listen first.
        start_at = time.monotonic() + (time.monotonic() - began)
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
        causes = _watched(plans, clients, by_clock, start_in_s=max(0.0, start_at - time.monotonic()))
        after = _counters(group) if before is not None else None
        gained: Sequence[AllowancePair | None] = [None] * count
        if before is not None and after is not None:
            gained = [within_load(plan, each) for plan, each in zip(plans, after.since(before), strict=True)]
        gathered = []
        for plan, client, (server, _), counters in zip(plans, clients, servers, gained, strict=True):
            let_end(server, at_once=any(causes))
            gathered.append(gather(plan, client, server, counters, started_at))
    # Report a pair that failed by itself before those that were ended because of it.
    order = sorted(range(count), key=lambda number: causes[number] is None)
    parts = {number: measured(plans[number], gathered[number], causes[number]) for number in order}
    return _together(group, job, plans, [parts[number] for number in range(count)], max(delays_s))


def _watched(
    plans: Sequence[Plan],
    clients: Sequence[Side],
    on_progress: Callable[[NetworkProgress], None] | None,
    *,
    start_in_s: float,
) -> list[Exception | None]:
    """Wait for all clients, and return the error of each, if any; after an error the others are ended."""
    causes: list[Exception | None] = []
    for plan, client in zip(plans, clients, strict=True):
        if any(causes):
            client.end()
        try:
            watch(plan, client, on_progress if not causes else None, start_in_s=start_in_s)
            causes.append(None)
        except Exception as error:  # raised by the caller, after reading what all ends measured
            causes.append(error)
            client.end()
    return causes


def _together(
    group: PathGroup,
    job: Iperf3Job,
    plans: Sequence[Plan],
    parts: Sequence[NetworkMeasurement],
    skew_s: float,
) -> NetworkMeasurement:
    """Return the measurement of all pairs together."""
    protocol: dict[str, Any] = {"udp": True} if job.udp else {}
    envelope = group.envelope(streams=job.streams, reverse=job.reverse, **protocol)
    common: dict[str, Any] = {
        "path": group.label,
        "client": _listed(plan.client.label for plan in plans),
        "server": _listed(plan.server.label for plan in plans),
        "envelope": envelope,
        "rate_asked": job.bitrate,
        "generator": _generator(plans, parts),
        "start_skew_s": skew_s,
        "asked": job.asked(),
    }
    raw = {
        f"pair-{number}-{name}": content
        for number, part in enumerate(parts, 1)
        for name, content in part.raw.items()
    }

    def whole_of(each: Sequence[NetworkMeasurement]) -> NetworkMeasurement:
        way = each[0].workload.removeprefix(parts[0].workload)
        return dataclasses.replace(summed(each), workload=f"iperf3 {job}{way}", **common)

    ways = tuple(map(whole_of, zip(*(part.directions for part in parts), strict=True)))
    whole = dataclasses.replace(whole_of(parts), raw=raw, directions=ways)
    return dataclasses.replace(whole, conditions=(*whole.conditions, *started_apart("pairs", skew_s)))


def summed(parts: Sequence[NetworkMeasurement]) -> NetworkMeasurement:
    """Return the sums over measurements of several pairs that ran at once."""
    counters = [part.counters for part in parts if part.counters is not None]
    return dataclasses.replace(
        parts[0],
        throughput=Bandwidth(sum(part.throughput.bytes_per_second for part in parts)),
        sent=_sum(part.sent for part in parts),
        received=_sum(part.received for part in parts),
        streams=tuple(stream for part in parts for stream in part.streams),
        series=summed_series([part.series for part in parts]),
        runtime_s=min(part.runtime_s for part in parts),
        client_commands=tuple(each for part in parts for each in part.client_commands),
        server_commands=tuple(each for part in parts for each in part.server_commands),
        cpu_client_percent=sum_known(part.cpu_client_percent for part in parts),
        cpu_server_percent=sum_known(part.cpu_server_percent for part in parts),
        processes=sum(part.processes for part in parts),
        counters=AllowancePair.of_pairs(counters) if len(counters) == len(parts) else None,
        mss=min((part.mss for part in parts if part.mss), default=None),
        kernel=", ".join(dict.fromkeys(part.kernel for part in parts)),
        conditions=tuple(dict.fromkeys(each for part in parts for each in part.conditions)),
        raw={},
        parts=tuple(dataclasses.replace(part, raw={}) for part in parts),
    )


def _generator(plans: Sequence[Plan], parts: Sequence[NetworkMeasurement]) -> GeneratorLoad | None:
    """Return the busiest thread of all pairs, and the load of the machine whose processors were busiest."""
    known = [part.generator for part in parts if part.generator is not None]
    if not known:
        return None
    busiest = max(each.cpu_percent_busiest for each in known)
    ends = [
        (end.machine, GeneratorLoad(busiest, percent or 0.0, cpus))
        for plan, part in zip(plans, parts, strict=True)
        for end, percent, cpus in (
            (plan.client, part.cpu_client_percent, plan.client_cpus),
            (plan.server, part.cpu_server_percent, plan.server_cpus),
        )
    ]
    return GeneratorLoad.of_hosts(ends)


def _counters(group: PathGroup) -> GroupCounters | None:
    # Counters are only evidence: a run without them does not fail.
    with contextlib.suppress(Exception):
        return group.counters()
    return None


def _sum(rates: Iterable[Bandwidth | None]) -> Bandwidth | None:
    known = [rate.bytes_per_second for rate in rates if rate is not None]
    return Bandwidth(sum(known)) if known else None


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(labels))
