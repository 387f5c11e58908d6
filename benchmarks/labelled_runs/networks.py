"""Runs over a network: limits of one flow and of either end, the load's own limits, bursts and what is none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from labelled_runs.labels import (
    GENERATOR,
    LOAD,
    MACHINE,
    NOTHING_KNOWN,
    LabelledRun,
    NetworkFacts,
    about,
    at_limit,
    below,
    held,
    labelled,
    limited_by,
    not_held,
    short_of,
    unknown,
    violated,
)
from labelled_runs.shapes import alternating, at_a_limit, falling, length, noise, some_noise
from pytest_cloudbench.limits.ceilings import FLOW, INSTANCE, Ceiling, MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network import NetworkEnvelope, network_envelope
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput

GOODPUT = 0.9922
"""The share of the wire's rate that is data, at an MTU of 9001."""
FULL = (99.8, 99.8, 8)


def ends(name: str, peak: float, baseline: float | None = None) -> InstanceLimits:
    """Return an instance type with these network figures, in Gbit/s."""
    card = {"NetworkCardIndex": 0, "PeakBandwidthInGbps": peak, "BaselineBandwidthInGbps": baseline or peak}
    described = {"InstanceType": name, "NetworkInfo": {"NetworkCards": [card]}}
    return InstanceLimits.from_describe(described, date="2026-11")


WIDE, BURSTING = ends("c5.18xlarge", 25.0), ends("m5.2xlarge", 10.0, 2.5)


def end_of(envelope: NetworkEnvelope, owner: str = "") -> Ceiling:
    """Return the limit of an end."""
    (found,) = [one for one in envelope.ceilings if one.scope == INSTANCE and owner in one.owner]
    return found


def flow_of(envelope: NetworkEnvelope) -> Ceiling:
    """Return the limit of one flow."""
    (found,) = [one for one in envelope.ceilings if one.scope == FLOW]
    return found


def network(
    values: Sequence[float], envelope: NetworkEnvelope, rng: random.Random, *, even: bool = True, **more: Any
) -> NetworkFacts:
    """Return what iperf3 reports: its streams share the rate evenly, or by chance."""
    count, mean = envelope.streams, fmean(values)
    shares = [1 + (rng.uniform(-0.01, 0.01) if even else rng.uniform(-0.5, 0.5)) for _ in range(count)]
    streams = tuple(mean * share / sum(shares) for share in shares)
    facts = {"total_gbit": mean, "generator": (55.0, 60.0, 8)} | more
    return NetworkFacts(tuple(values), streams, envelope, **facts)


def at(rng: random.Random, gbit: float, most: float = 0.06) -> list[float]:
    """Return the samples of a run at a limit of the wire."""
    spread, memory = some_noise(rng, most)
    return [gbit * GOODPUT * factor for factor in at_a_limit(rng, length(rng), spread, memory)]


@labelled("network: one flow", decides=0.9)
def one_flow(rng: random.Random) -> LabelledRun:
    cluster = rng.random() < 0.3
    streams = 1 if cluster else rng.choice([1, 2, 3])
    limit = (10.0 if cluster else 5.0) * streams
    envelope = network_envelope(WIDE, WIDE, streams=streams, cluster=cluster)
    mine, peak = flow_of(envelope), end_of(envelope)
    run = network(at(rng, limit), envelope, rng, counters=(0, 0) if rng.random() < 0.5 else None)
    return about(
        run,
        held("capped_by", mine, limiters=(mine.label,)),
        limited_by(mine.label),
        violated("reaches", peak, limiters=(mine.label,)),
        held("reaches", f"{limit:g} Gbit/s"),
        not_held("capped_by", peak, limiters=(mine.label,)),
    )


@labelled("network: peak of both ends", decides=0.9)
def by_peak(rng: random.Random) -> LabelledRun:
    both, streams = (WIDE, 8) if rng.random() < 0.5 else (ends("m5.8xlarge", 10.0), rng.choice([4, 6]))
    envelope = network_envelope(both, both, streams=streams, cluster=False)
    mine = end_of(envelope)
    values = at(rng, 25.0 if both is WIDE else 10.0)
    counters = (3_000 * len(values), 0) if rng.random() < 0.5 else None
    run = network(values, envelope, rng, even=rng.random() < 0.5, counters=counters)
    return about(run, *at_limit(mine), not_held("capped_by", flow_of(envelope), limiters=(mine.label,)))


