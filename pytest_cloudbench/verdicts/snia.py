"""SNIA's steady state: five rounds whose rates differ little and show no trend.

Source: SNIA, Solid State Storage Performance Test Specification 2.0, "steady state": over a window of five rounds the
largest less the smallest rate is at most 20 % of their mean, and the best straight line through them rises or falls by
at most 10 % of it. A round there is a test of one minute, and the window is that of the last five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

ROUNDS = 5
ROUND_S = 60.0
MOST_RANGE = 0.20
MOST_SLOPE = 0.10


@dataclass(frozen=True)
class Window:
    """Five rounds of ``round_samples`` samples each: their means, and their range and slope as shares of the mean.

    Both are infinite, and the rounds not steady, if nothing was transferred in them.
    """

    rounds: tuple[float, ...]
    round_samples: int

    @property
    def mean(self) -> float:
        """The mean of the rounds."""
        return fmean(self.rounds)

    @property
    def range(self) -> float:
        """The largest less the smallest mean of a round."""
        return (max(self.rounds) - min(self.rounds)) / self.mean if self.mean else math.inf

    @property
    def slope(self) -> float:
        """How far the best straight line rises (above 0) or falls from the first round to the last."""
        if not self.mean:
            return math.inf
        middle = (ROUNDS - 1) / 2
        places = [number - middle for number in range(ROUNDS)]
        per_round = sum(place * value for place, value in zip(places, self.rounds, strict=True))
        per_round /= sum(place * place for place in places)
        return per_round * (ROUNDS - 1) / self.mean

    @property
    def steady(self) -> bool:
        """True if both lie within SNIA's limits."""
        return self.range <= MOST_RANGE and abs(self.slope) <= MOST_SLOPE


def last_window(samples: Sequence[float], sample_s: float) -> Window:
    """Return the last five rounds of a series of at least five samples, each of ``sample_s`` seconds.

    A round lasts a minute; in a run of less than five minutes it is a fifth of the run.
    """
    each = max(1, min(round(ROUND_S / sample_s), len(samples) // ROUNDS))
    first = len(samples) - ROUNDS * each
    return Window(
        tuple(fmean(samples[first + number * each :][:each]) for number in range(ROUNDS)), round_samples=each
    )
