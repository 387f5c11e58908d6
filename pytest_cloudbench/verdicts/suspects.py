"""What may have held a rate back, each with the figures for and against: the list behind every attribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import Iops, Rate, plain
from pytest_cloudbench.verdicts.bottleneck import Kind, Standing, Suspect, ranked
from pytest_cloudbench.verdicts.machine_delay import (
    TOO_MUCH,
    machine_disturbed,
    machine_share,
    machine_text,
    machine_to_blame,
    on_time_reaches,
    rate_on_time,
)
from pytest_cloudbench.verdicts.plateau import FEWEST_NEAR, spread_at
from pytest_cloudbench.verdicts.run_view import NEAR, SATURATED_PERCENT, Bound, Rates, Run
from pytest_cloudbench.verdicts.targets import ROUNDING, ratio
from pytest_cloudbench.verdicts.verdict import Evidence
from pytest_cloudbench.verdicts.wording import duration, listed, percent

# AWS advises one outstanding I/O per 1,000 IOPS, which is what a latency of 1 ms needs.
ADVISED_LATENCY_S = 0.001
_OWN_LIMIT = "the job's own limit"
_SELF_LIMITED = 0.95
# The machine's own figure comes from a probe and is not an enforced limit: it is only approximate.
_MACHINE_NEAR = 0.10


def suspects_of(
    run: Run, rates: Rates, asked: Rate | None = None, *, within: float = 0.0, but: Sequence[Bound] = ()
) -> tuple[Suspect, ...]:
    """Return what may have held a run at ``rates``, the most likely first.

    With ``asked``, what may have kept it more than ``within`` below that rate: a limit at or above that rate did not.
    Limits in ``but`` are excluded.
    """
    measured = rates.like(asked or run.rate)
    ceilings = ranked(_ceilings(run, rates, asked, but))
    at = ceilings[0] if ceilings and ceilings[0].standing >= Standing.LIKELY else None
    found = [
        *own_limit(run, measured, asked, at),
        *_too_few_outstanding(run, measured, asked, at),
        *ceilings,
        *generator(run),
        *machine(run, measured, None if asked is None else asked * (1 - within)),
        _unknown(run, ceilings),
    ]
    return ranked(found)


def _ceilings(run: Run, rates: Rates, asked: Rate | None, but: Sequence[Bound]) -> list[Suspect]:
    """Return every promised ceiling, at its level nearest to the rate."""
    found = [
        bound
        for bound in run.bounds(rates, but=but)
        if asked is None or _limit(run, bound, asked) < plain(asked)
    ]
    suspects = []
    for nearest in run.nearest_bounds(rates):
        same = (one for one in found if one.ceiling == nearest.ceiling and one.level in (nearest.level, None))
        suspects.append(_ceiling(run, rates, nearest, next(same, None)))
    return suspects


def _ceiling(run: Run, rates: Rates, nearest: Bound, bound: Bound | None) -> Suspect:
    """Return one ceiling at its ``nearest`` level; ``bound`` is None if it does not explain the rate."""
    shown = bound or nearest
    assert nearest.level is not None
    measured, level = rates.like(shown.ceiling.limit), nearest.level.like(shown.ceiling.limit)
    rate = Evidence("rate", plain(measured), plain(level), _unit(measured))
    evidence = [(rate, bound is not None and bound.level is not None)]
    evidence += [(each, shown.acted is not False) for each in run.counted_evidence(shown.ceiling)]
    standing = Standing.EXCLUDED
    if bound is not None and (scattered := _scatter(run, rates, bound)):
        evidence.append((scattered, False))
    elif bound is not None:
        standing = Standing.SHOWN if bound.acted and bound.level is not None else Standing.LIKELY
    name, excluded = run.labels([shown]), standing is Standing.EXCLUDED
    return Suspect(
        Kind.CREDITS if "spent" in nearest.level.how else Kind.CEILING,
        name,
        standing,
        f"{name} did not hold it back" if excluded else run.bound_text([shown]),
        tuple(each for each, speaks_for in evidence if speaks_for),
        tuple(each for each, speaks_for in evidence if not speaks_for),
        shown,
    )


def _limit(run: Run, bound: Bound, like: Rate) -> float:
    """Return the figure of a bound: its level, or the limit of a ceiling that only its counters name."""
    level = bound.level if bound.level is not None else run.envelope.levels_of(bound.ceiling)[0]
    return plain(level.like(like)) * (1 + ROUNDING)


def _scatter(run: Run, rates: Rates, bound: Bound) -> Evidence | None:
    """Return evidence against a limit if the run's samples are not near it."""
    if rates != run.rates or bound.level is None:
        return None
    spread = spread_at(run, bound.level.like(run.rate))
    if spread is None or spread.at_a_limit:
        return None
    return Evidence("share of seconds near it", spread.near / spread.samples, FEWEST_NEAR, "of 1")


