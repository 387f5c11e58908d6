"""`capped_by` of a network: was it this limit, and no other, that held the streams back?

Two-sided, like that of storage: the rate sits at the limit (less what headers take), the demand was above
it, the rate was steady, nothing else is near enough to be the cause, and the allowance counters agree where
they can tell. What cannot be shown makes it inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import FLOW, Ceiling
from pytest_cloudbench.limits.envelope import TIE
from pytest_cloudbench.limits.network import FLOW_LIMIT, FLOW_LIMIT_IN_CLUSTER
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput
from pytest_cloudbench.verdicts.allowances import bandwidth_acted, exceeded_text
from pytest_cloudbench.verdicts.attribution import MACHINE
from pytest_cloudbench.verdicts.network.attribution import (
    Stretch,
    at_level,
    drift,
    headers_text,
    machine_carries,
    machine_is_near,
    machine_network,
    saturated,
    unequal_streams,
    why_short,
)
from pytest_cloudbench.verdicts.network.details import falls_details, network_details, network_not_measured
from pytest_cloudbench.verdicts.network.observation import (
    NetworkObservation,
    bitrate_asked,
    network_ceilings,
)
from pytest_cloudbench.verdicts.network.stretch import stretch_for
from pytest_cloudbench.verdicts.network.targets import NetworkLevel, NetworkTarget, levels_in, network_target
from pytest_cloudbench.verdicts.steadiness import FEWEST_SAMPLES
from pytest_cloudbench.verdicts.targets import checked_within
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import around, listed, of, percent, tolerance

_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Claim:
    """What is claimed, the part of the run it speaks of, and whether an allowance counter confirms it."""

    target: NetworkTarget
    stretch: Stretch
    within: float
    acted: bool

    @property
    def asked(self) -> Bandwidth:
        return self.target.asked

    @property
    def measured(self) -> Bandwidth:
        return self.stretch.mean


@dataclass(frozen=True)
class _Doubt:
    """Why a rate at the limit does not prove that the limit held it there."""

    text: str
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False


def network_capped_by(
    obs: NetworkObservation, ceiling: Ceiling | Iops | Throughput | str, *, within: float = 0.05
) -> Verdict:
    """Judge whether ``ceiling`` is what held a run over a network back.

    ``ceiling`` is an end's peak or baseline, one flow's limit, or a plain figure with its unit, which stands
    for every promised limit of that figure over all streams. A run whose rate fell because credits were
    spent is judged before the fall, for a baseline after it.

    Raises TypeError for a ceiling without a unit or of storage, ValueError for a tolerance outside 0 to 1.
    """
    tolerated = checked_within(within)
    target = network_target(ceiling, "capped_by", network_ceilings(obs), by_figure=True)
    stretch, line = stretch_for(obs, target)
    acted = any(bandwidth_acted(obs.counters, level.ceiling) for level in target.levels)
    claim = _Claim(target, stretch, tolerated, acted)
    asked, measured = claim.asked, claim.measured
    promise = f"capped by {target.label}, {asked}, within {tolerance(tolerated)}"
    details = network_details(obs, within=tolerated, asked=asked, measured=measured)
    details |= falls_details(line.falls)

    def verdict(
        outcome: Outcome, text: str, bound_by: Sequence[Ceiling] = (), machine: bool = False
    ) -> Verdict:
        sentence, found = f"{outcome.value}: {text}", tuple(bound_by)
        return Verdict(outcome, sentence, promise, asked, measured, found, machine, details)

    if text := network_not_measured(measured):
        return verdict(Outcome.INCONCLUSIVE, text)
    figures = around(measured, asked, tolerated) + stretch.where
    if measured / asked > (1 + tolerated) * (1 + _ROUNDING):
        return verdict(Outcome.VIOLATED, f"{figures}; {_why_above(obs, claim)}")
    if not at_level(measured, asked * (1 - _ROUNDING), obs, tolerated):
        reason = why_short(obs, stretch, asked, but=target.levels)
        text = f"{figures}, so not at {target.label}; {reason.text}"
        return verdict(reason.outcome, text, reason.bound_by, reason.machine_limited)
    if doubt := _doubt(obs, claim):
        return verdict(
            Outcome.INCONCLUSIVE, f"{figures}; {doubt.text}", doubt.bound_by, doubt.machine_limited
        )
    text = (
        f"{of(measured, asked)} ({percent(measured / asked)}){stretch.where}, capped by {_named(obs, claim)}"
    )
    text += headers_text(obs, measured, asked, tolerated) + _others(obs, claim)
    return verdict(Outcome.HELD, text, [level.ceiling for level in target.levels])


def _named(obs: NetworkObservation, claim: _Claim) -> str:
    """The limit's name, with the end it is of and what its counters said."""
    words = []
    for level in claim.target.levels:
        text = level.label
        if level.ceiling.scope == FLOW and len(obs.streams) > 1:
            text += f", {len(obs.streams)} streams each at {level.rate / len(obs.streams)}"
        words.append(text)
    counted = exceeded_text(obs.counters) if claim.acted else ""
    return f"{listed(words)} ({counted})" if counted else listed(words)


