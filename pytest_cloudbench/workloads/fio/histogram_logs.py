"""Percentiles of each sample from fio's histogram log (write_hist_log, per_job_logs=0), merged over jobs.

A line is "ms, direction, block size, count, count, ...": how many I/Os completed since the job's previous line, by
latency. The clock is that of `series_logs`. Every job writes its own lines as it completes I/Os, so no job waits for
another. With --status-interval, fio's helper thread waits for the next completion of every job, and the samples of the
other logs wait for that thread: they are wrong or lost exactly when a load drops.

The latencies are completion latencies, without submission; fio logs no others this way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_cloudbench.workloads.fio.job import HISTOGRAM_COARSENESS, LOG_PREFIX
from pytest_cloudbench.workloads.fio.output import PERCENTS, percentile_of_bins
from pytest_cloudbench.workloads.measurement import Series

HISTOGRAM_LOG = f"{LOG_PREFIX}_clat_hist.log"

_LARGEST_SUBMISSION = 0.10
"""If submission takes a larger share of the latency, completion latency does not represent the whole."""
_LATE = 0.25
"""How far a job's line may end from the end of its span, as a share of the span."""
_FIRST = 1.5
"""A line that ends before this many spans is the first of its job and direction."""
_FEWEST = 0.5
"""The histograms must contain this share of a sample's I/Os: a job's last, unfinished interval is not logged."""
_MOST = 1.5
"""Histograms with more than this share of the run's I/Os are damaged: drift of the lines' ends cannot cause more.

One more I/O a second is allowed for each line, because fio rounds the rate of each job down (__add_samples in stat.c).
"""
_BITS = 6
"""fio divides every octave of nanoseconds into 2^6 bins (FIO_IO_U_PLAT_BITS in its stat.h)."""
_OCTAVES = 29
"""The number of octaves, with the first two, whose bins are single nanoseconds (FIO_IO_U_PLAT_GROUP_NR)."""
_WAYS = ("0", "1")
_NS = 1e-9


def with_percentiles(
    series: Series, log: bytes | None, *, sample_s: float, samples: int, submission_share: float
) -> Series:
    """Return the series with the percentiles of each sample; unchanged if there is no such log, or a damaged one.

    log: the content of the file. sample_s: real seconds of one sample. samples: how many samples a line spans; each
    gets the percentiles of the whole line. submission_share: the share of submission in the mean latency of the run; if
    it is large, percentiles without it would lie below the mean that includes it, and are left out.
    """
    if not log or not len(series) or submission_share > _LARGEST_SUBMISSION:
        return series
    ios = [
        sum(rate.per_second for rate in series.iops[first : first + samples]) * sample_s
        for first in range(0, len(series), samples)
    ]
    try:
        merged = _merged(log, ios, span_ms=sample_s * samples * 1000)
    except (ValueError, OverflowError):
        return series
    rounded_off = log.count(b"\n") * sample_s * samples
    if sum(sum(bins.values()) for bins in merged) > sum(ios) * _MOST + rounded_off:
        return series
    spans = [_percentiles_s(bins, count) for bins, count in zip(merged, ios, strict=True)]
    if not any(spans):
        return series
    return dataclasses.replace(
        series,
        percentiles_s={
            name: tuple(spans[index // samples].get(name) for index in range(len(series)))
            for name in PERCENTS
        },
    )


def _percentiles_s(bins: Mapping[int, float], ios: float) -> dict[str, float]:
    """Return percentiles in seconds by name; empty if there were no I/Os, or too few of them are in the histogram."""
    counted = sum(bins.values())
    if not ios or not counted or counted < ios * _FEWEST:
        return {}
    return {name: percentile_of_bins(bins, percent) * _NS for name, percent in PERCENTS.items()}


def _merged(log: bytes, ios: Sequence[float], *, span_ms: float) -> list[dict[int, float]]:
    """Return for each span after the ramp how many I/Os had which latency in ns, over all jobs and directions.

    A line covers the time since the previous line. The line of a job that waited long for an I/O covers several spans:
    its counts are divided among them in proportion to ``ios``, all I/Os of each span.
    """
    merged: list[dict[int, float]] = [{} for _ in ios]
    ends: dict[str, float] = {}
    for end_ms, way, counts in _lines(log):
        end = end_ms / span_ms
        if end <= ends.get(way, 0.0) or (way in ends and end < _FIRST):
            ends = {}  # the next job's lines: the clock went back, or began again
        begin, ends[way] = ends.get(way, 0.0), end
        for number, share in _shares(begin, end, ios):
            bins = merged[number]
            for at_ns, count in counts.items():
                bins[at_ns] = bins.get(at_ns, 0.0) + count * share
    return merged


def _shares(begin: float, end: float, ios: Sequence[float]) -> list[tuple[int, float]]:
    """Return (span, share) of the spans that an interval covers; its ends snap to the nearest end of a span."""
    first, last = _snapped(begin), _snapped(end)
    if last <= first:
        first, last = begin, end
    weights = [
        (number, (min(last, number + 1) - max(first, number)) * ios[number])
        for number in range(math.floor(first), min(math.ceil(last), len(ios)))
    ]
    after_run = max(0.0, last - max(first, len(ios))) * ios[-1]
    total = sum(weight for _, weight in weights) + after_run
    return [(number, weight / total) for number, weight in weights if weight > 0]


def _snapped(at: float) -> float:
    return float(round(at)) if abs(at - round(at)) < _LATE else at


def _lines(log: bytes) -> Iterator[tuple[float, str, dict[int, int]]]:
    """Yield the end in ms, the direction and the counts of each line. A torn last line is left out.

    Raises ValueError for any other line that is not a histogram.
    """
    columns = _OCTAVES << _BITS >> HISTOGRAM_COARSENESS
    for line in log[: log.rfind(b"\n") + 1].decode("ascii", "replace").splitlines():
        fields = line.replace(" ", "").split(",")
        if len(fields) != columns + 3 or fields[1] not in _WAYS:
            raise ValueError(f"no histogram: {line[:80]!r}")
        end_ms = float(fields[0])
        counts = {_middle_ns(at): int(count) for at, count in enumerate(fields[3:]) if count != "0"}
        if not 0 <= end_ms < math.inf or min(counts.values(), default=0) < 0:
            raise ValueError(f"no histogram: {line[:80]!r}")
        yield end_ms, fields[1], counts


def _middle_ns(number: int) -> int:
    """Return the middle of a bin of the log, which consists of 2^coarseness of fio's own bins."""
    first, after = number << HISTOGRAM_COARSENESS, (number + 1) << HISTOGRAM_COARSENESS
    return (_least_ns(first) + _least_ns(after)) // 2


def _least_ns(number: int) -> int:
    """Return the lower edge of one of fio's bins (`plat_idx_to_val` in its stat.c)."""
    if number < 2 << _BITS:
        return number
    shift = (number >> _BITS) - 1
    return ((1 << _BITS) + number % (1 << _BITS)) << shift
