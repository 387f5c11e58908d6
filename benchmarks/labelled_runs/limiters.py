"""Runs that one limit of EBS held: each limiter alone, and two of them 1 to 10 % apart."""

from __future__ import annotations

import random
from dataclasses import replace

from labelled_runs.hardware import (
    BIG,
    LARGE,
    as_iops,
    as_mib,
    counted,
    deep,
    envelope_of,
    instance,
    instance_iops,
    instance_throughput,
    some_volume,
    storage,
    volume_iops,
    volume_throughput,
)
from labelled_runs.labels import (
    LabelledRun,
    Question,
    about,
    at_limit,
    below,
    held,
    kept_if,
    labelled,
    not_held,
    unknown,
    violated,
)
from labelled_runs.shapes import at_a_limit, length, noise, slow_start, some_noise, stalls
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volumes import gp3, io2, st1

STEADY, STEADY_WITH_MEMORY, SCATTERED = 0.02, 0.015, 0.06
"""Noise below the first two keeps 90 % of the seconds within 5 %, white noise above the third does not."""


def at(rng: random.Random, envelope: Envelope, ceiling: Ceiling, counter: str, most: float = 0.09) -> tuple:
    """Return a run at one limit, and how its rate scatters: standard deviation and memory."""
    spread, memory = some_noise(rng, most)
    count = length(rng)
    level = envelope.unmerged_iops_of(ceiling) if ceiling.of_iops else envelope.iops_of(ceiling)
    values = [level.per_second * factor for factor in at_a_limit(rng, count, spread, memory)]
    run = storage(
        values, envelope, deep(rng, level.per_second), counters=counted(count, counter) if counter else None
    )
    return run, spread, memory


def steadiness(spread: float, memory: float) -> tuple[Question, ...]:
    """Return the question whether such noise is steady within 5 %, unless it lies too near the line."""
    if spread <= (STEADY if memory == 0 else STEADY_WITH_MEMORY):
        return (held("steady"),)
    if memory == 0 and spread >= SCATTERED:
        return (violated("steady"),)
    return ()


def volume_run(rng: random.Random, counter: str = "") -> LabelledRun:
    """Return a run that a volume's IOPS limit."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, other = volume_iops(envelope), instance_iops(envelope)
    run, spread, memory = at(rng, envelope, mine, counter)
    return about(run, *at_limit(mine), *below(other, mine), *steadiness(spread, memory))


@labelled("volume IOPS", decides=0.9)
def by_volume(rng: random.Random) -> LabelledRun:
    return volume_run(rng)


@labelled("volume IOPS, with counters", decides=0.9)
def by_volume_counted(rng: random.Random) -> LabelledRun:
    return volume_run(rng, "volume_iops")


def instance_run(rng: random.Random, counter: str = "") -> LabelledRun:
    """Return a run that the instance's IOPS limit, with a volume far above it."""
    limit = rng.choice([3_600, 6_000, 8_000, 12_000])
    envelope = envelope_of(instance("m5.test", limit, 1_000.0), io2(size_gib=1_000, iops=limit * 2))
    mine, other = instance_iops(envelope), volume_iops(envelope)
    run, spread, memory = at(rng, envelope, mine, counter)
    return about(
        run,
        *at_limit(mine),
        *below(other, mine),
        *steadiness(spread, memory),
    )


@labelled("instance IOPS", decides=0.9)
def by_instance(rng: random.Random) -> LabelledRun:
    return instance_run(rng)


@labelled("instance IOPS, with counters", decides=0.9)
def by_instance_counted(rng: random.Random) -> LabelledRun:
    return instance_run(rng, "instance_iops")


def throughput_run(rng: random.Random, counter: str = "") -> LabelledRun:
    """Return a run of 256 KiB that the volume's or the instance's throughput limits."""
    if counter.startswith("instance") or (not counter and rng.random() < 0.5):
        mb = rng.choice([118.75, 287.5, 593.75])
        envelope = envelope_of(instance("m5.test", 18_750, mb), io2(size_gib=1_000, iops=16_000), block=LARGE)
        mine, other, counter = (
            instance_throughput(envelope),
            volume_throughput(envelope),
            counter and "instance_throughput",
        )
    else:
        spec = gp3(size_gib=500, iops=6_000, throughput_mib=rng.choice([250, 500, 750, 1_000]))
        envelope = envelope_of(BIG, spec, block=LARGE)
        mine, other, counter = (
            volume_throughput(envelope),
            instance_throughput(envelope),
            counter and "volume_throughput",
        )
    run, spread, memory = at(rng, envelope, mine, counter)
    return about(
        run, *at_limit(mine), violated("reaches", other, limiters=(mine.label,)), *steadiness(spread, memory)
    )


@labelled("throughput", decides=0.9)
def by_throughput(rng: random.Random) -> LabelledRun:
    return throughput_run(rng)


@labelled("throughput, with counters", decides=0.9)
def by_throughput_counted(rng: random.Random) -> LabelledRun:
    return throughput_run(rng, rng.choice(["volume", "instance"]))


