"""Curves made up for the judges and the pictures: a queue that grows as the load nears its limit."""

import dataclasses

from synthetic_runs import C5, IO2

from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.quantities import Iops, Size
from pytest_cloudbench.workloads.measurement import Latency, Measurement, Series
from pytest_cloudbench.workloads.sweep.curve import Curve, Step
from pytest_cloudbench.workloads.sweep.named_mixes import MIXES


def latency_of(mean_s):
    return Latency(mean_s, mean_s / 4, mean_s * 9, mean_s * 0.7, mean_s * 2.5, mean_s * 4, mean_s * 7)


def run_at(
    iops,
    latency_s,
    *,
    outstanding=3_840,
    asked=None,
    mix="4k-random-read",
    on=C5,
    volumes=IO2,
    machine=None,
    delay=None,
):
    """One run of a sweep; a closed loop where no rate is asked, with the latency that Little's law gives it."""
    block = MIXES[mix].block_size
    latency_s = outstanding / iops if latency_s is None else latency_s
    return Measurement(
        workload=f"sweep {mix}",
        iops=iops,
        throughput_mib=iops * block.mib,
        read=None,
        write=None,
        latency=latency_of(latency_s),
        series=Series(
            tuple(float(second + 1) for second in range(6)),
            tuple(Iops(float(iops)) for _ in range(6)),
            tuple(Iops(float(iops)).at(block) for _ in range(6)),
            (latency_s,) * 6,
        ),
        block_size=block,
        sequential=MIXES[mix].sequential,
        outstanding_asked=outstanding,
        runtime_s=60.0,
        command="fio",
        tool_version="fio-3.33",
        host="host",
        target="30 x gp2 1,000 GiB/3,000 IOPS",
        started_at="2026-11-20T12:00:00+00:00",
        envelope=storage_envelope(on, volumes, block, sequential=MIXES[mix].sequential, machine=machine),
        rate_asked=None if asked is None else Iops(float(asked)),
        machine_delay=delay,
        asked={"direct": True},
    )


def curve_of(
    limit=64_000.0,
    *,
    idle_s=0.0003,
    percents=tuple(range(10, 130, 10)),
    outstanding=3_840,
    mix="4k-random-read",
    conditions=(),
    changes=None,
    **how,
):
    """A curve that ends at ``limit`` IOPS. ``changes`` replaces fields of the runs at some per cent."""
    steps = []
    for percent in percents:
        asked = limit * percent / 100
        full = percent >= 100
        carried = min(asked, limit)
        latency = (
            outstanding / limit * min(1.0, percent / 100 - 0.05) if full else idle_s / (1 - percent / 108)
        )
        run = run_at(carried, latency, asked=asked, outstanding=outstanding, mix=mix, **how)
        run = dataclasses.replace(run, **(changes or {}).get(percent, {}))
        steps.append(Step(float(percent), Iops(asked), run, "its time was up"))
    maximum = run_at(limit, None, outstanding=outstanding, mix=mix, **how)
    return Curve(MIXES[mix], outstanding // 30, 30, maximum, tuple(steps), conditions)


BLOCK = Size.parse("4k")
