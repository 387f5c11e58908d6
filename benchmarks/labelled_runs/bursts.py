"""Runs on volumes and instances with burst credits: deep and shallow ends of bursts, and runs without one."""

from __future__ import annotations

import random

from labelled_runs.hardware import (
    BIG,
    LARGE,
    envelope_of,
    instance,
    instance_iops,
    instance_throughput,
    storage,
    volume_iops,
)
from labelled_runs.labels import (
    LabelledRun,
    about,
    at_limit,
    held,
    labelled,
    limited_by,
    not_held,
    not_violated,
    refused,
    unknown,
    violated,
)
from labelled_runs.shapes import at_a_limit, falling
from pytest_cloudbench.limits.volumes import gp2, io2

BURST = 3_000.0
"""IOPS of a gp2 volume below 1,000 GiB while its credits last; it keeps 3 for each GiB."""


def gp2_run(rng: random.Random, size_gib: int, spread: float, memory: float) -> LabelledRun:
    """Return a run of a gp2 volume whose credits end in the middle of it."""
    envelope = envelope_of(BIG, gp2(size_gib=size_gib))
    mine = volume_iops(envelope)
    left = 3.0 * size_gib
    before, after = rng.choice([(100, 100), (60, 120), (200, 300)])
    factors = falling(
        at_a_limit(rng, before, spread, memory), at_a_limit(rng, after, spread, memory), left / BURST
    )
    run = storage([BURST * factor for factor in factors], envelope, 64)
    return about(
        run,
        held("reaches", mine),
        held("burst_ends_at", mine, limiters=(mine.label,)),
        held("drops_to", f"{left:.0f} IOPS", limiters=(mine.label,)),
        held("capped_by", mine, limiters=(mine.label,)),
        limited_by(mine.label),
        held("capped_by", f"{left:.0f} IOPS", limiters=(mine.label,)),
        not_held("drops_to", f"{left * 0.8:.0f} IOPS"),
        violated("steady"),
    )


@labelled("deep end of a burst", decides=0.9)
def deep_end(rng: random.Random) -> LabelledRun:
    return gp2_run(
        rng, rng.choice([100, 200, 334, 500]), rng.uniform(0.002, 0.09), rng.choice([0.0, 0.3, 0.6])
    )


@labelled("shallow end of a burst, 13 to 33 %", decides=0.7)
def shallow_end(rng: random.Random) -> LabelledRun:
    return gp2_run(
        rng, rng.choice([670, 700, 750, 800, 870]), rng.uniform(0.002, 0.07), rng.choice([0.0, 0.0, 0.3])
    )


@labelled("shallow end of a burst in the strongest noise")
def noisy_end(rng: random.Random) -> LabelledRun:
    """A fall that may be hidden: whoever does not see it must not take the mean over it for a broken promise."""
    return gp2_run(rng, rng.choice([670, 750, 870]), rng.uniform(0.05, 0.09), rng.choice([0.5, 0.8, 0.9]))


@labelled("two ends of bursts", decides=0.6)
def two_ends(rng: random.Random) -> LabelledRun:
    """First the instance's credits end, then the volume's."""
    on = instance("m5.test", 2_600, 2_000.0, base=(2_000, 2_000.0))
    envelope = envelope_of(on, gp2(size_gib=100))
    mine, limit = instance_iops(envelope), volume_iops(envelope)
    spread = rng.uniform(0.002, 0.04)
    pieces = [(2_600.0, 120), (2_000.0, 120), (300.0, 120)]
    values = [level * factor for level, count in pieces for factor in at_a_limit(rng, count, spread)]
    run = storage(values, envelope, 64)
    return about(
        run,
        held("reaches", mine),
        held("drops_to", "300 IOPS"),
        not_held("drops_to", "2000 IOPS"),
        violated("steady"),
        not_held("capped_by", limit),
    )


@labelled("end of a burst at an edge of the run", decides=0.5)
def at_an_edge(rng: random.Random) -> LabelledRun:
    size_gib = rng.choice([100, 200, 334])
    envelope = envelope_of(BIG, gp2(size_gib=size_gib))
    mine, spread = volume_iops(envelope), rng.uniform(0.002, 0.05)
    before, after = rng.choice([(8, 150), (20, 100), (150, 8), (100, 20)])
    factors = falling(at_a_limit(rng, before, spread), at_a_limit(rng, after, spread), size_gib / 1_000)
    run = storage([BURST * factor for factor in factors], envelope, 64)
    left = 3.0 * size_gib
    return about(
        run,
        not_violated("reaches", mine),
        held("drops_to", f"{left:.0f} IOPS"),
        refused("capped_by", f"{run.total_iops:.0f} IOPS"),
    )


@labelled("end of an instance's burst", decides=0.8)
def instance_end(rng: random.Random) -> LabelledRun:
    small = instance("m5.2xlarge", 18_750, 593.75, base=(12_000, 287.5))
    envelope = envelope_of(small, io2(size_gib=1_000, iops=16_000), block=LARGE)
    mine = instance_throughput(envelope)
    burst, left = (level.iops.per_second for level in envelope.levels_of(mine))
    spread, count = rng.uniform(0.002, 0.06), rng.choice([60, 150])
    factors = falling(at_a_limit(rng, count, spread), at_a_limit(rng, count, spread), left / burst)
    run = storage([burst * factor for factor in factors], envelope, 64)
    return about(
        run,
        *at_limit(mine),
        held("drops_to", mine, limiters=(mine.label,)),
        held("burst_ends_at", mine, limiters=(mine.label,)),
    )


@labelled("burst that does not end", decides=0.9)
def endless(rng: random.Random) -> LabelledRun:
    envelope = envelope_of(BIG, gp2(size_gib=rng.choice([100, 300, 500, 750])))
    mine = volume_iops(envelope)
    factors = at_a_limit(rng, rng.choice([60, 300]), rng.uniform(0.002, 0.09), rng.choice([0.0, 0.5]))
    run = storage([BURST * factor for factor in factors], envelope, 64)
    return about(run, *at_limit(mine), unknown("burst_ends_at", mine))


@labelled("credits spent before the run", decides=0.9)
def spent(rng: random.Random) -> LabelledRun:
    size_gib = rng.choice([100, 200, 334, 500])
    envelope = envelope_of(BIG, gp2(size_gib=size_gib))
    mine, left = volume_iops(envelope), 3.0 * size_gib
    factors = at_a_limit(rng, rng.choice([60, 300]), rng.uniform(0.002, 0.09), rng.choice([0.0, 0.5]))
    run = storage([left * factor for factor in factors], envelope, 64)
    return about(
        run,
        violated("reaches", mine, limiters=(mine.label,)),
        held("capped_by", f"{left:.0f} IOPS", limiters=(mine.label,)),
        unknown("burst_ends_at", mine),
    )


@labelled("falls to a wrong level", decides=0.7)
def wrong_level(rng: random.Random) -> LabelledRun:
    size_gib = rng.choice([100, 200, 334])
    envelope = envelope_of(BIG, gp2(size_gib=size_gib))
    mine, spread = volume_iops(envelope), rng.uniform(0.002, 0.05)
    wrong = 3.0 * size_gib * rng.choice([rng.uniform(0.3, 0.85), rng.uniform(1.15, 1.8)])
    factors = falling(at_a_limit(rng, 100, spread), at_a_limit(rng, 100, spread), wrong / BURST)
    run = storage([BURST * factor for factor in factors], envelope, 64)
    return about(run, violated("burst_ends_at", mine), violated("drops_to", mine), violated("steady"))
