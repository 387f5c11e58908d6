"""Runs on AWS that break a promise, or keep it: the volume's own figure, shares of the time, latency."""

from __future__ import annotations

import random

from labelled_runs.hardware import (
    BASE_LATENCY_S,
    BIG,
    as_iops,
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
    NOTHING_KNOWN,
    LabelledRun,
    about,
    at_limit,
    held,
    kept_if,
    labelled,
    limited_by,
    not_held,
    short_of,
    violated,
)
from labelled_runs.shapes import (
    alternating,
    at_a_limit,
    clustered,
    drifting,
    falling,
    length,
    longest,
    noise,
    some_noise,
    stalls,
)
from pytest_cloudbench.limits.quantities import Iops


def broken(rng: random.Random, counters: str) -> LabelledRun:
    """Return a run on a volume that serves far less than it promises, whatever is asked of it."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    rate = mine.limit.per_second * rng.uniform(0.3, 0.85)
    spread, memory = some_noise(rng)
    values = [rate * factor for factor in at_a_limit(rng, count, spread, memory)]
    assert far_from_limits(envelope, rate)
    seen = {"none": None, "silent": counted(count), "volume": counted(count, "volume_iops")}[counters]
    run = storage(values, envelope, deep(rng, mine.limit.per_second), counters=seen)
    throttled = (mine.label,) if counters == "volume" else ()
    # A promise is not the cause of its own breach.
    return about(run, *short_of(mine, NOTHING_KNOWN, *throttled))


@labelled("broken promise", decides=0.9)
def broken_promise(rng: random.Random) -> LabelledRun:
    return broken(rng, "none")


@labelled("broken promise, silent counters", decides=0.9)
def broken_promise_silent(rng: random.Random) -> LabelledRun:
    return broken(rng, "silent")


@labelled("broken promise, throttled below its figure", decides=0.9)
def broken_promise_throttled(rng: random.Random) -> LabelledRun:
    return broken(rng, "volume")


def breaking(rng: random.Random, counters: bool) -> LabelledRun:
    """Return a run on a volume that breaks in the middle of it."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine = volume_iops(envelope)
    before, after = rng.choice([(30, 30), (60, 60), (40, 80), (100, 200)])
    left, spread = rng.uniform(0.2, 0.7), rng.uniform(0.002, 0.05)
    factors = falling(at_a_limit(rng, before, spread), at_a_limit(rng, after, spread), left)
    values = [mine.limit.per_second * factor for factor in factors]
    seen = counted(before + after) if counters else None
    run = storage(values, envelope, deep(rng, mine.limit.per_second), counters=seen)
    fell = mine.limit.per_second * left
    return about(
        run,
        limited_by(NOTHING_KNOWN),
        violated("reaches", mine, limiters=()),
        not_held("capped_by", mine),
        violated("steady"),
        held("drops_to", f"{fell:.0f} IOPS"),
    )


@labelled("breaks in the middle", decides=0.7)
def breaks(rng: random.Random) -> LabelledRun:
    return breaking(rng, counters=False)


@labelled("breaks in the middle, silent counters", decides=0.7)
def breaks_silent(rng: random.Random) -> LabelledRun:
    return breaking(rng, counters=True)


@labelled("cache before a broken promise")
def cached(rng: random.Random) -> LabelledRun:
    """A cache serves the first part of the run, so that the mean hides that the volume serves too little."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, left = volume_iops(envelope), rng.uniform(0.4, 0.8)
    first, count, times = rng.randint(8, 20), rng.choice([60, 120]), rng.uniform(3.0, 8.0)
    factors = [*noise(rng, first, 0.05), *noise(rng, count - first, 0.03)]
    values = [
        mine.limit.per_second * factor * (times if index < first else left)
        for index, factor in enumerate(factors)
    ]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    return about(run, not_held("reaches", mine), not_held("capped_by", mine), violated("steady"))


@labelled("a dip that ends", decides=0.5)
def dips(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    lasts, left = round(count * rng.uniform(0.05, 0.3)), rng.uniform(0.2, 0.8)
    begin = rng.randrange(5, count - lasts - 15)
    factors = at_a_limit(rng, count, rng.uniform(0.002, 0.04))
    factors[begin : begin + lasts] = [factor * left for factor in factors[begin : begin + lasts]]
    run = storage(
        [mine.limit.per_second * factor for factor in factors], envelope, deep(rng, mine.limit.per_second)
    )
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    return about(
        run,
        kept_if(kept, "reaches", mine, limiters=()),
        not_held("drops_to", f"{mine.limit.per_second * left:.0f} IOPS"),
        violated("sustains", mine, for_=float(count - 1)),
    )


@labelled("slow drift within the tolerance", decides=0.9)
def drifts_a_little(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    change = rng.choice([-1, 1]) * rng.uniform(0.0, 0.035)
    factors = drifting(rng, count, change, rng.uniform(0.001, 0.01))
    run = storage(
        [mine.limit.per_second * factor for factor in factors], envelope, deep(rng, mine.limit.per_second)
    )
    return about(run, *at_limit(mine), held("steady"))


@labelled("alternating below the promise", decides=0.6)
def alternates_below(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120])
    high = mine.limit.per_second * rng.uniform(0.6, 1.0)
    values = alternating(rng, count, high, high * rng.uniform(0.2, 0.8), rng.uniform(0.0, 0.03))
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    return about(run, kept_if(kept, "reaches", mine), not_held("capped_by", mine), violated("steady"))


@labelled("near the tolerance", decides=0.9)
def near_tolerance(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    level = mine.limit.per_second * rng.uniform(0.87, 0.93)
    spread, memory = some_noise(rng)
    run = storage([level * factor for factor in noise(rng, count, spread, memory)], envelope, 256)
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    return about(run, kept_if(kept, "reaches", mine, limiters=()))


@labelled("stalls without any I/O", decides=0.9)
def still(rng: random.Random) -> LabelledRun:
    """Whole seconds without an I/O, as the total says too: such a run is not damaged."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    lost = set(rng.sample(range(count), round(count * rng.choice([0.03, 0.06, 0.2, 0.4]))))
    factors = at_a_limit(rng, count, rng.uniform(0.002, 0.03))
    values = [
        0.0 if index in lost else mine.limit.per_second * factor for index, factor in enumerate(factors)
    ]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    return about(run, kept_if(kept, "reaches", mine), violated("sustains", mine, for_=float(count - 1)))