def _why_above(obs: NetworkObservation, claim: _Claim) -> str:
    label = claim.target.label
    if claim.target.spent:
        return f"above {label}: its network credits were not spent"
    if any(level.ceiling.scope == FLOW for level in claim.target.levels):
        return f"above {label}: a cluster placement group or ENA Express allows one flow more"
    if text := _meant_for_one_flow(obs, claim):
        return text
    return f"above {label}: look for other instances or a figure that has changed"


def _meant_for_one_flow(obs: NetworkObservation, claim: _Claim) -> str | None:
    """A sentence when the figure is that of one flow and the run had several."""
    streams = len(obs.streams)
    if not claim.target.plain or streams < 2:
        return None
    for level in levels_in(network_ceilings(obs)):
        each = level.rate / streams
        if level.ceiling.scope != FLOW or not any(
            abs(claim.asked / one - 1) <= TIE for one in (each, FLOW_LIMIT, FLOW_LIMIT_IN_CLUSTER)
        ):
            continue
        text = f"a figure speaks of all {streams} streams together: {level.label} {level.ceiling.detail}".rstrip()
        return f"{text} is {each} for each; for all of them write capped_by('{level.rate}')"
    return None


def _doubt(obs: NetworkObservation, claim: _Claim) -> _Doubt | None:
    return (
        _demand_not_above(obs, claim)
        or _not_a_plateau(claim)
        or _streams_disagree(obs, claim)
        or _rivals(obs, claim)
        or _machine_or_generator(obs, claim)
    )


def _demand_not_above(obs: NetworkObservation, claim: _Claim) -> _Doubt | None:
    own = bitrate_asked(obs)
    if own is None:
        return None
    # Only the counters can show that a demand hardly above the limit met it.
    enough = 1.0 if claim.acted else 1 + claim.within
    if own / claim.asked > enough:
        return None
    return _Doubt(
        f"the job limited its own load to {own}, not above {claim.target.label}: "
        "ask for more than the limit, or leave the bitrate out"
    )


def _not_a_plateau(claim: _Claim) -> _Doubt | None:
    samples = len(claim.stretch.values)
    if samples < FEWEST_SAMPLES:
        return _Doubt(
            f"{samples} one-second samples are too few to see a plateau, at least {FEWEST_SAMPLES} are "
            "needed: lengthen the duration"
        )
    text = drift(claim.stretch, claim.within)
    return _Doubt(text) if text else None


def _streams_disagree(obs: NetworkObservation, claim: _Claim) -> _Doubt | None:
    flows = [level for level in claim.target.levels if level.ceiling.scope == FLOW]
    if claim.target.plain or not any(unequal_streams(obs, level) for level in flows):
        return None
    rates = sorted(stream.throughput.bytes_per_second for stream in obs.streams)
    return _Doubt(
        f"the streams are unequal, {Bandwidth(rates[0])} to {Bandwidth(rates[-1])}, so it was not "
        f"{claim.target.label} that held each of them"
    )


def _rivals(obs: NetworkObservation, claim: _Claim) -> _Doubt | None:
    rivals = [
        level
        for level in levels_in(network_ceilings(obs))
        if not claim.target.holds(level) and _near(obs, claim, level)
    ]
    said = [bandwidth_acted(obs.counters, level.ceiling) for level in rivals]
    if claim.acted:
        rivals = [level for level, acted in zip(rivals, said, strict=True) if acted]
    elif not any(said):
        rivals = [level for level, acted in zip(rivals, said, strict=True) if acted is None]
    if not rivals:
        return None
    streams = network_ceilings(obs).streams
    names = listed(level.named(streams) for level in (*claim.target.levels, *rivals))
    text = f"{names} lie too close to tell apart"
    if counted := exceeded_text(obs.counters):
        text += f"; the instances counted {counted}"
    elif obs.counters is None:
        text += " without allowance counters"
    ceilings = (*claim.target.levels, *rivals)
    return _Doubt(text, tuple(level.ceiling for level in ceilings))


def _near(obs: NetworkObservation, claim: _Claim, rival: NetworkLevel) -> bool:
    """Whether another level lies within the tolerance of the rate, or of the claim's own level."""
    if rival.ceiling.scope == FLOW and unequal_streams(obs, rival):
        return False
    if abs(rival.rate / claim.asked - 1) <= claim.within:
        return True
    return at_level(claim.measured, rival.rate, obs, claim.within)


def _machine_or_generator(obs: NetworkObservation, claim: _Claim) -> _Doubt | None:
    if claim.acted:
        return None
    label = claim.target.label
    if machine_is_near(obs, claim.measured):
        text = f"{label} or {MACHINE} held it there: {machine_carries(obs)}"
        return _Doubt(text, machine_limited=True)
    if busy := saturated(obs):
        embedded = machine_network(network_ceilings(obs)) is not None
        return _Doubt(f"{label} or the load generator held it there: {busy}", machine_limited=embedded)
    return None


def _others(obs: NetworkObservation, claim: _Claim) -> str:
    """What the lowest other limit would have allowed."""
    own = claim.target.levels[0].ceiling
    others = [
        level
        for level in levels_in(network_ceilings(obs))
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
