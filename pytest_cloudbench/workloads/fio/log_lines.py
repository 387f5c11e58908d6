"""The lines of one of fio's logs of averages (log_avg_msec, per_job_logs=0), divided among its jobs.

A line is "ms, value, direction, ...": the time at which an interval ended, counted from the end of the ramp, and its
mean. One file contains the lines of one job after the other. A job's clock never goes back, so a clock that does starts
the next job. At its end a job writes one more line for the I/Os that were still in flight, often with the time stamp of
the line before: it covers next to no time, so it does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count, pairwise, repeat
from operator import lt, sub

from pytest_cloudbench.workloads.fio.errors import FioOutputError

INTERVAL_MS = 1000.0
_LONGEST_MS = 1.5 * INTERVAL_MS
"""After a gap, in which the job was idle, a value covers only the last interval."""
_IDLE_MS = 1.9 * INTERVAL_MS
"""The least gap in which a job can have been idle; a value after a shorter one was taken late and covers all of it."""
_LATE_MS = 0.05 * INTERVAL_MS
"""A log that ends so little before a full second covers all of it."""
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

    A torn last line is left out. Raises FioOutputError, with the line, if any other is no sample.
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
        # A job has one first interval, so a second one is the next job's: its only one, in a run of one sample.
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
        raise FioOutputError(f"line {number} is no sample: {line.decode('ascii', 'replace')[:80]!r}")
    raise FioOutputError("its lines hold no samples")