@labelled("HDD volume, sequential", decides=0.9)
def by_hard_disk(rng: random.Random) -> LabelledRun:
    spec = st1(size_gib=rng.choice([12_500, 14_000, 16_000]))  # so large that it does not burst
    envelope = envelope_of(BIG, spec, block=Size.parse("1m"), sequential=True)
    mine = volume_throughput(envelope)
    run, spread, memory = at(rng, envelope, mine, "")
    return about(run, *at_limit(mine), *steadiness(spread, memory))


@labelled("several volumes", decides=0.85)
def by_several_volumes(rng: random.Random) -> LabelledRun:
    count = rng.choice([2, 3, 5])
    envelope = envelope_of(BIG, *[some_volume(rng, 3_000) for _ in range(count)])
    mine = volume_iops(envelope)
    run, spread, memory = at(rng, envelope, mine, rng.choice(["", "volume_iops"]))
    return about(run, *at_limit(mine), *steadiness(spread, memory))


def neighbours(rng: random.Random, with_counters: bool) -> LabelledRun:
    """Return a run with the volume's and the instance's IOPS 1 to 10 % apart; the lower holds it."""
    apart = rng.uniform(1.01, 1.10)
    low = rng.choice([3_000, 6_000, 12_000])
    high = round(low * apart)
    volume_is_lower = rng.random() < 0.5
    spec = io2(size_gib=1_000, iops=low if volume_is_lower else high)
    envelope = envelope_of(instance("m5.test", high if volume_is_lower else low, 1_000.0), spec)
    mine, other = volume_iops(envelope), instance_iops(envelope)
    counter = "volume_iops"
    if not volume_is_lower:
        mine, other, counter = other, mine, "instance_iops"
    run, *_ = at(rng, envelope, mine, counter if with_counters else "", 0.03)
    return about(
        run,
        *at_limit(mine),
        kept_if(run.total_iops >= 0.9 * high, "reaches", other, limiters=(mine.label,)),
        not_held("capped_by", other, limiters=(mine.label,)),
    )


@labelled("two limits 1 to 10 % apart", decides=0.5)
def near(rng: random.Random) -> LabelledRun:
    return neighbours(rng, with_counters=False)


@labelled("two limits 1 to 10 % apart, with counters", decides=0.9)
def near_counted(rng: random.Random) -> LabelledRun:
    return neighbours(rng, with_counters=True)


@labelled("short run at a limit", decides=0.6)
def short(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.randint(5, 12)
    values = [mine.limit.per_second * factor for factor in at_a_limit(rng, count, rng.uniform(0.001, 0.04))]
    counters = counted(count, "volume_iops") if rng.random() < 0.5 else None
    run = storage(values, envelope, deep(rng, mine.limit.per_second), counters=counters)
    # The tool's own mean covers the unfinished last second too.
    run = replace(run, total_iops=run.total_iops * rng.uniform(0.98, 1.02))
    return about(
        run,
        *at_limit(mine),
        not_held("capped_by", instance_iops(envelope)),
        violated("reaches", instance_iops(envelope), limiters=(mine.label,)),
    )


@labelled("sampling jitter at a limit", decides=0.8)
def jitter(rng: random.Random) -> LabelledRun:
    """A sample is taken late now and then: it lacks what the next one has too much."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    factors = at_a_limit(rng, count, rng.uniform(0.002, 0.02))
    for _ in range(max(1, round(0.02 * count))):
        at_second, moved = rng.randrange(count - 1), rng.uniform(0.1, 0.3)
        factors[at_second] -= moved
        factors[at_second + 1] += moved
    run = storage(
        [mine.limit.per_second * factor for factor in factors], envelope, deep(rng, mine.limit.per_second)
    )
    return about(run, *at_limit(mine), held("steady"))


@labelled("I/O larger than EBS counts", decides=0.9)
def larger(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, gp3(size_gib=500, iops=3_000, throughput_mib=1_000), block=Size.parse("1m"))
    mine = volume_iops(envelope)
    run, spread, memory = at(rng, envelope, mine, rng.choice(["", "volume_iops"]))
    return about(
        run,
        *at_limit(mine),
        violated("reaches", volume_throughput(envelope), limiters=(mine.label,)),
        *steadiness(spread, memory),
    )


@labelled("other samples than whole seconds", decides=0.9)
def other_samples(rng: random.Random) -> LabelledRun:
    """Half seconds, or time stamps that are some milliseconds late."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count, step = volume_iops(envelope), rng.choice([60, 120]), rng.choice([0.5, 1.0])
    values = [mine.limit.per_second * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.04))]
    late = 0.02 * step
    seconds = tuple(step * number + rng.uniform(0, late) for number in range(1, count + 1))
    run = storage(values, envelope, deep(rng, mine.limit.per_second), seconds=seconds)
    return about(run, *at_limit(mine), not_held("capped_by", instance_iops(envelope)))


