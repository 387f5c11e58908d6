"""`drops_to`: did the rate fall to a level, once and for good, and when?

The claim is about this run: its series shows the end of a burst. A run that could have shown it and did not is
violated; one that was too short, had nothing to fall from or had not settled is inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
from pytest_cloudbench.verdicts.attribution import other_limit, region_machine, why_below, why_short
from pytest_cloudbench.verdicts.change_point import FEWEST_SAMPLES, SMALLEST_FALL, Fall
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.drop_targets import DropLevel, drop_level
from pytest_cloudbench.verdicts.levels import level_of
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.verdicts.targets import checked_within, plain, ratio
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Outcome, Reason, Verdict
from pytest_cloudbench.verdicts.wording import around, moment, percent, tolerance

_END = 0.2
_DIPS_OVERLOOKED = 0.1


@dataclass(frozen=True)
class _Finding:
    """The finding about a claim: the rate at the end, and the reason in words."""

    outcome: Outcome
    text: str
    measured: Rate
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False


def drops_to(
    obs: AnyObservation, level: Ceiling | Iops | Throughput | str, *, within: float | str = 0.05
) -> Verdict:
    """Judge whether a run's rate fell to ``level`` and stayed there; the sentence says when.

    ``level`` is a baseline, a ceiling that bursts (which stands for what remains of it), or a rate with its unit.
    Held if the series has a lasting fall and the rate after the last one lies within ``within`` of the level.
    Violated if it fell to another level, or did not fall in a run that outlasts every usual burst (60 minutes of a
    network; 30 of storage, or the length of its full bucket; at a rate below the limit (limit - level) / (rate -
    level) times as long). Inconclusive if the series is too short or has not settled, if it was at the level from the
    start, and if anything but a promise limited the rate.

    Raises TypeError for a level without a unit or of another quantity, ValueError for a tolerance outside 0 to 1.
    """
    tolerated = checked_within(within)
    run = run_of(obs)
    claim = drop_level(run, level)
    mean = run.rate_like(claim.rate)
    line = run.timeline(mean)
    details = details_of(run, measured=mean, within=tolerated, asked=claim.rate, line=line)
    if wrong := unusable(run, mean):
        found = _Finding(Outcome.INCONCLUSIVE, wrong.text, mean, machine_limited=wrong.machine_limited)
    else:
        found = _judged(run, claim, line, mean, tolerated)
    return Verdict(
        found.outcome,
        f"{found.outcome.value}: {found.text}{_compressed(line)}",
        f"drops to {claim.name} within {tolerance(tolerated)}",
        claim.rate,
        found.measured,
        found.bound_by,
        found.machine_limited,
        details,
    )


def _judged(run: Run, claim: DropLevel, line: Timeline, mean: Rate, within: float) -> _Finding:
    if len(line.values) < FEWEST_SAMPLES:
        text = (
            f"{len(line.values)} samples are too few to see a lasting fall, at least {FEWEST_SAMPLES} are "
            "needed: lengthen the run"
        )
        return _Finding(Outcome.INCONCLUSIVE, text, mean)
    if line.falls.lasting or line.falls.unproven is not None:
        return _fallen(run, claim, line, within)
    return _not_fallen(run, claim, line, within)


def _fallen(run: Run, claim: DropLevel, line: Timeline, within: float) -> _Finding:
    """Judge a run with one fall or several: the level after the last one decides."""
    falls = list(line.falls.lasting)
    unproven = line.falls.unproven
    last = falls[-1] if falls else None
    if unproven is not None and (last is None or unproven.index > last.index):
        rate = line.rate(unproven.after)
        left = line.seconds[-1] - unproven.at_s
        text = (
            f"{_falls_text(line, [*falls, unproven])} to {rate}, only {moment(left)} before the end: too short to "
            f"tell that it stays: lengthen the run"
        )
        return _Finding(Outcome.INCONCLUSIVE, text, rate)
    assert last is not None
    after, plateau = line.rate(last.after), line.plateaus[-1]
    figures = f"{_falls_text(line, falls)} to {around(after, claim.rate, within)}"
    halves = steadiness(plateau.values, within)
    if halves.steady is False:
        first, second = line.rate(halves.first_half), line.rate(halves.second_half)
        text = f"{figures}, and had not settled: {first} in the first half after it, {second} in the second"
        return _Finding(Outcome.INCONCLUSIVE, text, after)
    share = ratio(after, claim.rate)
    if claim.lowest(within) <= share <= claim.highest(within):
        below = claim.headers_text(share, within)
        return _Finding(Outcome.HELD, f"{figures}{claim.owner_text}{below}", after, claim.ceilings)
    if share > 1:
        return _Finding(Outcome.VIOLATED, f"{figures}, above {claim.name}", after)
    part = run.part(line, line.after(last), "") or run
    reason = why_short(part, run.rates_of(after), claim.rate, within=within)
    return _with_reason(f"{figures}, below {claim.name}", reason, after)


def _not_fallen(run: Run, claim: DropLevel, line: Timeline, within: float) -> _Finding:
    """Judge a run without a lasting fall: what it shows instead, and whether it could have shown one."""
    count = max(5, int(len(line.values) * _END))
    start, end = line.rate(level_of(line.values[:count])), line.rate(level_of(line.values[-count:]))
    level = line.rate(level_of(line.values))
    if any(abs(plain(one) - plain(level)) > SMALLEST_FALL * plain(level) for one in (start, end)):
        text = f"no fall at one moment: the rate went from {start} at the start to {end} at the end"
        return _Finding(Outcome.INCONCLUSIVE, f"{text} and had not settled; {claim.rate} required", end)
    share = ratio(level, claim.rate)
    if claim.lowest(within) <= share <= claim.highest(within):
        return _at_the_level_all_along(run, claim, level, within)
    if share < 1:
        reason = why_below(run, level, line.values, claim.rate, within=within)
        figures = around(level, claim.rate, within)
        return _with_reason(f"no lasting fall: {figures} throughout, below {claim.name}", reason, level)
    text = f"no lasting fall in {moment(line.length_s)}: {start} at the start, {end} at the end"
    return _above_all_along(run, claim, line, level, text)


def _above_all_along(run: Run, claim: DropLevel, line: Timeline, level: Rate, text: str) -> _Finding:
    """Judge a run that stayed above the level to which it should fall."""
    if limit := other_limit(run, level):
        return _Finding(Outcome.INCONCLUSIVE, f"{text}; {limit.text}", level, (), limit.machine_limited)
    machine = region_machine(run)
    if machine and (dips := _dips(line)):
        text += f", {claim.rate} required; {dips}: {machine} may be why"
        return _Finding(Outcome.INCONCLUSIVE, text, level, (), True)
    if line.length_s < claim.ended_by_s(level) * (1 - 1e-3):
        text += f"; {claim.usual_text(level)}: lengthen the run"
        return _Finding(Outcome.INCONCLUSIVE, text, level)
    return _Finding(Outcome.VIOLATED, f"{text}, {claim.rate} required", level)


def _dips(line: Timeline) -> str | None:
    """Return a sentence if the rate lay well below its level for much of a run without a lasting fall.

    The region's limits lower a rate for good. A machine that is late for a while makes credits last longer, or lets
    them fill again.
    """
    seconds = line.of_real_seconds(line.values) or line.values
    middle = level_of(seconds)
    low = sum(value < (1 - SMALLEST_FALL) * middle for value in seconds) / len(seconds)
    if low <= _DIPS_OVERLOOKED:
        return None
    below = f"{tolerance(SMALLEST_FALL)} below {line.rate(middle)}"
    return f"{percent(low)} of the time it was more than {below} and came back"


def _at_the_level_all_along(run: Run, claim: DropLevel, level: Rate, within: float) -> _Finding:
    figures = f"no drop: {around(level, claim.rate, within)} throughout"
    if claim.bursts is False:
        text = f"{figures}, and {claim.name} is not the end of any burst: it holds from the start"
        return _Finding(Outcome.VIOLATED, text, level)
    if limit := other_limit(run, level):
        return _Finding(Outcome.INCONCLUSIVE, f"{figures}; {limit.text}", level, (), limit.machine_limited)
    if claim.bursts is None:
        text = f"{figures}, so there was nothing to fall from: nothing bursts above it, or the burst was over before"
        return _Finding(Outcome.INCONCLUSIVE, text, level)
    text = (
        f"{figures}, so there was nothing to fall from: the credits were spent before the run; let them "
        "fill again, or stop and start the instance"
    )
    return _Finding(Outcome.INCONCLUSIVE, text, level)


def _with_reason(text: str, reason: Reason, measured: Rate) -> _Finding:
    return _Finding(
        reason.outcome, f"{text}; {reason.text}", measured, reason.bound_by, reason.machine_limited
    )


def _falls_text(line: Timeline, falls: Sequence[Fall]) -> str:
    """Return the falls in words, up to the level after the last: "dropped after 1,260 s (21 min) from 9.93 Gbit/s"."""
    words = [f"dropped after {moment(falls[0].at_s)} from {line.rate(falls[0].before)}"]
    for earlier, later in pairwise(falls):
        words.append(f"to {line.rate(earlier.after)} and after {moment(later.at_s)}")
    return " ".join(words)


def _compressed(line: Timeline) -> str:
    return "" if line.time_compression == 1 else f"; time compressed {line.time_compression:g} times"
