"""Runs that the load itself held: too shallow, limited by its generator or by its own rate."""

from __future__ import annotations

import math
import random
from statistics import fmean

from labelled_runs.hardware import (
    BASE_LATENCY_S,
    BIG,
    as_iops,
    counted,
    deep,
    envelope_of,
    far_from_limits,
    instance,
    instance_iops,
    some_volume,
    storage,
    volume_iops,
)
from labelled_runs.labels import (
    GENERATOR,
    LOAD,
    LabelledRun,
    StorageFacts,
    about,
    labelled,
    limited_by,
    not_held,
    refused,
    short_of,
    unknown,
    violated,
)
from labelled_runs.shapes import alternating, at_a_limit, drifting, length, noise
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.volumes import io2

FULL = ((99.6, 190.0, 8), (97.0, 380.0, 4), (60.0, 396.0, 4))
"""Generators whose busiest job uses a whole CPU, or whose jobs use all CPUs together."""


def shallow(rng: random.Random, envelope: Envelope, iops: float, counters: bool) -> StorageFacts:
    """Return a run with too few I/Os outstanding: each takes its time, and no limit is reached."""
    count = length(rng)
    outstanding = max(1, round(iops * BASE_LATENCY_S))
    values = [iops * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.04))]
    return storage(values, envelope, outstanding, counters=counted(count) if counters else None)


@labelled("too shallow a load")
def too_shallow(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, 16_000))
    mine = volume_iops(envelope)
    run = shallow(rng, envelope, rng.uniform(0.1, 0.75) * 16_000, rng.random() < 0.5)
    return about(run, *short_of(mine, LOAD))


def beside_instance(rng: random.Random) -> tuple[Envelope, float]:
    """Return a volume above an instance's limit, and a rate that lies near the latter by chance."""
    limit = rng.choice([4_000, 6_000, 8_000, 12_000])
    near = limit * rng.uniform(0.955, 1.0)
    return envelope_of(instance("m5.test", limit, 1_000.0), io2(size_gib=1_000, iops=limit * 3)), near


@labelled("too shallow a load beside a limit")
def too_shallow_beside(rng: random.Random) -> LabelledRun:
    envelope, near = beside_instance(rng)
    run = shallow(rng, envelope, near, counters=False)
    return about(run, limited_by(LOAD), unknown("reaches", volume_iops(envelope), limiters=()))


@labelled("too shallow a load beside a limit, with counters")
def too_shallow_beside_counted(rng: random.Random) -> LabelledRun:
    envelope, near = beside_instance(rng)
    run = shallow(rng, envelope, near, counters=True)
    mine = instance_iops(envelope)
    return about(
        run,
        limited_by(LOAD),
        unknown("reaches", volume_iops(envelope), limiters=()),
        not_held("capped_by", mine, limiters=()),
    )


def saturated(rng: random.Random, envelope: Envelope, iops: float, counters: bool) -> StorageFacts:
    """Return a run whose generator had no CPU time left. Its completed I/Os wait until it reads them."""
    count = length(rng)
    values = [iops * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.05))]
    outstanding = deep(rng, iops)
    return storage(
        values,
        envelope,
        outstanding,
        generator=rng.choice(FULL),
        counters=counted(count) if counters else None,
    )


@labelled("generator at its limit")
def generator(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, 64_000 if rng.random() < 0.5 else 16_000))
    mine = volume_iops(envelope)
    run = saturated(rng, envelope, rng.uniform(0.3, 0.85) * mine.limit.per_second, rng.random() < 0.5)
    return about(run, *short_of(mine, GENERATOR))


@labelled("generator at its limit beside a limit")
def generator_beside(rng: random.Random) -> LabelledRun:
    envelope, near = beside_instance(rng)
    run = saturated(rng, envelope, near, counters=False)
    mine = instance_iops(envelope)
    return about(
        run, limited_by(GENERATOR), unknown("reaches", volume_iops(envelope)), unknown("capped_by", mine)
    )


@labelled("generator at its limit beside a limit, with counters")
def generator_beside_counted(rng: random.Random) -> LabelledRun:
    envelope, near = beside_instance(rng)
    run = saturated(rng, envelope, near, counters=True)
    mine = instance_iops(envelope)
    return about(
        run,
        limited_by(GENERATOR),
        unknown("reaches", volume_iops(envelope), limiters=()),
        not_held("capped_by", mine, limiters=()),
    )


@labelled("job's own rate")
def own_rate(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    asked = rng.uniform(0.2, 0.85) * mine.limit.per_second
    values = [asked * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.02))]
    run = storage(
        values,
        envelope,
        deep(rng, asked),
        latency_s=BASE_LATENCY_S,
        rate_asked=as_iops(asked),
        generator=(8.0, 12.0, 8),
    )
    return about(run, *short_of(mine, LOAD))


