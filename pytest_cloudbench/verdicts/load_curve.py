"""A curve of latency over load, as the judges see it: structural, any object with these attributes will do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.observation import Observation

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
    """One step of a load sweep: an open-loop run at a rate asked for."""

    @property
    def percent(self) -> float:
        """The rate asked for, in per cent of the maximum found."""

    @property
    def asked(self) -> Iops:
        """The rate asked for."""

    @property
    def measurement(self) -> StepRun: ...


class LoadCurve(Protocol):
    """The maximum that a closed loop found, and the open-loop steps, in the order of what was asked."""

    @property
    def maximum(self) -> StepRun: ...

    @property
    def steps(self) -> Sequence[StepView]: ...


def checked_percentile(percentile: object) -> float | None:
    """A percentile that the measurements have; None is the mean. Raises ValueError naming those there are."""
    if percentile is None or percentile == "mean":
        return None
    text = percentile.removeprefix("p") if isinstance(percentile, str) else percentile
    try:
        value = float(text)  # type: ignore[arg-type]  # what cannot be one raises
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(percentile, bool) or value not in PERCENTILES:
        known = ", ".join(f"{each:g}" for each in PERCENTILES)
        raise ValueError(f"percentile={percentile!r} is not measured: one of {known}, or None for the mean")
    return value


def latency_at(run: StepRun, percentile: float | None) -> float | None:
    """The mean latency of a run in seconds, or a percentile of it; None where it is not known."""
    if run.latency is None:
        return None
    if percentile is None:
        return run.latency.mean_s
    value: float | None = getattr(run.latency, PERCENTILES[percentile])
    return value


def latency_name(percentile: float | None) -> str:
    """In a sentence: "mean latency", "p99 latency"."""
    return "mean latency" if percentile is None else f"p{percentile:g} latency"
