"""`reaches`: did the load get at least what was promised, on average or for a share of the time?"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Iops, Throughput, plain
from pytest_cloudbench.verdicts.attribution import why_below
from pytest_cloudbench.verdicts.burst_part import part_for, why_run_short
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.sample_statistics import time_share, too_few
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_share, checked_within, ratio
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import at_least, tolerance


def reaches(
    obs: AnyObservation,
    target: Ceiling | Iops | Throughput | str,
    *,
    within: float | str = 0.10,
    share: float | str | None = None,
) -> Verdict:
    """Judge whether a run reached ``target``.

    ``target`` is a ceiling, a rate, or a text such as "3,000 IOPS". Held when the mean is at least ``1 - within`` of
    it; the share of headers on the wire counts as reached. A ceiling is judged on the part of the run to which it
    applies: a limit that bursts, before the rate fell because its credits were spent; a network's baseline, after the
    last lasting fall. A plain rate is judged on the whole run. With ``share`` (such as 0.999) the one-second series is
    judged instead: held when the share of samples at or above the same floor, with its 95 % Wilson interval, is
    consistent with that share of the time. Samples below the floor that come in clusters count as fewer; the verdict is
    inconclusive if that alone makes them consistent.

    A shortfall is violated when a promised limit explains it or nothing does, and inconclusive when
    the load, its generator or the machine under an embedded region was the limit.

    Raises TypeError for a target without a unit or of another kind of run, ValueError for a tolerance or share
    outside 0 to 1.
    """
    tolerated = checked_within(within)
    required = None if share is None else checked_share(share)
    run = run_of(obs)
    goal = run.goal(target)
    asked = goal.asked
    part = part_for(run, goal.ceilings, spent=goal.spent) if goal.label else run
    measured = part.rate_like(asked)
    goal_text = f"{goal.label}, {asked}," if goal.label else f"{asked}"
    promise = f"reaches {goal_text} within {tolerance(tolerated)}"
    if required is not None:
        promise += f" for {tolerance(required)} of the time"
    details = details_of(run, within=tolerated, asked=asked, measured=measured) | part.part_details

    draft = Draft(promise, asked, measured, details)

    if wrong := unusable(run, measured) or part.beyond_limits():
        return draft.inconclusive(wrong)
    least = (1 - tolerated) * (1 - run.header_share)
    if required is None:
        figures = at_least(measured, asked, tolerated) + part.where
        if ratio(measured, asked) >= least * (1 - ROUNDING):
            return draft.verdict(Outcome.HELD, figures + part.remark(goal, measured, tolerated))
        reason = why_run_short(part, asked, within=1 - least)
        text = f"{figures}; {reason.text}"
    else:
        samples, floor = part.samples(asked), asked * least
        if few := too_few(samples, required):
            return draft.verdict(Outcome.INCONCLUSIVE, few)
        found = time_share(samples, plain(floor) * (1 - ROUNDING))
        details |= found.details(required)
        figures = found.text(floor, required) + part.where
        if (consistent := found.consistent(required)) is True:
            return draft.verdict(Outcome.HELD, f"{figures}, consistent with {tolerance(required)}")
        if consistent is None:
            text = f"{figures}: the samples below come in clusters, too few to tell: lengthen the run"
            return draft.verdict(Outcome.INCONCLUSIVE, text)
        reason = why_below(part, type(asked)(fmean(found.short)), found.short, asked, within=1 - least)
        text = f"{figures}, not consistent with {tolerance(required)}; the samples below: {reason.text}"
    return draft.of(replace(reason, text=text))
