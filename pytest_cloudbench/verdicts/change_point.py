"""Lasting falls in a series of rates: when each happened, and the levels before and after.

Burst credits end at one moment: the rate falls from one level to another and stays there. Other things look like it:
outliers, dips that recover, noise in which each second resembles the last, drifts, oscillations. So exact least-squares
fits of two levels only give candidates. A candidate is a lasting fall if it is large, sharp, far above what the
autocorrelated noise explains, far more likely as two levels than as a smooth curve, and not followed by a recovery.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import Any

from pytest_cloudbench.verdicts.levels import (
    SCALED_MAD,
    falling_splits,
    level_of,
    median_filtered,
    nearest_split,
    slow_start,
    without_outliers,
)
from pytest_cloudbench.verdicts.step_evidence import inflation, products, step_evidence, unbiased

METHOD = "segmentation by exact least-squares fits of two levels to a median-filtered series"

# Chosen by trial: no false fall in 40,000 series without one, of 20 to 300 samples, with white, autocorrelated (up to
# 0.97) or heavy-tailed noise of up to 12 %, drifting, oscillating, dipping, recovering (benchmarks/false_falls.py).
WIDE_FILTER = 11
"""Samples of the median filter for finding candidates: it removes dips of up to five samples."""
NARROW_FILTER = 5
"""Samples of the median filter for judging them: it removes outliers of one or two samples."""
SMALLEST_FALL = 0.10
"""A fall is at least this share of the level before it."""
FEWEST_BEFORE = 5
FEWEST_AFTER = 15
"""The lower level must last at least this many samples: a shorter one may still recover."""
DIPS_OUTLASTED = 3
"""The lower level must last at least this many times as long as the longest earlier dip."""
MOST_ABOVE_AFTER = 0.05
"""Share of the samples after a fall that may lie above the middle between its two levels."""
RECOVERED = 10
"""This many samples in a row above the middle are a recovery; at the end of the series three are enough."""
MOST_BELOW_BEFORE = 0.30
"""Share of the samples before a fall, slow start left out, that may lie below the middle."""
SHARPNESS = 0.6
"""Least share of the fall between the medians of the five samples just before it and the five just after it."""
EVIDENCE = 10.0
"""Least evidence for two levels against a smooth curve: twice the log of their likelihood ratio."""
STANDARD_ERRORS = 6.0
STANDARD_ERRORS_SHORT = 180.0
"""A fall is at least 6 + 180 / samples standard errors high: in short series the noise is only a rough estimate."""

PARAMETERS: dict[str, float] = {
    "wide_filter_samples": WIDE_FILTER,
    "narrow_filter_samples": NARROW_FILTER,
    "smallest_fall": SMALLEST_FALL,
    "fewest_samples_before": FEWEST_BEFORE,
    "fewest_samples_after": FEWEST_AFTER,
    "dips_outlasted": DIPS_OUTLASTED,
    "most_above_after": MOST_ABOVE_AFTER,
    "recovered_samples": RECOVERED,
    "most_below_before": MOST_BELOW_BEFORE,
    "sharpness": SHARPNESS,
    "evidence": EVIDENCE,
    "standard_errors": STANDARD_ERRORS,
    "standard_errors_short": STANDARD_ERRORS_SHORT,
}

FEWEST_SAMPLES = FEWEST_BEFORE + FEWEST_AFTER

_MOST_CANDIDATES = 48
_FAR_ABOVE_NOISE = 25.0  # variances of white noise that a candidate must explain: 5 standard errors
_ON_THE_WAY = 2  # samples on each side of a fall that belong to neither level
_LOCAL = 5
_CURVE_REACH = 200  # samples on one side
_LONGEST_WINDOW = 1_000  # samples on one side; more of them add nothing


@dataclass(frozen=True)
class Fall:
    """One fall: ``at_s`` in seconds from the start of the series, and the levels on both sides.

    ``index`` is the first sample on the lower level's side, ``standard_errors`` the distance of the levels in standard
    errors.
    """

    at_s: float
    before: float
    after: float
    index: int
    standard_errors: float


@dataclass(frozen=True)
class Falls:
    """The lasting falls of a series in the order of time.

    ``unproven`` is a fall so near the end (or so similar to earlier dips) that it may yet recover.
    """

    lasting: tuple[Fall, ...]
    unproven: Fall | None = None


class _Flaw(Enum):
    """Why a candidate is not a lasting fall."""

    NO_STEP = auto()
    TAKEN_BACK = auto()
    MAY_RECOVER = auto()


@dataclass(frozen=True)
class _Candidate:
    """A split at ``at`` of the piece [low, high) of a series, and the levels on both sides."""

    low: int
    at: int
    high: int
    before: float
    after: float
    standard_errors: float = 0.0

    @property
    def middle(self) -> float:
        return (self.before + self.after) / 2

    @property
    def height(self) -> float:
        return self.before - self.after


def find_falls(seconds: Sequence[float], values: Sequence[float]) -> Falls:
    """Return every lasting fall of a series; ``seconds`` holds the end of each sample, and is as long as ``values``."""
    if len(values) < FEWEST_SAMPLES:
        return Falls(())
    narrow = median_filtered(values, NARROW_FILTER)
    cuts = _cuts(values, narrow)
    known: dict[tuple[int, int, int], tuple[_Candidate, _Flaw | None]] = {}
    unproven: _Candidate | None = None
    while True:
        pieces = list(zip([0, *cuts], cuts, [*cuts[1:], len(values)], strict=False))
        for piece in pieces:
            if piece not in known:
                known[piece] = _judged(values, narrow, piece)
        flawed = [(one, flaw) for one, flaw in (known[piece] for piece in pieces) if flaw is not None]
        if not flawed:
            lasting = [known[piece][0] for piece in pieces]
            break
        # The smallest is removed first: its neighbours may look different without it.
        least, flaw = min(flawed, key=lambda found: found[0].height)
        cuts.remove(least.at)
        if flaw is _Flaw.MAY_RECOVER:
            unproven = least
    if unproven is None and not lasting:
        return Falls(())
    interval = median([after - before for before, after in pairwise(seconds)])

    def fall(one: _Candidate) -> Fall:
        at_s = seconds[one.at - 1] - interval + interval * _share_before(values, one)
        return Fall(at_s, one.before, one.after, one.at, one.standard_errors)

    return Falls(tuple(map(fall, lasting)), fall(unproven) if unproven is not None else None)


def _cuts(values: Sequence[float], narrow: Sequence[float]) -> list[int]:
    steps = [abs(after - before) for before, after in pairwise(values)]
    noise = SCALED_MAD**2 / 2 * median(steps) ** 2
    rough = falling_splits(
        median_filtered(values, WIDE_FILTER),
        shortest=FEWEST_BEFORE,
        smallest=SMALLEST_FALL / 2,
        most=_MOST_CANDIDATES,
        explained=_FAR_ABOVE_NOISE * noise,
    )
    cuts: list[int] = []
    for split in rough:
        at = nearest_split(narrow, split, reach=WIDE_FILTER // 2 + _ON_THE_WAY, shortest=FEWEST_BEFORE)
        if all(abs(at - other) >= FEWEST_BEFORE for other in cuts):
            cuts.append(at)
    return sorted(cuts)


def _judged(
    values: Sequence[float], narrow: Sequence[float], piece: tuple[int, int, int]
) -> tuple[_Candidate, _Flaw | None]:
    low, at, high = piece
    if low == 0:
        low = min(slow_start(narrow[:at]), at - FEWEST_BEFORE)
    before, after = (
        values[low : max(low + 1, at - _ON_THE_WAY)],
        values[min(at + _ON_THE_WAY, high - 1) : high],
    )
    found = _Candidate(low, at, high, level_of(before), level_of(after))
    if not (_large(found) and _sharp(narrow, found) and _better_than_a_curve(values, found)):
        return found, _Flaw.NO_STEP
    window = _LONGEST_WINDOW
    errors = _standard_errors(narrow[max(low, at - window) : at], narrow[at : min(high, at + window)])
    found = replace(found, standard_errors=errors)
    return found, _flaw(narrow, found)


def _large(one: _Candidate) -> bool:
    # There is no fall from a level of zero.
    return one.before > 0 and one.height >= SMALLEST_FALL * one.before


def _flaw(narrow: Sequence[float], one: _Candidate) -> _Flaw | None:
    if one.standard_errors < STANDARD_ERRORS + STANDARD_ERRORS_SHORT / (one.high - one.low):
        return _Flaw.NO_STEP
    middle = one.middle
    above = [value > middle for value in narrow[one.at :]]
    recovered = _longest_run(above) >= RECOVERED or all(above[-_ON_THE_WAY - 1 :])
    below = [value <= middle for value in narrow[slow_start(narrow[: one.at]) : one.at]]
    low_before = sum(below) > MOST_BELOW_BEFORE * len(below)
    if recovered or low_before or sum(above) > MOST_ABOVE_AFTER * len(above):
        return _Flaw.TAKEN_BACK
    if len(above) < max(FEWEST_AFTER, DIPS_OUTLASTED * _longest_run(below)):
        return _Flaw.MAY_RECOVER
    return None


def _longest_run(flags: Sequence[bool]) -> int:
    return max((sum(run) for flag, run in groupby(flags) if flag), default=0)


def _sharp(narrow: Sequence[float], one: _Candidate) -> bool:
    edge = one.at - _ON_THE_WAY
    before = narrow[max(one.low, edge - _LOCAL) : max(one.low + 1, edge)]
    edge = min(one.at + _ON_THE_WAY, one.high - 1)
    after = narrow[edge : min(one.high, edge + _LOCAL)]
    return median(before) - median(after) >= SHARPNESS * one.height


def _better_than_a_curve(values: Sequence[float], one: _Candidate) -> bool:
    reach = min(one.at - one.low, one.high - one.at, _CURVE_REACH)
    return step_evidence(values[one.at - reach : one.at], values[one.at : one.at + reach]) >= EVIDENCE


def _standard_errors(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the distance of two pieces in standard errors, for autocorrelated noise (AR(1))."""
    rests = []
    for piece in (before, after):
        tame = without_outliers(piece)
        mean = fmean(tame)
        rests.append([value - mean for value in tame])
    count = len(before) + len(after)
    sums = [products(rest) for rest in rests]
    squares, neighbours = (sum(each) for each in zip(*sums, strict=True))
    if squares == 0:
        return math.inf
    variance = squares / (count - 2) * inflation(unbiased(neighbours / squares, count))
    error = math.sqrt(variance * (1 / len(before) + 1 / len(after)))
    return (median(before) - median(after)) / error


def _share_before(values: Sequence[float], one: _Candidate) -> float:
    """Return where a fall lies in the two samples around it, from 0 to 2.

    It usually lies within one sample, whose value between the two levels shows where.
    """
    shares = [(value - one.after) / one.height for value in values[one.at - 1 : one.at + 1]]
    return sum(min(1.0, max(0.0, share)) for share in shares)


def falls_details(found: Falls) -> dict[str, Any]:
    """Return the falls of a series, and the method that found them, as plain values."""
    unproven: Sequence[Fall] = [found.unproven] if found.unproven is not None else []
    return {
        "method": METHOD,
        "method_parameters": dict(PARAMETERS),
        "falls": [_fall_details(fall) for fall in found.lasting],
        "unproven_falls": [_fall_details(fall) for fall in unproven],
    }


def _fall_details(fall: Fall) -> dict[str, Any]:
    errors = fall.standard_errors
    return {
        "at_s": fall.at_s,
        "before": fall.before,
        "after": fall.after,
        "standard_errors": errors if math.isfinite(errors) else None,
    }
