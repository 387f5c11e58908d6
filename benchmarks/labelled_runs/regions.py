"""Runs on an embedded region: its limits are exact, and its machine may be what was measured."""

from __future__ import annotations

import random

from labelled_runs.hardware import (
    BIG,
    counted,
    deep,
    envelope_of,
    far_from_limits,
    some_volume,
    storage,
    volume_iops,
)
from labelled_runs.labels import (
    LOAD,
    MACHINE,
    LabelledRun,
    Region,
    about,
    at_limit,
    held,
    kept_if,
    labelled,
    limited_by,
    not_held,
    short_of,
    unknown,
    violated,
)
from labelled_runs.shapes import at_a_limit, length, noise, some_noise

MODELLED_S = 0.0005
QUEUE = 128
"""I/Os that reach the region at a time from one volume."""


@labelled("region: volume IOPS", decides=0.95)
def by_volume(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    limit = mine.limit.per_second
    outstanding = min(QUEUE, deep(rng, limit))
    values = [limit * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.02))]
    late = rng.uniform(0.0, 0.05)
    waited = outstanding / limit
    run = storage(
        values, envelope, outstanding, counters=counted(count, "volume_iops"),
        region=Region(waited * (1 - late), waited * late),
    )  # fmt: skip
    return about(
        run,
        *at_limit(mine),
        kept_if(True, "steady"),
        violated("latency", mean=waited * 0.6, limiters=(mine.label,)),
    )


def held_by_machine(rng: random.Random, share: float) -> LabelledRun:
    """Return a run that got ``share`` of what its volume promises, since the machine had no time for more."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    rate = mine.limit.per_second * share
    outstanding = min(QUEUE, deep(rng, mine.limit.per_second))
    spread, memory = some_noise(rng)
    values = [rate * factor for factor in at_a_limit(rng, count, spread, memory)]
    took = outstanding / rate
    run = storage(
        values, envelope, outstanding, counters=counted(count), region=Region(MODELLED_S, took - MODELLED_S)
    )
    return about(run, *short_of(mine, MACHINE))


@labelled("region: machine at its limit")
def machine(rng: random.Random) -> LabelledRun:
    return held_by_machine(rng, rng.uniform(0.3, 0.85))


@labelled("region: machine at its limit beside the volume's")
def machine_beside(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    rate = mine.limit.per_second * rng.uniform(0.955, 0.99)
    outstanding = min(QUEUE, deep(rng, rate))
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.005, 0.04))]
    took = outstanding / rate
    run = storage(
        values, envelope, outstanding, counters=counted(count), region=Region(MODELLED_S, took - MODELLED_S)
    )
    return about(run, limited_by(MACHINE), not_held("capped_by", mine, limiters=()))


@labelled("region: machine late now and then")
def late_at_times(rng: random.Random) -> LabelledRun:
    """The volume's limit acts most of the time, and the machine answers late in the other seconds."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([30, 60, 120])
    limit = mine.limit.per_second
    bad = rng.uniform(0.2, 0.5)
    values = [
        limit * (rng.uniform(0.2, 0.7) if rng.random() < bad else rng.uniform(0.99, 1.01))
        for _ in range(count)
    ]
    outstanding = min(QUEUE, deep(rng, limit))
    mean = sum(values) / count
    modelled = outstanding / limit
    region = Region(modelled, outstanding / mean - modelled)
    counters = counted(count, "volume_iops", share=1 - bad)
    run = storage(values, envelope, outstanding, counters=counters, region=region)
    kept = mean >= 0.9 * limit
    return about(run, held("reaches", mine) if kept else unknown("reaches", mine), unknown("steady"))


@labelled("region: machine stood still once")
def stood_still(rng: random.Random) -> LabelledRun:
    """The volume's limit acts but for a few tenths of a second; what is missing is just more than the tolerance."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.randint(6, 12)
    limit, lost = mine.limit.per_second, rng.uniform(0.052, 0.08)
    values = [limit * rng.uniform(0.999, 1.001) for _ in range(count)]
    values[rng.randrange(count)] = limit * (1 - lost * count)
    outstanding = min(QUEUE, deep(rng, limit))
    took = outstanding / (limit * (1 - lost))
    modelled = outstanding / limit * rng.uniform(0.97, 1.0)
    late_s = (took - modelled) * rng.choice([0.0, 1.0])
    counters = counted(count, "volume_iops", share=1 - lost)
    run = storage(values, envelope, outstanding, counters=counters, region=Region(modelled, late_s))
    return about(run, unknown("capped_by", mine), unknown("reaches", mine, within=0.05))


@labelled("region: too shallow a load")
def too_shallow(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, 16_000))
    mine, count = volume_iops(envelope), length(rng)
    outstanding = rng.randint(1, 5)
    late = rng.uniform(0.0, 0.08)
    rate = outstanding / (MODELLED_S * (1 + late))
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.03))]
    run = storage(
        values, envelope, outstanding, counters=counted(count), region=Region(MODELLED_S, MODELLED_S * late)
    )
    assert far_from_limits(envelope, rate)
    return about(run, *short_of(mine, LOAD))


@labelled("region: throttled below the promise", decides=0.9)
def throttled(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    rate = mine.limit.per_second * rng.uniform(0.3, 0.85)
    outstanding = min(QUEUE, deep(rng, mine.limit.per_second))
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.02))]
    took = outstanding / rate
    run = storage(
        values,
        envelope,
        outstanding,
        counters=counted(count, "volume_iops"),
        region=Region(took * 0.98, took * 0.02),
    )
    return about(run, violated("reaches", mine, limiters=()), not_held("capped_by", mine, limiters=()))


@labelled("region: latency", decides=0.8)
def latency(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    outstanding = rng.randint(1, 2)
    modelled = rng.uniform(0.0007, 0.004)
    late = modelled * rng.uniform(0.0, 0.06)
    rate = outstanding / (modelled + late)
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.02))]
    run = storage(values, envelope, outstanding, counters=counted(count), region=Region(modelled, late))
    allowed = modelled * rng.choice([rng.uniform(0.3, 0.95), rng.uniform(1.1, 3.0)])
    broken = modelled > allowed
    # With one or two I/Os outstanding the load asks for less than the volume has, unless that is very little.
    shallow = [unknown("reaches", mine, limiters=())] if rate < 0.85 * mine.limit.per_second else []
    return about(run, kept_if(not broken, "latency", mean=allowed), *shallow)


@labelled("region: latency that the machine added")
def late(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    count = length(rng)
    modelled, late_s = rng.uniform(0.0007, 0.002), rng.uniform(0.001, 0.02)
    rate = 1 / (modelled + late_s)
    values = [rate * factor for factor in noise(rng, count, rng.uniform(0.01, 0.09))]
    run = storage(values, envelope, 1, counters=counted(count), region=Region(modelled, late_s))
    allowed = rng.uniform(modelled * 1.1, modelled + late_s * 0.8)
    return about(run, unknown("latency", mean=allowed))
