"""`burst_ends_at`: did a burst of storage end at its baseline, and when, compared with what its credits predict?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import GIB, Iops, Rate, Throughput, figure, plain
from pytest_cloudbench.verdicts.drops_to import DropLevel, drop_level, drops_to
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.storage_run import StorageRun
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import moment

_SAME = 0.05
_EXACT = 0.0005


@dataclass(frozen=True)
class _Bucket:
    """The credits behind a ceiling, and how long a full bucket lasts at the measured rate."""

    ceiling: Ceiling
    rate: Rate
    credits: float
    lasts_s: float

    @property
    def text(self) -> str:
        holds = (
            f"{figure(self.credits)} I/Os" if self.ceiling.of_iops else f"{figure(self.credits / GIB, 0)} GiB"
        )
        return f"a full bucket of {holds} lasts {moment(self.lasts_s)} at {self.rate}"


def burst_ends_at(
    obs: AnyObservation, level: Ceiling | Iops | Throughput | str, *, within: float | str = 0.05
) -> Verdict:
    """Judge whether a run's burst ended at ``level``; the sentence compares the time with what the credits predict.

    Judged like `drops_to`. ``level`` is a ceiling that bursts (which stands for what remains of it) or a rate with its
    unit. If the credits are known, the sentence says how long a full bucket lasts at the measured rate; a run that
    ended before that could not show the end and is inconclusive. The time does not affect the outcome: it is unknown
    whether the bucket was full when the run began.

    Raises TypeError for a run over a network (use `drops_to`), and what `drops_to` raises.
    """
    run = run_of(obs)
    if not isinstance(run, StorageRun):
        raise TypeError(f"burst_ends_at({level}) is about credits of storage: ask drops_to of a network")
    verdict = drops_to(run, level, within=within)
    claim = drop_level(run, level)
    line = run.timeline(run.rate_like(claim.rate))
    promise = f"burst ends at {verdict.promise.removeprefix('drops to ')}"
    verdict = replace(verdict, promise=promise)
    falls = line.falls.lasting
    if len(line.values) == 0 or len(falls) > 1:
        return verdict
    began = line.plateaus[0].mean if line.plateaus else 0.0
    bucket = _bucket(run, claim, line.rate(falls[0].before if falls else began))
    if bucket is None:
        return verdict
    loaded_s = _ramp_s(run, line)
    details = {
        **verdict.details,
        "burst_credits": bucket.credits,
        "burst_lasts_s": bucket.lasts_s,
        "burst_ended_s": falls[0].at_s + loaded_s if falls else None,
    }
    verdict = replace(verdict, details=details)
    if falls and verdict.outcome is not Outcome.INCONCLUSIVE:
        return replace(
            verdict, sentence=f"{verdict.sentence}; {bucket.text}{_beside(falls[0].at_s + loaded_s, bucket)}"
        )
    if not falls and line.length_s + loaded_s < bucket.lasts_s:
        return _too_short(verdict, line, bucket)
    return verdict


def _too_short(verdict: Verdict, line: Timeline, bucket: _Bucket) -> Verdict:
    assert verdict.measured is not None
    assert verdict.asked is not None
    at_the_level = ratio(verdict.measured, verdict.asked) <= 1
    if verdict.outcome is Outcome.HELD or verdict.machine_limited or at_the_level:
        return verdict
    text = (
        f"inconclusive: no lasting fall in {moment(line.length_s)} at {bucket.rate}, but {bucket.text} "
        f"({bucket.ceiling.label}): lengthen the run"
    )
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, sentence=text, bound_by=())


def _bucket(run: StorageRun, claim: DropLevel, before: Rate) -> _Bucket | None:
    """Return the credits of the burst that ends at the level; None if they are unknown or were not being spent."""
    for ceiling in _bursting(run, claim):
        assert ceiling.base is not None
        assert ceiling.burst_credits is not None
        levels = [one for one in run.envelope.levels_of(ceiling) if not one.burst_spent]
        rates = run.rates_of(before)
        nearest, _ = run.nearest_level(ceiling, rates)
        level = nearest if nearest in levels else levels[0]
        share = ratio(rates.like(ceiling.limit), level.like(ceiling.limit))
        above = plain(ceiling.limit) * min(1.0, share) - plain(ceiling.base)
        if above > 0:
            return _Bucket(ceiling, before, ceiling.burst_credits, ceiling.burst_credits / above)
    return None


def _bursting(run: StorageRun, claim: DropLevel) -> list[Ceiling]:
    """Return the ceilings with known credits whose burst ends at the level."""
    named = [one for one in run.envelope.ordered if any(one.same_as(each) for each in claim.ceilings)]
    found = []
    for ceiling in named or run.envelope.promised.ordered:
        if ceiling.base is None or ceiling.burst_credits is None:
            continue
        spent = [one for one in run.envelope.levels_of(ceiling) if one.burst_spent]
        if named or any(abs(ratio(one.like(claim.rate), claim.rate) - 1) <= _SAME for one in spent):
            found.append(ceiling)
    return found


def _ramp_s(run: StorageRun, line: Timeline) -> float:
    """Return how long the load had run before the series begins, in seconds of the test."""
    ramp_s = float(run.asked.get("ramp_time_s", 0.0))
    return ramp_s * line.time_compression if math.isfinite(ramp_s) else 0.0


def _beside(ended_s: float, bucket: _Bucket) -> str:
    off = ended_s / bucket.lasts_s - 1
    if abs(off) < _EXACT:
        return ", as measured"
    way = "later" if off > 0 else "earlier"
    remark = ""
    if off < -_SAME:
        remark = ": part of it had been spent before"
    elif off > _SAME:
        remark = ": longer than it can last at that rate"
    return f", and it ended {figure(abs(off) * 100, 1)} % {way}{remark}"
