"""`capped_by` of a network: was it this limit, and no other, that held the streams back?

Two-sided, as for storage: the rate lies at the limit (less the share of headers), the demand was above it, the rate
was steady, nothing else is near enough to be the cause, and the allowance counters agree if they can tell. A claim
that cannot be shown is inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import FLOW, Ceiling
from pytest_cloudbench.limits.envelope import TIE
from pytest_cloudbench.limits.network import FLOW_LIMITS
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput
from pytest_cloudbench.verdicts.attribution import beside_limits, demand_not_above, not_a_limit, why_short
from pytest_cloudbench.verdicts.burst_part import part_for
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.network_levels import NetworkLevel, NetworkTarget
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.plateau import not_a_plateau
from pytest_cloudbench.verdicts.targets import ROUNDING, check_is_of, checked_within
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import around, listed, of, percent, tolerance


@dataclass(frozen=True)
class _Claim:
    """The claim about a part of a run, and whether an allowance counter confirms it."""

    target: NetworkTarget
    measured: Bandwidth
    within: float
    acted: bool

    @property
    def asked(self) -> Bandwidth:
        return self.target.asked


def network_capped_by(
    whole: NetworkRun, ceiling: Ceiling | Iops | Throughput | str, within: float | str
) -> Verdict:
    """Judge whether ``ceiling`` is what held a run over a network back; see `capped_by`."""
    tolerated = checked_within(within)
    target = whole.target(ceiling, "capped_by", by_figure=True)
    if not target.plain:
        check_is_of(target.ceilings[0], whole.envelope.promised.ceilings)
    run = part_for(whole, target.ceilings, spent=target.spent)
    claim = _Claim(target, run.throughput, tolerated, any(level.acted for level in target.levels))
    asked, measured = claim.asked, claim.measured
    promise = f"capped by {target.label}, {asked}, within {tolerance(tolerated)}"
    details = details_of(whole, within=tolerated, asked=asked, measured=measured) | run.part_details

    draft = Draft(promise, asked, measured, details)

    if wrong := unusable(whole, measured):
        return draft.inconclusive(wrong)
    figures = around(measured, asked, tolerated) + run.where
    if measured / asked > (1 + tolerated) * (1 + ROUNDING):
        return draft.verdict(Outcome.VIOLATED, f"{figures}; {_why_above(run, claim)}")
    if not run.is_at(measured, asked * (1 - ROUNDING), tolerated):
        reason = why_short(run, run.rates, asked, but=target.levels)
        return draft.of(replace(reason, text=f"{figures}, so not at {target.label}; {reason.text}"))
    if doubt := _doubt(run, claim):
        return draft.inconclusive(doubt, f"{figures}; ")
    share = percent(measured / asked)
    text = f"{of(measured, asked)} ({share}){run.where}, capped by {_named(run, claim)}"
    text += run.headers_text(measured / asked, tolerated) + _others(run, claim)
    return draft.verdict(Outcome.HELD, text, target.ceilings)


def _named(run: NetworkRun, claim: _Claim) -> str:
    """Return the limit's name, with its end and what its counters say."""
    words = []
    for level in claim.target.levels:
        text = level.label
        if level.ceiling.scope == FLOW and len(run.streams) > 1:
            text += f", {len(run.streams)} streams each at {level.rate / len(run.streams)}"
        words.append(text)
    counted = run.counted if claim.acted else ""
    return f"{listed(words)} ({counted})" if counted else listed(words)


def _why_above(run: NetworkRun, claim: _Claim) -> str:
    label = claim.target.label
    if claim.target.spent:
        return f"above {label}: its network credits were not spent"
    if any(level.ceiling.scope == FLOW for level in claim.target.levels):
        return f"above {label}: a cluster placement group or ENA Express allows one flow more"
    if text := _meant_for_one_flow(run, claim):
        return text
    return f"above {label}: look for other instances or a figure that has changed"


def _meant_for_one_flow(run: NetworkRun, claim: _Claim) -> str | None:
    """Return a sentence if the figure is that of one flow and the run had several."""
    streams = len(run.streams)
    if not claim.target.plain or streams < 2:
        return None
    for level in run.levels:
        each = level.rate / streams
        if level.ceiling.scope != FLOW or not any(
            abs(claim.asked / one - 1) <= TIE for one in (each, *FLOW_LIMITS)
        ):
            continue
        text = f"a figure speaks of all {streams} streams together: {level.label} {level.ceiling.detail}".rstrip()
        return f"{text} is {each} for each; for all of them write capped_by('{level.rate}')"
    return None


def _doubt(run: NetworkRun, claim: _Claim) -> Doubt | None:
    rivals, label = _rivals(run, claim), claim.target.label
    return (
        (None if rivals else not_a_limit(claim.target.ceilings[0], claim.asked, run.envelope))
        or demand_not_above(run, claim.asked, label, 1 if claim.acted else 1 + claim.within)
        or not_a_plateau(run, claim.asked, claim.within)
        or _streams_disagree(run, claim)
        or rivals
        or (None if claim.acted else beside_limits(run, label))
    )


def _streams_disagree(run: NetworkRun, claim: _Claim) -> Doubt | None:
    flows = [level for level in claim.target.levels if level.ceiling.scope == FLOW]
    if claim.target.plain or not any(run.unequal_streams(level) for level in flows):
        return None
    rates = sorted(run.streams)
    return Doubt(
        f"the streams are unequal, {rates[0]} to {rates[-1]}, so it was not "
        f"{claim.target.label} that held each of them"
    )


def _rivals(run: NetworkRun, claim: _Claim) -> Doubt | None:
    rivals = [level for level in run.levels if not claim.target.holds(level) and _near(run, claim, level)]
    if claim.acted:
        rivals = [level for level in rivals if level.acted]
    elif not any(level.acted for level in rivals):
        rivals = [level for level in rivals if level.acted is None]
    if not rivals:
        return None
    streams = run.envelope.streams
    names = listed(level.named(streams) for level in (*claim.target.levels, *rivals))
    text = f"{names} are too close to tell apart"
    if counted := run.counted:
        text += f"; the instances counted {counted}"
    elif run.counters is None:
        text += " without allowance counters"
    ceilings = (*claim.target.levels, *rivals)
    return Doubt(text, tuple(level.ceiling for level in ceilings))


def _near(run: NetworkRun, claim: _Claim, rival: NetworkLevel) -> bool:
    """Return True if another level lies within the tolerance of the rate, or of the claim's own level."""
    if rival.ceiling.scope == FLOW and run.unequal_streams(rival):
        return False
    if abs(rival.rate / claim.asked - 1) <= claim.within:
        return True
    return run.is_at(claim.measured, rival.rate, claim.within)


def _others(run: NetworkRun, claim: _Claim) -> str:
    """Return what the lowest other limit would have allowed."""
    own = claim.target.levels[0].ceiling
    others = [
        level
        for level in run.levels
        if not level.spent and not level.ceiling.same_as(own) and not claim.target.holds(level)
    ]
    if not others:
        return ""
    label, rate = others[0].label, others[0].rate
    if rate / claim.asked <= 1 - claim.within:
        return f"; though {label} is lower, {rate}, and did not hold it back"
    if rate / claim.asked <= 1 + claim.within:
        return f"; {label} lies at {rate} too, but nothing shows that it acted"
    return f"; {label} would allow {rate}"
