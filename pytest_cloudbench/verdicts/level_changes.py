"""Where the rate changed in a series of runs, found by the two steps of Apache Otava.

Split: the runs are divided where both sides differ most, again and again, while a t-test finds a difference. Merge: the
weakest division is removed until all differ clearly (Fleming et al., Hunter, https://doi.org/10.1145/3578244.3583719).
The usual noise of runs counts as two more runs, as in `not_worse_than`, so that few equal runs prove nothing. Otava's
own package depends on database and chat clients, which are not needed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from pytest_cloudbench.verdicts.run_to_run import noise_of_runs

SIGNIFICANT = 0.0005
"""Greatest probability that a change between two sides is chance.

Half of Otava's default, so that a change is found in fewer than 5 % of histories of 60 runs without one.
"""
_FIRST_STEP = 10 * SIGNIFICANT


@dataclass(frozen=True)
class LevelChange:
    """A change between two runs: the index of the first run after it, and the rate before and after it."""

    index: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """The change of the rate, as a share of the rate before."""
        return self.after / self.before - 1


def level_changes(rates: Sequence[float], *, usual_noise: float) -> list[LevelChange]:
    """Return the changes between runs, in order. ``usual_noise`` is a share of the rate. Rates must be above zero."""
    logs = [math.log(rate) for rate in rates]
    edges = [0, len(logs)]
    while True:
        candidates = [_best_split(logs, low, high) for low, high in pairwise(edges) if high - low > 1]
        found = [
            (chance, at)
            for low, at, high in candidates
            if (chance := _chance(logs[low:at], logs[at:high], usual_noise)) < _FIRST_STEP
        ]
        if not found:
            break
        edges = sorted([*edges, *(at for _, at in found)])
    while len(edges) > 2:
        chances = [
            (_chance(logs[edges[n - 1] : edges[n]], logs[edges[n] : edges[n + 1]], usual_noise), edges[n])
            for n in range(1, len(edges) - 1)
        ]
        weakest, at = max(chances)
        if weakest < SIGNIFICANT:
            break
        edges.remove(at)
    levels = [math.exp(fmean(logs[low:high])) for low, high in pairwise(edges)] if logs else []
    return [
        LevelChange(at, before, after)
        for at, before, after in zip(edges[1:-1], levels, levels[1:], strict=False)
    ]


def _best_split(values: Sequence[float], low: int, high: int) -> tuple[int, int, int]:
    """Return where to divide values[low:high] so that the sum of squares around both means is smallest."""
    total = sum(values[low:high])
    best, best_at, before = -math.inf, low + 1, 0.0
    for at in range(low + 1, high):
        before += values[at - 1]
        apart = before**2 / (at - low) + (total - before) ** 2 / (high - at)
        if apart > best:
            best, best_at = apart, at
    return low, best_at, high


def _chance(one: Sequence[float], other: Sequence[float], usual: float) -> float:
    """Return the probability that both sides have one level, by Student's t-test (usual noise: two more runs)."""
    noise = noise_of_runs((one, other), usual)
    error = noise.error * math.sqrt(1 / len(one) + 1 / len(other))
    return two_sided(abs(fmean(one) - fmean(other)) / error, round(noise.degrees))


def two_sided(t: float, degrees: int) -> float:
    """Return the probability beyond +-t of Student's distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    square = math.cos(angle) ** 2
    term, total = 1.0, 0.0
    if degrees % 2 == 0:
        for k in range(degrees // 2):
            total += term
            term *= square * (2 * k + 1) / (2 * k + 2)
        within = math.sin(angle) * total
    else:
        for k in range((degrees - 1) // 2):
            total += term
            term *= square * (2 * k + 2) / (2 * k + 3)
        within = 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total)
    return max(0.0, 1 - within)
