"""`capped_by`: was it this ceiling, and no other, that held the load back?

Two-sided. The rate sits at the ceiling; above it is a finding too (a cache, a burst, the wrong device).
The demand was above the ceiling, the rate was steady, no other ceiling is near enough to be the cause,
and the throttle counters agree where there are any. What cannot be shown makes it inconclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import GIVEN, Ceiling
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
from pytest_cloudbench.verdicts.attribution import (
    MACHINE,
    Bound,
    as_quantity,
    drift,
    few_outstanding,
    mean_rates,
    nearest_level,
    saturated,
    seconds_of,
)
from pytest_cloudbench.verdicts.burst_part import after_its_falls, part_for, remaining_at, why_run_short
from pytest_cloudbench.verdicts.details import details_of
from pytest_cloudbench.verdicts.machine_delay import (
    machine_disturbed,
    machine_text,
    machine_to_blame,
    on_region,
)
from pytest_cloudbench.verdicts.network.capped_by import network_capped_by
from pytest_cloudbench.verdicts.network.observation import NetworkObservation, is_network
from pytest_cloudbench.verdicts.observation import Observation, generator_load, rate_asked
from pytest_cloudbench.verdicts.run_details import unusable
from pytest_cloudbench.verdicts.steadiness import FEWEST_SAMPLES, full_samples
from pytest_cloudbench.verdicts.targets import as_ceilings, as_rate_or_ceiling, checked_within, plain, ratio
from pytest_cloudbench.verdicts.throttling import acted
from pytest_cloudbench.verdicts.timeline import as_storage
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
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

_ROUNDING = 1e-9


@dataclass(frozen=True)
class _Claim:
    """The ceiling (or tied ceilings of one figure) and the level at which it may have acted."""

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


@dataclass(frozen=True)
class _Doubt:
    """Why a rate at the ceiling does not prove that the ceiling held it there."""

    text: str
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False


def capped_by(
    obs: Observation | NetworkObservation,
    ceiling: Ceiling | Iops | Throughput | str,
    *,
    within: float = 0.05,
) -> Verdict:
    """Judge whether ``ceiling`` is what held a run back.

    ``ceiling`` is one of the instance's, a volume's or the envelope's, or a plain figure with its unit
    ("2,375 MB/s"), which stands for every promised ceiling of that figure, or for what remains of one that
    bursts. Held when the rate lies within ``within`` of it on either side and nothing else can be the cause.
    A run whose rate fell for good because credits were spent is judged before the fall, for what remains after it.

    A run over a network is judged by `network_capped_by`.

    Raises TypeError for a ceiling without a unit, ValueError for a tolerance outside 0 to 1.
    """
    if is_network(obs):
        return network_capped_by(obs, ceiling, within=within)
    return _storage_capped_by(as_storage(obs), ceiling, within)


def _storage_capped_by(
    obs: Observation, ceiling: Ceiling | Iops | Throughput | str, within: float
) -> Verdict:
    tolerated = checked_within(within)
    target = as_rate_or_ceiling(ceiling, "capped_by")
    envelope = obs.envelope or Envelope((), obs.block_size, obs.sequential)
    ceilings = as_ceilings(target, envelope)
    spent = remaining_at(ceilings[0].limit, envelope) if ceilings[0].scope == GIVEN else ()
    ceilings = spent or ceilings
    part = part_for(obs, ceilings, spent=bool(spent))
    obs, whole = part.obs, obs
    claim = _claim(obs, envelope, ceilings, tolerated)
    highest = max((level.like(claim.asked) for level in envelope.levels_of(ceilings[0])), key=plain)
    promise = f"capped by {claim.label}, {ceilings[0].limit}, within {tolerance(tolerated)}"
    details = {
        **details_of(whole, within=tolerated, asked=claim.asked, measured=claim.measured),
        **part.details,
    }

    def verdict(
        outcome: Outcome, text: str, bound_by: Sequence[Ceiling] = (), machine: bool = False
    ) -> Verdict:
        sentence = f"{outcome.value}: {text}"
        found = tuple(bound_by)
        return Verdict(outcome, sentence, promise, claim.asked, claim.measured, found, machine, details)

    if wrong := unusable(whole, claim.measured):
        return verdict(Outcome.INCONCLUSIVE, wrong.text, machine=wrong.machine_limited)
    if ratio(claim.measured, highest) > (1 + tolerated) * (1 + _ROUNDING):
        return verdict(Outcome.VIOLATED, _above(claim, highest, part.where))
    figures = around(claim.measured, claim.asked, tolerated) + part.where
    if abs(ratio(claim.measured, claim.asked) - 1) > tolerated * (1 + _ROUNDING):
        reason = why_run_short(obs, mean_rates(obs), claim.asked, but=ceilings)
        fell = after_its_falls(obs, claim.asked) is not None
        sure = not (reason.bound_by or fell or machine_disturbed(obs))
        if claim.acted and obs.counters is not None and sure:
            seconds = max(obs.counters.seconds_of(one) or 0.0 for one in ceilings)
            counted = f"its throttle counter says that it acted for {seconds_of(seconds, obs.counters)}"
            return verdict(Outcome.VIOLATED, f"{figures}, not at {claim.label}, although {counted}", ceilings)
        text = f"{figures}, so not at {claim.label}; {reason.text}"
        return verdict(reason.outcome, text, reason.bound_by, reason.machine_limited)
    if doubt := _doubt(obs, envelope, claim):
        return verdict(
            Outcome.INCONCLUSIVE, f"{figures}; {doubt.text}", doubt.bound_by, doubt.machine_limited
        )
    how = f" ({claim.level.how})" if claim.level.how else ""
    share = percent(ratio(claim.measured, claim.asked))
    text = f"{of(claim.measured, claim.asked)} ({share}){part.where}, capped by {claim.label}{how}"
    return verdict(Outcome.HELD, text + _other_side(envelope, claim), ceilings)


def _claim(obs: Observation, envelope: Envelope, ceilings: tuple[Ceiling, ...], within: float) -> _Claim:
    rates = mean_rates(obs)
    level, _ = nearest_level(envelope, ceilings[0], rates)
    said = [acted(obs.counters, ceiling) for ceiling in ceilings]
    if any(said):
        all_said: bool | None = True
    else:
        all_said = None if None in said else False
    limit = ceilings[0].limit
    return _Claim(ceilings, level, level.like(limit), rates.like(limit), within, all_said)


def _above(claim: _Claim, highest: Rate, where: str) -> str:
    share = percent(ratio(claim.measured, highest), 1 + claim.within)
    return (
        f"{of(claim.measured, highest)} ({share}, at most {tolerance(1 + claim.within)} possible under it){where}; "
        f"above the ceiling {claim.label}: a cache, burst credits or the wrong device served it"
    )


def _doubt(obs: Observation, envelope: Envelope, claim: _Claim) -> _Doubt | None:
    return (
        _demand_not_above(obs, claim)
        or _not_a_plateau(obs, claim)
        or _counters_disagree(obs, envelope, claim)
        or _rivals(obs, envelope, claim)
        or _machine_or_generator(obs, claim)
    )


def _demand_not_above(obs: Observation, claim: _Claim) -> _Doubt | None:
    own = rate_asked(obs)
    if own is not None:
        demand = ratio(as_quantity(own, claim.asked, obs), claim.asked)
        # Only the counters can show that a demand hardly above the ceiling met it.
        if demand <= 1 or (demand <= 1 + claim.within and not claim.acted):
            return _Doubt(
                f"the job limited its own load to {own}, not above {claim.label}: "
                "ask for more than the ceiling, or lift the limit"
            )
    if not claim.acted and (text := few_outstanding(obs, claim.asked)):
        return _Doubt(text)
    return None


def _not_a_plateau(obs: Observation, claim: _Claim) -> _Doubt | None:
    samples = full_samples(obs.series, claim.asked)
    if len(samples) < FEWEST_SAMPLES:
        few = f"{len(samples)} one-second samples are too few to see a plateau, at least {FEWEST_SAMPLES} are needed"
        lasted_s = obs.runtime_s / getattr(obs, "time_compression", 1.0)
        if on_region(obs) and lasted_s >= FEWEST_SAMPLES + 1:
            return _Doubt(
                f"{few}: {MACHINE} was too busy to take more in {lasted_s:.0f} s", machine_limited=True
            )
        return _Doubt(f"{few}: lengthen runtime")
    text = drift(obs, claim.asked, claim.within)
    return _Doubt(text) if text else None


def _counters_disagree(obs: Observation, envelope: Envelope, claim: _Claim) -> _Doubt | None:
    if claim.acted is not False or obs.counters is None:
        return None
    seconds = max(obs.counters.seconds_of(ceiling) or 0.0 for ceiling in claim.ceilings)
    text = (
        f"the throttle counters do not agree: {claim.label} was exceeded for only "
        f"{seconds_of(seconds, obs.counters)}"
    )
    others = [
        ceiling
        for ceiling in envelope.promised.ordered
        if not claim.holds(ceiling) and acted(obs.counters, ceiling)
    ]
    if others:
        longest = max(obs.counters.seconds_of(ceiling) or 0.0 for ceiling in others)
        names = listed(ceiling.label for ceiling in others)
        return _Doubt(f"{text}, {names} for {seconds_of(longest, obs.counters)}", tuple(others))
    if machine_to_blame(obs):
        return _Doubt(f"{text}, so {machine_text(obs)} held it there", machine_limited=True)
    return _Doubt(text)


def _rivals(obs: Observation, envelope: Envelope, claim: _Claim) -> _Doubt | None:
    rivals = [
        Bound(ceiling, level, acted(obs.counters, ceiling))
        for ceiling in envelope.promised.ordered
        if not claim.holds(ceiling) and (level := _near_level(obs, envelope, claim, ceiling))
    ]
    if claim.acted:
        rivals = [rival for rival in rivals if rival.acted is not False]
    if not rivals:
        return None
    names = [Named(ceiling, claim.level) for ceiling in claim.ceilings]
    names += [Named(rival.ceiling, rival.level) for rival in rivals]
    text = f"{named(names, obs.block_size)} lie too close to tell apart"
    if claim.acted and all(rival.acted for rival in rivals):
        text += ", and the throttle counters saw each of them act"
    elif obs.counters is None:
        text += " without throttle counters"
    return _Doubt(text, (*claim.ceilings, *(rival.ceiling for rival in rivals)))


def _near_level(obs: Observation, envelope: Envelope, claim: _Claim, rival: Ceiling) -> Level | None:
    """The level of another ceiling that lies within the tolerance of the rate or of the claim's level."""
    level, distance = nearest_level(envelope, rival, mean_rates(obs))
    if distance <= claim.within:
        return level
    for other in envelope.levels_of(rival):
        if abs(other.iops / claim.level.iops - 1) <= claim.within:
            return other
    return None


def _machine_or_generator(obs: Observation, claim: _Claim) -> _Doubt | None:
    if claim.acted:
        return None
    if machine_disturbed(obs):
        return _Doubt(f"{claim.label} or {machine_text(obs)} held it there", machine_limited=True)
    if busy := saturated(generator_load(obs)):
        return _Doubt(f"{claim.label} or the load generator held it there: {busy}")
    return None


def _other_side(envelope: Envelope, claim: _Claim) -> str:
    """What the other party (the volume for an instance's ceiling, and the reverse) would have allowed."""
    scopes = {ceiling.scope for ceiling in claim.ceilings}
    others = [ceiling for ceiling in envelope.promised.ordered if not claim.holds(ceiling)]
    across = [ceiling for ceiling in others if ceiling.scope not in scopes] or others
    if not across:
        return ""
    other = across[0]
    allowed = envelope.levels_of(other)[0].like(claim.asked)
    if abs(ratio(allowed, claim.asked) - 1) <= claim.within:
        return f"; {other.label} lies at {allowed} too, but by its throttle counter it hardly acted"
    if ratio(allowed, claim.asked) < 1:
        return f"; though {other.label} is lower, {allowed}, and did not hold it back"
    return f"; {could_give(other, envelope, claim.asked)}"
