"""One-second samples from fio's logs (log_avg_msec=1000, per_job_logs=0), summed over jobs.

A line is "ms, value, direction, ...": the time at which an interval ended, counted from the end of the ramp, and its
mean. Values are IOPS, KiB/s and ns. One file contains the lines of one job after the other. A job's clock never goes
back, so a clock that does starts the next job. At its end a job writes one more line for the I/Os that were still in
flight, often with the time stamp of the line before: it covers next to no time, so it does not count.

A job's intervals drift by some milliseconds, so each value is divided among the seconds that its interval covers. For
samples of another length the clock is scaled while reading, so that a sample is one second here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count, pairwise, repeat
from operator import add, lt, mul, sub

from pytest_cloudbench.limits.quantities import MIB, Iops, Throughput
from pytest_cloudbench.verdicts.damage import CONTRADICTS, contradicts
from pytest_cloudbench.workloads.fio.errors import FioOutputError
from pytest_cloudbench.workloads.fio.job import LOG_PREFIX
from pytest_cloudbench.workloads.fio.output import FioResult
from pytest_cloudbench.workloads.measurement import Direction, DirectionSeries, Series

INTERVAL_MS = 1000.0
_LONGEST_MS = 1.5 * INTERVAL_MS
"""After a gap, in which the job was idle, a value covers only the last interval."""
_IDLE_MS = 1.9 * INTERVAL_MS
"""The least gap in which a job can have been idle; a value after a shorter gap was logged late and covers all of it."""
_LATE_MS = 0.05 * INTERVAL_MS
"""A log that ends at most this long before a full second covers that second."""
READ, WRITE = 0, 1


@dataclass(frozen=True)
class _Track:
    """The intervals of one job in one direction: the end of each in ms, and its value."""

    ends: Sequence[float]
    values: Sequence[float]

    def by_second(self, seconds: int) -> list[float]:
        """Return for each second the sum of the values, each times the share of the second that it covers."""
        limit = seconds * INTERVAL_MS
        sums = [0.0] * (seconds + 3)
        begin, second, edge = 0.0, 0, INTERVAL_MS
        value = 0.0
        for end, value in zip(self.ends, self.values, strict=True):
            if end - begin > _IDLE_MS and end > 2 * INTERVAL_MS:
                begin = end - _LONGEST_MS
                second = int(begin / INTERVAL_MS)
                edge = (second + 1) * INTERVAL_MS
            if begin >= limit:
                break
            while end > edge:
                sums[second] += (edge - begin) * value
                begin = edge
                edge += INTERVAL_MS
                second += 1
            sums[second] += (end - begin) * value
            begin = end
        else:
            if edge - begin < _LATE_MS:
                sums[second] += (edge - begin) * value
        return [each / INTERVAL_MS for each in sums[:seconds]]

    def shares(self, seconds: int) -> list[float]:
        """Return the share of each second that the intervals cover."""
        longest = max(map(sub, self.ends[1:], self.ends), default=0.0)
        if longest <= _IDLE_MS and self.ends[0] < 2 * INTERVAL_MS and self.ends[-1] >= seconds * INTERVAL_MS:
            return [1.0] * seconds
        return _Track(self.ends, [1.0] * len(self.ends)).by_second(seconds)


Job = dict[float, _Track]
"""The tracks of one job by direction."""


def read_jobs(log: bytes, sample_s: float) -> list[Job]:
    """Return the jobs of a log, with the clock scaled so that a sample of `sample_s` takes one second.

    A torn last line is left out. Raises FioOutputError, with the line, if any other is not a sample.
    """
    ends, values, ways = _columns(log[: log.rfind(b"\n") + 1].splitlines())
    if not ends:
        return []
    if sample_s != 1:
        ends = [end / sample_s for end in ends]
    return [
        _job(ends[first:after], values[first:after], ways[first:after]) for first, after in _spans(ends, ways)
    ]


def _job(ends: Sequence[float], values: Sequence[float], ways: Sequence[float]) -> Job:
    if len(set(ways)) == 1:
        return {ways[0]: _Track(ends, values)}
    return {
        way: _Track(
            [end for end, its in zip(ends, ways, strict=True) if its == way],
            [value for value, its in zip(values, ways, strict=True) if its == way],
        )
        for way in set(ways)
    }


def _spans(ends: Sequence[float], ways: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the first index of each job's lines and the index after its last."""
    back = compress(count(1), map(lt, ends[1:], ends))
    for begin, after in pairwise([0, *back, len(ends)]):
        # A job has one first interval per direction. In a run of one sample, a second one is the next job's.
        first, seen = begin, set[float]()
        for index in range(begin, after):
            if ends[index] >= _LONGEST_MS:
                break
            if ways[index] in seen:
                yield first, index
                first, seen = index, set()
            seen.add(ways[index])
        yield first, after


