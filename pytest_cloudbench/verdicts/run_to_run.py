"""How much runs of one workload differ from each other, which the seconds of one run cannot show."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean

from pytest_cloudbench.verdicts.sample_statistics import Noise

USUAL_NOISE = 0.02
"""Standard deviation of the rate from run to run on AWS: a choice of this project.

On tuned instances with EBS, the worst case of repeated runs lay within 10 % from lowest to highest (Ingo and Daly,
Measuring Performance Variability of EC2, 2018). That is 2 to 3 %, since some twenty runs span 3.7 standard deviations.
"""
USUAL_NOISE_ON_REGION = 0.005
"""The same on an embedded region, whose limits are exact to 0.8 % over any 10 s (measured, November 2026)."""
USUAL_LATENCY_NOISE = 0.10
"""The same for the mean latency at a set rate: a choice of this project.

No limit holds a latency, so it differs more than a rate. A modelled latency on an embedded region differed by 6 to 13 %
on a very busy machine (measured, November 2026).
"""
_KNOWN_FROM_RUNS = 10
"""Two single runs are compared as if ten runs had shown the usual noise."""
_USUAL_DEGREES = 2
"""The usual noise counts as this many runs in addition to those that were measured."""


def usual_noise(*, on_region: bool) -> float:
    """Return the standard deviation from run to run as a share of the rate."""
    return USUAL_NOISE_ON_REGION if on_region else USUAL_NOISE


def of_single_runs(one: float, other: float) -> Noise:
    """Return the noise of the difference of two single runs, from the noise from run to run of each."""
    return Noise(math.hypot(one, other), _KNOWN_FROM_RUNS - 1)


def noise_of_runs(groups: Collection[Sequence[float]], usual: float) -> Noise:
    """Return the noise of one run from the logarithms of several, each group around its own mean.

    The usual noise, a share of the rate, counts as two more runs, so that a few runs that are alike prove nothing.
    """
    means = map(fmean, groups)
    rests = [value - mean for group, mean in zip(groups, means, strict=True) for value in group]
    degrees = _USUAL_DEGREES + len(rests) - len(groups)
    squares = _USUAL_DEGREES * usual**2 + sum(rest**2 for rest in rests)
    return Noise(math.sqrt(squares / degrees), degrees)
