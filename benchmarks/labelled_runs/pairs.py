"""Runs that are compared: two of one thing with the spread from run to run, two of different things, and series."""

from __future__ import annotations

import random
from statistics import fmean

from labelled_runs.hardware import (
    BASE_LATENCY_S,
    BIG,
    counted,
    deep,
    envelope_of,
    instance,
    instance_iops,
    some_volume,
    storage,
    volume_iops,
)
from labelled_runs.labels import (
    LabelledRun,
    NetworkFacts,
    Region,
    StorageFacts,
    held,
    labelled,
    not_violated,
    unknown,
    violated,
)
from labelled_runs.networks import GOODPUT, WIDE, network
from labelled_runs.shapes import at_a_limit, noise
from pytest_cloudbench.limits.network import network_envelope
from pytest_cloudbench.limits.volumes import io2

RUN_TO_RUN = 0.02
"""Standard deviation of a run's level, as a share: two runs of one thing differ by it."""


def storage_at(rng: random.Random, level: float, *, iops: int = 6_000) -> StorageFacts:
    """Return a run of a broken or unbroken volume at this share of its figure, times the run's own level."""
    envelope = envelope_of(BIG, some_volume(rng, iops))
    own = level * rng.gauss(1, RUN_TO_RUN) * iops
    memory = rng.choice([0.0, 0.0, 0.5])
    values = [
        own * factor
        for factor in at_a_limit(rng, rng.choice([60, 120, 300]), rng.uniform(0.002, 0.04), memory)
    ]
    return storage(values, envelope, deep(rng, iops))


def network_at(rng: random.Random, level: float) -> NetworkFacts:
    """Return a run over a network at this share of 25 Gbit/s, times the run's own level."""
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    own = level * rng.gauss(1, RUN_TO_RUN) * 25.0 * GOODPUT
    values = [own * factor for factor in noise(rng, rng.choice([60, 120, 300]), rng.uniform(0.002, 0.03))]
    return network(values, envelope, rng, even=False)


@labelled("A/A: storage", group="A/A")
def same_storage(rng: random.Random) -> LabelledRun:
    level = rng.uniform(0.6, 0.97)
    return LabelledRun((storage_at(rng, level), storage_at(rng, level)), (unknown("outperforms"),))


@labelled("A/A: network", group="A/A")
def same_network(rng: random.Random) -> LabelledRun:
    level = rng.uniform(0.6, 0.97)
    return LabelledRun((network_at(rng, level), network_at(rng, level)), (unknown("outperforms"),))


@labelled("A/A: region", group="A/A")
def same_on_region(rng: random.Random) -> LabelledRun:
    """The limits of a region are exact, so two runs differ by little."""
    envelope, runs = envelope_of(BIG, some_volume(rng, 6_000)), []
    for _ in range(2):
        own = 6_000 * rng.gauss(1, 0.003)
        values = [
            own * factor for factor in at_a_limit(rng, rng.choice([30, 60, 120]), rng.uniform(0.001, 0.02))
        ]
        waited = 64 / own
        counters = counted(len(values), "volume_iops")
        region = Region(waited * 0.98, waited * 0.02)
        runs.append(storage(values, envelope, 64, counters=counters, region=region))
    return LabelledRun(tuple(runs), (unknown("outperforms"),))


@labelled("A/A: alike within 15 %", decides=0.6)
def alike(rng: random.Random) -> LabelledRun:
    level, make = rng.uniform(0.6, 0.97), rng.choice([storage_at, network_at])
    return LabelledRun((make(rng, level), make(rng, level)), (held("resembles", within=0.15),))


@labelled("A/B: 25 to 60 % apart", decides=0.9)
def apart(rng: random.Random) -> LabelledRun:
    make = rng.choice([storage_at, network_at])
    low = rng.uniform(0.5, 0.6)
    high = low * rng.uniform(1.25, 1.6)
    questions = (held("outperforms"), violated("resembles", within=0.05))
    if rng.random() < 0.5:
        return LabelledRun((make(rng, low), make(rng, high)), (violated("outperforms"), questions[1]))
    return LabelledRun((make(rng, high), make(rng, low)), questions)


