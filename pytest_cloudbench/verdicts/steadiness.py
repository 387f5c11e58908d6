"""Whether a rate was steady: the two halves of its one-second series, and the series made fit to judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

FEWEST_SAMPLES = 4
SHORT_INTERVAL = 0.9


@dataclass(frozen=True)
class Steadiness:
    """The means of both halves (I/Os or bytes per second) and whether they agree.

    ``steady`` is None when the series is too short to say.
    """

    samples: int
    first_half: float
    second_half: float
    steady: bool | None


def steadiness(samples: Sequence[float], within: float) -> Steadiness:
    """Compare the two halves of a series.

    They disagree when their means differ by more than ``within`` of the whole mean and by more than
    the scatter of the samples explains, so that noise alone is not called a drift.
    """
    count = len(samples)
    if count < FEWEST_SAMPLES:
        mean = fmean(samples) if samples else 0.0
        return Steadiness(count, mean, mean, None)
    half = count // 2
    first, second = samples[:half], samples[count - half :]
    means = fmean(first), fmean(second)
    error = math.sqrt(pvariance(first) / (half - 1) + pvariance(second) / (half - 1))
    # Three standard errors for long series, more for short ones, where the scatter itself is guessed.
    noise = (3 + 6 / count) * error
    difference = abs(means[0] - means[1])
    drifted = difference > within * fmean(samples) and difference > noise
    return Steadiness(count, means[0], means[1], not drifted)