def _columns(lines: Sequence[bytes]) -> tuple[list[float], list[float], list[float]]:
    """Return times in ms, values and directions. Raises FioOutputError for a line that holds anything else."""
    from msgspec import DecodeError, json

    if not lines:
        return [], [], []
    width = lines[0].count(b",") + 1
    decoder = json.Decoder(list[float])
    try:
        numbers = decoder.decode(b"[" + b",".join(lines) + b"]")
        ends, values, ways = numbers[::width], numbers[1::width], numbers[2::width]
        regular = width > 2 and set(map(bytes.count, lines, repeat(b","))) == {width - 1}
        if regular and min(ends) >= 0 and min(values) >= 0 and set(ways) <= {READ, WRITE}:
            return ends, values, ways
    except DecodeError:
        pass
    for number, line in enumerate(lines, 1):
        try:
            numbers = decoder.decode(b"[" + line + b"]")
            if len(numbers) == width > 2 and min(numbers[:2]) >= 0 and numbers[2] in (READ, WRITE):
                continue
        except DecodeError:
            pass
        raise FioOutputError(f"line {number} is not a sample: {line.decode('ascii', 'replace')[:80]!r}")
    raise FioOutputError("its lines hold no samples")


IOPS_LOG = f"{LOG_PREFIX}_iops.log"
BANDWIDTH_LOG = f"{LOG_PREFIX}_bw.log"
LATENCY_LOG = f"{LOG_PREFIX}_lat.log"
LOGS = (IOPS_LOG, BANDWIDTH_LOG, LATENCY_LOG)

_ENOUGH_SAMPLES = 5
_ENOUGH_OF_THE_RUN = 0.8

_Rates = dict[float, list[float]]
"""The value of each second, by direction."""


def series_from_logs(
    logs: dict[str, bytes], *, runtime_s: float, sample_s: float = 1.0, compression: float = 1.0
) -> Series:
    """Return the series of a run from its three logs; empty if fio wrote none, as in runs under 2 s.

    The last sample is left out if the run, or the jobs' last intervals, do not cover it. `runtime_s` and `sample_s` are
    real seconds, each of which represents `compression` seconds of the test in the series.
    """
    jobs: dict[str, list[Job]] = {}
    for name in LOGS:
        try:
            jobs[name] = read_jobs(logs.get(name, b""), sample_s)
        except FioOutputError as error:
            return Series(damage=f"fio's {name}: {error}")
    seconds = min(_covered_seconds(jobs[IOPS_LOG]), int(runtime_s / sample_s + 0.05))
    if seconds < 1:
        return Series()
    rates = [_by_second(job, seconds) for job in jobs[IOPS_LOG]]
    iops = _summed(rates)
    bandwidth = _summed(_by_second(job, seconds) for job in jobs[BANDWIDTH_LOG])
    latency = _mean_latency(rates, jobs[LATENCY_LOG], seconds)
    ways = [way for way in (READ, WRITE) if any(iops.get(way, ()))]
    apart = {way: _direction(iops, bandwidth, latency, way, seconds) for way in ways}
    total = _together(list(apart.values()), seconds)
    return Series(
        seconds=tuple((index + 1) * sample_s * compression for index in range(seconds)),
        iops=total.iops,
        throughput=total.throughput,
        latency_s=total.latency_s,
        read=apart.get(READ),
        write=apart.get(WRITE),
    )


