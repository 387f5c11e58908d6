"""The share of the time for which a rate was reached, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.wording import percent, tolerance

FEWEST_SAMPLES = 5
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TimeShare:
    """How many of the samples were good, the interval of their share, and the samples that were not."""

    samples: int
    short: tuple[float, ...]
    low: float
    high: float

    @property
    def good(self) -> int:
        """Samples at or above the floor."""
        return self.samples - len(self.short)

    def text(self, floor: Rate, required: float) -> str:
        """The share in words, with its interval, never rounded across the required share."""
        return (
            f"{percent(self.good / self.samples, required, 1.0)} of {self.samples:,} one-second samples at or "
            f"above {floor} (95 % interval {percent(self.low, required)} to {percent(self.high, required)})"
        )

    def details(self, required: float) -> dict[str, Any]:
        """Plain values for a report."""
        return {
            "share": self.good / self.samples,
            "share_wanted": required,
            "share_interval": [self.low, self.high],
            "samples": self.samples,
        }


def time_share(samples: Sequence[float], floor: float) -> TimeShare:
    """Which share of ``samples`` (at least one) lies at or above ``floor``."""
    short = tuple(value for value in samples if value < floor)
    low, high = wilson_interval(len(samples) - len(short), len(samples))
    return TimeShare(len(samples), short, low, high)


def too_few(samples: Sequence[float], required: float) -> str | None:
    """A sentence when a series is too short to judge a share of the time."""
    if len(samples) >= FEWEST_SAMPLES:
        return None
    return (
        f"{len(samples)} one-second samples are too few to judge a share of {tolerance(required)} of the time, "
        f"at least {FEWEST_SAMPLES} are needed: lengthen the run"
    )


def wilson_interval(good: int, samples: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Wilson score interval of a share of ``good`` among ``samples`` (at least 1), as shares of 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, spread = good / samples, z * z / samples
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / samples + spread / (4 * samples)) / (1 + spread)
    return (0.0 if good == 0 else max(0.0, centre - half)), (
        1.0 if good == samples else min(1.0, centre + half)
    )
