"""Statistics of a run's samples: steadiness, the share of the time above a floor, the noise of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, pvariance, variance
from typing import Any

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.wording import percent, tolerance

FEWEST_FOR_HALVES = 4
FEWEST_FOR_A_SHARE = 5
FEWEST_FOR_NOISE = 5
FEWEST_BATCHES = 5
CONFIDENCE = 0.95
NOISE_METHOD = "the larger of batch means and first-order autocorrelation, Student's t"


@dataclass(frozen=True)
class Steadiness:
    """The means of both halves (I/Os or bytes per second) and whether they agree.

    ``steady`` is None if the series is too short to decide.
    """

    samples: int
    first_half: float
    second_half: float
    steady: bool | None


def steadiness(samples: Sequence[float], within: float) -> Steadiness:
    """Compare the two halves of a series.

    They disagree if their means differ by more than ``within`` of the whole mean and by more than the scatter of the
    samples explains, so that noise alone is not called a drift.
    """
    count = len(samples)
    if count < FEWEST_FOR_HALVES:
        mean = fmean(samples) if samples else 0.0
        return Steadiness(count, mean, mean, None)
    half = count // 2
    first, second = samples[:half], samples[count - half :]
    means = fmean(first), fmean(second)
    error = math.sqrt(pvariance(first) / (half - 1) + pvariance(second) / (half - 1))
    # Three standard errors for long series, more for short ones, whose scatter is only estimated.
    noise = (3 + 6 / count) * error
    difference = abs(means[0] - means[1])
    drifted = difference > within * fmean(samples) and difference > noise
    return Steadiness(count, means[0], means[1], not drifted)


@dataclass(frozen=True)
class TimeShare:
    """The number of samples, those below the floor, and the interval of the share of the others."""

    samples: int
    short: tuple[float, ...]
    low: float
    high: float

    @property
    def good(self) -> int:
        """Samples at or above the floor."""
        return self.samples - len(self.short)

    def text(self, floor: Rate, required: float) -> str:
        """Return the share in words, with its interval, never rounded across the required share."""
        return (
            f"{percent(self.good / self.samples, required, 1.0)} of {self.samples:,} one-second samples at or "
            f"above {floor} (95 % interval {percent(self.low, required)} to {percent(self.high, required)})"
        )

    def details(self, required: float) -> dict[str, Any]:
        """Return plain values for a report."""
        return {
            "share": self.good / self.samples,
            "share_wanted": required,
            "share_interval": [self.low, self.high],
            "samples": self.samples,
        }


def time_share(samples: Sequence[float], floor: float) -> TimeShare:
    """Return which share of ``samples`` (at least one) lies at or above ``floor``."""
    short = tuple(value for value in samples if value < floor)
    low, high = wilson_interval(len(samples) - len(short), len(samples))
    return TimeShare(len(samples), short, low, high)


def too_few(samples: Sequence[float], required: float) -> str | None:
    """Return a sentence if a series is too short to judge a share of the time."""
    if len(samples) >= FEWEST_FOR_A_SHARE:
        return None
    return (
        f"{len(samples)} one-second samples are too few to judge a share of {tolerance(required)} of the time, "
        f"at least {FEWEST_FOR_A_SHARE} are needed: lengthen the run"
    )


def wilson_interval(good: int, samples: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a share of ``good`` among ``samples`` (at least 1), as shares of 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = good / samples, z * z / samples
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / samples + spread / (4 * samples)) / (1 + spread)
    return (0.0 if good == 0 else max(0.0, centre - half)), (
        1.0 if good == samples else min(1.0, centre + half)
    )


@dataclass(frozen=True)
class Noise:
    """The standard error of a mean, and the degrees of freedom with which it is known."""

    error: float
    degrees: float

    def margin(self, confidence: float = 0.95) -> float:
        """Return half the width of the mean's two-sided confidence interval."""
        return self.error * student_t(0.5 + confidence / 2, self.degrees)

    def scaled(self, factor: float) -> Noise:
        """Return the noise of ``factor`` times the mean."""
        return Noise(self.error * abs(factor), self.degrees)

    def combined(self, other: Noise) -> Noise:
        """Return the noise of the difference of two means (Welch-Satterthwaite)."""
        one, two = self.error**2, other.error**2
        if one + two == 0:
            return Noise(0.0, min(self.degrees, other.degrees))
        degrees = (one + two) ** 2 / (one**2 / self.degrees + two**2 / other.degrees)
        return Noise(math.sqrt(one + two), degrees)


def noise_of(pieces: Sequence[Sequence[float]]) -> Noise:
    """Return the noise of the mean over pieces of a series, each around its own level. Needs five samples.

    Two estimates of the standard error account for the correlation of samples, and the larger is used: from the means
    of batches (about the square root of the samples), and from the first-order autocorrelation.
    """
    levels = [fmean(piece) for piece in pieces]
    rests = [value - level for piece, level in zip(pieces, levels, strict=True) for value in piece]
    count = len(rests)
    if count < FEWEST_FOR_NOISE:
        raise ValueError(
            f"{count} samples are too few to estimate their noise: at least {FEWEST_FOR_NOISE} are needed"
        )
    batches = max(FEWEST_BATCHES, math.isqrt(count))
    edges = [number * count // batches for number in range(batches + 1)]
    means = [fmean(rests[low:high]) for low, high in pairwise(edges)]
    by_batches = math.sqrt(variance(means) / batches)
    squares = sum(value * value for value in rests)
    if squares == 0:
        return Noise(0.0, batches - 1)
    memory = sum(one * other for one, other in pairwise(rests)) / squares
    # In short series the estimate is too low by about this much.
    memory = min(0.98, max(0.0, memory + (1 + 4 * memory) / count))
    spread = squares / max(1, count - len(pieces)) / count
    by_memory = math.sqrt(spread * (1 + memory) / (1 - memory))
    return Noise(max(by_batches, by_memory), batches - 1)


def student_t(probability: float, degrees: float) -> float:
    """Return Student's quantile, by the expansion around the normal one (Abramowitz and Stegun, 26.7.5).

    Within 1 % from 4 degrees of freedom, for probabilities up to 0.99.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, 1))
