"""Measurements made of labelled runs, as the workloads would report them."""

from __future__ import annotations

import math
from typing import Any

from labelled_runs.labels import Facts, NetworkFacts, StorageFacts

from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair, ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay
from pytest_cloudbench.workloads.measurement import Direction, Latency, Measurement, Series
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, NetworkSeries, StreamResult


def measured(facts: Facts) -> Any:
    """Return the measurement that a workload would make of these facts."""
    return _of_network(facts) if isinstance(facts, NetworkFacts) else _of_storage(facts)


def _of_storage(facts: StorageFacts) -> Measurement:
    count, block = len(facts.iops), facts.block
    runtime_s = float(count) if facts.runtime_s is None else facts.runtime_s
    mib = facts.throughput_mib or [value * block.mib for value in facts.iops]
    latency_s = facts.latency_s
    return Measurement(
        workload="labelled",
        iops=facts.total_iops,
        throughput_mib=facts.total_iops * block.mib,
        read=_reads(facts, count),
        write=None,
        latency=Latency(
            latency_s, latency_s / 4, latency_s * 9, latency_s * 0.9, latency_s * 1.5, latency_s * 2
        ),
        series=Series(
            facts.seconds or tuple(float(number) for number in range(1, count + 1)),
            tuple(Iops(value) for value in facts.iops),
            tuple(Throughput.from_mib(value) for value in mib),
            facts.sample_latency_s or (latency_s,) * count,
        ),
        block_size=block,
        sequential=facts.sequential,
        outstanding_asked=facts.outstanding,
        runtime_s=runtime_s,
        command="fio",
        tool_version="fio-3.33",
        host="host",
        target="volume",
        started_at="2026-11-20T12:00:00+00:00",
        envelope=facts.envelope,
        counters=_throttled(facts, count),
        generator=GeneratorLoad(*facts.generator) if facts.generator else None,
        rate_asked=facts.rate_asked,
        modelled_latency="ebs" if facts.region else None,
        machine_delay=_delay(facts, count),
        asked={"direct": True},
    )


def _reads(facts: StorageFacts, count: int) -> Direction | None:
    if not math.isfinite(facts.total_iops):
        return None
    ios = round(facts.total_iops * count)
    return Direction(facts.total_iops, facts.total_iops * facts.block.mib, ios, ios * facts.block.bytes)


def _throttled(facts: StorageFacts, count: int) -> ThrottleDelta | None:
    if facts.counters is None:
        return None
    exceeded = {f"{name}_exceeded_s": seconds for name, seconds in facts.counters.items()}
    moved = facts.total_iops if facts.device_iops is None else facts.device_iops
    return ThrottleDelta(
        float(count), **exceeded, read_bytes=round(moved * count * facts.block.bytes), written_bytes=0
    )


def _delay(facts: StorageFacts, count: int) -> MachineDelay | None:
    if facts.region is None:
        return None
    return MachineDelay(round(facts.total_iops * count), facts.region.modelled_s, facts.region.late_s)


def _of_network(facts: NetworkFacts) -> NetworkMeasurement:
    count = len(facts.gbit)
    rate = Bandwidth.from_gbit(facts.total_gbit)
    seconds = facts.seconds or tuple(float(number) for number in range(1, count + 1))
    series = NetworkSeries(seconds, tuple(Bandwidth.from_gbit(value) for value in facts.gbit))
    streams = [
        StreamResult(1, 40_000 + number, True, None, Bandwidth.from_gbit(value), NetworkSeries())
        for number, value in enumerate(facts.streams)
    ]
    counters = None
    if facts.counters is not None:
        client, server = facts.counters
        counters = AllowancePair(
            AllowanceDelta(float(count), bw_out_exceeded=client),
            AllowanceDelta(float(count), bw_in_exceeded=server),
        )
    return NetworkMeasurement(
        workload="labelled",
        protocol="tcp",
        throughput=rate,
        sent=rate,
        received=rate,
        streams=tuple(streams),
        series=series,
        runtime_s=float(count),
        path="client to server",
        client="client",
        server="server",
        client_commands=("iperf3",),
        server_commands=("iperf3 -s",),
        tool_versions={"client": "3.12", "server": "3.12"},
        started_at="2026-11-20T12:00:00+00:00",
        envelope=facts.envelope,
        counters=counters,
        generator=GeneratorLoad(*facts.generator) if facts.generator else None,
        rate_asked=facts.rate_asked,
        mss=facts.mss,
    )
