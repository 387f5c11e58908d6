"""`stays_below`: does latency stay below a limit until the load reaches a rate?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure, parse_rate, plain
from pytest_cloudbench.verdicts.attribution import Above, why_short, why_slow
from pytest_cloudbench.verdicts.details import unusable
from pytest_cloudbench.verdicts.little import inconsistent
from pytest_cloudbench.verdicts.load_curve import (
    PERCENTILES,
    LoadCurve,
    StepView,
    checked_percentile,
    latency_at,
    latency_name,
)
from pytest_cloudbench.verdicts.machine_delay import NOT_MODELLED, as_modelled, not_modelled
from pytest_cloudbench.verdicts.run import run_of
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_within, ratio
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Reason, Verdict
from pytest_cloudbench.verdicts.wording import duration

DELIVERED = 0.95
"""A step that reaches this share of its requested rate counts as having carried it."""


@dataclass(frozen=True)
class _Claim:
    limit_s: float
    until: Rate | None
    percentile: float | None
    within: float
    how: str

    @property
    def name(self) -> str:
        return latency_name(self.percentile)

    @property
    def limit_text(self) -> str:
        until = f" until {self.until}" if self.until is not None else ""
        return f"at most {duration(self.limit_s)}{until} required"

    def seen(self, step: StepView) -> Rate:
        """Return the requested rate of a step, in the quantity of the claim."""
        return run_of(step.measurement).rates_of(step.asked).like(self.until or step.asked)

    def served(self, step: StepView) -> Rate:
        """Return the rate that a step carried, in the quantity of the claim."""
        return run_of(step.measurement).rate_like(self.until or Iops(0))

    def covers(self, step: StepView) -> bool:
        return self.until is None or ratio(self.seen(step), self.until) <= 1 + ROUNDING

    def latency_s(self, step: StepView) -> float | None:
        return latency_at(step.measurement, self.percentile)


def stays_below(
    curve: LoadCurve,
    latency: str,
    *,
    until: float | Rate | Ceiling | str | None = None,
    percentile: float | str | None = None,
    within: float | str = 0.10,
) -> Verdict:
    """Judge whether latency stays at or below ``latency`` ("1ms") in every step up to the rate ``until``.

    ``until`` is a number of IOPS, a rate with its unit, or a ceiling; without it every step counts, including those
    beyond the maximum. ``percentile`` is 50, 95, 99 or 99.9; without it the mean is judged. The claim is shown if the
    last step below ``until`` lies within the share ``within`` of it, or if the first step above it stays below the
    limit too; otherwise nothing was measured there and the verdict is inconclusive.

    Latency above the limit is violated if a promised ceiling explains it or nothing does. It is inconclusive if the
    load generator may be the reason, or if the machine under an embedded region may have raised it
    (`machine_explains`).

    Raises TypeError and ValueError for an invalid time, rate, percentile or tolerance.
    """
    claim = _Claim(
        parse_duration(latency),
        _rate(until),
        checked_percentile(percentile),
        checked_within(within),
        as_modelled(run_of(curve.maximum)),
    )
    worst_s = _worst_s([step for step in curve.steps if claim.covers(step)], claim)
    found = _unfit(curve, claim) or _above(curve, claim) or _undelivered(curve, claim) or _reach(curve, claim)
    if found.outcome is Outcome.HELD and not_modelled(run_of(curve.maximum)):
        found = Reason(Outcome.INCONCLUSIVE, f"{found.text}; {NOT_MODELLED}", machine_limited=True)
    promise = f"{claim.name} stays at or below {duration(claim.limit_s)}"
    promise += f" until {claim.until}" if claim.until is not None else ""
    latency_text = "" if worst_s is None else f"{claim.name} {duration(worst_s)}{claim.how}"
    details = _details(curve, claim)
    return Draft(promise, claim.until, None, details, latency_text, f" ({claim.limit_text})").of(found)


def _rate(until: float | Rate | Ceiling | str | None) -> Rate | None:
    if isinstance(until, Ceiling):
        until = until.limit
    if isinstance(until, str):
        until = parse_rate(until)
    if isinstance(until, bool) or not isinstance(until, (int, float, Iops, Throughput, type(None))):
        raise TypeError(f"until={until!r} is not a rate: write a number of IOPS or a text such as '450 MB/s'")
    rate = Iops(float(until)) if isinstance(until, (int, float)) else until
    if rate is not None and not plain(rate) > 0:
        raise ValueError(f"until={rate}: a rate above zero is needed")
    return rate


def _unfit(curve: LoadCurve, claim: _Claim) -> Reason | None:
    """Return why a step that counts cannot be judged at all; None if all can."""
    if not curve.steps:
        return Reason(Outcome.INCONCLUSIVE, "the sweep has no step beside its maximum")
    for step in curve.steps:
        if not claim.covers(step):
            continue
        where = f"at {step.percent:g} % ({claim.seen(step)} asked)"
        run = run_of(step.measurement)
        if wrong := unusable(run, run.rate):
            return wrong.reason(f"{where} ")
        if claim.latency_s(step) is None:
            return Reason(Outcome.INCONCLUSIVE, f"{where} no {claim.name} was measured")
    return None


def _above(curve: LoadCurve, claim: _Claim) -> Reason | None:
    """Return why the limit is exceeded; None if it never is.

    The reason is that of the lowest load that is violated for certain, else of the lowest load that exceeds the limit.
    """
    doubtful = None
    for step in curve.steps:
        latency = claim.latency_s(step)
        if not claim.covers(step) or latency is None or latency <= claim.limit_s * (1 + ROUNDING):
            continue
        text = f"{claim.name} {duration(latency)}{claim.how} at {claim.served(step)}"
        if plain(claim.served(step)) < DELIVERED * plain(claim.seen(step)):
            text += f" ({claim.seen(step)} asked)"
        why = _why(step, text, claim)
        if why.outcome is Outcome.VIOLATED:
            return why
        doubtful = doubtful or why
    return doubtful


def _why(step: StepView, text: str, claim: _Claim) -> Reason:
    run = run_of(step.measurement)
    latency_s, mean_s = claim.latency_s(step), latency_at(step.measurement, None)
    assert latency_s is not None
    assert mean_s is not None
    name = "mean" if claim.percentile is None else PERCENTILES[claim.percentile].removesuffix("_s")
    return why_slow(run, text, [Above(name, latency_s, claim.limit_s)], mean_s)


def _undelivered(curve: LoadCurve, claim: _Claim) -> Reason | None:
    """Return a finding if a step fell short of its load: the latency at that load was then not measured."""
    for step in curve.steps:
        delivered = plain(claim.served(step)) >= DELIVERED * plain(claim.seen(step))
        if claim.until is None or not claim.covers(step) or delivered:
            continue
        asked = claim.seen(step)
        run = run_of(step.measurement)
        reason = why_short(run, run.rates, asked, within=1 - DELIVERED)
        text = f"the load stayed at {claim.served(step)} although {asked} was asked for"
        return replace(reason, text=f"{text}; {reason.text}")
    return None


def _reach(curve: LoadCurve, claim: _Claim) -> Reason:
    """Judge whether the steps, all below the limit, go far enough."""
    counted = [step for step in curve.steps if claim.covers(step)]
    beyond = [step for step in curve.steps if not claim.covers(step)]
    last = counted[-1] if counted else None
    shown = _shown(counted, claim)
    if claim.until is None or (last and ratio(claim.seen(last), claim.until) >= 1 - claim.within - ROUNDING):
        return Reason(Outcome.HELD, shown)
    if beyond:
        above = claim.latency_s(beyond[0])
        if (
            above is not None
            and above <= claim.limit_s
            and inconsistent(run_of(beyond[0].measurement)) is None
        ):
            return Reason(Outcome.HELD, _shown([*counted, beyond[0]], claim))
        so_far = f"{shown}, then " if counted else ""
        at = f"{duration(above)}{claim.how}" if above is not None else "of unknown latency"
        text = f"{so_far}{at} at {claim.served(beyond[0])}"
        if (
            above is not None
            and above > claim.limit_s
            and (why := _why(beyond[0], text, claim)).machine_limited
        ):
            return why
        return Reason(Outcome.INCONCLUSIVE, f"{text}, and nothing was measured between: add a step there")
    maximum = run_of(curve.maximum)
    peak = maximum.rate_like(claim.until)
    if ratio(peak, claim.until) < 1 - claim.within:
        reason = why_short(maximum, maximum.rates, claim.until, within=claim.within)
        return replace(reason, text=f"{shown}, but the load never passed {peak}; {reason.text}")
    return Reason(Outcome.INCONCLUSIVE, f"{shown}, the end of the sweep: add steps up to {claim.until}")


def _shown(steps: list[StepView], claim: _Claim) -> str:
    if not steps:
        return "no step was measured below that"
    highest = max((claim.served(step) for step in steps), key=plain)
    return f"{claim.name} at most {duration(_worst_s(steps, claim) or 0.0)}{claim.how} up to {highest}"


def _worst_s(steps: list[StepView], claim: _Claim) -> float | None:
    """Return the highest known latency of these steps, in seconds."""
    seen = [claim.latency_s(step) for step in steps]
    return max((latency for latency in seen if latency is not None), default=None)


def _details(curve: LoadCurve, claim: _Claim) -> dict[str, Any]:
    return {
        "limit_s": claim.limit_s,
        "until": figure(plain(claim.until)) if claim.until is not None else None,
        "percentile": claim.percentile,
        "within": claim.within,
        "peak_iops": curve.maximum.iops,
        "steps": [
            {
                "percent": step.percent,
                "asked_iops": step.asked.per_second,
                "iops": step.measurement.iops,
                "latency_s": claim.latency_s(step),
            }
            for step in curve.steps
        ],
    }
