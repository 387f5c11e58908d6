"""`scales_linearly`: did n times as many yield n times the rate, and which limit held the first run that falls off?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_cloudbench.limits.ceilings import INSTANCE, VOLUME
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, plain
from pytest_cloudbench.verdicts.attribution import other_limit, why_below
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_within, ratio
from pytest_cloudbench.verdicts.verdict import Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import around, listed, percent, tolerance

_SAME = 0.01


@dataclass(frozen=True)
class _Point:
    """One run, its count, its rate, and the rate that a straight line through the first run expects."""

    run: Run
    count: int
    rate: Rate
    expected: Rate

    @property
    def share(self) -> float:
        return ratio(self.rate, self.expected)


def scales_linearly(
    measurements: Sequence[AnyObservation], *, with_: Sequence[int], within: float | str = 0.05
) -> Verdict:
    """Judge whether the rate of ``measurements`` grew in proportion to ``with_``, such as the volumes of each.

    ``scales_linearly([one, two, five], with_=[1, 2, 5])``. The run with the lowest count sets the line: each other run
    must lie within ``within`` of its rate times the ratio of the counts. The sentence names the first run that falls
    below and the limit that held it; if that is a limit of the instance, or of an end of a network, more would not
    help. A rate above the line is violated too: a cache served it, or the first run was held back. Inconclusive if the
    load, its generator or the machine under an embedded region limited the first run or the one that fell off.

    Rates are IOPS if all runs have one block size, else throughput, and Gbit/s for networks. Raises TypeError for
    objects that are not measurements and for runs of two kinds, ValueError for counts that do not fit them.
    """
    tolerated = checked_within(within)
    points = _points(measurements, with_)
    first = points[0]
    counts = listed(f"{point.count:,}" for point in points)
    noun = _noun(points)
    of_what = f" {noun}" if noun else ""
    promise = f"scales linearly with {counts}{of_what} within {tolerance(tolerated)}"
    details: dict[str, Any] = {
        "with": [point.count for point in points],
        "rates": [plain(point.rate) for point in points],
        "wanted": [plain(point.expected) for point in points],
        "quantity": "IOPS" if isinstance(first.rate, Iops) else "bytes per second",
        "within": tolerated,
        "runs": [
            details_of(
                point.run,
                measured=point.rate,
                within=tolerated,
                asked=point.expected,
                line=point.run.timeline(point.rate),
            )
            for point in points
        ],
    }

    def draft(point: _Point) -> Draft:
        return Draft(promise, point.expected, point.rate, details)

    for point in points:
        if wrong := unusable(point.run, point.rate):
            return draft(point).inconclusive(wrong, f"with {point.count:,}: ")
    if limit := other_limit(first.run, first.rate):
        text = f"with {first.count:,}: {first.rate}, but {limit.text}, so it sets no line"
        return draft(first).inconclusive(replace(limit, text=text))
    for point in points[1:]:
        figures = f"with {point.count:,}: {around(point.rate, point.expected, tolerated)}"
        beside = f"{first.rate} with {first.count:,}"
        if point.share > (1 + tolerated) * (1 + ROUNDING):
            text = f"{figures}, above the line from {beside}: look for a cache, or for what held back the first run"
            return draft(point).verdict(Outcome.VIOLATED, text)
        if point.share < (1 - tolerated) * (1 - ROUNDING):
            line = point.run.timeline(point.rate)
            reason = why_below(point.run, point.rate, line.values, point.expected, within=tolerated)
            no_help = _no_help(reason.bound_by, noun)
            text = f"{figures}, off the line from {beside}; {reason.text}{no_help}"
            return draft(point).of(replace(reason, text=text))
    each = listed(f"{point.rate} with {point.count:,}" for point in points)
    worst = max(abs(point.share - 1) for point in points[1:])
    figures = f"at most {percent(worst, tolerated)} off a line, {tolerance(tolerated)} allowed"
    text = f"{each}{of_what} ({figures})"
    return draft(points[-1]).verdict(Outcome.HELD, text)


def _no_help(bound_by: Sequence[Any], noun: str) -> str:
    shared = [ceiling for ceiling in bound_by if ceiling.scope == INSTANCE]
    if not shared or any(ceiling.scope == VOLUME for ceiling in bound_by):
        return ""
    return f": more {noun} would not help" if noun else ": more of them would not help"


def _noun(points: Sequence[_Point]) -> str:
    """Return what is counted, if the runs' own limits show it: volumes whose sum grows with the counts, or streams."""
    first, *others = points
    if first.run.streams:
        each = [len(point.run.streams) for point in points]
        return "streams" if each == [point.count for point in points] else ""
    sums = [_volumes_allow(point) for point in points]
    if sums[0] is None:
        return ""
    for point, allowed in zip(others, sums[1:], strict=True):
        if allowed is None or abs(allowed / sums[0] / (point.count / first.count) - 1) > _SAME:
            return ""
    return "volumes"


def _volumes_allow(point: _Point) -> float | None:
    found = [one for one in point.run.envelope.ceilings if one.scope == VOLUME and one.of_iops]
    return plain(found[0].limit) if found else None


def _points(measurements: Sequence[AnyObservation], with_: Sequence[int]) -> list[_Point]:
    if not isinstance(measurements, Iterable) or isinstance(measurements, str):
        raise TypeError(f"scales_linearly({measurements!r}): pass a list of runs, such as [one, two]")
    if not isinstance(with_, Iterable) or isinstance(with_, str):
        raise TypeError(f"with_={with_!r}: give a count for each measurement, such as with_=[1, 2]")
    runs, counts = list(measurements), list(with_)
    for run in runs:
        if isinstance(run, (str, int, float)) or not hasattr(run, "series"):
            raise TypeError(f"scales_linearly({run!r}): that is not a measurement; pass a list of runs")
    if len(runs) != len(counts):
        raise ValueError(
            f"scales_linearly got {len(runs)} measurements and with_={counts}: a count for each of them is needed"
        )
    if len(runs) < 2:
        raise ValueError("scales_linearly needs at least two measurements: one is always on a line")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"with_={counts}: {count!r} is not a count, a whole number from 1 up")
    if len(set(counts)) != len(counts):
        raise ValueError(f"with_={counts}: each count may occur once; compare like runs with resembles")
    ordered = sorted(zip(counts, map(run_of, runs), strict=True), key=lambda pair: pair[0])
    least, base = ordered[0]
    if len({run.kind for _, run in ordered}) > 1:
        raise TypeError("scales_linearly: runs over a network and on storage have no common rate")
    like = base.rate if len({run.block_size for _, run in ordered}) == 1 else Throughput(0)
    first = base.rate_like(like)
    return [_Point(run, count, run.rate_like(like), first * (count / least)) for count, run in ordered]
