"""`steady`: did the rate stay the same over the run?

The rule for its seconds: no lasting fall, no drift (the means of the two halves differ by less than the tolerance, or
by less than the noise explains), and at least 90 % of the seconds within the tolerance of their median.

SNIA's rule for rounds (Solid State Storage Performance Test Specification 2.0, "steady state"): over a window of five
rounds the largest minus the smallest rate is at most 20 % of their mean, and the best straight line through them rises
or falls by at most 10 % of it. A round there is a test of one minute, and the window is the last five rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, median
from typing import Any, Literal, get_args

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.attribution import at_a_promise, region_machine
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.sample_statistics import FEWEST_FOR_A_SHARE, steadiness, wilson_interval
from pytest_cloudbench.verdicts.targets import checked_within
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Reason, Verdict
from pytest_cloudbench.verdicts.wording import moment, percent, tolerance

Method = Literal["seconds", "snia"]

WITHIN_SHARE = 0.90
_WITHIN = 0.05
ROUNDS = 5
ROUND_S = 60.0
MOST_RANGE = 0.20
MOST_SLOPE = 0.10


@dataclass(frozen=True)
class Window:
    """Five rounds of ``round_samples`` samples each: their means, and their range and slope as shares of the mean.

    Range and slope are infinite, and the rounds not steady, if nothing was transferred in them.
    """

    rounds: tuple[float, ...]
    round_samples: int

    @property
    def mean(self) -> float:
        return fmean(self.rounds)

    @property
    def range(self) -> float:
        """The largest minus the smallest mean of a round, as a share of their mean."""
        return (max(self.rounds) - min(self.rounds)) / self.mean if self.mean else math.inf

    @property
    def slope(self) -> float:
        """How far the best straight line rises (above 0) or falls from the first round to the last."""
        if not self.mean:
            return math.inf
        return linear_regression(range(ROUNDS), self.rounds).slope * (ROUNDS - 1) / self.mean

    @property
    def steady(self) -> bool:
        """True if both lie within SNIA's limits."""
        return self.range <= MOST_RANGE and abs(self.slope) <= MOST_SLOPE


