"""Curves of latency over load: the view that judges use, the knee, and the comparison of two curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Protocol

from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.observation import Observation
from pytest_cloudbench.verdicts.wording import duration, percent

KNEE_METHOD = "Kneedle"
FEWEST_POINTS = 4
_SENSITIVITY = 1.0
PERCENTILES = {50.0: "p50_s", 95.0: "p95_s", 99.0: "p99_s", 99.9: "p999_s"}


class LatencyView(Protocol):
    """Latency of single I/Os in seconds."""

    @property
    def mean_s(self) -> float: ...
    @property
    def p50_s(self) -> float | None: ...
    @property
    def p95_s(self) -> float | None: ...
    @property
    def p99_s(self) -> float | None: ...
    @property
    def p999_s(self) -> float | None: ...


class StepRun(Observation, Protocol):
    """The measurement of one step."""

    @property
    def latency(self) -> LatencyView | None: ...


class StepView(Protocol):
    """One step of a load sweep: an open-loop run at a requested rate."""

    @property
    def percent(self) -> float:
        """The requested rate, in per cent of the maximum found."""

    @property
    def asked(self) -> Iops:
        """The requested rate."""

    @property
    def measurement(self) -> StepRun: ...


class LoadCurve(Protocol):
    """The maximum of a closed loop, and the open-loop steps in the order of their load."""

    @property
    def maximum(self) -> StepRun: ...

    @property
    def steps(self) -> Sequence[StepView]: ...


def checked_percentile(percentile: object) -> float | None:
    """Return a percentile that was measured; None is the mean. Raises ValueError, which lists the known ones."""
    if percentile is None or percentile == "mean":
        return None
    text = percentile.removeprefix("p") if isinstance(percentile, str) else percentile
    try:
        value = float(text)  # type: ignore[arg-type]  # raises if it is not a number
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(percentile, bool) or value not in PERCENTILES:
        known = ", ".join(f"{each:g}" for each in PERCENTILES)
        raise ValueError(f"percentile={percentile!r} is not measured: one of {known}, or None for the mean")
    return value


def latency_at(run: StepRun, percentile: float | None) -> float | None:
    """Return the mean latency of a run in seconds, or a percentile of it; None if unknown."""
    if run.latency is None:
        return None
    if percentile is None:
        return run.latency.mean_s
    value: float | None = getattr(run.latency, PERCENTILES[percentile])
    return value


def latency_name(percentile: float | None) -> str:
    """Return the name of a latency in a sentence: "mean latency", "p99 latency"."""
    return "mean latency" if percentile is None else f"p{percentile:g} latency"


@dataclass(frozen=True)
class SameLoad:
    """The latency of both curves at one rate, in seconds."""

    iops: Iops
    first_s: float
    second_s: float

    @property
    def times(self) -> float:
        """The first latency as a multiple of the second."""
        return self.first_s / self.second_s


@dataclass(frozen=True, repr=False)
class CurveComparison:
    """The first curve compared with the second.

    ``peak_times`` is the first peak as a multiple of the second. ``rows`` hold both latencies at the loads of the
    first curve that both carried; the second's is interpolated linearly between its two nearest steps.
    """

    first_peak: Iops
    second_peak: Iops
    percentile: float | None
    rows: tuple[SameLoad, ...]

    @property
    def peak_times(self) -> float:
        return self.first_peak / self.second_peak

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "first_peak_iops": self.first_peak.per_second,
            "second_peak_iops": self.second_peak.per_second,
            "peak_times": self.peak_times,
            "percentile": self.percentile,
            "same_load": [
                {"iops": row.iops.per_second, "first_s": row.first_s, "second_s": row.second_s}
                for row in self.rows
            ],
        }

    def __repr__(self) -> str:
        head = f"peak {self.first_peak} against {self.second_peak} ({percent(self.peak_times)})"
        if not self.rows:
            return f"{head}; no load that both carried"
        name = latency_name(self.percentile)
        lines = [f"{head}; {name} at the same load:", _in_columns("load", "first", "second", "first/second")]
        lines += [
            _in_columns(
                str(row.iops), duration(row.first_s), duration(row.second_s), f"{row.times:.2f} times"
            )
            for row in self.rows
        ]
        return "\n".join(lines)


def _in_columns(load: str, first: str, second: str, times: str) -> str:
    return f"  {load:>16}  {first:>9}  {second:>9}  {times:>12}"


def compare_curves(
    first: LoadCurve, second: LoadCurve, percentile: float | str | None = None
) -> CurveComparison:
    """Compare two curves by mean latency or a percentile. Raises TypeError if ``second`` is not a curve."""
    if not hasattr(second, "steps") or not hasattr(second, "maximum"):
        raise TypeError(f"compare({second!r}): that is not a curve; pass what another sweep returned")
    chosen = checked_percentile(percentile)
    other = _points(second.steps, chosen)
    rows = [
        SameLoad(Iops(load), mine, theirs)
        for load, mine in _points(first.steps, chosen)
        if (theirs := _between(other, load))
    ]
    return CurveComparison(Iops(first.maximum.iops), Iops(second.maximum.iops), chosen, tuple(rows))


def _points(steps: Sequence[StepView], percentile: float | None) -> list[tuple[float, float]]:
    """Return carried load and latency of steps while the load grows: beyond saturation one load has many latencies."""
    points: list[tuple[float, float]] = []
    for step in steps:
        latency = latency_at(step.measurement, percentile)
        if latency and (not points or step.measurement.iops > points[-1][0]):
            points.append((step.measurement.iops, latency))
    return points


def _between(points: Sequence[tuple[float, float]], load: float) -> float | None:
    for (before, low), (after, high) in pairwise(points):
        if before <= load <= after:
            return low + (high - low) * (load - before) / (after - before)
    return points[0][1] if len(points) == 1 and points[0][0] == load else None


def knee_index(load: Sequence[float], latency: Sequence[float]) -> int | None:
    """Return the index of the knee; None for fewer than four points and for a curve that does not turn upwards.

    The Kneedle method: V. Satopää, J. Albrecht, D. Irwin, B. Raghavan, "Finding a 'Kneedle' in a Haystack: Detecting
    Knee Points in System Behavior", ICDCS Workshops 2011. Both axes are scaled to 0..1. On a convex curve the load
    runs ahead of the latency until the knee, so the knee is the point of the largest lead, if the curve then turns:
    the lead must fall by more than one mean step of the load (a sensitivity of 1) before another lead is as large.

    The points keep the order of the requested load: past saturation the load served no longer grows, and the curve goes
    straight up. The points are too few for the smoothing with which the method begins on long noisy series.

    ``load`` and ``latency`` may be in any units. Raises ValueError if their lengths differ.
    """
    if len(load) != len(latency):
        raise ValueError(f"{len(load)} loads and {len(latency)} latencies do not belong together")
    if len(load) < FEWEST_POINTS:
        return None
    across, up = _scaled(load), _scaled(latency)
    if across is None or up is None:
        return None
    lead = [x - y for x, y in zip(across, up, strict=True)]
    threshold = _SENSITIVITY * fmean(abs(after - before) for before, after in pairwise(across))
    candidate: int | None = None
    for index in range(1, len(lead)):
        if candidate is None or lead[index] > lead[candidate]:
            candidate = index
        elif lead[index] < lead[candidate] - threshold and lead[candidate] > 0:
            return candidate
    return None


def _scaled(values: Sequence[float]) -> list[float] | None:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) for value in values] if high > low else None
