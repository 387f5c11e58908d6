"""How much runs of one workload differ from each other, for which the seconds of one run are no evidence."""

from __future__ import annotations

import math

from pytest_cloudbench.verdicts.sample_statistics import Noise

USUAL_NOISE = 0.02
"""Standard deviation of the rate from run to run on AWS: a choice of this project.

On tuned instances with EBS, the worst case of repeated runs lay within 10 % from lowest to highest (Ingo and Daly,
Measuring Performance Variability of EC2, 2018). That is 2 to 3 %, since some twenty runs span 3.7 standard deviations.
"""
USUAL_NOISE_ON_REGION = 0.005
"""The same on an embedded region, whose limits are exact to 0.8 % over any 10 s (measured, November 2026)."""
_KNOWN_FROM_RUNS = 10
"""Two single runs are compared as if ten runs had shown the usual noise."""


def usual_noise(*, on_region: bool) -> float:
    """Return the standard deviation from run to run as a share of the rate."""
    return USUAL_NOISE_ON_REGION if on_region else USUAL_NOISE


def of_single_runs(one: float, other: float) -> Noise:
    """Return the noise of the difference of two single runs, of which each has this one from run to run."""
    return Noise(math.hypot(one, other), _KNOWN_FROM_RUNS - 1)