def own_limit(run: Run, measured: Rate, asked: Rate | None, at: Suspect | None) -> list[Suspect]:
    """Return the limit that the job set on its own load, if any."""
    own = run.own_limit(asked or measured)
    if own is None:
        return []
    reached = ratio(measured, own) >= _SELF_LIMITED
    below = asked is not None and ratio(own, asked) < 1
    text = f"the job limited its own load to {run.job_limit}"
    if asked is not None:
        text += f" ({percent(ratio(own, asked))} of the required rate)"
    evidence = (Evidence("own limit", plain(own), plain(measured), _unit(own)),)
    if not (reached or below):
        return [Suspect(Kind.LOAD, _OWN_LIMIT, Standing.EXCLUDED, text, (), evidence)]
    # A counter shows that the demand was above a ceiling.
    shown = at is not None and at.standing is Standing.SHOWN
    standing = Standing.POSSIBLE if shown else Standing.SHOWN
    return [Suspect(Kind.LOAD, _OWN_LIMIT, standing, text, evidence)]


def _too_few_outstanding(run: Run, measured: Rate, asked: Rate | None, at: Suspect | None) -> list[Suspect]:
    """Return the depth of the load: it may be too small for the limit near the rate, else for the required rate.

    The number needed follows from the latency by Little's law: the modelled latency on an embedded region; on AWS, and
    for a part of a run, the 1 ms that AWS advises. It is unknown for a region that counted nothing, and for a network.
    """
    if run.outstanding_asked is None:
        return []
    rate = asked or measured
    if at is not None and at.bound is not None and at.bound.level is not None:
        rate = at.bound.level.like(rate)
    delay = run.machine_delay
    # A load that waits at a limit is deep enough for it, and its modelled latency includes that wait.
    waits = any(run.acted(one) for one in run.envelope.promised.ceilings)
    if run.on_region and (delay is None or waits):
        return []
    latency = run.latency_mean_s
    if not math.isfinite(latency):
        delay = None
    iops = run.rates_of(rate).iops.per_second
    needed = iops * (ADVISED_LATENCY_S if delay is None else delay.modelled_s)
    evidence = (Evidence("I/Os outstanding", run.outstanding_asked, needed, "I/Os"),)
    # If the machine disturbed the run, only a load that is clearly too shallow is blamed.
    enough = needed * (1 - NEAR) if machine_disturbed(run) else needed * (1 - ROUNDING)
    if asked is None and at is None and delay is not None:
        # Without a required rate, a load is too shallow if all its I/Os are in service all the time.
        enough = needed / (1 - TOO_MUCH)
    if run.outstanding_asked >= enough or _carried_before(run, rate):
        text = f"the load kept {run.outstanding_asked:,} I/Os outstanding, enough to ask for {rate}"
        return [Suspect(Kind.LOAD, "the load", Standing.EXCLUDED, text, (), evidence)]
    kept = "1 I/O" if run.outstanding_asked == 1 else f"{run.outstanding_asked:,} I/Os"
    at_latency = ""
    if delay is not None:
        at_latency = f" (modelled latency {duration(delay.modelled_s)})"
    elif math.isfinite(latency) and latency > 0:
        at_latency = f" (mean latency {duration(latency)})"
    text = f"the load kept only {kept} outstanding{at_latency}"
    if run.outstanding_asked < needed:
        text += f", at least {math.ceil(needed):,} are needed to ask for {rate}"
    text += f": raise {run.more_load_by}"
    return [Suspect(Kind.LOAD, "the load", Standing.LIKELY, text, evidence)]