@labelled("network: the slower end", decides=0.9)
def slower_end(rng: random.Random) -> LabelledRun:
    slow = ends("m5.slow", rng.choice([3.0, 4.0, 7.5, 12.5]))
    client_is_slow = rng.random() < 0.5
    envelope = network_envelope(
        slow if client_is_slow else WIDE, WIDE if client_is_slow else slow, streams=8, cluster=False
    )
    mine, other = end_of(envelope, "m5.slow"), end_of(envelope, "c5")
    values = at(rng, mine.limit.gbit)
    packets = 3_000 * len(values)
    counters = ((packets, 0) if client_is_slow else (0, packets)) if rng.random() < 0.5 else None
    run = network(values, envelope, rng, even=False, counters=counters)
    return about(
        run, held("capped_by", mine, limiters=(mine.label,)), limited_by(mine.label), *below(other, mine)
    )


@labelled("network: two ends of one type with other limits", decides=0.9)
def unlike_ends(rng: random.Random) -> LabelledRun:
    slow, fast = ends("m5.8xlarge", rng.choice([0.8, 2.0, 4.0])), ends("m5.8xlarge", 10.0)
    client_is_slow = rng.random() < 0.5
    envelope = network_envelope(
        slow if client_is_slow else fast, fast if client_is_slow else slow, streams=4, cluster=False
    )
    mine, other = slow.network_peak, fast.network_peak
    assert mine is not None
    assert other is not None
    run = network(at(rng, mine.limit.gbit, 0.04), envelope, rng, even=False)
    return about(
        run,
        held("reaches", mine),
        held("capped_by", mine),
        violated("reaches", other),
        not_held("capped_by", other),
    )


@labelled("network: frames of 1,500 bytes", decides=0.9)
def small_frames(rng: random.Random) -> LabelledRun:
    """Headers take 4.6 % of the wire, so data cannot reach the limit."""
    both = ends("m5.8xlarge", 10.0)
    envelope = network_envelope(both, both, streams=4, cluster=False)
    mine = end_of(envelope)
    values = [value / GOODPUT * 0.954 for value in at(rng, 10.0, 0.03)]
    run = network(values, envelope, rng, mss=1_448)
    return about(
        run,
        held("reaches", mine, within=0.02),
        held("capped_by", mine, limiters=(mine.label,)),
        limited_by(mine.label),
        not_held("capped_by", flow_of(envelope), limiters=(mine.label,)),
    )


@labelled("network: flow and peak 1 to 10 % apart", decides=0.3)
def flow_beside_peak(rng: random.Random) -> LabelledRun:
    apart = rng.uniform(1.01, 1.10)
    both = ends("m5.near", round(10.0 * apart, 3))
    envelope = network_envelope(both, both, streams=2, cluster=False)
    mine, other = flow_of(envelope), end_of(envelope)
    run = network(at(rng, 10.0, 0.03), envelope, rng, counters=(0, 0) if rng.random() < 0.5 else None)
    return about(
        run,
        held("capped_by", mine, limiters=(mine.label,)),
        limited_by(mine.label),
        not_held("capped_by", other, limiters=(mine.label,)),
    )


@labelled("network: generator at its limit")
def generator(rng: random.Random) -> LabelledRun:
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    run = network(at(rng, rng.uniform(8.0, 21.0)), envelope, rng, even=False, generator=FULL)
    mine = end_of(envelope)
    return about(run, *short_of(mine, GENERATOR))


@labelled("network: generator at its limit beside a limit")
def generator_beside(rng: random.Random) -> LabelledRun:
    envelope = network_envelope(ends("m5.8xlarge", 10.0), WIDE, streams=4, cluster=False)
    run = network(at(rng, 10.0 * rng.uniform(0.96, 0.99), 0.03), envelope, rng, even=False, generator=FULL)
    return about(
        run,
        limited_by(GENERATOR),
        unknown("reaches", end_of(envelope, "c5")),
        unknown("capped_by", end_of(envelope, "m5")),
    )


