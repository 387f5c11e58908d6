"""Which part of a storage run a claim on a bursting limit speaks of: while credits last, or once they are spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, cast

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.quantities import MIB, Iops, Rate, Throughput, figure
from pytest_cloudbench.verdicts.attribution import NEAR, Rates, Reason, mean_rates, rates_of, why_short
from pytest_cloudbench.verdicts.moments import moment
from pytest_cloudbench.verdicts.network.details import falls_details
from pytest_cloudbench.verdicts.observation import GeneratorLoad, Observation, generator_load
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import Plateau, Timeline, timeline
from pytest_cloudbench.verdicts.verdict import Outcome

# A load that began late is known by samples a second apart.
_LATE_NEAR = 0.10


@dataclass(frozen=True)
class Part:
    """A run, or the part of it that is judged; ``where`` says which part, as the end of a sentence about a rate.

    ``details`` are the falls that were found, and from when to when the part lasts, in seconds of the test.
    """

    obs: Observation
    where: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Samples:
    seconds: Sequence[float]
    iops: Sequence[Iops]
    throughput: Sequence[Throughput]


class _PartOfRun:
    """Rates and series of a part, and of what is known of the whole run alone as much as holds for the part.

    Throttle counters are those of `ThrottleDelta.during`. The latency is not known. The generator's share of its
    CPUs is reckoned to follow its rate, and never below that of the whole run.
    """

    latency_mean_s = math.nan

    def __init__(self, run: Observation, series: _Samples, length_s: float) -> None:
        self._run = run
        self.series = series
        self.iops = fmean(rate.per_second for rate in series.iops)
        self.throughput_mib = fmean(rate.bytes_per_second for rate in series.throughput) / MIB
        self.runtime_s = length_s
        compression = getattr(run, "time_compression", None) or 1.0
        self.counters = run.counters.during(length_s / compression) if run.counters is not None else None
        self.generator = _busier(generator_load(run), self.iops / run.iops if run.iops > 0 else 1.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


class _ShareOfRun:
    """A run of which only a share of the time is asked about: that much is certain of its throttle counters.

    Of less than all of it the latency is not known.
    """

    def __init__(self, run: Observation, share: float) -> None:
        self._run = run
        self.latency_mean_s = run.latency_mean_s if share >= 1 else math.nan
        self.counters = (
            run.counters.during(share * run.counters.elapsed_s) if run.counters is not None else None
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def _busier(load: GeneratorLoad | None, times: float) -> GeneratorLoad | None:
    """A generator's load while its rate was so many ``times`` that of the whole run."""
    if load is None or times <= 1:
        return load
    total, cpus = load.cpu_percent_total, load.cpus
    if total is not None and cpus:
        total = max(total, min(total * times, 100.0 * cpus))
    busiest = max(load.cpu_percent_busiest, min(load.cpu_percent_busiest * times, 100.0))
    return GeneratorLoad(busiest, total, cpus)


def part_for(obs: Observation, ceilings: Sequence[Ceiling], *, spent: bool = False) -> Part:
    """The part of a run on which a claim on ``ceilings`` is judged.

    Where one of them bursts and the rate fell for good to what remains of a limit once its credits are spent, that
    is what lies before that fall; with ``spent``, where what remains of one that burst is meant, what lies after
    the last lasting fall. In any other case it is all: a fall to no such level is no end of a burst.
    """
    if spent:
        after = after_its_falls(obs, ceilings[0].limit)
        return after if after is not None and after.obs.iops > 0 else Part(obs)
    if all(ceiling.base is None for ceiling in ceilings):
        return Part(obs)
    line = timeline(obs, ceilings[0].limit)
    levels = _spent_levels(obs, ceilings)
    end = line.end_of_burst(lambda rate: _is_near(obs, rate, levels))
    if end is None:
        return Part(obs)
    where = f" in the first {moment(end.at_s)}, before the rate fell to {line.rate(end.after)}"
    return _part(obs, line, line.before(end), where) or Part(obs)


def after_its_falls(obs: Observation, like: Rate) -> Part | None:
    """What of a run lies after its last lasting fall; None where nothing fell."""
    line = timeline(obs, like)
    falls = line.falls.lasting
    if not falls:
        return None
    before = line.rate(line.plateaus[0].mean)
    where = f" after {moment(falls[-1].at_s)}, when the rate had fallen from {before}"
    return _part(obs, line, line.after(falls[-1]), where)


