"""The measurement of one iperf3 job on several pairs at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.plan import Plan
from pytest_cloudbench.workloads.iperf3.streams import summed_series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, sum_known
from pytest_cloudbench.workloads.target import PathGroup
from pytest_cloudbench.workloads.tool_run import started_apart


def together(
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


def _sum(rates: Iterable[Bandwidth | None]) -> Bandwidth | None:
    known = [rate.bytes_per_second for rate in rates if rate is not None]
    return Bandwidth(sum(known)) if known else None


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(labels))
