"""Do a run's seconds lie where a limit would hold them? A mean at a limit alone does not show that.

A limit with more demand than it serves yields the same every second. A rate that alternates around it, drifts through
it or exceeds it for whole seconds was not held by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import Rate, plain
from pytest_cloudbench.verdicts.machine_delay import machine_disturbed
from pytest_cloudbench.verdicts.run_view import FAR_ABOVE, NEAR, Run, most_far_above
from pytest_cloudbench.verdicts.sample_statistics import FEWEST_FOR_HALVES, steadiness
from pytest_cloudbench.verdicts.verdict import Doubt
from pytest_cloudbench.verdicts.wording import percent, tolerance

FEWEST_NEAR = 1 / 3
"""At least this share of the seconds lies within `NEAR` of a limit that held them: with noise of 9 %, 42 % do."""


@dataclass(frozen=True)
class Spread:
    """How many of ``samples`` seconds lie near a limit, and how many far above it."""

    samples: int
    near: int
    above: int

    @property
    def at_a_limit(self) -> bool:
        """True if a limit may have held these seconds."""
        return self.above <= most_far_above(self.samples) and self.near >= FEWEST_NEAR * self.samples

    @property
    def text(self) -> str:
        """Why no limit held these seconds, in words."""
        near, above = percent(self.near / self.samples), percent(self.above / self.samples)
        return (
            f"no limit yields such seconds: {near} of {self.samples:,} lie within {tolerance(NEAR)} of it, {above} are "
            f"more than {tolerance(FAR_ABOVE)} above"
        )


def spread_at(run: Run, level: Rate) -> Spread | None:
    """Return how a run's seconds lie around a limit; None if they are too few to tell.

    Seconds between the mean and the limit count as near too: stalls and headers lower the whole run.
    """
    values = run.samples(level)
    if len(values) < FEWEST_FOR_HALVES:
        return None
    low, high = sorted((fmean(values), plain(level)))
    near = sum(low * (1 - NEAR) <= value <= high * (1 + NEAR) for value in values)
    above = sum(value > high * (1 + FAR_ABOVE) for value in values)
    return Spread(len(values), near, above)


def drift(run: Run, like: Rate, within: float) -> str | None:
    """Return a sentence if the rate moved during the run."""
    found = steadiness(run.samples(like), within)
    if found.steady is not False:
        return None
    first, second = type(like)(found.first_half), type(like)(found.second_half)
    return f"the rate was not steady: {first} in the first half, {second} in the second"


def not_a_plateau(run: Run, level: Rate, within: float) -> Doubt | None:
    """Return why a run does not show a plateau at ``level``: too few seconds, a drift, or too much scatter."""
    samples = len(run.samples(level))
    if samples < FEWEST_FOR_HALVES:
        few = f"{samples} one-second samples are too few to see a plateau, at least {FEWEST_FOR_HALVES} are needed"
        lasted_s = run.runtime_s / run.time_compression
        if run.kind == "storage" and run.on_region and lasted_s >= FEWEST_FOR_HALVES + 1:
            return Doubt(
                f"{few}: {MACHINE_OWNER} was too busy to take more in {lasted_s:.0f} s", machine_limited=True
            )
        return Doubt(f"{few}: {run.needs_longer}")
    if moved := drift(run, level, within):
        return Doubt(moved)
    spread = spread_at(run, level)
    if spread is None or spread.at_a_limit:
        return None
    return Doubt(spread.text, machine_limited=machine_disturbed(run))
