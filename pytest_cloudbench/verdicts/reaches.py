"""`reaches`: did the load get at least what was promised, on the mean or for a share of the time?"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
from pytest_cloudbench.verdicts.attribution import NEAR, Rates, mean_rates, rates_of, why_short
from pytest_cloudbench.verdicts.burst_part import Part, for_a_share, part_for, why_run_short
from pytest_cloudbench.verdicts.details import details_of
from pytest_cloudbench.verdicts.network.observation import NetworkObservation, is_network
from pytest_cloudbench.verdicts.network.reaches import network_reaches
from pytest_cloudbench.verdicts.observation import Observation
from pytest_cloudbench.verdicts.run_details import unusable
from pytest_cloudbench.verdicts.steadiness import full_samples
from pytest_cloudbench.verdicts.targets import as_rate_or_ceiling, checked_share, checked_within, plain, ratio
from pytest_cloudbench.verdicts.time_share import time_share, too_few, wilson_interval
from pytest_cloudbench.verdicts.timeline import as_storage
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import at_least, percent, tolerance

__all__ = ["reaches", "wilson_interval"]

# Binary fractions: 0.9 x 80,000 must not miss 72,000 by a rounding error.
_ROUNDING = 1e-9


def reaches(
    obs: Observation | NetworkObservation,
    target: Ceiling | Iops | Throughput | str,
    *,
    within: float = 0.10,
    share: float | None = None,
) -> Verdict:
    """Judge whether a run reached ``target``.

    ``target`` is a ceiling, a rate, or a text such as "3,000 IOPS". Held when the mean is at least
    ``1 - within`` of it. A ceiling that bursts is judged before the rate fell because its credits were spent,
    where it fell for good to what remains of them; a plain rate on the whole run. With ``share`` (such as 0.999)
    the one-second series is judged instead: held when the share of samples at or above ``1 - within`` of the
    target, with its 95 % Wilson interval, is consistent with that share of the time.

    A shortfall is violated when a promised ceiling explains it or nothing does, and inconclusive when
    the load, its generator or the machine under an embedded region was the limit.

    A run over a network is judged by `network_reaches`.

    Raises TypeError for a target without a unit, ValueError for a tolerance or share outside 0 to 1.
    """
    if is_network(obs):
        return network_reaches(obs, target, within=within, share=share)
    return _storage_reaches(as_storage(obs), target, within, share)


def _storage_reaches(
    obs: Observation, target: Ceiling | Iops | Throughput | str, within: float, share: float | None
) -> Verdict:
    tolerated = checked_within(within)
    wanted_share = None if share is None else checked_share(share)
    found = as_rate_or_ceiling(target, "reaches")
    asked = _asked_rate(found, obs)
    part, whole = _part(found, obs), obs
    obs = part.obs
    rates = mean_rates(obs)
    measured = rates.like(asked)
    goal = found.label + f", {asked}," if isinstance(found, Ceiling) else f"{asked}"
    promise = f"reaches {goal} within {tolerance(tolerated)}"
    if wanted_share is not None:
        promise += f" for {tolerance(wanted_share)} of the time"
    details = {**details_of(whole, within=tolerated, asked=asked, measured=measured), **part.details}
    if wrong := unusable(whole, measured):
        sentence = f"inconclusive: {wrong.text}"
        return Verdict(
            Outcome.INCONCLUSIVE, sentence, promise, asked, measured, (), wrong.machine_limited, details
        )
    if wanted_share is not None:
        draft = _draft(promise, asked, measured, details)
        return _judge_share(part, asked, tolerated, wanted_share, draft)
    figures = at_least(measured, asked, tolerated) + part.where
    if ratio(measured, asked) >= (1 - tolerated) * (1 - _ROUNDING):
        sentence = f"held: {figures}{_suspicion(obs, rates)}"
        return Verdict(Outcome.HELD, sentence, promise, asked, measured, details=details)
    reason = why_run_short(obs, rates, asked)
    sentence = f"{reason.outcome.value}: {figures}; {reason.text}"
    return Verdict(
        reason.outcome, sentence, promise, asked, measured, reason.bound_by, reason.machine_limited, details
    )


def _draft(promise: str, asked: Rate, measured: Rate, details: dict[str, Any]) -> Verdict:
    return Verdict(Outcome.INCONCLUSIVE, "inconclusive", promise, asked, measured, details=details)


def _part(target: Ceiling | Rate, obs: Observation) -> Part:
    """What of the run the target speaks of."""
    if not isinstance(target, Ceiling):
        return Part(obs)
    return part_for(obs, ((obs.envelope.find(target) if obs.envelope else None) or target,))


def _judge_share(part: Part, asked: Rate, within: float, share: float, draft: Verdict) -> Verdict:
    obs = part.obs
    samples = full_samples(obs.series, asked)
    floor = asked * (1 - within)
    if sentence := too_few(samples, share):
        return replace(draft, sentence=f"inconclusive: {sentence}")
    found = time_share(samples, plain(floor) * (1 - _ROUNDING))
    details = {**draft.details, **found.details(share)}
    figures = found.text(floor, share) + part.where
    if found.high >= share:
        sentence = f"held: {figures}, consistent with {tolerance(share)}"
        return replace(draft, outcome=Outcome.HELD, sentence=sentence, details=details)
    below = rates_of(obs, type(asked)(fmean(found.short)))
    reason = why_short(for_a_share(obs, len(found.short) / found.samples), below, asked)
    sentence = (
        f"{reason.outcome.value}: {figures}, not consistent with {tolerance(share)}; "
        f"those below: {reason.text}"
    )
    return replace(
        draft,
        outcome=reason.outcome,
        sentence=sentence,
        bound_by=reason.bound_by,
        machine_limited=reason.machine_limited,
        details=details,
    )


def _asked_rate(target: Ceiling | Rate, obs: Observation) -> Rate:
    """The target in I/Os of this run's size: a large I/O counts as several against an IOPS ceiling."""
    if not isinstance(target, Ceiling):
        return target
    shape = obs.envelope or Envelope((), obs.block_size, obs.sequential)
    known = shape.find(target) or target
    if known.of_iops and known.promised and obs.block_size > shape.io_unit:
        return shape.unmerged_iops_of(known)
    return known.limit


def _suspicion(obs: Observation, rates: Rates) -> str:
    """A remark when the run was faster than anything promised allows."""
    if obs.envelope is None or not obs.envelope.promised.ceilings:
        return ""
    lowest = obs.envelope.promised.ordered[0]
    limit = obs.envelope.levels_of(lowest)[0].like(lowest.limit)
    above = ratio(rates.like(lowest.limit), limit) - 1
    if above <= NEAR:
        return ""
    return (
        f"; but {percent(above)} above {lowest.label}, {limit}: "
        "look for a cache, burst credits or the wrong device"
    )
