"""A measurement as rounds for pytest-benchmark: each round has the same number of operations, and its own time.

pytest-benchmark compares times, lower is better, and shows 1 / mean as operations per second. An operation is an I/O of
fio, or a byte of a network run or of created files. The mean is the time per operation over the whole run, so the OPS
column shows the IOPS, or the bytes per second.

The series, if there is one, is cut into as many rounds as it has samples, each with the same number of operations. So
the plain mean of the rounds is the mean of the operations. (The mean of one-second rounds would be a mean of
reciprocals, which is wrong for a rate that changes.) A second without I/O makes a round longer, not infinitely long.
Standard deviation, quartiles and outliers are those of the rate over time. The rounds are scaled to the tool's own
mean, from which the series differs a little, because it ends with its last whole second. If it differs by more than a
tenth, it describes something else, and the run is one round.
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
    """Seconds per operation in each round, the number of ``operations`` of a round, and the name of an operation."""

    operation: str
    seconds: tuple[float, ...]
    operations: int

    @property
    def mean_s(self) -> float:
        """Seconds per operation over all rounds."""
        return sum(self.seconds) / len(self.seconds)


def rounds_of(measurement: Any) -> Rounds | None:
    """Return the rounds of a measurement; None if it has no rate, so that an operation has no time."""
    if not (
        hasattr(measurement, "series")
        and (hasattr(measurement, "iops") or hasattr(measurement, "throughput"))
    ):
        return None
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
    """Return operation, mean rate, seconds of the run, and the series: the end and rate of each interval."""
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
    """Cut the series into parts with equal numbers of operations, as many as it has samples. Return their seconds.

    The rate within a sample counts as steady. The result is empty for fewer than two samples or without a rate.
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
