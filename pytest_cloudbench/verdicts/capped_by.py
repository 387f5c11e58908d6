"""`capped_by`: was it this ceiling, and no other, that held the load back?

Two-sided: the rate must lie at the ceiling, and a rate above it is a violation too (a cache, a burst, the wrong
device). The demand must be above the ceiling, the rate steady, no other ceiling near enough to be the cause, and the
throttle counters must agree if there are any. A claim that cannot be shown is inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import GIVEN, Ceiling
from pytest_cloudbench.limits.envelope import Level
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, plain
from pytest_cloudbench.verdicts.attribution import beside_limits, demand_not_above, not_a_limit
from pytest_cloudbench.verdicts.burst_part import after_its_falls, part_for, remaining_at, why_run_short
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.machine_delay import (
    machine_disturbed,
    machine_text,
    machine_to_blame,
    on_time_reaches,
)
from pytest_cloudbench.verdicts.network_capped_by import network_capped_by
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.plateau import not_a_plateau
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Bound
from pytest_cloudbench.verdicts.storage_run import StorageRun
from pytest_cloudbench.verdicts.targets import ROUNDING, as_ceilings, checked_within, ratio
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import (
    Named,
    around,
    could_give,
    listed,
    named,
    of,
    percent,
    tolerance,
)


@dataclass(frozen=True)
class _Claim:
    """The claimed ceiling (or tied ceilings of one figure) and the level at which it may have acted."""

    ceilings: tuple[Ceiling, ...]
    level: Level
    asked: Rate
    measured: Rate
    within: float
    acted: bool | None

    @property
    def label(self) -> str:
        return listed(ceiling.label for ceiling in self.ceilings)

    def holds(self, ceiling: Ceiling) -> bool:
        return any(ceiling.same_as(mine) for mine in self.ceilings)


def capped_by(
    obs: AnyObservation, ceiling: Ceiling | Iops | Throughput | str, *, within: float | str = 0.05
) -> Verdict:
    """Judge whether ``ceiling`` is what held a run back.

    ``ceiling`` is a ceiling of the instance, a volume or the envelope, the peak or baseline of a network end, the limit
    of one flow, or a plain figure with its unit ("2,375 MB/s"), which stands for every promised ceiling of that figure,
    or for what remains of one that bursts. Held when the rate lies within ``within`` of it on either side and nothing
    else can be the cause. If the rate fell for good because credits were spent, the part before the fall is judged; for
    what remains of a limit, the part after it.

    Raises TypeError for a ceiling without a unit or of another kind of run, ValueError for a tolerance outside 0 to 1.
    """
    run = run_of(obs)
    if isinstance(run, NetworkRun):
        return network_capped_by(run, ceiling, within)
    return _storage_capped_by(run, ceiling, within)


def _storage_capped_by(
    whole: StorageRun, ceiling: Ceiling | Iops | Throughput | str, within: float | str
) -> Verdict:
    tolerated = checked_within(within)
    target = whole.parse_target(ceiling, "capped_by")
    envelope = whole.envelope
    ceilings = as_ceilings(target, envelope)
    spent = remaining_at(ceilings[0].limit, envelope) if ceilings[0].scope == GIVEN else ()
    ceilings = spent or ceilings
    run = part_for(whole, ceilings, spent=bool(spent))
    claim = _claim(run, ceilings, tolerated)
    highest = max((level.like(claim.asked) for level in envelope.levels_of(ceilings[0])), key=plain)
    promise = f"capped by {claim.label}, {ceilings[0].limit}, within {tolerance(tolerated)}"
    details = {
        **details_of(whole, within=tolerated, asked=claim.asked, measured=claim.measured),
        **run.part_details,
    }

    draft = Draft(promise, claim.asked, claim.measured, details)

    if wrong := unusable(whole, claim.measured):
        return draft.inconclusive(wrong)
    if ratio(claim.measured, highest) > (1 + tolerated) * (1 + ROUNDING):
        doubt = _burst_without_an_end(whole, claim) if spent else None
        return _above(draft, claim, highest, run.where, doubt)
    figures = around(claim.measured, claim.asked, tolerated) + run.where
    if abs(ratio(claim.measured, claim.asked) - 1) > tolerated * (1 + ROUNDING):
        excluded = [Bound(one, None, None) for one in ceilings]
        reason = why_run_short(run, claim.asked, within=tolerated, but=excluded)
        fell = after_its_falls(run, claim.asked) is not None
        of_machine = machine_disturbed(run) or on_time_reaches(run, claim.asked * (1 - tolerated))
        sure = not (reason.bound_by or fell or of_machine)
        if claim.acted and sure:
            counted = f"its throttle counter says that it acted for {run.exceeded_text(ceilings)}"
            return draft.verdict(Outcome.VIOLATED, f"{figures}, not at {claim.label}, although {counted}")
        return draft.of(replace(reason, text=f"{figures}, so not at {claim.label}; {reason.text}"))
    if doubt := _doubt(run, claim):
        return draft.inconclusive(doubt, f"{figures}; ")
    how = f" ({claim.level.how})" if claim.level.how else ""
    share = percent(ratio(claim.measured, claim.asked))
    text = f"{of(claim.measured, claim.asked)} ({share}){run.where}, capped by {claim.label}{how}"
    return draft.verdict(Outcome.HELD, text + _other_side(run, claim), ceilings)


def _claim(run: StorageRun, ceilings: tuple[Ceiling, ...], within: float) -> _Claim:
    rates = run.rates
    level, _ = run.nearest_level(ceilings[0], rates)
    said = [run.acted(ceiling) for ceiling in ceilings]
    if any(said):
        all_said: bool | None = True
    else:
        all_said = None if None in said else False
    limit = ceilings[0].limit
    return _Claim(ceilings, level, level.like(limit), rates.like(limit), within, all_said)


def _above(draft: Draft, claim: _Claim, highest: Rate, where: str, doubt: Doubt | None) -> Verdict:
    share = percent(ratio(claim.measured, highest), 1 + claim.within)
    most = tolerance(1 + claim.within)
    figures = f"{of(claim.measured, highest)} ({share}, at most {most} possible under it){where}; "
    if doubt:
        return draft.inconclusive(doubt, figures)
    text = f"above the ceiling {claim.label}: a cache, burst credits or the wrong device served it"
    return draft.verdict(Outcome.VIOLATED, figures + text)


def _burst_without_an_end(whole: StorageRun, claim: _Claim) -> Doubt | None:
    """Return the doubt about a mean above what remains of a limit: if no fall was found, it may contain the burst."""
    bursting = whole.known(claim.ceilings[0])
    below_burst = ratio(claim.measured, bursting.limit) < 1 - claim.within
    if whole.timeline(claim.measured).falls.lasting or not below_burst:
        return None
    return Doubt(
        f"it lies between what remains of {bursting.label} and its burst, {bursting.limit}, which may have ended in "
        f"the run, but no lasting fall was found: {whole.needs_longer}"
    )


def _doubt(run: StorageRun, claim: _Claim) -> Doubt | None:
    rivals = _rivals(run, claim)
    return (
        (None if rivals else not_a_limit(claim.ceilings[0], claim.asked, run.envelope))
        or demand_not_above(run, claim.asked, claim.label, 1 if claim.acted else 1 + claim.within)
        or not_a_plateau(run, claim.asked, claim.within)
        or _counters_disagree(run, claim)
        or rivals
        or (None if claim.acted else beside_limits(run, claim.label))
    )


def _counters_disagree(run: StorageRun, claim: _Claim) -> Doubt | None:
    if claim.acted is not False or run.counters is None:
        return None
    text = (
        f"the throttle counters do not agree: {claim.label} was exceeded for only "
        f"{run.exceeded_text(claim.ceilings)}"
    )
    others = [
        ceiling
        for ceiling in run.envelope.promised.ordered
        if not claim.holds(ceiling) and run.acted(ceiling)
    ]
    if others:
        names = listed(ceiling.label for ceiling in others)
        return Doubt(f"{text}, {names} for {run.exceeded_text(others)}", tuple(others))
    if machine_to_blame(run):
        return Doubt(f"{text}, so {machine_text(run)} held it there", machine_limited=True)
    return Doubt(text)


def _rivals(run: StorageRun, claim: _Claim) -> Doubt | None:
    rivals = [
        Bound(ceiling, level, run.acted(ceiling))
        for ceiling in run.envelope.promised.ordered
        if not claim.holds(ceiling) and (level := _near_level(run, claim, ceiling))
    ]
    if claim.acted:
        rivals = [rival for rival in rivals if rival.acted is not False]
    if not rivals:
        return None
    names = [Named(ceiling, claim.level) for ceiling in claim.ceilings]
    names += [Named(rival.ceiling, rival.level) for rival in rivals]
    text = f"{named(names, run.block_size)} are too close to tell apart"
    if claim.acted and all(rival.acted for rival in rivals):
        text += ", and the throttle counters saw each of them act"
    elif run.counters is None:
        text += " without throttle counters"
    return Doubt(text, (*claim.ceilings, *(rival.ceiling for rival in rivals)))


def _near_level(run: StorageRun, claim: _Claim, rival: Ceiling) -> Level | None:
    """Return the level of another ceiling that lies within the tolerance of the rate or of the claim's level."""
    level, distance = run.nearest_level(rival, run.rates)
    if distance <= claim.within:
        return level
    for other in run.envelope.levels_of(rival):
        if abs(other.iops / claim.level.iops - 1) <= claim.within:
            return other
    return None


def _other_side(run: StorageRun, claim: _Claim) -> str:
    """Return what the other side (the volume for an instance's ceiling, and the reverse) would have allowed."""
    scopes = {ceiling.scope for ceiling in claim.ceilings}
    others = [ceiling for ceiling in run.envelope.promised.ordered if not claim.holds(ceiling)]
    across = [ceiling for ceiling in others if ceiling.scope not in scopes] or others
    if not across:
        return ""
    other = across[0]
    allowed = run.envelope.levels_of(other)[0].like(claim.asked)
    if abs(ratio(allowed, claim.asked) - 1) <= claim.within:
        return f"; {other.label} lies at {allowed} too, but by its throttle counter it hardly acted"
    if ratio(allowed, claim.asked) < 1:
        return f"; though {other.label} is lower, {allowed}, and did not hold it back"
    return f"; {could_give(other, run.envelope, claim.asked)}"