@labelled("A/B: 4 to 8 % apart")
def close(rng: random.Random) -> LabelledRun:
    make = rng.choice([storage_at, network_at])
    low = rng.uniform(0.6, 0.9)
    high = low * rng.uniform(1.04, 1.08)
    if rng.random() < 0.5:
        return LabelledRun((make(rng, low), make(rng, high)), (violated("outperforms"),))
    return LabelledRun((make(rng, high), make(rng, low)), (held("outperforms"),))


@labelled("A/B: the slower one was shallow")
def shallow_loser(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng, 6_000))
    rate = rng.uniform(0.3, 0.7) * 6_000
    values = [rate * factor for factor in at_a_limit(rng, 60, 0.01)]
    slower = storage(values, envelope, max(1, round(rate * BASE_LATENCY_S)), generator=(99.7, 99.7, 8))
    return LabelledRun((storage_at(rng, 0.98), slower), (unknown("outperforms"), unknown("resembles")))


def gate(rng: random.Random, share: float, earlier: int) -> tuple[StorageFacts | NetworkFacts, ...]:
    """Return a run at ``share`` of the level of so many earlier ones, and these."""
    level, make = rng.uniform(0.6, 0.7), rng.choice([storage_at, network_at])
    return (make(rng, level * share), *(make(rng, level) for _ in range(earlier)))


@labelled("gate: as good as earlier runs", decides=0.9)
def as_good(rng: random.Random) -> LabelledRun:
    return LabelledRun(gate(rng, 1.0, rng.randint(4, 8)), (held("not_worse_than", by=0.10),))


@labelled("gate: better than earlier runs", decides=0.9)
def better(rng: random.Random) -> LabelledRun:
    return LabelledRun(
        gate(rng, rng.uniform(1.08, 1.4), rng.randint(4, 8)), (held("not_worse_than", by=0.05),)
    )


@labelled("gate: worse than earlier runs", decides=0.9)
def worse(rng: random.Random) -> LabelledRun:
    return LabelledRun(
        gate(rng, rng.uniform(0.6, 0.82), rng.randint(4, 8)), (violated("not_worse_than", by=0.05),)
    )


@labelled("gate: as good as the one earlier run")
def as_good_as_one(rng: random.Random) -> LabelledRun:
    return LabelledRun(gate(rng, 1.0, 1), (not_violated("not_worse_than", by=0.05),))


def scaling(rng: random.Random, counts: list[int], limit: float) -> tuple[StorageFacts, ...]:
    """Return runs on so many volumes of 3,000 IOPS each, on an instance with this limit."""
    runs = []
    for count in counts:
        envelope = envelope_of(instance("m5.test", limit, 2_000.0), *[io2(size_gib=500, iops=3_000)] * count)
        rate = min(volume_iops(envelope).limit.per_second, limit)
        factors = at_a_limit(rng, 60, rng.uniform(0.002, 0.02))
        runs.append(storage([rate * factor for factor in factors], envelope, 64 * count))
    return tuple(runs)


@labelled("scales with the volumes", decides=0.9)
def scales(rng: random.Random) -> LabelledRun:
    counts = rng.choice([[1, 2, 5], [1, 2, 3], [2, 4]])
    return LabelledRun(scaling(rng, counts, 40_000), (held("scales_linearly", counts),))


@labelled("scales until the instance's limit", decides=0.9)
def stops_scaling(rng: random.Random) -> LabelledRun:
    counts = rng.choice([[1, 2, 5], [1, 3, 5]])
    runs = scaling(rng, counts, rng.choice([10_000, 12_000]))
    assert fmean(runs[-1].iops) < 13_000
    limiter = instance_iops(runs[-1].envelope)
    return LabelledRun(runs, (violated("scales_linearly", counts, limiters=(limiter.label,)),))
