"""Which part of a storage run a claim on a bursting limit speaks of: while credits last, or once they are spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, cast

from pytest_cloudbench.promises.ceilings import Ceiling
from pytest_cloudbench.promises.envelope import TIE, Envelope
from pytest_cloudbench.promises.quantities import MIB, Iops, Rate, Throughput
from pytest_cloudbench.verdicts.moments import moment
from pytest_cloudbench.verdicts.network.details import falls_details
from pytest_cloudbench.verdicts.observation import Observation
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import Plateau, Timeline, timeline


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
    """Rates and series of a part; everything else is the whole run's, its throttle counters too."""

    def __init__(self, run: Observation, series: _Samples, length_s: float) -> None:
        self._run = run
        self.series = series
        self.iops = fmean(rate.per_second for rate in series.iops)
        self.throughput_mib = fmean(rate.bytes_per_second for rate in series.throughput) / MIB
        self.runtime_s = length_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def part_for(obs: Observation, ceilings: Sequence[Ceiling], *, spent: bool = False) -> Part:
    """The part of a run on which a claim on ``ceilings`` is judged.

    Where one of them bursts and the rate fell for good, that is what lies before the first fall; with ``spent``,
    where what remains of one that burst is meant, what lies after the last fall. In any other case it is all.
    """
    if not spent and all(ceiling.base is None for ceiling in ceilings):
        return Part(obs)
    line = timeline(obs, ceilings[0].limit)
    return _part(obs, line, last=spent) if len(line.plateaus) > 1 else Part(obs)


def after_its_falls(obs: Observation, like: Rate) -> Part | None:
    """What of a run lies after its last lasting fall; None where nothing fell."""
    line = timeline(obs, like)
    return _part(obs, line, last=True) if len(line.plateaus) > 1 else None


def _part(obs: Observation, line: Timeline, *, last: bool) -> Part:
    kept = line.plateaus[-1 if last else 0]
    series = _samples_of(obs, kept, line.interval_s)
    if series is None:
        return Part(obs)
    part = _PartOfRun(obs, series, kept.end_s - kept.begin_s)
    details = {**falls_details(line.falls), "judged_from_s": kept.begin_s, "judged_to_s": kept.end_s}
    return Part(cast(Observation, part), _where(line, kept, last=last), details)


def remaining_at(rate: Rate, envelope: Envelope) -> tuple[Ceiling, ...]:
    """The promised limits of which this figure is what remains once their credits are spent, as limits of their own."""
    return tuple(
        replace(ceiling, limit=ceiling.base, base=None, burst_credits=None)
        for ceiling in envelope.promised.ordered
        if ceiling.base is not None
        and ceiling.of_iops == isinstance(rate, Iops)
        and abs(ratio(ceiling.base, rate) - 1) <= TIE
    )


def _where(line: Timeline, kept: Plateau, *, last: bool) -> str:
    if last:
        return (
            f" after {moment(kept.begin_s)}, when the rate had fallen from {line.rate(line.plateaus[0].mean)}"
        )
    return f" in the first {moment(kept.end_s)}, before the rate fell to {line.rate(line.plateaus[1].mean)}"


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
