"""Noise in which each sample resembles the one before, first-order autoregressive noise (AR(1)).

Also the evidence of samples in such noise for two levels rather than a smooth curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from statistics import fmean, median

from pytest_cloudbench.verdicts.levels import SCALED_MAD, clipped

MOST_MEMORY = 0.98
_OUTLIER = 3.0  # standard deviations
_EXACT = 1e-12  # share of the squares below which only rounding is left


def products(rests: Sequence[float]) -> tuple[float, float]:
    """Return two sums: of the squares of some deviations, and of the products of each with the next."""
    return sum(map(mul, rests, rests)), sum(map(mul, rests, rests[1:]))


def unbiased(found: float, count: int, levels: int = 1) -> float:
    """Return the memory of noise, from 0 to 0.98, from the autocorrelation ``found`` of ``count`` samples.

    Around one level, the mean, ``found`` is too low by about (1 + 4 x memory) / samples (Marriott and Pope, Biometrika,
    1954); each further level adds 1 / samples.
    """
    return min(MOST_MEMORY, max(0.0, found + (levels + 4 * found) / count))


def memory_of(rests: Sequence[float], levels: int = 1) -> float:
    """Return the memory of noise, from 0 to 0.98; 0 without any noise. ``levels`` is the number of fitted levels."""
    squares, neighbours = products(rests)
    return unbiased(neighbours / squares, len(rests), levels) if squares > 0 else 0.0


def inflation(memory: float) -> float:
    """Return how many samples with this memory say as much about a mean as one independent sample."""
    return (1 + memory) / (1 - memory)


def innovations(rests: Sequence[float]) -> float:
    """Return the sum of squares of the part of each deviation (at least one) that its neighbour does not predict.

    It is the mean of both directions, so it is the same for a series and its mirror image (Burg's method).
    """
    squares, neighbours = products(rests)
    squares -= (rests[0] ** 2 + rests[-1] ** 2) / 2
    return squares - neighbours * neighbours / squares if squares > 0 else 0.0


def step_evidence(before: Sequence[float], after: Sequence[float]) -> float:
    """Return twice the log of the likelihood ratio of a step between two pieces against a cubic through both.

    Both models have four parameters (the time of the step is one) and first-order autoregressive noise (AR(1)), each
    with its own memory, so the ratio is also the difference of their Bayesian information criteria. A value of 10 is
    "very strong" evidence (Kass and Raftery, Bayes Factors, 1995). The pieces have the same length, at least two
    samples: a curve cannot follow a lopsided series. Outliers are moved to three standard deviations from their level.
    """
    levels = median(before), median(after)
    rests = [value - levels[0] for value in before] + [value - levels[1] for value in after]
    far = _OUTLIER * SCALED_MAD * median(map(abs, rests))
    tame = [
        value
        for piece, level in zip((before, after), levels, strict=True)
        for value in clipped(piece, level - far, level + far)
    ]
    split = len(before)
    high, low = fmean(tame[:split]), fmean(tame[split:])
    stepped = innovations([value - high for value in tame[:split]] + [value - low for value in tame[split:]])
    curved = innovations(without_cubic(tame))
    if curved <= 0:
        return 0.0
    return len(tame) * math.log(curved / max(stepped, _EXACT * curved))


def without_cubic(values: Sequence[float]) -> list[float]:
    """Return the residuals of the least-squares cubic, by polynomials orthogonal on a symmetric grid."""
    count = len(values)
    line = [(2 * index + 1) / count - 1 for index in range(count)]
    squares = list(map(mul, line, line))
    mean = fmean(squares)
    ratio = sum(map(mul, squares, squares)) / sum(squares)
    bend = [square - mean for square in squares]
    cubic = [place * (square - ratio) for place, square in zip(line, squares, strict=True)]
    level = fmean(values)
    rests = [value - level for value in values]
    for shape in (line, bend, cubic):
        norm = sum(map(mul, shape, shape))
        part = sum(map(mul, shape, rests)) / norm if norm else 0.0
        rests = [rest - part * place for rest, place in zip(rests, shape, strict=True)]
    return rests