def with_series_means(result: FioResult, series: Series, *, sample_s: float) -> FioResult:
    """Return the result with the mean rates of its series, if the series covers most of the run in enough samples.

    fio's own figures divide by a time that includes collecting the last I/Os, so they are low by about one mean
    latency: 0.6 % for 1,024 I/Os in flight at 16,000 IOPS over 10 s (measured). If the series contradicts them, both
    are kept, so that no verdict rests on either. If the series is lower by more than `CONTRADICTS`, the time that it
    leaves out was faster, and fio's figures stay.
    """
    count = len(series)
    if count < _ENOUGH_SAMPLES or count * sample_s < _ENOUGH_OF_THE_RUN * result.runtime_s:
        return result
    lengths_s = [sample_s] * count
    for samples, mean in (
        ([rate.per_second for rate in series.iops], result.iops),
        ([rate.mib for rate in series.throughput], result.throughput_mib),
    ):
        lower = mean - sum(samples) / count > CONTRADICTS * mean
        if lower or contradicts(samples, lengths_s, mean, result.runtime_s):
            return result
    return replace(
        result, read=_with_means(result.read, series.read), write=_with_means(result.write, series.write)
    )


def _with_means(direction: Direction | None, series: DirectionSeries | None) -> Direction | None:
    if direction is None or series is None:
        return direction
    count = len(series.iops)
    return replace(
        direction,
        iops=sum(value.per_second for value in series.iops) / count,
        throughput_mib=sum(value.bytes_per_second for value in series.throughput) / count / MIB,
    )


def _covered_seconds(jobs: Sequence[Job]) -> int:
    """Return the number of whole seconds before the first job's log ends: later sums would lack a job.

    Jobs that ended long before the others (an error, a small size) do not shorten the series.
    """
    ends = [max(track.ends[-1] for track in job.values()) for job in jobs]
    if not ends:
        return 0
    longest = max(ends)
    last = min(end for end in ends if end > longest - 2 * INTERVAL_MS)
    return int((last + _LATE_MS) // INTERVAL_MS)


def _by_second(job: Job, seconds: int) -> _Rates:
    return {way: track.by_second(seconds) for way, track in job.items()}


def _summed(jobs: Iterable[_Rates]) -> _Rates:
    total: _Rates = {}
    for job in jobs:
        for way, values in job.items():
            total[way] = list(map(add, total[way], values)) if way in total else values
    return total


def _mean_latency(
    rates: Sequence[_Rates], jobs: Sequence[Job], seconds: int
) -> dict[float, list[float | None]]:
    """Return the mean latency in ns of each second by direction, with each job weighted by its IOPS in that second.

    Empty if the logs differ in their number of jobs, because rates cannot be matched with latencies then.
    """
    if len(rates) != len(jobs):
        return {}
    weighted, weights = [], []
    for job, rate in zip(jobs, rates, strict=True):
        known = {way: track for way, track in job.items() if way in rate}
        weighted.append(
            {way: list(map(mul, track.by_second(seconds), rate[way])) for way, track in known.items()}
        )
        weights.append(
            {way: list(map(mul, track.shares(seconds), rate[way])) for way, track in known.items()}
        )
    totals, counts = _summed(weighted), _summed(weights)
    return {
        way: [total / count if count else None for total, count in zip(totals[way], counts[way], strict=True)]
        for way in totals
    }


def _direction(
    iops: _Rates, bandwidth: _Rates, latency: dict[float, list[float | None]], way: float, seconds: int
) -> DirectionSeries:
    kib = bandwidth.get(way, [0.0] * seconds)
    latency_ns = latency.get(way, [None] * seconds)
    return DirectionSeries(
        iops=tuple(Iops(value) for value in iops[way]),
        throughput=tuple(Throughput(value * 1024.0) for value in kib),
        latency_s=tuple(None if value is None else value * 1e-9 for value in latency_ns),
    )


def _together(parts: Sequence[DirectionSeries], seconds: int) -> DirectionSeries:
    """Return the sum of the directions, with the mean latency of all their I/Os."""
    if len(parts) == 1:
        return parts[0]
    columns = [zip(part.iops, part.throughput, part.latency_s, strict=True) for part in parts]
    rows = list(zip(*columns, strict=True)) or [()] * seconds
    return DirectionSeries(
        iops=tuple(Iops(sum(iops.per_second for iops, _, _ in row)) for row in rows),
        throughput=tuple(Throughput(sum(rate.bytes_per_second for _, rate, _ in row)) for row in rows),
        latency_s=tuple(_weighted([(mean_s, iops.per_second) for iops, _, mean_s in row]) for row in rows),
    )


def _weighted(pairs: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
