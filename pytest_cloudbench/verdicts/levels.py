"""The level of a noisy piece of a series, and the series made fit to look for levels in it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
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


@dataclass(frozen=True, order=True)
class _Split:
    """A fall between two levels over [low, high), most squared error explained first."""

    order: float
    at: int = field(compare=False)
    low: int = field(compare=False)
    high: int = field(compare=False)


def falling_splits(values: Sequence[float], *, shortest: int, smallest: float, most: int) -> list[int]:
    """The indices at which the series falls, the most telling first, each the first value after a fall.

    The piece of the series whose best fit of two levels explains most is split there, then the pieces of
    the pieces, while the level after lies lower by the share ``smallest`` of the level before. A side is
    at least ``shortest`` values long, splits lie ``spacing`` apart, and there are ``most`` at the most.
    """
    sums = [0.0, *accumulate(values)]
    waiting: list[_Split] = []
    found: list[int] = []

    def look(low: int, high: int) -> None:
        split = _best(sums, low, high, shortest, smallest)
        if split is not None:
            heapq.heappush(waiting, split)

    look(0, len(values))
    while waiting and len(found) < most:
        split = heapq.heappop(waiting)
        found.append(split.at)
        look(split.low, split.at)
        look(split.at, split.high)
    return found


def nearest_split(values: Sequence[float], at: int, reach: int, *, shortest: int) -> int:
    """The best split within ``reach`` of ``at``, over the values around it; ``at`` when none falls there."""
    low, high = max(0, at - 2 * reach), min(len(values), at + 2 * reach)
    sums = [0.0, *accumulate(values[low:high])]
    first = max(shortest, at - low - reach)
    last = min(high - low - shortest, at - low + reach)
    best = _best_between(sums, 0, high - low, first, last)
    return low + best[0] if best is not None else at


def _best(sums: Sequence[float], low: int, high: int, shortest: int, smallest: float) -> _Split | None:
    best = _best_between(sums, low, high, low + shortest, high - shortest)
    if best is None:
        return None
    at, explained = best
    before = (sums[at] - sums[low]) / (at - low)
    after = (sums[high] - sums[at]) / (high - at)
    return _Split(-explained, at, low, high) if before - after >= smallest * before else None


def _best_between(
    sums: Sequence[float], low: int, high: int, first: int, last: int
) -> tuple[int, float] | None:
    """The falling split of [low, high) from ``first`` to ``last`` that explains most, and how much."""
    start, total, length = sums[low], sums[high] - sums[low], high - low
    best, best_at = 0.0, None
    for at in range(first, last + 1):
        count, part = at - low, sums[at] - start
        fall = part / count - (total - part) / (length - count)
        if fall > 0:
            explained = fall * fall * count * (length - count)
            if explained > best:
                best, best_at = explained, at
    return None if best_at is None else (best_at, best / length)
