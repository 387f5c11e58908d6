"""The result of a sweep: latency over load, with peak, knee and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.limits.cost import Cost
from pytest_cloudbench.limits.quantities import Iops, Throughput, figure
from pytest_cloudbench.verdicts.load_curve import KNEE_METHOD, knee_index
from pytest_cloudbench.verdicts.machine_delay import as_modelled
from pytest_cloudbench.verdicts.run import run_of
from pytest_cloudbench.verdicts.verdict import Verdict, judging
from pytest_cloudbench.verdicts.wording import duration
from pytest_cloudbench.workloads.measurement import Latency, Measurement
from pytest_cloudbench.workloads.sweep.mixes import Mix

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import Ceiling
    from pytest_cloudbench.limits.envelope import Envelope
    from pytest_cloudbench.limits.quantities import Rate
    from pytest_cloudbench.verdicts.load_curve import CurveComparison


@dataclass(frozen=True)
class Step:
    """One open-loop run at the rate ``asked``, ``percent`` of the maximum. ``ended`` is the reason for its end."""

    percent: float
    asked: Iops
    measurement: Measurement
    ended: str

    @property
    def achieved(self) -> Iops:
        """The rate that was reached."""
        return Iops(self.measurement.iops)

    @property
    def throughput(self) -> Throughput:
        """The throughput that was reached."""
        return Throughput.from_mib(self.measurement.throughput_mib)

    @property
    def latency(self) -> Latency | None:
        """Mean and percentiles; None if nothing was timed."""
        return self.measurement.latency

    @property
    def outstanding(self) -> float | None:
        """The mean number of I/Os in flight, by Little's law."""
        return self.measurement.outstanding_mean

    def reached(self, within: float | str = 0.05) -> Verdict:
        """Judge whether the requested rate was reached. If not, the verdict names the limit."""
        return self.measurement.reaches(self.asked, within=within)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; keys name the unit."""
        return {
            "percent": self.percent,
            "asked_iops": self.asked.per_second,
            "ended": self.ended,
            "measurement": self.measurement.to_dict(),
        }


@dataclass(frozen=True)
class Knee:
    """The point at which the curve turns upwards, and the method; ``modelled`` if a region modelled the latency."""

    iops: Iops
    latency_s: float
    method: str = KNEE_METHOD
    modelled: bool = False

    def __str__(self) -> str:
        return f"{self.iops} at {duration(self.latency_s)} ({self.method}{', modelled' if self.modelled else ''})"


@dataclass(frozen=True, repr=False)
class Curve:
    """Latency over load of one mix on one target.

    ``maximum`` is the closed-loop run with ``threads`` I/Os in flight on each of ``devices``. ``steps`` are the
    open-loop runs at shares of its rate, in rising order. ``cost`` is what the hardware of the test cost during the
    sweep; None without prices. ``conditions`` list the deviations from the requested sweep.
    ``on_verdict`` is called with every verdict, ``on_comparison`` with both curves of every comparison.
    """

    mix: Mix
    threads: int
    devices: int
    maximum: Measurement
    steps: tuple[Step, ...]
    conditions: tuple[str, ...] = ()
    cost: Cost | Any = None
    on_verdict: Callable[[Verdict], None] | None = field(default=None, compare=False)
    on_comparison: Callable[..., None] | None = field(default=None, compare=False)

    @property
    def peak(self) -> Measurement:
        """The maximum, a measurement like any other: `reaches`, `capped_by` ..."""
        return self.maximum

    @property
    def target(self) -> str:
        """The label of the target."""
        return self.maximum.target

    @property
    def envelope(self) -> Envelope | None:
        """The ceilings of this load; None if unknown."""
        return self.maximum.envelope

    @property
    def points(self) -> tuple[tuple[float, Latency], ...]:
        """Reached IOPS and latency, step by step; the maximum, with the highest latency, comes last."""
        runs = [*(step.measurement for step in self.steps), self.maximum]
        return tuple((run.iops, run.latency) for run in runs if run.latency is not None)

    @cached_property
    def knee(self) -> Knee | None:
        """The point at which the mean latency turns upwards; None if it does not, or for fewer than four points."""
        points = self.points
        index = knee_index([iops for iops, _ in points], [latency.mean_s for _, latency in points])
        if index is None:
            return None
        return Knee(
            Iops(points[index][0]), points[index][1].mean_s, modelled=bool(as_modelled(run_of(self.maximum)))
        )

    @judging
    def stays_below(
        self,
        latency: str,
        *,
        until: float | Rate | Ceiling | str | None = None,
        percentile: float | str | None = None,
        within: float | str = 0.10,
    ) -> Verdict:
        """Judge whether latency stays at or below ``latency`` ("1ms") until the load is ``until`` (IOPS or a rate).

        Judges the mean, or a percentile (50, 95, 99, 99.9). See `verdicts.stays_below`.
        """
        from pytest_cloudbench.verdicts.stays_below import stays_below

        verdict = stays_below(self, latency, until=until, percentile=percentile, within=within)
        if self.on_verdict is not None:
            self.on_verdict(verdict)
        return verdict

    def compare(self, other: Curve, *, percentile: float | str | None = None) -> CurveComparison:
        """Compare both peaks, and both latencies at the same load."""
        from pytest_cloudbench.verdicts.load_curve import compare_curves

        compared = compare_curves(self, other, percentile)
        if self.on_comparison is not None:
            self.on_comparison((self, other))
        return compared

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for reports and JSON; keys name the unit."""
        knee = self.knee
        return {
            "mix": self.mix.to_dict(),
            "target": self.target,
            "threads_per_device": self.threads,
            "devices": self.devices,
            "knee": {"iops": knee.iops.per_second, "latency_s": knee.latency_s, "method": knee.method}
            if knee
            else None,
            "maximum": self.maximum.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "cost": str(self.cost) if self.cost is not None else None,
            "conditions": list(self.conditions),
        }

    def table(self) -> str:
        """Return a table with one line per run."""
        head = ("step", "asked IOPS", "IOPS", "MiB/s", "mean", "p50", "p95", "p99", "p99.9", "in flight")
        rows = [head, _row("maximum", "", self.maximum)]
        rows += [
            _row(f"{figure(step.percent)} %", f"{step.asked.per_second:,.0f}", step.measurement)
            for step in self.steps
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )

    def __str__(self) -> str:
        return f"{self!r}\n{self.table()}"

    def __repr__(self) -> str:
        latency = self.maximum.latency
        at = f" at {duration(latency.mean_s)}{as_modelled(run_of(self.maximum))}" if latency else ""
        knee = f"; knee {self.knee}" if self.knee else ""
        noted = f" ({'; '.join(self.conditions)})" if self.conditions else ""
        return f"sweep {self.mix.name} on {self.target}: peak {self.maximum.iops:,.0f} IOPS{at}{knee}{noted}"


def _row(name: str, asked: str, run: Measurement) -> tuple[str, ...]:
    latency = run.latency
    times = (
        (latency.mean_s, latency.p50_s, latency.p95_s, latency.p99_s, latency.p999_s)
        if latency
        else (None,) * 5
    )
    in_flight = run.outstanding_mean
    return (
        name,
        asked,
        f"{run.iops:,.0f}",
        f"{run.throughput_mib:,.1f}",
        *("-" if time is None else duration(time) for time in times),
        "-" if in_flight is None else figure(in_flight, 0 if in_flight >= 10 else 1),
    )
