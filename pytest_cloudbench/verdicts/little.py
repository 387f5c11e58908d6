"""Is a measurement consistent with itself? Outstanding I/O against IOPS times mean latency, by Little's law.

The mean number in flight is the rate of completions times the mean time each takes (J. D. C. Little, "A Proof for the
Queuing Formula L = λW", Operations Research 9, 1961), whatever the device does. So a load that keeps a known number of
I/Os in flight checks its own figures: if they are far apart, one of the three is wrong, or the load was not the
requested one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import Iops, figure
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.verdict import Doubt
from pytest_cloudbench.verdicts.wording import duration, percent

FAR = 0.10
"""Figures that differ by more than this share contradict each other; published pairs all lie within 0.05."""


@dataclass(frozen=True)
class InFlight:
    """I/Os in flight: how many were ``asked``, how many Little's law finds, and the plausible range.

    ``low`` is 0 for a load that by design does not keep all of them in flight.
    """

    asked: int
    iops: float
    latency_mean_s: float
    low: float
    high: float

    @classmethod
    def of(
        cls,
        asked: int,
        iops: float,
        latency_mean_s: float,
        *,
        latency_max_s: float = 0.0,
        runtime_s: float = math.inf,
        busy: float = 0.0,
        kept: bool = True,
    ) -> InFlight:
        """Judge the figures of a load.

        The range allows for two effects besides `FAR`. I/Os in flight when the measurement begins and ends are
        counted in one figure and not in the other: this is one mean latency as a share of ``runtime_s``, or up to the
        longest latency if a stall delayed those at the beginning. And while a job of the generator itself uses the CPU,
        for the share ``busy`` of its time, its slots may be empty. ``kept`` says whether the load keeps as many in
        flight as it can at all times.
        """
        edges, held_up = (
            min(1.0, latency_s / runtime_s) if runtime_s > 0 else 1.0
            for latency_s in (latency_mean_s, max(latency_mean_s, latency_max_s))
        )
        lowest = max(0.0, 1 - FAR - edges - busy) if kept else 0.0
        return cls(asked, iops, latency_mean_s, asked * lowest, asked * (1 + FAR + held_up))

    @property
    def found(self) -> float:
        """I/Os in flight by Little's law."""
        return self.iops * self.latency_mean_s

    @property
    def consistent(self) -> bool:
        """True if the number found lies within the plausible range."""
        return self.low <= self.found <= self.high

    @property
    def text(self) -> str:
        """The figures: "3,808 I/Os in flight by Little's law (64,047 IOPS x 59.5 ms) of 3,840 asked (99.2 %)"."""
        share = percent(self.found / self.asked, self.low / self.asked, self.high / self.asked)
        least = figure(self.found, 0 if self.found >= 10 else 1)
        law = f"{figure(self.iops, 0)} IOPS x {duration(self.latency_mean_s)}"
        return f"{least} I/Os in flight by Little's law ({law}) of {self.asked:,} asked ({share})"


def in_flight(run: Run) -> InFlight | None:
    """Return the check of a run; None if its latency or its I/Os in flight are unknown."""
    latency, iops, asked = run.latency_mean_s, run.rates.iops.per_second, run.outstanding_asked
    known = math.isfinite(latency) and latency > 0
    if not known or asked is None or asked < 1 or not (math.isfinite(iops) and iops > 0):
        return None
    load, kept = run.generator, run.keeps_outstanding
    return InFlight.of(
        asked,
        iops,
        latency,
        latency_max_s=run.latency_max_s,
        runtime_s=run.runtime_s / run.time_compression,
        busy=min(1.0, load.cpu_percent_busiest / 100) if load is not None else 0.0,
        kept=(run.job_limit is None) if kept is None else kept,
    )


def inconsistent(run: Run) -> Doubt | None:
    """Return what is wrong if the figures of a run contradict each other; else None.

    Too few I/Os in flight on an embedded region, at a rate that no promised ceiling explains, mean that the load's own
    processes waited for the machine: a process that waits has no I/O in flight.
    """
    found = in_flight(run)
    if found is None or found.consistent:
        return None
    beginning = f"the measurement contradicts itself: {found.text}"
    if found.found > found.high:
        return Doubt(f"{beginning}, more than there can be: no verdict can rest on it")
    few = f"{beginning}, far fewer than the load keeps"
    if run.on_region and not _held_by_a_promise(run):
        return Doubt(
            f"{few}: its processes had to wait for {MACHINE_OWNER}, no verdict can rest on it",
            machine_limited=True,
        )
    return Doubt(f"{few}: no verdict can rest on it")


def _held_by_a_promise(run: Run) -> bool:
    """Return True if a promised ceiling explains the rate of a run or of a plateau: a mean over a fall matches none."""
    if run.bounds(run.rates):
        return True
    line, counters = run.timeline(Iops(0)), run.counters
    for plateau in line.plateaus:
        real_s = (plateau.end_s - plateau.begin_s) / line.time_compression
        counted = counters.during(real_s) if counters is not None else None
        if replace(run, counters=counted).bounds(run.rates_of(line.rate(plateau.mean))):
            return True
    return False
