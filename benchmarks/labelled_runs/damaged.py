"""Runs whose data are damaged: no verdict on them is right, whatever their figures say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

from labelled_runs.hardware import BIG, deep, envelope_of, some_volume, storage, volume_iops
from labelled_runs.labels import LabelledRun, NetworkFacts, StorageFacts, labelled, unknown
from labelled_runs.networks import GOODPUT, WIDE, end_of, network
from labelled_runs.shapes import at_a_limit
from pytest_cloudbench.limits.network import network_envelope


def seconds_of(count: int) -> list[float]:
    """Return the ends of whole seconds."""
    return [float(number) for number in range(1, count + 1)]


def reversed_times(rng: random.Random, count: int) -> list[float]:
    return seconds_of(count)[::-1]


def swapped_times(rng: random.Random, count: int) -> list[float]:
    seconds, at = seconds_of(count), rng.randrange(count - 1)
    seconds[at], seconds[at + 1] = seconds[at + 1], seconds[at]
    return seconds


def duplicate_times(rng: random.Random, count: int) -> list[float]:
    seconds, at = seconds_of(count), rng.randrange(1, count)
    return [*seconds[:at], *seconds[at - 1 : -1]]


def missing_times(rng: random.Random, count: int) -> list[float]:
    """Return times with a hole: the samples of some seconds were lost."""
    at, lost = rng.randrange(2, count - 2), rng.randint(2, 40)
    return [second if number < at else second + lost for number, second in enumerate(seconds_of(count))]


def unknown_times(rng: random.Random, count: int) -> list[float]:
    seconds = seconds_of(count)
    seconds[rng.randrange(count)] = rng.choice([math.nan, math.inf])
    return seconds


def one_of(rng: random.Random, values: tuple[float, ...], wrong: float) -> tuple[float, ...]:
    found = list(values)
    found[rng.randrange(len(found))] = wrong
    return tuple(found)


def some_zero(rng: random.Random, values: tuple[float, ...]) -> tuple[float, ...]:
    """Return the samples with a third of them lost: zero, though the total says otherwise."""
    lost = set(rng.sample(range(len(values)), len(values) // 3))
    return tuple(0.0 if number in lost else value for number, value in enumerate(values))


TIMES: dict[str, Callable[[random.Random, int], list[float]]] = {
    "times reversed": reversed_times,
    "two times swapped": swapped_times,
    "a time twice": duplicate_times,
    "seconds missing": missing_times,
    "a time that is not a number": unknown_times,
}
SAMPLES: dict[str, Callable[[random.Random, tuple[float, ...]], tuple[float, ...]]] = {
    "a sample NaN": lambda rng, values: one_of(rng, values, math.nan),
    "a sample infinite": lambda rng, values: one_of(rng, values, math.inf),
    "a sample negative": lambda rng, values: one_of(rng, values, -rng.uniform(1, 5_000)),
    "samples lost as zero": some_zero,
}
TOTALS: dict[str, Callable[[random.Random, float], float]] = {
    "total contradicts the samples": lambda rng, mean: mean * rng.choice([0.5, 0.8, 1.25, 2.0]),
    "total NaN or infinite": lambda rng, mean: rng.choice([math.nan, math.inf]),
    "total zero or negative": lambda rng, mean: rng.choice([0.0, -mean]),
}


def storage_of(rng: random.Random) -> StorageFacts:
    """Return a sound run at a volume's limit."""
    envelope = envelope_of(BIG, some_volume(rng))
    limit = volume_iops(envelope).limit.per_second
    share = rng.choice([1.0, 1.0, 0.7])
    factors = at_a_limit(rng, rng.choice([30, 60, 120]), rng.uniform(0.002, 0.04))
    return storage([limit * share * factor for factor in factors], envelope, deep(rng, limit))


def network_of(rng: random.Random) -> NetworkFacts:
    """Return a sound run at the peak of both ends."""
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    factors = at_a_limit(rng, rng.choice([30, 60, 120]), rng.uniform(0.002, 0.04))
    return network([25.0 * GOODPUT * factor for factor in factors], envelope, rng)