def for_a_share(obs: Observation, share: float) -> Observation:
    """A run as it is known for a share of its time that need not lie in one piece."""
    return cast(Observation, _ShareOfRun(obs, share))


def why_run_short(obs: Observation, rates: Rates, asked: Rate, *, but: Sequence[Ceiling] = ()) -> Reason:
    """Why a run, judged as a whole, fell short; ``but`` are ceilings that are out of the question.

    Where it fell for good to the level of a promised ceiling, the fall is what it missed by. Where it fell to any
    other level, no promised ceiling explains it: its mean over the fall lies at no limit, and what counters saw may
    be what held it before.
    """
    fallen = after_its_falls(obs, asked)
    if fallen is not None:
        after = mean_rates(fallen.obs)
        reason = why_short(fallen.obs, after, asked, but=but)
        if reason.at_level:
            at = moment(fallen.details["judged_from_s"])
            return replace(reason, text=f"the rate fell to {after.like(asked)} after {at}, {reason.text}")
        but = obs.envelope.promised.ceilings if obs.envelope is not None else ()
    if text := _late(obs, rates.like(asked), asked):
        return Reason(Outcome.INCONCLUSIVE, text)
    return why_short(obs, rates, asked, but=but)


def _late(obs: Observation, measured: Rate, asked: Rate) -> str | None:
    """A sentence when the time in which the load wanted nothing yet explains why it fell short."""
    idle_s, length_s = getattr(obs, "idle_at_start_s", 0.0), obs.runtime_s
    if not 0 < idle_s < length_s:
        return None
    rest = measured * (length_s / (length_s - idle_s))
    if ratio(rest, asked) * (1 + _LATE_NEAR) < 1:
        return None
    return (
        f"for the first {figure(idle_s, 2)} of {figure(length_s, 2)} s the load gave the device nothing to do, "
        f"and {rest} in the rest: make the load longer or its start shorter"
    )


def _part(obs: Observation, line: Timeline, kept: Plateau, where: str) -> Part | None:
    """A part of a run; None where no sample lies wholly within it."""
    series = _samples_of(obs, kept, line.interval_s)
    if series is None:
        return None
    part = _PartOfRun(obs, series, kept.end_s - kept.begin_s)
    details = {**falls_details(line.falls), "judged_from_s": kept.begin_s, "judged_to_s": kept.end_s}
    return Part(cast(Observation, part), where, details)


def _spent_levels(obs: Observation, ceilings: Sequence[Ceiling]) -> list[Rate]:
    """What remains of each limit that bursts, each in its own quantity: the envelope's and those claimed."""
    shape = obs.envelope or Envelope((), obs.block_size, obs.sequential)
    return [
        level.like(ceiling.limit)
        for ceiling in (*shape.promised.ceilings, *ceilings)
        for level in shape.levels_of(ceiling)
        if level.burst_spent
    ]


def _is_near(obs: Observation, rate: Rate, levels: Sequence[Rate]) -> bool:
    rates = rates_of(obs, rate)
    return any(abs(ratio(rates.like(level), level) - 1) <= NEAR for level in levels)


def remaining_at(rate: Rate, envelope: Envelope) -> tuple[Ceiling, ...]:
    """The promised limits of which this figure is what remains once their credits are spent, as limits of their own."""
    return tuple(
        replace(ceiling, limit=ceiling.base, base=None, burst_credits=None)
        for ceiling in envelope.promised.ordered
        if ceiling.base is not None
        and ceiling.of_iops == isinstance(rate, Iops)
        and abs(ratio(ceiling.base, rate) - 1) <= TIE
    )


def _samples_of(obs: Observation, kept: Plateau, interval_s: float) -> _Samples | None:
    """The samples that lie wholly within a plateau, without the fall's own."""
    series = obs.series
    assert series is not None
    begin = kept.begin_s if kept.first else kept.begin_s + interval_s
    end = kept.end_s if kept.last else kept.end_s - interval_s
    rows = [
        row
        for row in zip(series.seconds, series.iops, series.throughput, strict=False)
        if begin <= row[0] - interval_s * 0.99 and row[0] <= end + interval_s * 0.01
    ]
    return _Samples(*map(tuple, zip(*rows, strict=True))) if rows else None