@labelled("job's own rate beside a limit")
def own_rate_beside(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    asked = rng.uniform(0.955, 0.995) * mine.limit.per_second
    values = [asked * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.02))]
    counters = counted(count) if rng.random() < 0.5 else None
    run = storage(
        values,
        envelope,
        deep(rng, asked),
        latency_s=BASE_LATENCY_S,
        rate_asked=as_iops(asked),
        counters=counters,
    )
    return about(run, limited_by(LOAD), not_held("capped_by", mine, limiters=()))


def alternating_run(rng: random.Random, counters: dict[str, float] | None, count: int) -> LabelledRun:
    """Return a run whose rate alternates around the volume's limit, which no limit does."""
    envelope = envelope_of(BIG, some_volume(rng, 3_000))
    mine, apart = volume_iops(envelope), rng.uniform(0.2, 0.5)
    values = alternating(rng, count, 3_000 * (1 + apart), 3_000 * (1 - apart), rng.uniform(0.0, 0.03))
    run = storage(values, envelope, 256, counters=counters)
    return about(run, not_held("capped_by", mine), violated("steady"))


@labelled("alternating around a limit", decides=0.9)
def alternating_rate(rng: random.Random) -> LabelledRun:
    return alternating_run(rng, None, rng.choice([30, 60, 120]))


@labelled("alternating around a limit, with counters", decides=0.9)
def alternating_rate_counted(rng: random.Random) -> LabelledRun:
    count = rng.choice([30, 60, 120])
    return alternating_run(rng, counted(count, "volume_iops", share=rng.uniform(0.45, 0.55)), count)


@labelled("any rate around a limit", decides=0.9)
def anything(rng: random.Random) -> LabelledRun:
    """Seconds whose mean is the limit's figure by chance: waves, scatter, or two levels of unequal length."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    kind = rng.choice(["waves", "scatter", "two levels"])
    if kind == "waves":
        period, height = rng.uniform(4, count / 2), rng.uniform(0.25, 0.5)
        factors = [1 + height * math.sin(2 * math.pi * index / period) for index in range(count)]
    elif kind == "scatter":
        factors = [rng.uniform(0.5, 1.5) for _ in range(count)]
    else:
        share, low = rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.5)
        high = (1 - share * low) / (1 - share)
        factors = [low if rng.random() < share else high for _ in range(count)]
    level = mine.limit.per_second / fmean(factors)
    run = storage([level * factor for factor in factors], envelope, deep(rng, mine.limit.per_second))
    return about(run, not_held("capped_by", mine), violated("steady"))


@labelled("drifting through a limit", decides=0.8)
def drift(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    change = rng.choice([-1, 1]) * rng.uniform(0.25, 0.6)
    values = [
        mine.limit.per_second * factor for factor in drifting(rng, count, change, rng.uniform(0.003, 0.04))
    ]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    return about(run, not_held("capped_by", mine), violated("steady"))


@labelled("no limit of the run")
def foreign_figure(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, 16_000))
    count, rate = length(rng), rng.uniform(0.3, 0.85) * 16_000
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.04))]
    run = storage(values, envelope, deep(rng, rate))
    other = volume_iops(envelope_of(BIG, some_volume(rng, max(3_000, round(rate)))))
    stranger = type(other)(
        "io2 vol-0ff", other.quantity, other.scope, as_iops(rate), other.source, other.date
    )
    assert far_from_limits(envelope, rate)
    return about(run, refused("capped_by", f"{rate:.0f} IOPS"), refused("capped_by", stranger))


@labelled("far above the volume's limit")
def above(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, rng.choice([3_000, 4_000, 6_000])))
    mine, count = volume_iops(envelope), length(rng)
    rate = mine.limit.per_second * rng.uniform(1.5, 14.0)
    values = [rate * factor for factor in noise(rng, count, rng.uniform(0.002, 0.06))]
    counters = counted(count) if rng.random() < 0.5 else None
    run = storage(values, envelope, deep(rng, rate), counters=counters)
    return about(run, unknown("reaches", mine), not_held("capped_by", mine))


@labelled("another load on the volume")
def foreign_load(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    share = rng.uniform(0.25, 0.75)
    rate = mine.limit.per_second * share
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.005, 0.06))]
    counters = counted(count, "volume_iops")
    run = storage(values, envelope, deep(rng, rate), counters=counters, device_iops=mine.limit.per_second)
    return about(run, unknown("reaches", mine), not_held("capped_by", mine))
