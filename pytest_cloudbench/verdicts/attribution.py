"""Why a rate fell short: a promised limit, the machine underneath, the load itself, or nothing known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.machine_delay import machine_disturbed, machine_text, machine_to_blame
from pytest_cloudbench.verdicts.run_view import NEAR, Bound, Rates, Run
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.verdict import Doubt, Outcome, Reason
from pytest_cloudbench.verdicts.wording import duration, percent

DRIFT = 0.10
ROUNDING = 1e-9
# AWS advises one outstanding I/O per 1,000 IOPS, which is what a latency of 1 ms needs.
ADVISED_LATENCY_S = 0.001
_SELF_LIMITED = 0.95


def why_short(run: Run, rates: Rates, asked: Rate, *, but: Sequence[Bound] = ()) -> Reason:
    """Return why ``rates`` stayed below ``asked``, with limits in ``but`` excluded."""
    measured = rates.like(asked)
    found = run.bounds(rates, but=but)
    confirmed = any(bound.acted for bound in found)
    if not confirmed and (text := _self_limited(run, measured, asked)):
        return Reason(Outcome.INCONCLUSIVE, text)
    at_level = any(bound.level is not None for bound in found)
    if found and ((confirmed and at_level) or not run.doubtful(measured)):
        ceilings = tuple(bound.ceiling for bound in found)
        return Reason(Outcome.VIOLATED, run.bound_text(found), ceilings, at_level=at_level)
    if not found and (few := few_outstanding(run, asked)):
        return Reason(Outcome.INCONCLUSIVE, few)
    return _why_unbound(run, measured, asked, found)


def why_below(run: Run, mean: Rate, values: Sequence[float], asked: Rate) -> Reason:
    """Return why some samples of a run, ``values`` with this mean, lie below ``asked``."""
    return why_short(run.for_samples(values, mean), run.rates_of(mean), asked)


def other_limit(run: Run, measured: Rate) -> Doubt | None:
    """Return what besides a promise may have set this rate; None if nothing did."""
    own = run.own_limit(measured)
    if own is not None and ratio(measured, own) >= _SELF_LIMITED:
        return Doubt(f"the job limited its own load to {own}")
    if busy := run.saturated():
        return Doubt(f"the load generator was the limit: {busy}", machine_limited=run.on_region)
    if (machine := machines_part(run)) and not at_a_promise(run, measured):
        return Doubt(f"{machine} was the limit", machine_limited=True)
    return None


def at_a_promise(run: Run, measured: Rate) -> bool:
    """Return True if a rate lies at a promised limit."""
    return bool(run.bounds(run.rates_of(measured)))


def region_machine(run: Run) -> str | None:
    """Return the machine under the embedded region of a run, with its figures if known; None elsewhere."""
    return machine_text(run) if run.on_region else None


def machines_part(run: Run) -> str | None:
    """Return the machine under an embedded region, with its figures if known, if it may have set a rate; else None.

    Of storage its part is measured. A network's promised limits are exact there, so any other rate may be its doing.
    """
    return machine_text(run) if machine_to_blame(run) else None


def few_outstanding(run: Run, rate: Rate) -> str | None:
    """Return a sentence if the load keeps too few I/Os outstanding to ask for this rate.

    The number needed follows from their latency by Little's law: the modelled one on an embedded region, on AWS and for
    a part of a run the one that AWS advises to reckon with. It is unknown (None) for a region that counted nothing, and
    for a network.
    """
    if run.outstanding_asked is None:
        return None
    delay = run.machine_delay
    # What waits at a limit is deep enough for it, and its modelled latency is that of waiting.
    waits = any(run.acted(one) for one in run.envelope.promised.ceilings)
    if run.on_region and (delay is None or waits):
        return None
    latency = run.latency_mean_s
    if not math.isfinite(latency):
        delay = None
    iops = run.rates_of(rate).iops.per_second
    exact = iops * (ADVISED_LATENCY_S if delay is None else delay.modelled_s)
    # If the machine is disturbed, only a load that is clearly too shallow is put down to itself.
    enough = exact * (1 - NEAR) if machine_disturbed(run) else exact * (1 - ROUNDING)
    if run.outstanding_asked >= enough or _carried_before(run, rate):
        return None
    kept = "1 I/O" if run.outstanding_asked == 1 else f"{run.outstanding_asked:,} I/Os"
    at_latency = ""
    if delay is not None:
        at_latency = f" (modelled latency {duration(delay.modelled_s)})"
    elif math.isfinite(latency) and latency > 0:
        at_latency = f" (mean latency {duration(latency)})"
    return (
        f"the load kept only {kept} outstanding{at_latency}, at least {math.ceil(exact):,} are needed to ask for "
        f"{rate}: raise {run.more_load_by}"
    )


def drift(run: Run, like: Rate, within: float) -> str | None:
    """Return a sentence if the rate moved during the run."""
    found = steadiness(run.samples(like), within)
    if found.steady is not False:
        return None
    first, second = type(like)(found.first_half), type(like)(found.second_half)
    return f"the rate was not steady: {first} in the first half, {second} in the second"


def _carried_before(run: Run, rate: Rate) -> bool:
    """Return True if as many I/Os outstanding are known to have been enough for this rate."""
    carried = run.carried_with_as_many
    return carried is not None and ratio(run.as_quantity(carried, rate), rate) >= 1 - ROUNDING


def _why_unbound(run: Run, measured: Rate, asked: Rate, suspects: Sequence[Bound]) -> Reason:
    """Return why a rate stayed low that no promised limit is shown to have held; suspects may have."""
    if run.on_region:
        return Reason(Outcome.INCONCLUSIVE, run.machine_held(measured, suspects), (), True)
    if busy := run.saturated():
        who = (
            f"{run.labels(suspects)} or the load generator held it back"
            if suspects
            else "the load generator was the limit"
        )
        return Reason(Outcome.INCONCLUSIVE, f"{who}: {busy}")
    if moved := drift(run, asked, DRIFT):
        return Reason(Outcome.INCONCLUSIVE, moved)
    return Reason(Outcome.VIOLATED, run.unexplained())


def _self_limited(run: Run, measured: Rate, asked: Rate) -> str | None:
    """Return a sentence if the job asked for less than what is judged, or got what it asked for."""
    limit = run.own_limit(asked)
    if limit is None or (ratio(limit, asked) >= 1 and ratio(measured, limit) < 1 - NEAR):
        return None
    return f"the job limited its own load to {run.job_limit} ({percent(ratio(limit, asked))} of the required rate)"
