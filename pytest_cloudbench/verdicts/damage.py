"""What is wrong with the data of a run, checked once, when its view is made.

A tool, a disk or a parser that fails may leave data that still yield a figure. No verdict may rest on such a figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from operator import mul
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from pytest_cloudbench.limits.quantities import Rate, plain
from pytest_cloudbench.verdicts.sample_statistics import student_t

CONTRADICTS = 0.05
"""Samples and a total that are this far apart, as a share of the total, cannot be of the same run."""
_LATE = 0.05
"""The last sample may end after the run by this share of the sample's length and still counts as whole."""
_ENOUGH_TO_EXTRAPOLATE = 5
"""Fewer samples do not limit the rate of a second that is not among them."""
_FEW = 20
"""This many samples are enough to show the highest rate."""
_ONE_MORE_BELOW = 0.99
_HIGHEST_OF_FEW = 1.5
"""No unseen second was faster than the highest of few samples by more than this factor."""
_LONG = 1.5
"""An interval this many times as long as usual lacks samples."""
_TIMES = ("mean_s", "min_s", "max_s", "p50_s", "p95_s", "p99_s", "p999_s")
"""What may be known of a latency."""


class Damage(NamedTuple):
    """What is wrong with a measurement, in words; "" if nothing is.

    ``of_totals`` is True if only its samples and its totals contradict each other.
    """

    text: str
    of_totals: bool = False


def damage_of(obs: Any, means: Mapping[str, Rate]) -> Damage:
    """Return what is wrong with a measurement.

    ``means`` holds its mean rates by the names of the columns of its series. A mean that is not a rate is left to the
    judges, who report that nothing was measured.
    """
    series, runtime_s = obs.series, obs.runtime_s
    if not (math.isfinite(runtime_s) and runtime_s >= 0):
        return Damage(f"its run time is {runtime_s} s")
    columns = {name: [plain(rate) for rate in getattr(series, name, None) or ()] for name in means}
    for text in chain(_of_series(series, columns), _of_latencies(obs)):
        if text:
            return Damage(text)
    for text in _of_totals(series, columns, means, runtime_s):
        return Damage(text, of_totals=True)
    return Damage("")


def contradicts(samples: Sequence[float], lengths_s: Sequence[float], mean: float, runtime_s: float) -> bool:
    """Return True if these samples and this mean rate cannot be of the same run.

    The samples may leave out time of the run, such as an unfinished last second. Its rate was between 0 and the result
    of `_highest_unseen`, or unknown if the samples are few. A second without I/O is a stall, which the total shows too.
    """
    total = mean * runtime_s
    if not (math.isfinite(total) and total > 0 and samples):
        return False
    missing = total - sum(value * length_s for value, length_s in zip(samples, lengths_s, strict=True))
    unseen_s = runtime_s - sum(lengths_s)
    if missing < 0:
        late_s = min(max(0.0, -unseen_s), _LATE * lengths_s[-1])
        return -missing > CONTRADICTS * total + late_s * max(samples)
    if unseen_s > 0 and len(samples) < _ENOUGH_TO_EXTRAPOLATE:
        return False
    beyond = missing - CONTRADICTS * total
    return beyond > 0 and beyond > max(0.0, unseen_s) * _highest_unseen(samples)


def _highest_unseen(samples: Sequence[float]) -> float:
    """Return the highest rate that a second outside of the samples may have had.

    That is the highest sample. If the samples are few, the rate may be higher: up to the upper end of the prediction
    interval for one more normal sample, at 99 % (G. J. Hahn, W. Q. Meeker, "Statistical Intervals", 1991, 4.7).
    """
    count, highest = len(samples), max(samples)
    if not 2 <= count < _FEW:
        return highest
    above = student_t(_ONE_MORE_BELOW, count - 1) * stdev(samples) * math.sqrt(1 + 1 / count)
    return max(highest, min(fmean(samples) + above, _HIGHEST_OF_FEW * highest))


def _of_series(series: Any, columns: Mapping[str, Sequence[float]]) -> Iterator[str]:
    if series is None:
        return
    yield getattr(series, "damage", "")
    seconds = list(series.seconds)
    for name, values in columns.items():
        if values and len(values) != len(seconds):
            yield f"its series holds {len(seconds)} times but {len(values)} values of {name}"
        if not _are_amounts(values):
            wrong = next(value for value in values if not _is_amount(value))
            yield f"its series holds {wrong} as {name}, which is not a rate"
    yield _of_times(seconds, varies=getattr(series, "gapless", False))
    latencies = [value for value in getattr(series, "latency_s", None) or () if value is not None]
    if not _are_amounts(latencies):
        wrong = next(value for value in latencies if not _is_amount(value))
        yield f"its series holds a latency of {wrong} s"


def _of_totals(
    series: Any, columns: Mapping[str, Sequence[float]], means: Mapping[str, Rate], runtime_s: float
) -> Iterator[str]:
    if series is None or getattr(series, "of_devices", False):
        return
    lengths_s = _lengths(list(series.seconds))
    for name, mean in means.items():
        samples = columns[name]
        if contradicts(samples, lengths_s, plain(mean), runtime_s):
            seen = sum(map(mul, samples, lengths_s)) / sum(lengths_s)
            yield f"its samples have a mean of {type(mean)(seen)}, but the run has one of {mean}"


def _of_times(seconds: Sequence[float], *, varies: bool) -> str:
    """Return what is wrong with the ends of intervals; if their length ``varies``, none of them can be missing."""
    if not all(map(math.isfinite, seconds)) or any(late <= at for at, late in pairwise(seconds)):
        return "the times of its series do not rise"
    if seconds and seconds[0] < 0:
        return f"its series begins {-seconds[0]:g} s before the run"
    lengths = _lengths(seconds)
    if varies or len(lengths) < 2:
        return ""
    usual = median(lengths)
    for number, (end_s, length_s) in enumerate(zip(seconds, lengths, strict=True)):
        begin_s = seconds[number - 1] if number else 0.0
        if end_s - begin_s > _LONG * usual:
            return f"its series lacks samples from {begin_s:g} to {end_s - usual:g} s"
        if length_s * _LONG < usual and number < len(seconds) - 1:
            return f"its series has a sample of {length_s:g} s at {end_s:g} s among those of {usual:g} s"
    return ""


def _lengths(seconds: Sequence[float]) -> list[float]:
    """Return the length of each interval; the first began with the run, or took as long as others do."""
    gaps = [late - at for at, late in pairwise(seconds)]
    first = seconds[0] if seconds else 0.0
    usual = median(gaps) if gaps else first
    return [first if 0 < first <= _LONG * usual else usual, *gaps] if seconds else []


def _of_latencies(obs: Any) -> Iterator[str]:
    """Yield what is wrong with the latencies of a run, of its reads and of its writes."""
    mean_s = getattr(obs, "latency_mean_s", math.nan)
    if isinstance(mean_s, (int, float)) and (mean_s < 0 or math.isinf(mean_s)):
        yield f"its mean latency is {mean_s} s"
    for part in (obs, getattr(obs, "read", None), getattr(obs, "write", None)):
        latency = getattr(part, "latency", None)
        for name in _TIMES:
            value = getattr(latency, name, None)
            if isinstance(value, (int, float)) and not _is_amount(value):
                yield f"its latency has {name.removesuffix('_s')} {value} s"


def _are_amounts(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values)) and min(values, default=0.0) >= 0


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0