def last_window(samples: Sequence[float], sample_s: float) -> Window:
    """Return the last five rounds of a series of at least five samples, each of ``sample_s`` seconds.

    A round lasts a minute; in a run of less than five minutes it is a fifth of the run.
    """
    each = max(1, min(round(ROUND_S / sample_s), len(samples) // ROUNDS))
    first = len(samples) - ROUNDS * each
    return Window(
        tuple(fmean(samples[first + number * each :][:each]) for number in range(ROUNDS)), round_samples=each
    )


def steady(obs: AnyObservation, *, within: float | str = 0.05, method: Method = "seconds") -> Verdict:
    """Judge whether a run's rate (Gbit/s of a network, IOPS, or the bytes of created files) was steady.

    With ``method="seconds"`` every second counts, ``within`` is the tolerance, and a lasting fall, a drift or too much
    scatter violates the promise. With ``method="snia"`` the means of five rounds count, whose limits are SNIA's.
    Inconclusive for a series of fewer than five seconds, for scatter in too few seconds to decide, and if the load
    generator or the machine under an embedded region may be the cause.

    Raises TypeError for a tolerance that is neither a number nor text, ValueError for one outside 0 to 1, for an
    unknown method, and for a tolerance with SNIA's method.
    """
    tolerated = checked_within(within)
    if method not in get_args(Method):
        raise ValueError(f"method={method!r}: expected 'seconds' or 'snia'")
    if method == "snia" and within != _WITHIN:
        raise ValueError(
            f"within={within}: SNIA's method has limits of its own, {tolerance(MOST_RANGE)} for the range and "
            f"{tolerance(MOST_SLOPE)} for the slope: leave within out"
        )
    run = run_of(obs)
    rate = run.rate
    line = run.timeline(rate)
    values = line.of_real_seconds(line.values)
    details = details_of(run, measured=rate, within=tolerated, asked=None, line=line) | {
        "steady_method": method
    }
    promise = f"steady within {tolerance(tolerated)}" if method == "seconds" else "steady by SNIA's rounds"

    draft = Draft(promise, None, rate, details)
    if wrong := unusable(run, rate):
        return draft.inconclusive(wrong)
    if len(values) < FEWEST_FOR_A_SHARE:
        text = f"{len(values)} one-second samples are too few to see whether the rate was steady"
        text += f", at least {FEWEST_FOR_A_SHARE} are needed: lengthen the run"
        return draft.verdict(Outcome.INCONCLUSIVE, text)
    reason = (
        _rounds(run, line, values, details)
        if method == "snia"
        else _fall(run, line) or _scatter(run, line, values, tolerated, details)
    )
    return draft.of(reason)


def _scatter(run: Run, line: Timeline, values: list[float], within: float, details: dict[str, Any]) -> Reason:
    """Judge how the seconds of a run without a fall scatter around their median."""
    middle = median(values)
    near = sum(abs(value - middle) <= within * middle for value in values)
    share = near / len(values)
    low, high = wilson_interval(near, len(values))
    details |= {"share": share, "share_wanted": WITHIN_SHARE, "share_interval": [low, high]}
    text = (
        f"{percent(share, WITHIN_SHARE, 1.0)} of {len(values):,} seconds within {tolerance(within)} of "
        f"{line.rate(middle)}"
    )
    moved = _drift(line, values, within)
    if moved is None and share >= WITHIN_SHARE:
        return Reason(Outcome.HELD, f"{text}, no drift and no drop")
    text = moved or f"{text}, at least {tolerance(WITHIN_SHARE)} required"
    few = moved is None and high >= WITHIN_SHARE
    return _unsteady(run, text, few=few)


def _rounds(run: Run, line: Timeline, values: list[float], details: dict[str, Any]) -> Reason:
    """Judge the last five rounds of a run by SNIA's limits."""
    seconds = line.length_s / len(values)
    window = last_window(values, seconds)
    details |= {"rounds": list(window.rounds), "round_s": window.round_samples * seconds}
    text = f"the last {ROUNDS} rounds of {moment(window.round_samples * seconds)}"
    if not window.mean:
        return _unsteady(run, f"nothing was transferred in {text}")
    details |= {"range": window.range, "slope": window.slope}
    text += (
        f" range over {percent(window.range, MOST_RANGE)} of their mean, {line.rate(window.mean)}, and their line "
        f"{'falls' if window.slope < 0 else 'rises'} by {percent(abs(window.slope), MOST_SLOPE)} of it "
        f"(at most {tolerance(MOST_RANGE)} and {tolerance(MOST_SLOPE)} required, by SNIA)"
    )
    return Reason(Outcome.HELD, text) if window.steady else _unsteady(run, text)


def _unsteady(run: Run, text: str, *, few: bool = False) -> Reason:
    """Judge a rate that was not steady; ``few`` is True if the seconds are too few to decide."""
    machine = region_machine(run)
    if busy := run.saturated():
        text += f"; the load generator was at its limit: {busy}"
    elif machine:
        # The region's limits are steady, and a mean does not show in which seconds its machine was late.
        text += f"; {machine} may be why"
    elif few:
        text += "; too few seconds to tell: lengthen the run"
    else:
        return Reason(Outcome.VIOLATED, text)
    return Reason(Outcome.INCONCLUSIVE, text, machine_limited=machine is not None)


def _fall(run: Run, line: Timeline) -> Reason | None:
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
        return Reason(Outcome.INCONCLUSIVE, text, machine_limited=True)
    return Reason(Outcome.VIOLATED, text)


def _drift(line: Timeline, values: list[float], within: float) -> str | None:
    found = steadiness(values, within)
    if found.steady is not False:
        return None
    first: Rate = line.rate(found.first_half)
    return f"the rate drifted: {first} in the first half, {line.rate(found.second_half)} in the second"