@labelled("job's own rate above the limit", decides=0.6)
def own_rate_above(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    limit = mine.limit.per_second
    values = [limit * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.03))]
    counters = counted(count, "volume_iops") if rng.random() < 0.5 else None
    run = storage(
        values,
        envelope,
        deep(rng, limit),
        rate_asked=as_iops(limit * rng.uniform(1.1, 3.0)),
        counters=counters,
    )
    return about(run, *at_limit(mine))


@labelled("limit with noise on one side", decides=0.8)
def one_sided(rng: random.Random) -> LabelledRun:
    """A limit that seconds fall short of, and that none exceeds."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), length(rng)
    factors = [min(1.002, factor) for factor in noise(rng, count, rng.uniform(0.002, 0.07))]
    run = storage(
        [mine.limit.per_second * factor for factor in factors], envelope, deep(rng, mine.limit.per_second)
    )
    return about(run, *at_limit(mine), not_held("capped_by", instance_iops(envelope)))


@labelled("volume IOPS and throughput 1 to 10 % apart", decides=0.5)
def near_each_other(rng: random.Random) -> LabelledRun:
    block, iops = Size.parse("64k"), rng.choice([3_000, 4_000, 6_000])
    low = iops / 16  # MiB/s
    mib = round(low * rng.choice([rng.uniform(1.01, 1.1), rng.uniform(0.91, 0.99)]))
    envelope = envelope_of(BIG, gp3(size_gib=500, iops=iops, throughput_mib=mib), block=block)
    mine, other, counter = volume_iops(envelope), volume_throughput(envelope), "volume_iops"
    if mib < low:
        mine, other, counter = other, mine, "volume_throughput"
    run, *_ = at(rng, envelope, mine, rng.choice(["", counter]), 0.03)
    return about(run, *at_limit(mine), not_held("capped_by", other, limiters=(mine.label,)))


@labelled("without a series", decides=0.9)
def no_series(rng: random.Random) -> LabelledRun:
    """A tool that keeps no samples: only the mean is known."""
    envelope = envelope_of(BIG, some_volume(rng))
    mine = volume_iops(envelope)
    run, *_ = at(rng, envelope, mine, "", 0.03)
    run = replace(run, iops=(), seconds=(), sample_latency_s=(), runtime_s=float(len(run.iops)))
    return about(run, held("reaches", mine), unknown("steady"), unknown("sustains", mine, for_=5.0))


@labelled("limits unknown", decides=0.9)
def no_limits(rng: random.Random) -> LabelledRun:
    envelope = replace(envelope_of(BIG, some_volume(rng)), ceilings=())
    count, rate = length(rng), rng.uniform(1_000, 20_000)
    values = [rate * factor for factor in at_a_limit(rng, count, rng.uniform(0.002, 0.03))]
    run = storage(values, envelope, deep(rng, rate))
    return about(
        run,
        held("reaches", f"{rate * 0.9:.0f} IOPS"),
        not_held("reaches", f"{rate * 1.4:.0f} IOPS", limiters=()),
    )


@labelled("slow start", decides=0.7)
def slowly(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    factors = slow_start(at_a_limit(rng, count, rng.uniform(0.005, 0.05)), rng.randint(2, count // 8))
    values = [mine.limit.per_second * factor for factor in factors]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    kept = run.total_iops >= 0.9 * mine.limit.per_second
    # The volume gave all it promises, so only the run's own mean can be short.
    questions = (held("reaches", mine),) if kept else ()
    return about(run, *questions, not_held("capped_by", instance_iops(envelope)))


@labelled("rare stalls", decides=0.6)
def rare_stalls(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, some_volume(rng))
    mine, count = volume_iops(envelope), rng.choice([60, 120, 300])
    factors = stalls(rng, at_a_limit(rng, count, rng.uniform(0.002, 0.03)), 0.03)
    values = [mine.limit.per_second * factor for factor in factors]
    run = storage(values, envelope, deep(rng, mine.limit.per_second))
    near_enough = run.total_iops >= 0.955 * mine.limit.per_second
    at = at_limit(mine) if near_enough else (held("reaches", mine),)
    good = [value >= 0.9 * mine.limit.per_second for value in values]
    for_ = count - 1
    return about(run, *at, kept_if(all(good), "sustains", mine, for_=float(for_)))


@labelled("plain figures of limits", decides=0.9)
def plain_figures(rng: random.Random) -> LabelledRun:
    iops = rng.choice([3_000, 4_000, 6_000, 12_000])
    envelope = envelope_of(BIG, some_volume(rng, iops))
    mine = volume_iops(envelope)
    run, *_ = at(rng, envelope, mine, rng.choice(["", "volume_iops"]), 0.05)
    kept = rng.uniform(0.6, 1.05) * iops
    missed = rng.uniform(1.2, 2.0) * iops
    return about(
        run,
        held("reaches", f"{kept:.0f} IOPS"),
        violated("reaches", f"{missed:.0f} IOPS", limiters=(mine.label,)),
        held("capped_by", f"{iops:,} IOPS", limiters=(mine.label,)),
        held("reaches", as_mib(kept * 4 / 1024)),
    )
