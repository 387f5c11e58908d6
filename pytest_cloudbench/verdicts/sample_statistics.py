"""Statistics of a run's samples: steadiness, the share of the time above a floor, the noise of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from statistics import NormalDist, fmean, variance
from typing import Any

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.step_evidence import inflation, innovations, memory_of, without_cubic
from pytest_cloudbench.verdicts.wording import percent, tolerance

FEWEST_FOR_HALVES = 4
FEWEST_FOR_A_SHARE = 5
FEWEST_FOR_NOISE = 5
FEWEST_BATCHES = 5
CONFIDENCE = 0.95
_SHORTEST_LEVEL = 5  # samples
_ENOUGH_SAMPLES = 300  # more than twice as many are averaged a few at a time, which shows the noise as well
_FEWEST_FOR_MEMORY = 10  # samples: fewer do not show how much each resembles the one before
_STRONG = 10.0  # twice the log of a likelihood ratio: "very strong" (Kass and Raftery, Bayes Factors, 1995)
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

    They disagree if their means differ by more than ``within`` of the whole mean and by more than their noise explains.
    The noise may be autocorrelated: each sample may resemble the one before.
    """
    count, means = len(samples), half_means(samples)
    if count < FEWEST_FOR_HALVES:
        return Steadiness(count, *means, steady=None)
    difference = abs(means[0] - means[1])
    drifted = difference > within * fmean(samples) and difference > _noise_of_halves(samples)
    return Steadiness(count, *means, steady=not drifted)


def half_means(samples: Sequence[float]) -> tuple[float, float]:
    """Return the means of both halves of a series; for one too short to have halves, both are the mean of all, or 0."""
    count = len(samples)
    if count < FEWEST_FOR_HALVES:
        mean = fmean(samples) if samples else 0.0
        return mean, mean
    half = count // 2
    return fmean(samples[:half]), fmean(samples[count - half :])


def _noise_of_halves(samples: Sequence[float]) -> float:
    """Return the largest difference between the means of two halves that noise alone explains.

    The noise is what the best of four models leaves: two levels, a line, a cubic, or a step anywhere. The last two also
    fit autocorrelated noise, so they must be far more likely than the others. Fewer than 10 samples count as
    independent of each other.
    """
    together = len(samples) // _ENOUGH_SAMPLES if len(samples) > 2 * _ENOUGH_SAMPLES else 1
    if together > 1:
        samples = [
            fmean(samples[at : at + together]) for at in range(0, len(samples) - together + 1, together)
        ]
    count, rests, spread = len(samples), _rests_of_halves(samples), 1.0
    if count >= _FEWEST_FOR_MEMORY:
        rests = min(rests, _rests_of_line(samples), key=innovations)
        flexible = min(without_cubic(samples), _rests_of_step(samples), key=innovations)
        if innovations(flexible) <= innovations(rests) * math.exp(-_STRONG / count):
            rests = flexible
        spread = inflation(memory_of(rests, levels=2))
    squares = sum(map(mul, rests, rests))
    # Three standard errors for long series, more for few independent samples, whose scatter is only estimated.
    return (3 + 6 * spread / count) * math.sqrt(squares / (count - 2) * spread * 4 / count)


def _rests_of_halves(samples: Sequence[float]) -> list[float]:
    half = len(samples) // 2
    before, after = half_means(samples)
    return [value - before for value in samples[:half]] + [value - after for value in samples[-half:]]


def _rests_of_line(samples: Sequence[float]) -> list[float]:
    middle, mean = (len(samples) - 1) / 2, fmean(samples)
    places = [index - middle for index in range(len(samples))]
    slope = sum(map(mul, places, samples)) / sum(map(mul, places, places))
    return [value - mean - slope * place for value, place in zip(samples, places, strict=True)]


def _rests_of_step(samples: Sequence[float]) -> list[float]:
    """Return the residuals of the best fit of two levels."""
    count, sums = len(samples), [0.0, *accumulate(samples)]
    at = max(
        range(_SHORTEST_LEVEL, count - _SHORTEST_LEVEL + 1),
        key=lambda place: sums[place] ** 2 / place + (sums[-1] - sums[place]) ** 2 / (count - place),
    )
    before, after = sums[at] / at, (sums[-1] - sums[at]) / (count - at)
    return [value - (before if index < at else after) for index, value in enumerate(samples)]


@dataclass(frozen=True)
class TimeShare:
    """The number of samples, those below the floor, and the 95 % interval of the share of the others.

    Seconds below the floor come in clusters, so ``independent`` says how many independent samples would show the share
    as precisely as these, and ``low`` and ``high`` are the interval for that number.
    """

    samples: int
    short: tuple[float, ...]
    independent: float
    low: float
    high: float

    @property
    def good(self) -> int:
        """Samples at or above the floor."""
        return self.samples - len(self.short)

    @property
    def share(self) -> float:
        """The share of samples at or above the floor."""
        return self.good / self.samples

    def consistent(self, required: float) -> bool | None:
        """Return whether the samples allow this share of the time; None if only the interval for clustered samples
        does.
        """
        if wilson_interval(self.good, self.samples)[1] >= required:
            return True
        return None if self.high >= required else False

    def text(self, floor: Rate, required: float) -> str:
        """Return the share in words, with its interval, never rounded across the required share."""
        return (
            f"{percent(self.share, required, 1.0)} of {self.samples:,} one-second samples at or "
            f"above {floor} (95 % interval {percent(self.low, required)} to {percent(self.high, required)})"
        )

    def details(self, required: float) -> dict[str, Any]:
        """Return plain values for a report."""
        return {
            "share": self.share,
            "share_wanted": required,
            "share_interval": [self.low, self.high],
            "samples": self.samples,
            "independent_samples": self.independent,
        }


def time_share(samples: Sequence[float], floor: float) -> TimeShare:
    """Return the share of ``samples`` (at least one) at or above ``floor``."""
    short = tuple(value for value in samples if value < floor)
    independent = independent_samples([value < floor for value in samples])
    low, high = wilson_interval((1 - len(short) / len(samples)) * independent, independent)
    return TimeShare(len(samples), short, independent, low, high)


def independent_samples(flags: Sequence[bool]) -> float:
    """Return how many independent samples would show the share of True as precisely as these (at least one)."""
    share, count = fmean(flags), len(flags)
    if share in (0.0, 1.0) or count < FEWEST_FOR_NOISE:
        return count
    return min(count, max(1.0, share * (1 - share) / noise_of([flags]).error ** 2))


def too_few(samples: Sequence[float], required: float) -> str | None:
    """Return a sentence if a series is too short to judge a share of the time."""
    if len(samples) >= FEWEST_FOR_A_SHARE:
        return None
    return (
        f"{len(samples)} one-second samples are too few to judge a share of {tolerance(required)} of the time, "
        f"at least {FEWEST_FOR_A_SHARE} are needed: lengthen the run"
    )


def wilson_interval(good: float, samples: float) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share of ``good`` among ``samples`` (at least 1), as shares of 1."""
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
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
    """Return the noise of the mean over pieces of a series, each around its own level.

    Two estimates of the standard error account for the correlation of samples, and the larger is used: from the means
    of batches (about the square root of the number of samples), and from the first-order autocorrelation. Raises
    ValueError for fewer than five samples.
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
    by_memory = math.sqrt(
        squares / max(1, count - len(pieces)) / count * inflation(memory_of(rests, levels=len(pieces)))
    )
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