@labelled("one volume of a stripe is broken", decides=0.9)
def broken_stripe(rng: random.Random) -> LabelledRun:
    count, slow = rng.choice([2, 3, 5]), rng.uniform(0.1, 0.6)
    envelope = envelope_of(BIG, *[some_volume(rng, 3_000) for _ in range(count)])
    mine = volume_iops(envelope)
    # Each volume gets every so many-th I/O, so the slowest sets the pace of all.
    rate = mine.limit.per_second * slow
    values = [rate * factor for factor in at_a_limit(rng, length(rng), rng.uniform(0.002, 0.05))]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    return about(run, *short_of(mine, NOTHING_KNOWN))


@labelled("many stalls", decides=0.7)
def many_stalls(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    factors = stalls(rng, at_a_limit(rng, count, rng.uniform(0.002, 0.03)), rng.uniform(0.35, 0.6))
    values = [mine.limit.per_second * factor for factor in factors]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    return about(run, kept_if(kept, "reaches", mine), not_held("capped_by", mine), violated("steady"))


def share_run(rng: random.Random, required: float, bad: float) -> LabelledRun:
    """Return a run whose bad seconds come in spells; its promise speaks of a share of all time, not of this run."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([300, 600])
    good = clustered(rng, count, bad, rng.choice([1.0, 3.0, 8.0]))
    factors = noise(rng, count, 0.01)
    values = [
        mine.limit.per_second * factor * (1.0 if fine else rng.uniform(0.3, 0.8))
        for factor, fine in zip(factors, good, strict=True)
    ]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    return about(run, kept_if(1 - bad >= required, "reaches", mine, share=required))


@labelled("share of the time, kept", decides=0.8)
def share_kept(rng: random.Random) -> LabelledRun:
    required = rng.choice([0.8, 0.9, 0.95])
    return share_run(rng, required, (1 - required) * rng.uniform(0.3, 0.6))


@labelled("share of the time, broken", decides=0.6)
def share_broken(rng: random.Random) -> LabelledRun:
    return share_run(rng, rng.choice([0.95, 0.99, 0.999]), rng.uniform(0.2, 0.4))


@labelled("sustains", decides=0.8)
def sustained(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    limit = mine.limit.per_second
    good = clustered(rng, count, rng.uniform(0.01, 0.2), 2.0)
    values = [limit * (rng.uniform(0.96, 1.02) if fine else rng.uniform(0.3, 0.8)) for fine in good]
    run = storage(values, envelope, deep(rng, limit))
    lasted = longest(good)
    shorter, longer = (
        max(2, int(lasted * rng.uniform(0.3, 0.9))),
        min(count - 2, int(lasted * rng.uniform(1.2, 2.5)) + 2),
    )
    questions = [held("sustains", mine, for_=float(shorter))] if shorter <= lasted else []
    if longer > lasted:
        questions.append(violated("sustains", mine, for_=float(longer)))
    return about(run, *tuple(questions))


@labelled("latency on AWS", decides=0.95)
def latency(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    asked = mine.limit.per_second * rng.uniform(0.2, 0.7)
    mean_s = BASE_LATENCY_S * rng.uniform(0.7, 20)
    values = [asked * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.03))]
    run = storage(
        values, envelope, max(1, round(asked * mean_s * 1.2)), latency_s=mean_s, rate_asked=Iops(asked),
        generator=(8.0, 12.0, 8),
    )  # fmt: skip
    allowed = mean_s * rng.choice([rng.uniform(0.3, 0.97), rng.uniform(1.03, 3.0)])
    return about(
        run,
        limited_by(LOAD),
        kept_if(mean_s <= allowed, "latency", mean=allowed),
        kept_if(mean_s <= allowed, "latency", p99=2 * allowed),  # the p99 of these runs is twice their mean
    )


@labelled("latency of a queue at a limit", decides=0.95)
def queued(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    values = [mine.limit.per_second * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.05))]
    run = storage(values, envelope, deep(rng, mine.limit.per_second), counters=counted(count, "volume_iops"))
    allowed = run.latency_s * rng.choice([rng.uniform(0.3, 0.95), rng.uniform(1.05, 3.0)])
    return about(
        run,
        limited_by(mine.label),
        kept_if(run.latency_s <= allowed, "latency", mean=allowed, limiters=(mine.label,)),
        held("reaches", as_iops(0.8 * mine.limit.per_second)),
    )
