"""`sustains`: was a rate held for a length of time, in every sample or in a share of them?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, plain
from pytest_cloudbench.verdicts.attribution import at_a_promise, why_below
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.levels import level_of
from pytest_cloudbench.verdicts.machine_delay import machine_text
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_share, checked_within
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Reason, Verdict
from pytest_cloudbench.verdicts.wording import moment, percent, tolerance


def sustains(
    obs: AnyObservation,
    rate: Ceiling | Iops | Throughput | str,
    *,
    for_: str | float,
    share: float | str = 1.0,
    within: float | str = 0.10,
) -> Verdict:
    """Judge whether a run held ``rate``, within the fraction ``within``, for the time ``for_`` without a break.

    ``for_`` is a time with its unit ("10 min") or seconds of the test. Held if in some stretch of that length at
    least ``share`` of the samples lie at or above ``1 - within`` of the rate. Inconclusive if the run is shorter, and
    if the load, its generator or the machine under an embedded region explains the samples below.

    Raises TypeError for a rate without a unit, ValueError for an invalid time, share or tolerance.
    """
    tolerated, required_share, length_s = checked_within(within), checked_share(share), checked_length(for_)
    run = run_of(obs)
    asked = run.shown(run.asked_of(run.parse_target(rate, "sustains")))
    mean = run.rate_like(asked)
    line = run.timeline(mean)
    floor = plain(asked) * (1 - tolerated) * (1 - ROUNDING)
    stretch = _Stretch(line, floor, length_s)
    every = "" if required_share == 1 else f" in {tolerance(required_share)} of the samples"
    required = f"for {moment(length_s)}{every}"
    promise = f"sustains {asked} within {tolerance(tolerated)} {required}"
    details = details_of(run, measured=mean, within=tolerated, asked=asked, line=line)
    details |= {"for_s": length_s, "share_wanted": required_share, "longest_s": stretch.longest_s}
    draft = Draft(promise, asked, mean, details)
    if wrong := unusable(run, mean):
        return draft.inconclusive(wrong)
    if not stretch.fits:
        text = f"the run lasted {moment(line.length_s)}, too short to show {asked} {required}"
        return draft.verdict(Outcome.INCONCLUSIVE, f"{text}{_of_pace(run)}: lengthen it")
    good, at = stretch.best()
    details["share"] = good
    floor_text = (
        f"at or above {line.rate(plain(asked) * (1 - tolerated))} ({tolerance(1 - tolerated)} of {asked})"
    )
    if good >= required_share * (1 - ROUNDING):
        longest = (
            f"for {moment(stretch.longest_s)} without a break"
            if required_share == 1
            else (f"in {percent(good, required_share, 1.0)} of {moment(length_s)}")
        )
        text = f"{floor_text} {longest}, at least {required[4:]} required{line.compressed_text}"
        return draft.verdict(Outcome.HELD, text)
    below = [value for value in stretch.values[at : at + stretch.samples] if value < floor]
    low = line.rate(level_of(below))
    reason = _why_below(run, low, below, asked)
    seen = (
        f"for at most {moment(stretch.longest_s)} without a break, {required[4:]} required"
        if required_share == 1
        else f"in {percent(good, required_share)} of the best {moment(length_s)}, {tolerance(required_share)} required"
    )
    text = f"{floor_text} {seen}; {run.shown(low)} in the samples below: {reason.text}{line.compressed_text}"
    return draft.of(replace(reason, text=text))


class _Stretch:
    """The stretches of a series that last as long as required, and how many of their samples are good.

    Under compressed time samples are combined to seconds of the clock.
    """

    def __init__(self, line: Timeline, floor: float, length_s: float) -> None:
        self.values = line.of_real_seconds(line.values)
        self._good = [value >= floor for value in self.values]
        together = len(line.values) // len(self.values) if self.values else 1
        self._interval_s = line.interval_s * together
        # A time shorter than one sample is judged by one sample.
        needed = max(1, math.ceil(length_s / self._interval_s - 1e-3)) if self._interval_s > 0 else 1
        # A run of exactly that length lacks the sample that its end cut short.
        self.samples = needed - 1 if len(self.values) == needed - 1 and needed > 1 else needed

    @property
    def fits(self) -> bool:
        """True if the series is long enough."""
        return len(self._good) >= self.samples

    @property
    def longest_s(self) -> float:
        """The longest time without a break in which every sample was good, in seconds."""
        longest = run = 0
        for good in self._good:
            run = run + 1 if good else 0
            longest = max(longest, run)
        return longest * self._interval_s

    def best(self) -> tuple[float, int]:
        """Return the highest share of good samples in a stretch of that length, and at which index the first begins."""
        count = sum(self._good[: self.samples])
        most, at = count, 0
        for end in range(self.samples, len(self._good)):
            count += self._good[end] - self._good[end - self.samples]
            if count > most:
                most, at = count, end - self.samples + 1
        return most / self.samples, at


def _why_below(run: Run, low: Rate, below: Sequence[float], asked: Rate) -> Reason:
    """Judge like `why_below`, but an embedded region's limits are steady: its machine explains scatter on storage."""
    reason = why_below(run, low, below, asked)
    if run.kind != "storage" or not run.on_region or at_a_promise(replace(run, counters=None), low):
        return reason
    text = f"no promised limit lies there: {machine_text(run)} may be why"
    return Reason(Outcome.INCONCLUSIVE, text, (), True)


def checked_length(for_: object) -> float:
    """Return a length of time in seconds. Raises ValueError if invalid, TypeError if neither text nor a number."""
    if isinstance(for_, str):
        return parse_duration(for_)
    if isinstance(for_, bool) or not isinstance(for_, (int, float)):
        raise TypeError(f"for_={for_!r} is not a length of time: write one such as for_='10 min'")
    if not math.isfinite(for_) or for_ <= 0:
        raise ValueError(
            f"for_={for_!r} is not a length of time: it must be above zero, such as for_='10 min'"
        )
    return float(for_)


def _of_pace(run: Run) -> str:
    conditions = [text for text in run.conditions if "quick pace" in text and "->" in text]
    return f" ({conditions[0]})" if conditions else ""
