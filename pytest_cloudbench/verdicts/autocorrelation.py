"""Noise in which each sample resembles the one before: first-order autoregressive noise, AR(1)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

MOST_MEMORY = 0.98


def products(rests: Sequence[float]) -> tuple[float, float]:
    """Return the sum of the squares of some deviations, and of the products of each with the next."""
    return sum(map(mul, rests, rests)), sum(map(mul, rests, rests[1:]))


def unbiased(found: float, count: int, levels: int = 1) -> float:
    """Return the memory of noise, from 0 to 0.98, of which ``count`` samples show the autocorrelation ``found``.

    Around one level that is their mean, the estimate is too low by about (1 + 4 x memory) / samples (Marriott and
    Pope, Biometrika, 1954); around several, by 1 / samples more for each.
    """
    return min(MOST_MEMORY, max(0.0, found + (levels + 4 * found) / count))


def memory_of(rests: Sequence[float], levels: int = 1) -> float:
    """Return the memory of noise, from 0 to 0.98; 0 without any noise. ``levels`` were fitted."""
    squares, neighbours = products(rests)
    return unbiased(neighbours / squares, len(rests), levels) if squares > 0 else 0.0


def inflation(memory: float) -> float:
    """Return how many samples with this memory say as much about a mean as one independent sample."""
    return (1 + memory) / (1 - memory)


def innovations(rests: Sequence[float]) -> float:
    """Return the sum of squares of what is new in each of some deviations (at least one), forwards and backwards.

    The mean of both directions is the same for a series and its mirror image (Burg's method).
    """
    squares, neighbours = products(rests)
    squares -= (rests[0] ** 2 + rests[-1] ** 2) / 2
    return squares - neighbours * neighbours / squares if squares > 0 else 0.0