@labelled("network: job's own rate")
def own_rate(rng: random.Random) -> LabelledRun:
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    asked = rng.uniform(2.0, 20.0)
    values = [asked * factor for factor in at_a_limit(rng, length(rng), rng.uniform(0.001, 0.02))]
    run = network(values, envelope, rng, rate_asked=Bandwidth.from_gbit(asked))
    mine = end_of(envelope)
    return about(run, *short_of(mine, LOAD))


@labelled("network: broken promise", decides=0.9)
def broken(rng: random.Random) -> LabelledRun:
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    mine = end_of(envelope)
    run = network(at(rng, rng.uniform(8.0, 21.0), 0.05), envelope, rng, even=False, counters=(0, 0))
    return about(run, *short_of(mine, NOTHING_KNOWN))


@labelled("network: alternating around the peak", decides=0.9)
def alternates(rng: random.Random) -> LabelledRun:
    both = ends("m5.8xlarge", 10.0)
    envelope = network_envelope(both, both, streams=6, cluster=False)
    apart = rng.uniform(0.2, 0.5)
    values = alternating(rng, rng.choice([30, 60, 120]), 9.92 * (1 + apart), 9.92 * (1 - apart), 0.01)
    run = network(values, envelope, rng, even=False)
    return about(run, not_held("capped_by", end_of(envelope)), violated("steady"))


def burst(rng: random.Random, both: InstanceLimits, streams: int) -> LabelledRun:
    """Return a run whose network credits end in the middle of it."""
    envelope = network_envelope(both, both, streams=streams, cluster=False)
    mine = end_of(envelope)
    high, low = (level.throughput.bytes_per_second * 8e-9 for level in envelope.levels_of(mine))
    before, after, spread = rng.choice([100, 300]), rng.choice([100, 300]), rng.uniform(0.002, 0.05)
    memory = rng.choice([0.0, 0.3, 0.6])
    factors = falling(
        at_a_limit(rng, before, spread, memory), at_a_limit(rng, after, spread, memory), low / high
    )
    run = network([high * GOODPUT * factor for factor in factors], envelope, rng, even=False)
    return about(
        run,
        *at_limit(mine),
        held("drops_to", mine, limiters=(mine.label, f"{mine.owner} network baseline")),
        not_held("drops_to", f"{low * 0.8:.3f} Gbit/s"),
        violated("steady"),
    )


@labelled("network: deep end of a burst", decides=0.9)
def deep_end(rng: random.Random) -> LabelledRun:
    return burst(rng, BURSTING, 5)


@labelled("network: shallow end of a burst, 15 to 30 %", decides=0.7)
def shallow_end(rng: random.Random) -> LabelledRun:
    return burst(rng, ends("m7.shallow", 10.0, rng.choice([7.0, 7.5, 8.0, 8.5])), 5)


@labelled("network: steady or not", decides=0.9)
def scatter(rng: random.Random) -> LabelledRun:
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False)
    quiet = rng.random() < 0.5
    spread = rng.uniform(0.002, 0.02) if quiet else rng.uniform(0.06, 0.09)
    values = [24.8 * factor for factor in noise(rng, rng.choice([60, 120, 300]), spread)]
    return LabelledRun(
        (network(values, envelope, rng, even=False),), ((held if quiet else violated)("steady"),)
    )


@labelled("network, region: machine at its limit")
def machine(rng: random.Random) -> LabelledRun:
    carries = rng.uniform(8.0, 20.0)
    limits = MachineLimits(
        Iops(300_000), Throughput.from_mib(18_000), "probe", network=Bandwidth.from_gbit(carries)
    )
    envelope = network_envelope(WIDE, WIDE, streams=8, cluster=False, machine=limits)
    values = [carries * factor for factor in noise(rng, length(rng), rng.uniform(0.01, 0.06))]
    run = network(values, envelope, rng, even=False, counters=(0, 0))
    mine = end_of(envelope)
    return about(run, *short_of(mine, MACHINE))
