"""Why a rate fell short: a promised ceiling, the machine underneath, the load itself, or nothing known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER, Ceiling
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure
from pytest_cloudbench.verdicts.machine_delay import delay_of, machine_disturbed, machine_text, on_region
from pytest_cloudbench.verdicts.observation import GeneratorLoad, Observation, generator_load, rate_asked
from pytest_cloudbench.verdicts.steadiness import full_samples, steadiness
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.throttling import ThrottleDelta, acted
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.verdicts.wording import Named, duration, listed, named, percent

NEAR = 0.05
SATURATED_PERCENT = 95.0
DRIFT = 0.10
ROUNDING = 1e-9
# AWS advises one outstanding I/O per 1,000 IOPS, which is what a latency of 1 ms needs.
ADVISED_LATENCY_S = 0.001
MACHINE = MACHINE_OWNER


@dataclass(frozen=True)
class Rates:
    """A rate seen both ways, I/Os and bytes per second."""

    iops: Iops
    throughput: Throughput

    def like(self, rate: Rate) -> Rate:
        """In the quantity of ``rate``."""
        return self.iops if isinstance(rate, Iops) else self.throughput


@dataclass(frozen=True)
class Bound:
    """A ceiling that explains a rate: at which level (None: by its counters alone), and what these said."""

    ceiling: Ceiling
    level: Level | None
    acted: bool | None


@dataclass(frozen=True)
class Reason:
    """What a shortfall comes from, in words, and what follows for the verdict.

    ``at_level``: the rate lies at a level of what it was bound by, so that more than counters say so.
    """

    outcome: Outcome
    text: str
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False
    at_level: bool = False


def mean_rates(obs: Observation) -> Rates:
    """The means of the whole run."""
    return Rates(Iops(obs.iops), Throughput.from_mib(obs.throughput_mib))


def rates_of(obs: Observation, rate: Rate) -> Rates:
    """One rate of a run both ways, through its block size."""
    if isinstance(rate, Iops):
        return Rates(rate, rate.at(obs.block_size))
    return Rates(rate.in_ios_of(obs.block_size), rate)


def nearest_level(envelope: Envelope, ceiling: Ceiling, rates: Rates) -> tuple[Level, float]:
    """The level of a ceiling that lies nearest to a rate, and their distance as a share of the level.

    Each ceiling is compared in its own quantity, so that mixed block sizes do not blur it.
    """
    seen = rates.like(ceiling.limit)

    def distance(level: Level) -> float:
        return abs(ratio(seen, level.like(ceiling.limit)) - 1)

    level = min(envelope.levels_of(ceiling), key=distance)
    return level, distance(level)


def bounds(
    envelope: Envelope,
    rates: Rates,
    counters: ThrottleDelta | None,
    *,
    but: Sequence[Ceiling] = (),
    near: float = NEAR,
) -> tuple[Bound, ...]:
    """The promised ceilings that explain a rate.

    Those at whose level (within ``near``) it lies, unless their counters deny it; where counters confirm
    some of them, only these. Failing that, those whose counters alone say that they acted.
    """
    at_level, by_counters = [], []
    for ceiling in envelope.promised.ordered:
        if any(ceiling.same_as(other) for other in but):
            continue
        said = acted(counters, ceiling)
        level, distance = nearest_level(envelope, ceiling, rates)
        if distance <= near and said is not False:
            at_level.append(Bound(ceiling, level, said))
        elif said:
            by_counters.append(Bound(ceiling, None, said))
    confirmed = [bound for bound in at_level if bound.acted]
    return tuple(confirmed or at_level or by_counters)


def as_quantity(rate: Rate, like: Rate, obs: Observation) -> Rate:
    """A rate in the quantity of another, through the block size of the run."""
    if isinstance(rate, Iops) and isinstance(like, Throughput):
        return rate.at(obs.block_size)
    if isinstance(rate, Throughput) and isinstance(like, Iops):
        return rate.in_ios_of(obs.block_size)
    return rate


def few_outstanding(obs: Observation, rate: Rate) -> str | None:
    """Return a sentence if the load keeps too few I/Os outstanding to ask for this rate.

    How many it takes follows from their latency by Little's law: the modelled one on an embedded region, on AWS and for
    a part of a run the one that AWS advises to reckon with. Of a region that counted nothing it is unknown: None.
    """
    delay = delay_of(obs)
    # What waits at a limit is deep enough for it, and its modelled latency is that of waiting.
    waits = obs.envelope is not None and any(
        acted(obs.counters, one) for one in obs.envelope.promised.ceilings
    )
    if on_region(obs) and (delay is None or waits):
        return None
    if not math.isfinite(obs.latency_mean_s):
        delay = None
    iops = as_quantity(rate, Iops(0), obs)
    assert isinstance(iops, Iops)
    exact = iops.per_second * (ADVISED_LATENCY_S if delay is None else delay.modelled_s)
    # Where the machine is disturbed, only a load that is clearly too shallow is put down to itself.
    enough = exact * (1 - NEAR) if machine_disturbed(obs) else exact * (1 - ROUNDING)
    if obs.outstanding_asked >= enough or _carried_before(obs, rate):
        return None
    kept = "1 I/O" if obs.outstanding_asked == 1 else f"{obs.outstanding_asked:,} I/Os"
    latency = obs.latency_mean_s
    at_latency = ""
    if delay is not None:
        at_latency = f" (modelled latency {duration(delay.modelled_s)})"
    elif isinstance(latency, (int, float)) and math.isfinite(latency) and latency > 0:
        at_latency = f" (mean latency {duration(latency)})"
    return (
        f"the load kept only {kept} outstanding{at_latency}, at least {math.ceil(exact):,} are needed to ask for "
        f"{rate}: raise {getattr(obs, 'more_load_by', 'iodepth or numjobs')}"
    )


def _carried_before(obs: Observation, rate: Rate) -> bool:
    """Whether as many I/Os outstanding are known to have been enough for this rate."""
    carried = getattr(obs, "carried_with_as_many", None)
    return carried is not None and ratio(as_quantity(carried, rate, obs), rate) >= 1 - ROUNDING


def saturated(load: GeneratorLoad | None) -> str | None:
    """A sentence when the load generator itself had no CPU left."""
    if load is None:
        return None
    if load.cpu_percent_busiest >= SATURATED_PERCENT:
        return f"its busiest job used {figure(load.cpu_percent_busiest, 0)} % of a CPU"
    total, cpus = load.cpu_percent_total, load.cpus
    if total is not None and cpus and total >= SATURATED_PERCENT * cpus:
        return f"its jobs used {figure(total / cpus, 0)} % of all {cpus} CPUs"
    return None


def drift(obs: Observation, like: Rate, within: float) -> str | None:
    """A sentence when the rate moved during the run."""
    found = steadiness(full_samples(obs.series, like), within)
    if found.steady is not False:
        return None
    first, second = type(like)(found.first_half), type(like)(found.second_half)
    return f"the rate was not steady: {first} in the first half, {second} in the second"


def bound_text(found: Sequence[Bound], obs: Observation) -> str:
    """ "bound by ..." with the figure of each ceiling, and the counters' word where only they say so."""
    names = []
    for bound in found:
        remark = ""
        if bound.level is None and obs.counters is not None:
            seconds = obs.counters.seconds_of(bound.ceiling) or 0.0
            remark = f"exceeded for {seconds_of(seconds, obs.counters)} by its throttle counter"
        names.append(Named(bound.ceiling, bound.level, remark))
    return f"bound by {named(names, obs.block_size)}"


