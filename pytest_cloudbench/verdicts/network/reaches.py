"""`reaches` of a network: did the load get at least what was promised, at the start or for good?"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput
from pytest_cloudbench.verdicts.attribution import NEAR, Reason
from pytest_cloudbench.verdicts.moments import moment
from pytest_cloudbench.verdicts.network.attribution import Stretch, headers_text, why_short
from pytest_cloudbench.verdicts.network.details import falls_details, network_details, network_not_measured
from pytest_cloudbench.verdicts.network.observation import NetworkObservation, header_share, network_ceilings
from pytest_cloudbench.verdicts.network.stretch import stretch_for
from pytest_cloudbench.verdicts.network.targets import NetworkTarget, levels_in, network_target
from pytest_cloudbench.verdicts.targets import checked_share, checked_within
from pytest_cloudbench.verdicts.time_share import time_share, too_few
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import at_least, percent, tolerance

_ROUNDING = 1e-9


def network_reaches(
    obs: NetworkObservation,
    target: Ceiling | Iops | Throughput | str,
    *,
    within: float = 0.10,
    share: float | None = None,
) -> Verdict:
    """Judge whether a run over a network reached ``target``.

    A ceiling is judged on the part of the run of which it speaks: a peak (and one flow's limit) before
    the rate fell for good to an end's baseline, because credits were spent; a baseline after the last
    lasting fall. A plain rate is judged on the whole run.
    What headers take of the wire counts as reached. With ``share`` the samples of that part are judged.

    Raises TypeError for a target without a unit or of storage, ValueError for a tolerance or share
    outside 0 to 1.
    """
    tolerated = checked_within(within)
    wanted = None if share is None else checked_share(share)
    claim = network_target(target, "reaches", network_ceilings(obs))
    stretch, line = stretch_for(obs, claim, whole=claim.plain)
    asked, measured = claim.asked, stretch.mean
    goal = f"{asked}" if claim.plain else f"{claim.label}, {asked},"
    promise = f"reaches {goal} within {tolerance(tolerated)}"
    if wanted is not None:
        promise += f" for {tolerance(wanted)} of the time"
    details = network_details(obs, within=tolerated, asked=asked, measured=measured)
    details |= falls_details(line.falls)

    def verdict(outcome: Outcome, text: str, **more: Any) -> Verdict:
        values = {"details": details, **more}
        return Verdict(outcome, f"{outcome.value}: {text}", promise, asked, measured, **values)

    if text := network_not_measured(measured):
        return verdict(Outcome.INCONCLUSIVE, text)
    floor = asked * ((1 - tolerated) * (1 - header_share(obs)))
    if wanted is None:
        figures = at_least(measured, asked, tolerated) + stretch.where
        if measured / floor >= 1 - _ROUNDING:
            remark = headers_text(obs, measured, asked, tolerated) or _above(obs, claim, measured)
            return verdict(Outcome.HELD, figures + remark)
        reason = _why(obs, claim, stretch, line)
        text = f"{figures}; {reason.text}"
    else:
        if text := too_few(stretch.values, wanted):
            return verdict(Outcome.INCONCLUSIVE, text)
        found = time_share(stretch.values, floor.bytes_per_second * (1 - _ROUNDING))
        details |= found.details(wanted)
        figures = found.text(floor, wanted) + stretch.where
        if found.high >= wanted:
            return verdict(Outcome.HELD, f"{figures}, consistent with {tolerance(wanted)}")
        reason = why_short(obs, Stretch(Bandwidth(fmean(found.short)), found.short), asked)
        text = f"{figures}, not consistent with {tolerance(wanted)}; those below: {reason.text}"
    return verdict(reason.outcome, text, bound_by=reason.bound_by, machine_limited=reason.machine_limited)


def _why(obs: NetworkObservation, claim: NetworkTarget, stretch: Stretch, line: Timeline) -> Reason:
    """Why a claim was missed. Where the whole run is judged and its rate fell, the fall is what it missed by."""
    if stretch.where or not line.falls.lasting:
        return why_short(obs, stretch, claim.asked)
    last = line.after(line.falls.lasting[-1])
    fallen = Stretch(Bandwidth(last.mean), line.of_real_seconds(last.values))
    reason = why_short(obs, fallen, claim.asked)
    return replace(reason, text=f"the rate fell to {fallen.mean} after {moment(last.begin_s)}, {reason.text}")


def _above(obs: NetworkObservation, claim: NetworkTarget, measured: Bandwidth) -> str:
    """A remark when the run was faster than what the claim speaks of, or than anything promised allows."""
    if claim.spent and measured / claim.asked > 1 + NEAR:
        return "; well above it: its network credits were not spent"
    full = [level for level in levels_in(network_ceilings(obs)) if not level.spent]
    if not full or measured / full[0].rate <= 1 + NEAR:
        return ""
    above = percent(measured / full[0].rate - 1)
    return (
        f"; but {above} above {full[0].label}, {full[0].rate}: look for a cluster placement group, "
        "ENA Express or other instances"
    )
