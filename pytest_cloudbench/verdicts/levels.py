"""The level of a noisy piece of a series, and the series made fit to look for levels in it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

BLOCK_SAMPLES = 10
MOST_BLOCKS = 15
_SCALED_MAD = 1.4826  # the standard deviation of normal noise, from its median absolute deviation


def level_of(values: Sequence[float]) -> float:
    """The level around which the values lie, whatever a few of them do.

    The median, or from 100 values on the median of the means of 10 to 15 blocks: means of blocks also
    see what lies between two steps, where a sender counts in whole blocks of data. Needs one value.
    """
    blocks = min(MOST_BLOCKS, len(values) // BLOCK_SAMPLES)
    if blocks < BLOCK_SAMPLES:
        return median(values)
    edges = [number * len(values) // blocks for number in range(blocks + 1)]
    return median(fmean(values[low:high]) for low, high in pairwise(edges))


def median_filtered(values: Sequence[float], width: int) -> list[float]:
    """Each value replaced by the median of the ``width`` (odd) values around it, fewer at the ends.

    What stands out for less than half the width goes; the edge between two levels stays where it is.
    """
    half, last = width // 2, len(values) - 1
    found = []
    for index in range(len(values)):
        reach = min(half, index, last - index)
        found.append(sorted(values[index - reach : index + reach + 1])[reach])
    return found


def without_outliers(values: Sequence[float], deviations: float = 3.0) -> list[float]:
    """The values with those far out moved to ``deviations`` robust standard deviations of the median."""
    middle = median(values)
    far = deviations * _SCALED_MAD * median(abs(value - middle) for value in values)
    return [min(middle + far, max(middle - far, value)) for value in values]


def slow_start(values: Sequence[float]) -> int:
    """How many values at the beginning lie more than 10 % below the level of the second half."""
    half = len(values) // 2
    if half == 0:
        return 0
    floor = 0.9 * median(values[half:])
    return next((index for index in range(half) if values[index] >= floor), half)