def seconds_of(seconds: float, counters: ThrottleDelta) -> str:
    """A counter's time against the run's: "285 of 300 s"."""
    return f"{figure(seconds, 1)} of {figure(counters.elapsed_s, 1)} s"


def why_short(obs: Observation, rates: Rates, asked: Rate, *, but: Sequence[Ceiling] = ()) -> Reason:
    """Why ``rates`` stayed below ``asked``. ``but`` are ceilings that are out of the question."""
    measured = rates.like(asked)
    found = bounds(obs.envelope, rates, obs.counters, but=but) if obs.envelope else ()
    confirmed = any(bound.acted for bound in found)
    if not confirmed and (own := _self_limited(obs, measured, asked)):
        return Reason(Outcome.INCONCLUSIVE, own)
    at_level = any(bound.level is not None for bound in found)
    if found and ((confirmed and at_level) or not machine_disturbed(obs)):
        return Reason(
            Outcome.VIOLATED,
            bound_text(found, obs),
            tuple(bound.ceiling for bound in found),
            at_level=at_level,
        )
    if not found and (few := few_outstanding(obs, asked)):
        return Reason(Outcome.INCONCLUSIVE, few)
    return _why_unbound(obs, asked, found)


def _why_unbound(obs: Observation, asked: Rate, suspects: Sequence[Bound]) -> Reason:
    """Why a rate stayed low that neither the load nor a promised ceiling is shown to have held; suspects may have."""
    if on_region(obs):
        who = machine_text(obs)
        text = f"no promised ceiling held it back: {who} was the limit"
        if suspects:
            text = f"{listed(bound.ceiling.label for bound in suspects)} or {who} held it back"
        return Reason(Outcome.INCONCLUSIVE, text, (), True)
    if busy := saturated(generator_load(obs)):
        return Reason(Outcome.INCONCLUSIVE, f"the load generator was the limit: {busy}")
    if moved := drift(obs, asked, DRIFT):
        return Reason(Outcome.INCONCLUSIVE, moved)
    return Reason(Outcome.VIOLATED, _unexplained(obs))


def _self_limited(obs: Observation, measured: Rate, asked: Rate) -> str | None:
    own = rate_asked(obs)
    if own is None:
        return None
    limit = as_quantity(own, asked, obs)
    if ratio(limit, asked) >= 1 and ratio(measured, limit) < 1 - NEAR:
        return None
    return f"the job limited its own load to {own} ({percent(ratio(limit, asked))} of what was asked)"


def _unexplained(obs: Observation) -> str:
    if obs.envelope is None or not obs.envelope.promised.ceilings:
        return "its ceilings are not known, so none explains it"
    if obs.counters is None:
        return "no known ceiling explains it, and there were no throttle counters to ask"
    return "no known ceiling explains it, and the throttle counters name none"
