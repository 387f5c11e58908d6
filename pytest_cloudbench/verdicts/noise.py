"""How well the mean of a noisy series is known, where each sample resembles the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, variance

FEWEST_SAMPLES = 5
FEWEST_BATCHES = 5
METHOD = "the larger of batch means and first-order autocorrelation, Student's t"


@dataclass(frozen=True)
class Noise:
    """The standard error of a mean, and the degrees of freedom with which it is known."""

    error: float
    degrees: float

    def margin(self, confidence: float = 0.95) -> float:
        """Half the width of the mean's two-sided confidence interval."""
        return self.error * student_t(0.5 + confidence / 2, self.degrees)

    def scaled(self, factor: float) -> Noise:
        """The noise of ``factor`` times the mean."""
        return Noise(self.error * abs(factor), self.degrees)

    def combined(self, other: Noise) -> Noise:
        """The noise of the difference of two means (Welch-Satterthwaite)."""
        one, two = self.error**2, other.error**2
        if one + two == 0:
            return Noise(0.0, min(self.degrees, other.degrees))
        degrees = (one + two) ** 2 / (one**2 / self.degrees + two**2 / other.degrees)
        return Noise(math.sqrt(one + two), degrees)


def noise_of(pieces: Sequence[Sequence[float]]) -> Noise:
    """The noise of the mean over pieces of a series, each around its own level; five samples at least.

    The standard error is the larger of two that both count how samples follow each other: of the means of
    batches (about the square root of the samples), and by the samples' first-order autocorrelation.
    """
    levels = [fmean(piece) for piece in pieces]
    rests = [value - level for piece, level in zip(pieces, levels, strict=True) for value in piece]
    count = len(rests)
    if count < FEWEST_SAMPLES:
        raise ValueError(f"{count} samples tell nothing of their noise: at least {FEWEST_SAMPLES} are needed")
    batches = max(FEWEST_BATCHES, math.isqrt(count))
    edges = [number * count // batches for number in range(batches + 1)]
    means = [fmean(rests[low:high]) for low, high in pairwise(edges)]
    by_batches = math.sqrt(variance(means) / batches)
    squares = sum(value * value for value in rests)
    if squares == 0:
        return Noise(0.0, batches - 1)
    memory = sum(one * other for one, other in pairwise(rests)) / squares
    # The estimate is too low in short series; by about this much.
    memory = min(0.98, max(0.0, memory + (1 + 4 * memory) / count))
    spread = squares / max(1, count - len(pieces)) / count
    by_memory = math.sqrt(spread * (1 + memory) / (1 - memory))
    return Noise(max(by_batches, by_memory), batches - 1)


def student_t(probability: float, degrees: float) -> float:
    """Student's quantile, by the expansion around the normal one (Abramowitz and Stegun, 26.7.5).

    Within 1 % from 4 degrees of freedom on, for probabilities up to 0.99.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, 1))
