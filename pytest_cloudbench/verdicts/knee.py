"""The knee of a curve of latency over load, by the Kneedle method.

V. Satopää, J. Albrecht, D. Irwin, B. Raghavan, "Finding a 'Kneedle' in a Haystack: Detecting Knee Points in System
Behavior", ICDCS Workshops 2011. Both axes are scaled to 0..1. On a convex curve the load runs ahead of the latency
until the knee, so the knee is where it is furthest ahead, provided the curve then turns: the lead must fall by more
than one mean step of the load (the method's threshold with a sensitivity of 1) before another lead is as large.

The points keep the order in which load was asked: past saturation the load that is served no longer grows, and the
curve goes straight up. They are too few to be smoothed, which the method does first with long noisy series.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

METHOD = "Kneedle"
FEWEST_POINTS = 4
_SENSITIVITY = 1.0


def knee_index(load: Sequence[float], latency: Sequence[float]) -> int | None:
    """The index of the knee; None for fewer than four points and for a curve that does not turn upwards.

    ``load`` and ``latency`` are alike in length, in the order in which load was asked for, in any units.
    """
    if len(load) != len(latency):
        raise ValueError(f"{len(load)} loads and {len(latency)} latencies do not belong together")
    if len(load) < FEWEST_POINTS:
        return None
    across, up = _scaled(load), _scaled(latency)
    if across is None or up is None:
        return None
    lead = [x - y for x, y in zip(across, up, strict=True)]
    threshold = _SENSITIVITY * fmean(abs(after - before) for before, after in pairwise(across))
    candidate: int | None = None
    for index in range(1, len(lead)):
        if candidate is None or lead[index] > lead[candidate]:
            candidate = index
        elif lead[index] < lead[candidate] - threshold and lead[candidate] > 0:
            return candidate
    return None


def _scaled(values: Sequence[float]) -> list[float] | None:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) for value in values] if high > low else None
