"""`steady`: did the rate stay the same over the run?

The rule: no lasting fall, no drift (the means of the two halves differ by less than the tolerance, or by less than
the scatter explains), and at least 90 % of the seconds within the tolerance of their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.attribution import at_a_promise, region_machine
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.sample_statistics import (
    FEWEST_FOR_A_SHARE,
    independent_samples,
    steadiness,
    wilson_interval,
)
from pytest_cloudbench.verdicts.targets import checked_within
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import moment, percent, tolerance

WITHIN_SHARE = 0.90


@dataclass(frozen=True)
class _Finding:
    outcome: Outcome
    text: str
    details: Mapping[str, object] = field(default_factory=dict)
    machine_limited: bool = False


def steady(obs: AnyObservation, *, within: float = 0.05) -> Verdict:
    """Judge whether a run's rate (Gbit/s of a network, else IOPS) was steady within ``within``.

    Violated by a lasting fall, a drift or too much scatter. Inconclusive for a series of fewer than five seconds, for
    scatter in too few seconds to decide, and if the load generator or the machine under an embedded region may be the
    cause.

    Raises TypeError for a tolerance that is not a number, ValueError for one outside 0 to 1.
    """
    tolerated = checked_within(within)
    run = run_of(obs)
    rate = run.rate
    line = run.timeline(rate)
    values = line.of_real_seconds(line.values)
    details = details_of(run, measured=rate, within=tolerated, asked=None, line=line)
    promise = f"steady within {tolerance(tolerated)}"

    if wrong := unusable(run, rate):
        found = _Finding(Outcome.INCONCLUSIVE, wrong.text, machine_limited=wrong.machine_limited)
    elif len(values) < FEWEST_FOR_A_SHARE:
        text = f"{len(values)} one-second samples are too few to see whether the rate was steady"
        text += f", at least {FEWEST_FOR_A_SHARE} are needed: lengthen the run"
        found = _Finding(Outcome.INCONCLUSIVE, text)
    elif fallen := _fall(run, line):
        found = fallen
    else:
        found = _scatter(run, line, values, tolerated)
    sentence = f"{found.outcome.value}: {found.text}"
    details |= found.details
    return Verdict(found.outcome, sentence, promise, None, rate, (), found.machine_limited, details)


def _scatter(run: Run, line: Timeline, values: list[float], within: float) -> _Finding:
    """Judge how the seconds of a run without a fall scatter around their median."""
    middle = median(values)
    near = [abs(value - middle) <= within * middle for value in values]
    share, independent = fmean(near), independent_samples(near)
    low, high = wilson_interval(share * independent, independent)
    details = {"share": share, "share_wanted": WITHIN_SHARE, "share_interval": [low, high]}
    text = (
        f"{percent(share, WITHIN_SHARE, 1.0)} of {len(values):,} seconds within {tolerance(within)} of "
        f"{line.rate(middle)}"
    )
    moved = _drift(line, values, within)
    if moved is None and share >= WITHIN_SHARE:
        return _Finding(Outcome.HELD, f"{text}, no drift and no drop", details)
    text = moved or f"{text}, at least {tolerance(WITHIN_SHARE)} required"
    machine = region_machine(run)
    if busy := run.saturated():
        text += f"; the load generator was at its limit: {busy}"
    elif machine:
        # The region's limits are steady, and a mean does not show in which seconds its machine was late.
        text += f"; {machine} may be why"
    elif moved is None and high >= WITHIN_SHARE:
        text += "; too few seconds to tell: lengthen the run"
    else:
        return _Finding(Outcome.VIOLATED, text, details)
    return _Finding(Outcome.INCONCLUSIVE, text, details, machine is not None)


def _fall(run: Run, line: Timeline) -> _Finding | None:
    falls = [*line.falls.lasting, *([line.falls.unproven] if line.falls.unproven else [])]
    if not falls:
        return None
    words = [
        f"after {moment(fall.at_s)} from {line.rate(fall.before)} to {line.rate(fall.after)}"
        for fall in falls
    ]
    text = f"the rate dropped {', then '.join(words)}"
    machine = region_machine(run)
    if machine and not any(at_a_promise(run, line.rate(fall.after)) for fall in falls):
        text += f"; nothing that was promised lies there: {machine} may be why"
        return _Finding(Outcome.INCONCLUSIVE, text, machine_limited=True)
    return _Finding(Outcome.VIOLATED, text)


def _drift(line: Timeline, values: list[float], within: float) -> str | None:
    found = steadiness(values, within)
    if found.steady is not False:
        return None
    first: Rate = line.rate(found.first_half)
    return f"the rate drifted: {first} in the first half, {line.rate(found.second_half)} in the second"