def _carried_before(run: Run, rate: Rate) -> bool:
    """Return True if as many I/Os outstanding are known to have been enough for this rate."""
    carried = run.carried_with_as_many
    return carried is not None and ratio(run.rates_of(carried).like(rate), rate) >= 1 - ROUNDING


def generator(run: Run) -> list[Suspect]:
    """Return the load generator, if its CPU use is known."""
    load, busy = run.generator, run.saturated()
    if load is None:
        return []
    figures = [Evidence("CPU of the busiest process", load.cpu_percent_busiest, SATURATED_PERCENT, "%")]
    if load.cpu_percent_total is not None and load.cpus:
        limit = SATURATED_PERCENT * load.cpus
        figures.append(Evidence("CPU of all processes", load.cpu_percent_total, limit, "%"))
    evidence = tuple(figures)
    if busy is None:
        text = (
            f"the load generator had CPU time left: its busiest process used {load.cpu_percent_busiest:.0f} %"
        )
        return [Suspect(Kind.GENERATOR, "the load generator", Standing.EXCLUDED, text, (), evidence)]
    text = f"the load generator was the limit: {busy}"
    return [Suspect(Kind.GENERATOR, "the load generator", Standing.LIKELY, text, evidence)]


def machine(run: Run, measured: Rate, least: Rate | None = None) -> list[Suspect]:
    """Return the machine under an embedded region, judged by its share of the delay or by its network's own limit.

    With ``least``, a machine that would have served that rate if it had been on time is not excluded.
    """
    if not run.on_region:
        return []
    evidence, standing = [], Standing.EXCLUDED if machine_excluded(run, least) else Standing.POSSIBLE
    name, delay, on_time = machine_text(run), run.machine_delay, rate_on_time(run)
    text = f"{name} was the limit"
    by_rate = standing is Standing.POSSIBLE and machine_excluded(run)
    if by_rate and delay is not None and on_time is not None and least is not None:
        served = run.rates_of(on_time).like(measured)
        evidence.append(Evidence("rate if it had been on time", plain(served), plain(least), _unit(served)))
        name = MACHINE_OWNER
        text = (
            f"{name} was the limit: by Little's law it would have served up to {served} if each I/O had taken as long "
            f"as modelled ({duration(delay.modelled_s)})"
        )
    elif (share := machine_share(run)) is not None:
        evidence.append(Evidence("share of the delay that it added", share, TOO_MUCH, "of 1"))
        if machine_disturbed(run):
            standing = Standing.LIKELY
    if run.machine_rate is not None:
        carried = ratio(measured, run.machine_rate)
        evidence.append(Evidence("rate", plain(measured), plain(run.machine_rate), "bytes/s"))
        if carried * (1 + _MACHINE_NEAR) >= 1:
            standing = Standing.LIKELY
        elif carried < 0.5:
            text += ", busy with other work or with the load itself"
        text += f" (its network carries about {run.machine_rate} from one process without any shaping)"
    speaks = tuple(evidence)
    excluded = standing is Standing.EXCLUDED
    return [
        Suspect(
            Kind.MACHINE,
            name,
            standing,
            text,
            () if excluded else speaks,
            speaks if excluded else (),
        )
    ]


def machine_excluded(run: Run, least: Rate | None = None) -> bool:
    """Return True if the machine under an embedded region was measured to be on time while a limit acted.

    With ``least``, not if a machine that was always on time would have served that rate. Below all limits its share is
    not fully measured: of many I/Os only those that its queue holds count.
    """
    acted = any(run.acted(each) for each in run.envelope.promised.ceilings)
    if not acted or not run.on_region or machine_to_blame(run):
        return False
    return least is None or not on_time_reaches(run, least)


def _unknown(run: Run, ceilings: Sequence[Suspect]) -> Suspect:
    """Return the suspect that remains if no other one leads."""
    text = run.unexplained()
    if acted := [
        each for each in ceilings if each.standing is Standing.EXCLUDED and each.bound and each.bound.acted
    ]:
        names = listed(each.name for each in acted)
        text = f"no known ceiling explains it, although {names} acted by its counter"
    return Suspect(Kind.UNKNOWN, "nothing known", Standing.POSSIBLE, text)


def _unit(rate: Rate) -> str:
    return "IOPS" if isinstance(rate, Iops) else "bytes/s"
