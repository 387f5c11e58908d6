"""The figure by which runs are compared: the rate, or the mean latency if the job set and kept its rate each time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import plain
from pytest_cloudbench.verdicts.attribution import other_limit
from pytest_cloudbench.verdicts.machine_delay import (
    machine_share,
    machine_text,
    not_modelled,
    rate_on_time,
    waited_without_need,
)
from pytest_cloudbench.verdicts.run_to_run import USUAL_LATENCY_NOISE, usual_noise
from pytest_cloudbench.verdicts.run_view import NEAR, Run
from pytest_cloudbench.verdicts.sample_statistics import FEWEST_FOR_NOISE, Noise, noise_of
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.verdict import Doubt
from pytest_cloudbench.verdicts.wording import duration


class ByRate:
    """Runs are compared by their mean rate. Logarithms (`gain`) are larger for a better run."""

    sign = 1
    what = ""
    worse = "less"

    def figure(self, run: Run) -> float:
        """Return what is compared, as a plain number."""
        return plain(run.rate)

    def gain(self, run: Run) -> float:
        """Return the logarithm of the figure, larger for a better run."""
        return self.sign * math.log(self.figure(run))

    def least_gain(self, allowed: float) -> float:
        """Return the lowest gain allowed, a negative logarithm; ``allowed`` is a share of 1."""
        return math.log1p(-allowed)

    def shown(self, run: Run, figure: float) -> str:
        """Return a figure of a run with its unit."""
        return str(run.shown(run.rate * (figure / plain(run.rate))))

    def usual_noise(self, run: Run) -> float:
        """Return the standard deviation from run to run, as a share."""
        return usual_noise(on_region=run.on_region)

    def noise_within(self, run: Run) -> Noise | None:
        """Return the noise of the mean as a share of it; None if the series is too short to show it."""
        line = run.timeline(run.rate)
        if len(line.values) < FEWEST_FOR_NOISE:
            return None
        return noise_of([plateau.values for plateau in line.plateaus]).scaled(1 / plain(run.rate))

    def excuse(self, run: Run, beyond: float) -> Doubt | None:
        """Return what besides the target may have made a run worse; None if nothing did.

        ``beyond`` is how far its gain lies below what is allowed, as a negative number.
        """
        return other_limit(run, run.rate) or _delayed_by_machine(run, beyond)


class ByLatency(ByRate):
    """Runs at a set rate are compared by mean latency, without the delay that an embedded region's machine added."""

    sign = -1
    what = "mean latency "
    worse = "more"

    def figure(self, run: Run) -> float:
        """Return the mean latency in seconds."""
        return run.latency_mean_s * (1 - (machine_share(run) or 0.0))

    def least_gain(self, allowed: float) -> float:
        """Return the lowest gain allowed, for a latency longer by the share ``allowed``: a negative logarithm."""
        return -math.log1p(allowed)

    def shown(self, run: Run, figure: float) -> str:
        """Return a latency with its unit."""
        return duration(figure)

    def usual_noise(self, run: Run) -> float:
        """Return the standard deviation from run to run, as a share."""
        return USUAL_LATENCY_NOISE

    def noise_within(self, run: Run) -> Noise | None:
        """Return None: the usual noise from run to run is larger."""
        return None

    def excuse(self, run: Run, beyond: float) -> Doubt | None:
        """Return a generator without CPU time left, or the machine under a region if it made I/Os come in bursts."""
        if waited_without_need(run) is not None:
            return Doubt(f"{machine_text(run)} was the limit", machine_limited=True)
        if not run.bounds(run.rates) and (busy := run.saturated()):
            return Doubt(f"the load generator was the limit: {busy}", machine_limited=run.on_region)
        return None


def compared_by(runs: Sequence[Run]) -> ByRate:
    """Return what to compare runs by: a rate that the job set and kept each time says nothing about the target."""
    return ByLatency() if all(kept_own_limit(run) and _has_latency(run) for run in runs) else ByRate()


def kept_own_limit(run: Run) -> bool:
    """Return True if a job kept the rate that it set itself."""
    own = run.own_limit(run.rate)
    return own is not None and plain(run.rate) >= plain(own) * (1 - NEAR)


def _has_latency(run: Run) -> bool:
    return 0 < ByLatency().figure(run) < math.inf and not not_modelled(run)


def _delayed_by_machine(run: Run, beyond: float) -> Doubt | None:
    """Return the machine under an embedded region if a run is not worse without the delay that it added."""
    share, on_time = machine_share(run) or 0.0, rate_on_time(run)
    if share >= 1 or beyond - math.log1p(-share) > 0:
        return Doubt(f"{machine_text(run)} was the limit", machine_limited=True)
    if on_time is not None:
        served = run.rates_of(on_time).like(run.rate)
        if beyond + math.log(ratio(served, run.rate)) > 0:
            return Doubt(
                f"{MACHINE_OWNER} was the limit ({served} if it had been on time)", machine_limited=True
            )
    return None
