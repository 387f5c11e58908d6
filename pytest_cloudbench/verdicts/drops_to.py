"""`drops_to`: did the rate fall to a level, once and for good, and when?

The claim is about this run: its series shows the end of a burst. The claim is violated if the run could have shown it
and did not; it is inconclusive if the run was too short, had nothing to fall from or had not settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.network import BASELINE, PEAK
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, plain
from pytest_cloudbench.verdicts.attribution import other_limit, region_machine, why_below, why_short
from pytest_cloudbench.verdicts.change_point import FEWEST_SAMPLES, SMALLEST_FALL, Fall
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.levels import level_of
from pytest_cloudbench.verdicts.network_levels import NetworkLevel
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import NEAR, Run
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.verdicts.storage_run import StorageRun
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_within, ratio
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Reason, Verdict
from pytest_cloudbench.verdicts.wording import around, moment, percent, tolerance

# EC2 user guide, "Amazon EC2 instance network bandwidth": "typically from 5 to 60 minutes".
SHORTEST_NETWORK_BURST_S, LONGEST_NETWORK_BURST_S = 300.0, 3_600.0
# EBS user guide: an instance holds its maximum at least 30 minutes; a gp2 bucket lasts longer.
SHORTEST_STORAGE_BURST_S = 1_800.0
_WORTH_TELLING = 1.005
_END = 0.2
_DIPS_OVERLOOKED = 0.1


@dataclass(frozen=True)
class DropLevel:
    """A level with its name; ``bursts`` is False if it is known that nothing bursts above it.

    ``headers`` is the share of the rate that headers take, 0 for storage. Times are in seconds of the test, for a burst
    at ``full``, the limit while the burst lasts (None if unknown). A rate of at least the share ``full_from`` of that
    limit counts as the limit: the usual length of bursts is not exact, the length of a bucket is.
    """

    rate: Rate
    name: str
    ceilings: tuple[Ceiling, ...] = ()
    bursts: bool | None = None
    headers: float = 0.0
    shortest_burst_s: float = SHORTEST_STORAGE_BURST_S
    longest_burst_s: float | None = None
    full: Rate | None = None
    full_from: float = 1 - NEAR

    def is_at(self, share: float, within: float) -> bool:
        """Return True if a rate of this share of the level counts as at the level."""
        least, most = (1 - within) * (1 - self.headers), 1 + within
        return least * (1 - ROUNDING) <= share <= most * (1 + ROUNDING)

    @property
    def owner_text(self) -> str:
        """The owner of the level, if any: ", m5.2xlarge network baseline"."""
        return f", {self.name.rsplit(', ', 1)[0]}" if self.ceilings else ""

    def ended_by_s(self, seen: Rate) -> float:
        """Return how long a run at this rate must last, in seconds, so that a burst of the usual length ends in it."""
        return (self.longest_burst_s or self.shortest_burst_s) * self.times_as_long(seen)

    def times_as_long(self, seen: Rate) -> float:
        """Return how many times as long credits last at this rate as at the limit.

        Credits are spent at the rate above the level: (limit - level) / (rate - level).
        """
        if self.full is None:
            return 1.0
        of_full = ratio(seen, self.full) / (1 - self.headers)
        level = ratio(self.rate, self.full)
        if of_full >= self.full_from or of_full <= level:
            return 1.0
        return (1 - level) / (of_full - level)

    def usual_text(self, seen: Rate) -> str:
        """Return how long bursts last, for a remark on a run that was shorter."""
        if self.longest_burst_s is None:
            text = f"bursts last at least {moment(self.shortest_burst_s)}"
        else:
            usual = f"{self.shortest_burst_s / 60:.0f} to {self.longest_burst_s / 60:.0f} minutes"
            text = f"by the EC2 user guide bursts last {usual}"
        times = self.times_as_long(seen)
        return (
            text
            if times < _WORTH_TELLING
            else f"{text}, {times:.3g} times as long at this rate as at {self.full}"
        )


def drop_level(run: StorageRun | NetworkRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    """Return the level that ``level`` means for this run.

    Raises TypeError for a level without a unit or of another quantity, ValueError for a rate not above zero.
    """
    return _of_network(run, level) if isinstance(run, NetworkRun) else _of_storage(run, level)


def _of_network(run: NetworkRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    target = run.target(level, "drops_to", by_figure=True)
    (found, *_) = target.levels
    spent = [one for one in run.levels if one.spent and one.ceiling.same_as(found.ceiling)]
    if spent and not found.spent and not target.plain:
        found = spent[0]
    elif isinstance(found.ceiling.base, Throughput) and not found.spent and not target.plain:
        found = NetworkLevel.of(found.ceiling, found.ceiling.base, found.acted, spent=True)
    promised = found.ceiling.scope == INSTANCE
    bursts = True if found.spent else None
    if not bursts and not target.plain and found.ceiling.quantity in (PEAK, BASELINE):
        bursts = False
    return DropLevel(
        rate=found.rate,
        name=f"{found.label}, {found.rate}" if promised else f"{found.rate}",
        ceilings=(found.ceiling,) if promised else (),
        bursts=bursts,
        headers=run.header_share,
        shortest_burst_s=SHORTEST_NETWORK_BURST_S,
        longest_burst_s=LONGEST_NETWORK_BURST_S,
        full=run.envelope.bandwidth_of(found.ceiling) if found.spent else None,
    )


def _of_storage(run: StorageRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    given, shape = run.parse_target(level, "drops_to"), run.envelope
    if not isinstance(given, Ceiling):
        return _with_burst(DropLevel(given, f"{given}"), shape, shape.promised.ceilings)
    known = run.known(given)
    levels = shape.levels_of(known)
    spent = [one for one in levels if one.burst_spent]
    rate = (spent or list(levels))[0].like(known.limit)
    return _with_burst(DropLevel(rate, f"{known.label}, {rate}", (known,), bool(spent)), shape, [known])


def _with_burst(level: DropLevel, shape: Envelope, ceilings: Sequence[Ceiling]) -> DropLevel:
    """Return a level with the length of the burst that ends at it: the longest if several do."""
    found = []
    for ceiling in ceilings:
        levels = shape.levels_of(ceiling)
        spent = len(levels) // 2  # the second half repeats the first with the burst spent
        for full, left in zip(levels[:spent], levels[spent:], strict=False):
            same = abs(ratio(left.like(level.rate), level.rate) - 1) <= TIE
            if ceiling.base is not None and same:
                exact = ceiling.burst_s is not None
                lasts_s = ceiling.burst_s or SHORTEST_STORAGE_BURST_S
                found.append((lasts_s, full.like(level.rate), 1.0 if exact else 1 - NEAR))
    if not found:
        return level
    lasts_s, limit, full_from = max(found, key=lambda burst: burst[0])
    return replace(level, shortest_burst_s=lasts_s, full=limit, full_from=full_from)


_Finding = tuple[Reason, Rate]
"""The finding about a claim, and the rate at the end of the run."""


def drops_to(
    obs: AnyObservation, level: Ceiling | Iops | Throughput | str, *, within: float | str = 0.05
) -> Verdict:
    """Judge whether a run's rate fell to ``level`` and stayed there; the sentence says when.

    ``level`` is a baseline, a ceiling that bursts (which stands for what remains of it), or a rate with its unit. Held
    if the series has a lasting fall and the rate after the last one lies within ``within`` of the level. Violated if it
    fell to another level, or did not fall in a run that outlasts every usual burst: 60 minutes for a network; 30 for
    storage, or the length of its full bucket; (limit - level) / (rate - level) times as long at a rate below the limit.
    Inconclusive if the series is too short or has not settled, if it was at the level from the start, and if anything
    but a promise limited the rate.

    Raises TypeError for a level without a unit or of another quantity, ValueError for a tolerance outside 0 to 1.
    """
    tolerated = checked_within(within)
    run = run_of(obs)
    claim = drop_level(run, level)
    mean = run.rate_like(claim.rate)
    line = run.timeline(mean)
    details = details_of(run, measured=mean, within=tolerated, asked=claim.rate, line=line)
    promise = f"drops to {claim.name} within {tolerance(tolerated)}"
    draft = Draft(promise, claim.rate, mean, details, after=line.compressed_text, asks_for_fall=True)
    if wrong := unusable(run, mean):
        return draft.inconclusive(wrong)
    reason, measured = _judged(run, claim, line, mean, tolerated)
    return replace(draft, measured=measured).of(reason)


def _judged(run: Run, claim: DropLevel, line: Timeline, mean: Rate, within: float) -> _Finding:
    if len(line.values) < FEWEST_SAMPLES:
        text = (
            f"{len(line.values)} samples are too few to see a lasting fall, at least {FEWEST_SAMPLES} are "
            "needed: lengthen the run"
        )
        return Reason(Outcome.INCONCLUSIVE, text), mean
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
        return Reason(Outcome.INCONCLUSIVE, text), rate
    assert last is not None
    after, plateau = line.rate(last.after), line.plateaus[-1]
    figures = f"{_falls_text(line, falls)} to {around(after, claim.rate, within)}"
    halves = steadiness(plateau.values, within)
    if halves.steady is False:
        first, second = line.rate(halves.first_half), line.rate(halves.second_half)
        text = f"{figures}, and had not settled: {first} in the first half after it, {second} in the second"
        return Reason(Outcome.INCONCLUSIVE, text), after
    share = ratio(after, claim.rate)
    if claim.is_at(share, within):
        below = run.headers_text(share, within)
        return Reason(Outcome.HELD, f"{figures}{claim.owner_text}{below}", claim.ceilings), after
    if share > 1:
        return Reason(Outcome.VIOLATED, f"{figures}, above {claim.name}"), after
    part = run.part(line, line.after(last), "") or run
    reason = why_short(part, run.rates_of(after), claim.rate, within=within)
    return replace(reason, text=f"{figures}, below {claim.name}; {reason.text}"), after


def _not_fallen(run: Run, claim: DropLevel, line: Timeline, within: float) -> _Finding:
    """Judge a run without a lasting fall: what it shows instead, and whether it could have shown one."""
    count = max(5, int(len(line.values) * _END))
    start, end = line.rate(level_of(line.values[:count])), line.rate(level_of(line.values[-count:]))
    level = line.rate(level_of(line.values))
    if any(abs(plain(one) - plain(level)) > SMALLEST_FALL * plain(level) for one in (start, end)):
        text = f"no fall at one moment: the rate went from {start} at the start to {end} at the end"
        return Reason(Outcome.INCONCLUSIVE, f"{text} and had not settled; {claim.rate} required"), end
    share = ratio(level, claim.rate)
    if claim.is_at(share, within):
        return _at_the_level_all_along(run, claim, level, within)
    if share < 1:
        reason = why_below(run, level, line.values, claim.rate, within=within)
        text = f"no lasting fall: {around(level, claim.rate, within)} throughout, below {claim.name}"
        return replace(reason, text=f"{text}; {reason.text}"), level
    text = f"no lasting fall in {moment(line.length_s)}: {start} at the start, {end} at the end"
    return _above_all_along(run, claim, line, level, text)


def _above_all_along(run: Run, claim: DropLevel, line: Timeline, level: Rate, text: str) -> _Finding:
    """Judge a run that stayed above the level to which it should fall."""
    if limit := other_limit(run, level):
        return limit.reason(f"{text}; "), level
    machine = region_machine(run)
    if machine and (dips := _dips(line)):
        text += f", {claim.rate} required; {dips}: {machine} may be why"
        return Reason(Outcome.INCONCLUSIVE, text, machine_limited=True), level
    if line.length_s < claim.ended_by_s(level) * (1 - 1e-3):
        return Reason(Outcome.INCONCLUSIVE, f"{text}; {claim.usual_text(level)}: lengthen the run"), level
    return Reason(Outcome.VIOLATED, f"{text}, {claim.rate} required"), level


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
        return Reason(Outcome.VIOLATED, text), level
    if limit := other_limit(run, level):
        return limit.reason(f"{figures}; "), level
    why = "nothing bursts above it, or the burst was over before"
    if claim.bursts:
        why = "the credits were spent before the run; let them fill again, or stop and start the instance"
    return Reason(Outcome.INCONCLUSIVE, f"{figures}, so there was nothing to fall from: {why}"), level


def _falls_text(line: Timeline, falls: Sequence[Fall]) -> str:
    """Return the falls in words, up to the level after the last: "dropped after 1,260 s (21 min) from 9.93 Gbit/s"."""
    words = [f"dropped after {moment(falls[0].at_s)} from {line.rate(falls[0].before)}"]
    for earlier, later in pairwise(falls):
        words.append(f"to {line.rate(earlier.after)} and after {moment(later.at_s)}")
    return " ".join(words)