def asked_of_storage(rng: random.Random, run: StorageFacts) -> LabelledRun:
    mine, sound = volume_iops(run.envelope), storage_of(rng)
    questions = (
        unknown("reaches", mine),
        unknown("capped_by", mine),
        unknown("sustains", mine, for_=rng.choice([5.0, 60.0])),
        unknown("steady"),
        unknown("drops_to", f"{mine.limit.per_second / 2:.0f} IOPS"),
        unknown("outperforms"),
        unknown("resembles"),
    )
    return LabelledRun((run, sound), questions)


def asked_of_network(rng: random.Random, run: NetworkFacts) -> LabelledRun:
    mine, sound = end_of(run.envelope), network_of(rng)
    questions = (
        unknown("reaches", mine),
        unknown("capped_by", mine),
        unknown("sustains", mine, for_=5.0),
        unknown("steady"),
        unknown("drops_to", "2.5 Gbit/s"),
        unknown("outperforms"),
        unknown("resembles"),
    )
    return LabelledRun((run, sound), questions)


def register_times(name: str, damage: Callable[[random.Random, int], list[float]]) -> None:
    @labelled(f"damaged: {name}", group="damaged")
    def make(rng: random.Random) -> LabelledRun:
        if rng.random() < 0.3:
            over = network_of(rng)
            return asked_of_network(rng, replace(over, seconds=tuple(damage(rng, len(over.gbit)))))
        run = storage_of(rng)
        return asked_of_storage(rng, replace(run, seconds=tuple(damage(rng, len(run.iops)))))


def register_samples(
    name: str, damage: Callable[[random.Random, tuple[float, ...]], tuple[float, ...]]
) -> None:
    @labelled(f"damaged: {name}", group="damaged")
    def make(rng: random.Random) -> LabelledRun:
        if rng.random() < 0.3:
            over = network_of(rng)
            return asked_of_network(rng, replace(over, gbit=damage(rng, over.gbit)))
        run = storage_of(rng)
        return asked_of_storage(rng, replace(run, iops=damage(rng, run.iops)))


def register_totals(name: str, damage: Callable[[random.Random, float], float]) -> None:
    @labelled(f"damaged: {name}", group="damaged")
    def make(rng: random.Random) -> LabelledRun:
        if rng.random() < 0.3:
            over = network_of(rng)
            return asked_of_network(rng, replace(over, total_gbit=damage(rng, over.total_gbit)))
        run = storage_of(rng)
        total = damage(rng, run.total_iops)
        # The latency follows the total, so that only the samples contradict it.
        latency_s = run.outstanding / total if math.isfinite(total) and total > 0 else run.latency_s
        return asked_of_storage(rng, replace(run, total_iops=total, latency_s=latency_s))


for each, times in TIMES.items():
    register_times(each, times)
for each, samples in SAMPLES.items():
    register_samples(each, samples)
for each, totals in TOTALS.items():
    register_totals(each, totals)


@labelled("damaged: columns of different length", group="damaged")
def columns(rng: random.Random) -> LabelledRun:
    run = storage_of(rng)
    return asked_of_storage(rng, replace(run, throughput_mib=tuple(one / 256 for one in run.iops[:-3])))


@labelled("damaged: mean latency NaN or negative", group="damaged")
def latency(rng: random.Random) -> LabelledRun:
    run = storage_of(rng)
    run = replace(run, latency_s=rng.choice([math.nan, -run.latency_s, -0.001, math.inf]))
    asked = asked_of_storage(rng, run)
    return LabelledRun(asked.runs, (*asked.questions, unknown("latency", mean=0.5)))


@labelled("damaged: a sample's latency NaN or negative", group="damaged")
def sample_latency(rng: random.Random) -> LabelledRun:
    run = storage_of(rng)
    assert run.sample_latency_s is not None
    wrong = rng.choice([math.nan, -0.002])
    return asked_of_storage(rng, replace(run, sample_latency_s=one_of(rng, run.sample_latency_s, wrong)))


@labelled("damaged: latency contradicts rate and depth", group="damaged")
def contradiction(rng: random.Random) -> LabelledRun:
    run = storage_of(rng)  # its generator is busy for 35 % of the time: so many of its slots may be empty
    return asked_of_storage(rng, replace(run, latency_s=run.latency_s * rng.choice([0.2, 0.4, 1.6, 3.0])))
