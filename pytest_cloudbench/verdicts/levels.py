"""Levels of a noisy series: the level of a piece, and where the series falls from one level to another."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import fmean, median

BLOCK_SAMPLES = 10
MOST_BLOCKS = 15
SCALED_MAD = 1.4826
"""The standard deviation of normal noise, as a multiple of its median absolute deviation."""


def level_of(values: Sequence[float]) -> float:
    """Return the level around which the values lie, insensitive to outliers. Needs at least one value.

    The median or, from 100 values on, the median of the means of 10 to 15 blocks: means of blocks also show a level
    between two steps, which occurs if a sender counts in whole blocks of data.
    """
    blocks = min(MOST_BLOCKS, len(values) // BLOCK_SAMPLES)
    if blocks < BLOCK_SAMPLES:
        return median(values)
    edges = [number * len(values) // blocks for number in range(blocks + 1)]
    return median(fmean(values[low:high]) for low, high in pairwise(edges))


def median_filtered(values: Sequence[float], width: int) -> list[float]:
    """Return each value replaced by the median of the ``width`` (odd) values around it, fewer at the ends.

    Outliers shorter than half the width disappear; the edge between two levels keeps its place.
    """
    half, count = width // 2, len(values)
    if count <= width:
        return [_middle_around(values, index, half) for index in range(count)]
    shifted = [values[start : count - width + 1 + start] for start in range(width)]
    return [
        *(_middle_around(values, index, half) for index in range(half)),
        *(sorted(window)[half] for window in zip(*shifted, strict=True)),
        *(_middle_around(values, index, half) for index in range(count - half, count)),
    ]


def _middle_around(values: Sequence[float], index: int, half: int) -> float:
    reach = min(half, index, len(values) - 1 - index)
    return sorted(values[index - reach : index + reach + 1])[reach]


def without_outliers(values: Sequence[float]) -> list[float]:
    """Return the values with outliers moved to three robust standard deviations from the median."""
    middle = median(values)
    far = 3.0 * SCALED_MAD * median([abs(value - middle) for value in values])
    return clipped(values, middle - far, middle + far)


def clipped(values: Sequence[float], low: float, high: float) -> list[float]:
    """Return the values with those outside ``low`` to ``high`` moved to the nearer of both."""
    return [value if low <= value <= high else low if value < low else high for value in values]


def slow_start(values: Sequence[float]) -> int:
    """Return how many values at the beginning lie more than 10 % below the level of the second half."""
    half = len(values) // 2
    if half == 0:
        return 0
    floor = 0.9 * median(values[half:])
    return next((index for index in range(half) if values[index] >= floor), half)


def falling_splits(
    values: Sequence[float], *, shortest: int, smallest: float, most: int, explained: float = 0.0
) -> list[int]:
    """Return the indices at which the series falls, the most significant first, each the first value after a fall.

    The piece whose best fit of two levels explains most is split there, then the resulting pieces, while the level
    after the split is lower by at least the share ``smallest`` of the level before, and the split explains more than
    ``explained`` of the sum of squares. A side is at least ``shortest`` values long, and there are at most ``most``
    splits.
    """
    sums = [0.0, *accumulate(values)]
    waiting: list[tuple[float, int, int, int]] = []
    found: list[int] = []

    def look(low: int, high: int) -> None:
        best = _best_between(sums, low, high, low + shortest, high - shortest)
        if best is None or best[1] <= explained:
            return
        at, explains = best
        before = (sums[at] - sums[low]) / (at - low)
        after = (sums[high] - sums[at]) / (high - at)
        if before - after >= smallest * before:
            heapq.heappush(waiting, (-explains, at, low, high))

    look(0, len(values))
    while waiting and len(found) < most:
        _, at, low, high = heapq.heappop(waiting)
        found.append(at)
        look(low, at)
        look(at, high)
    return found


def nearest_split(values: Sequence[float], at: int, reach: int, *, shortest: int) -> int:
    """Return the best split within ``reach`` of ``at``, over the values around it; ``at`` if nothing falls there."""
    low, high = max(0, at - 2 * reach), min(len(values), at + 2 * reach)
    sums = [0.0, *accumulate(values[low:high])]
    first = max(shortest, at - low - reach)
    last = min(high - low - shortest, at - low + reach)
    best = _best_between(sums, 0, high - low, first, last)
    return low + best[0] if best is not None else at


def _best_between(
    sums: Sequence[float], low: int, high: int, first: int, last: int
) -> tuple[int, float] | None:
    """Return the falling split of [low, high) from ``first`` to ``last`` that explains most, and how much."""
    start, total, length = sums[low], sums[high] - sums[low], high - low
    mean = total / length
    # The sum before a split exceeds (mean x count) by (fall x count x others / length).
    best, best_at = 0.0, None
    for at, part in enumerate(sums[first : last + 1], first):
        count = at - low
        above = part - start - mean * count
        if above > 0:
            explained = above * above / (count * (length - count))
            if explained > best:
                best, best_at = explained, at
    return None if best_at is None else (best_at, best * length)
