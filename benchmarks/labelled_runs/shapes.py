"""Shapes of a rate over a run, as factors of its level, one a second."""

from __future__ import annotations

import math
import random
from statistics import fmean


def noise(rng: random.Random, count: int, spread: float, memory: float = 0.0) -> list[float]:
    """Return factors around 1 with this standard deviation; each resembles the last by ``memory`` (AR(1))."""
    factors, last = [], rng.gauss(0, spread)
    for _ in range(count):
        last = memory * last + rng.gauss(0, spread * math.sqrt(1 - memory * memory))
        factors.append(max(0.02, 1 + last))
    return factors


def at_a_limit(rng: random.Random, count: int, spread: float, memory: float = 0.0) -> list[float]:
    """Return noise with a mean of 1 within 0.5 %: a limit refills all the time, so its mean over a run is exact."""
    factors = noise(rng, count, spread, memory)
    level = fmean(factors) / rng.uniform(0.995, 1.002)
    return [factor / level for factor in factors]


def some_noise(rng: random.Random, most: float = 0.09) -> tuple[float, float]:
    """Return a standard deviation up to ``most`` and a memory."""
    return rng.uniform(0.002, most), rng.choice([0.0, 0.0, 0.3, 0.6, 0.9])


def length(rng: random.Random) -> int:
    """Return the length of a usual run, in seconds."""
    return rng.choice([30, 60, 60, 120, 300])


def stalls(rng: random.Random, factors: list[float], share: float) -> list[float]:
    """Return the factors with stalls of one to three seconds that take about ``share`` of the time."""
    found, left = list(factors), max(1, round(share * len(factors)))
    while left > 0:
        begin, lasts = rng.randrange(2, len(found) - 3), min(left, rng.randint(1, 3))
        for index in range(begin, begin + lasts):
            found[index] *= rng.uniform(0.0, 0.3)
        left -= lasts
    return found


def slow_start(factors: list[float], seconds: int) -> list[float]:
    """Return the factors with a rate that rises from nothing over the first seconds."""
    return [
        factor * min(1.0, (index + 0.5) / max(1, seconds)) if index < seconds else factor
        for index, factor in enumerate(factors)
    ]


def alternating(rng: random.Random, count: int, high: float, low: float, spread: float) -> list[float]:
    """Return a rate that is ``high`` and ``low`` in turn, for as many samples each, with a mean between them."""
    period = rng.choice([1, 2, 3, 5, 10, 15])
    count -= count % (2 * period)
    levels = [high if index // period % 2 == 0 else low for index in range(count)]
    return [level * factor for level, factor in zip(levels, noise(rng, count, spread), strict=True)]


def drifting(rng: random.Random, count: int, change: float, spread: float) -> list[float]:
    """Return a rate with a mean of 1 that changes evenly by ``change`` from the beginning to the end."""
    around = noise(rng, count, spread)
    return [factor * (1 + change * ((index + 0.5) / count - 0.5)) for index, factor in enumerate(around)]


def falling(before: list[float], after: list[float], level: float) -> list[float]:
    """Return a rate that falls for good to ``level`` of what it was."""
    return [*before, *(factor * level for factor in after)]


def clustered(rng: random.Random, count: int, bad: float, lasts: float) -> list[bool]:
    """Return which seconds are good, if ``bad`` of all seconds are not and a bad spell lasts ``lasts`` on average."""
    leave = 1 / lasts
    enter = leave * bad / (1 - bad)
    good, seconds = rng.random() >= bad, []
    for _ in range(count):
        seconds.append(good)
        good = rng.random() >= enter if good else rng.random() < leave
    return seconds


def longest(good: list[bool]) -> int:
    """Return the longest time without a bad second."""
    most = run = 0
    for one in good:
        run = run + 1 if one else 0
        most = max(most, run)
    return most
