"""A measurement as pytest-benchmark counts: rounds of equally many operations each, and how long each took.

pytest-benchmark knows times, the lower the better, and shows 1 / mean as operations per second. So an operation is
an I/O of fio, one byte of a network or of a creation of files; the mean is the time that one took over the whole
run, and the OPS column is the IOPS, or the bytes per second.

Where there is a series it gives the rounds. The run is cut into as many rounds as it has seconds, not by time but by
operations, each with its share of them: only so is the plain mean over the rounds the mean over the operations
(over rounds of a second each it would be the mean of reciprocals, which a run whose rate changes has lower), and a
second in which nothing moved makes a round longer instead of infinitely long. Standard deviation, quartiles and
outliers are then those of the rate as it went. The rounds are scaled by the little that the series, which ends with
its last whole second, differs from the tool's own mean; a series that differs by more than a tenth is about
something else, and the run is one round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

IO = "I/O"
BYTE = "byte"
_SAME = 0.10


@dataclass(frozen=True)
class Rounds:
    """How long one operation took, in seconds, in each round; ``operations`` of one round, and what each is."""

    operation: str
    seconds: tuple[float, ...]
    operations: int

    @property
    def mean_s(self) -> float:
        """Seconds per operation over all rounds."""
        return sum(self.seconds) / len(self.seconds)


def rounds_of(measurement: Any) -> Rounds | None:
    """The rounds of a measurement; None where it has no rate, so that there is no time of an operation."""
    if not (
        hasattr(measurement, "series")
        and (hasattr(measurement, "iops") or hasattr(measurement, "throughput"))
    ):
        return None  # such as a curve: its maximum is told as a measurement of its own, its steps are not
    operation, rate, total_s, ends, rates = _read(measurement)
    if not (math.isfinite(rate) and rate > 0):
        return None
    cut = _equal_shares(ends, rates)
    total = sum(cut)
    if cut:
        per_round = _moved(ends, rates) / len(cut)
        series_mean_s = total / len(cut) / per_round
        scale = 1 / rate / series_mean_s
        if abs(scale - 1) <= _SAME:
            seconds = tuple(each / per_round * scale for each in cut)
            return Rounds(operation, seconds, max(1, round(per_round)))
    return Rounds(operation, (1 / rate,), max(1, round(rate * total_s)))


def _read(measurement: Any) -> tuple[str, float, float, Sequence[float], Sequence[float]]:
    """Operation, mean rate, seconds of the run, and the series: the end of each interval and the rate in it."""
    series = measurement.series
    iops = getattr(measurement, "iops", None)
    if isinstance(iops, int | float):
        rates = [value.per_second for value in series.iops]
        return IO, float(iops), float(measurement.runtime_s), series.seconds, rates
    throughput = measurement.throughput
    runtime_s = float(getattr(measurement, "runtime_s", 0.0) or getattr(measurement, "elapsed_s", 0.0))
    if throughput is None:  # files of which only the writing was timed
        throughput = measurement.written_throughput
    elif (device := getattr(series, "device", None)) is not None:
        series = device
    rates = [value.bytes_per_second for value in series.throughput]
    return BYTE, float(throughput.bytes_per_second), runtime_s, series.seconds, rates


def _moved(ends: Sequence[float], rates: Sequence[float]) -> float:
    return sum(rate * seconds for rate, seconds in zip(rates, _lengths(ends), strict=False))


def _lengths(ends: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise((0.0, *ends))]


def _equal_shares(ends: Sequence[float], rates: Sequence[float]) -> list[float]:
    """Cut the series into as many parts as it has samples, each with the same share of what moved: their seconds.

    Within a sample the rate is taken as steady. Empty for a series of fewer than two samples or without a rate.
    """
    count, moved = min(len(ends), len(rates)), _moved(ends, rates)
    if count < 2 or not (math.isfinite(moved) and moved > 0):
        return []
    share, cuts, done, began = moved / count, [0.0], 0.0, 0.0
    for end, rate in zip(ends, rates, strict=False):
        after = done + rate * (end - began)
        while len(cuts) < count and after >= len(cuts) * share and rate > 0:
            cuts.append(began + (len(cuts) * share - done) / rate)
        done, began = after, end
    cuts.append(ends[count - 1])
    return [after - before for before, after in pairwise(cuts)]
