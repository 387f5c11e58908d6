"""Parse fio's running totals: with --status-interval fio prints its whole result repeatedly while it runs.

Each result is a JSON object over all jobs of the group, cumulative from their start, with histograms. The difference
of two results is therefore the load between two moments, percentiles included, and a run is measured by it. fio's
final figures are not used: their time includes the collection of the last I/Os but their count does not, and after
fio's own ramp each job begins to count when it collects a batch. Both shift the rate by one mean latency.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.workloads.fio.errors import FioOutputError
from pytest_cloudbench.workloads.fio.output import (
    PERCENTS,
    amount,
    check_job,
    percentile_of_bins,
)
from pytest_cloudbench.workloads.measurement import Direction, DirectionSeries, Latency, Series

_NS = 1e-9
_MIB = 2.0**20


@dataclass(frozen=True)
class Way:
    """Reads or writes since a moment: completed I/Os, bytes, the sum of the latencies in ns, and their histogram.

    ``bins`` count I/Os by latency in ns; fio's bins are at most 1.6 % wide.
    """

    ios: int = 0
    bytes: float = 0.0
    sum_ns: float = 0.0
    bins: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, part: Mapping[str, Any], block_bytes: int | None = None) -> Way:
        """Parse one direction of one job of fio's JSON. ``block_bytes`` is the only block size, None for several.

        The byte count is derived from the latency count: while the load runs, fio reads them at different moments.
        """
        stats = part.get("lat_ns") or {}
        timed = int(amount(stats, "N"))
        if not timed:
            return cls()
        total, moved = int(amount(part, "total_ios")), amount(part, "io_bytes")
        return cls(
            ios=timed,
            bytes=float(timed * (block_bytes or (moved / total if total else 0.0))),
            sum_ns=amount(stats, "mean") * timed,
            bins=Counter(
                {int(value): int(amount(stats["bins"], value)) for value in stats.get("bins") or {}}
            ),
        )

    def __add__(self, other: Way) -> Way:
        if not other.ios or not self.ios:
            return self if self.ios else other
        return Way(
            self.ios + other.ios,
            self.bytes + other.bytes,
            self.sum_ns + other.sum_ns,
            self.bins + other.bins,
        )

    def since(self, earlier: Way) -> Way:
        """Return the difference to ``earlier``."""
        bins = Counter(self.bins)
        bins.subtract(earlier.bins)
        return Way(
            max(0, self.ios - earlier.ios),
            max(0.0, self.bytes - earlier.bytes),
            max(0.0, self.sum_ns - earlier.sum_ns),
            Counter({value: count for value, count in bins.items() if count > 0}),
        )

    @property
    def mean_s(self) -> float | None:
        """Mean latency in seconds; None without I/Os."""
        return self.sum_ns / self.ios * _NS if self.ios else None

    def percentile_s(self, percent: float) -> float | None:
        """Return a percentile of the latency in seconds, from the histogram; None without I/Os."""
        return percentile_of_bins(self.bins, percent) * _NS if self.bins else None

    def latency(self) -> Latency | None:
        """Return the latency of all I/Os; minimum and maximum come from the histogram."""
        if not self.ios or not self.bins:
            return None
        at = {f"{name}_s": self.percentile_s(percent) for name, percent in PERCENTS.items()}
        low, high = min(self.bins) * _NS, max(self.bins) * _NS
        return Latency(mean_s=self.sum_ns / self.ios * _NS, min_s=low, max_s=high, **at)

    def to_fio(self) -> dict[str, Any]:
        """Return the histogram in the format of fio's JSON."""
        bins = {str(at_ns): count for at_ns, count in sorted(self.bins.items())}
        return {"total_ios": self.ios, "lat_ns": {"N": sum(bins.values()), "bins": bins}}

    def direction(self, seconds: float) -> Direction | None:
        """Return the means over ``seconds``; None without I/Os."""
        if not self.ios:
            return None
        return Direction(
            self.ios / seconds, self.bytes / seconds / _MIB, self.ios, int(self.bytes), self.latency()
        )


@dataclass(frozen=True)
class Totals:
    """All jobs together since a moment: seconds, reads, writes and CPU load.

    ``cpu_percent`` is the mean over the jobs, in per cent of one processor.
    """

    seconds: float
    read: Way
    write: Way
    cpu_percent: float = 0.0
    version: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any], block_bytes: int | None = None) -> Totals:
        """Parse one JSON object of fio, of one group or of many jobs.

        Raises StorageLost or FioRefused with a job's error, FioOutputError for invalid JSON.
        """
        jobs = document.get("jobs")
        if not isinstance(jobs, list) or not jobs:
            raise FioOutputError("fio's JSON lists no job")
        try:
            for job in jobs:
                check_job(job)
            return cls(
                seconds=max(amount(job[way], "runtime") for job in jobs for way in ("read", "write")) / 1000,
                read=sum((Way.of(job["read"], block_bytes) for job in jobs), Way()),
                write=sum((Way.of(job["write"], block_bytes) for job in jobs), Way()),
                cpu_percent=sum(amount(job, "usr_cpu") + amount(job, "sys_cpu") for job in jobs) / len(jobs),
                version=str(document.get("fio version", "fio of unknown version")),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FioOutputError(f"fio's JSON holds an invalid value: {error!r}") from None

    @property
    def both(self) -> Way:
        """Reads and writes together."""
        return self.read + self.write

    def to_fio(self) -> bytes:
        """Return the histograms in the format of fio's JSON, as one job."""
        job = {"jobname": "measured", "read": self.read.to_fio(), "write": self.write.to_fio()}
        return json.dumps({"jobs": [job]}).encode()

    def since(self, earlier: Totals) -> Totals:
        """Return the difference to ``earlier``; the CPU load stays that of the whole run."""
        return replace(
            self,
            seconds=self.seconds - earlier.seconds,
            read=self.read.since(earlier.read),
            write=self.write.since(earlier.write),
        )


class StatusReader:
    """Parses fio's standard output into totals, in pieces as they arrive."""

    def __init__(self, block_bytes: int | None = None) -> None:
        """block_bytes: the only block size of the load, None if it has several."""
        self._block_bytes = block_bytes
        self._lines: list[str] = []
        self._rest = ""
        self._open = False
        self.notes: list[str] = []

    def feed(self, text: str) -> list[tuple[Totals, str]]:
        """Return the totals that `text` completes, each with its JSON. Other lines go to `notes`."""
        found = []
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if not self._open:
                self._open = line == "{"
                if not self._open:
                    self.notes += [line.strip()] if line.strip() else []
                    continue
            self._lines.append(line)
            if line == "}":
                document = "\n".join(self._lines)
                self._lines, self._open = [], False
                found.append((Totals.of(_decoded(document), self._block_bytes), document))
        return found


def _decoded(document: str) -> dict[str, Any]:
    try:
        decoded: dict[str, Any] = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise FioOutputError(f"fio's JSON is damaged: {error}") from None
    if not isinstance(decoded, dict):
        raise FioOutputError("fio's JSON is not an object")
    return decoded


NOTHING = Totals(0.0, Way(), Way())
"""The totals before the first I/O."""


def series_of(totals: Sequence[Totals]) -> Series:
    """Return one sample for each pair of neighbouring totals, in seconds since the first of them."""
    samples = [(now.seconds - totals[0].seconds, now.since(before)) for before, now in pairwise(totals)]
    between = [(each.seconds, each.both) for _, each in samples]
    return Series(
        seconds=tuple(at for at, _ in samples),
        iops=tuple(Iops(way.ios / length) for length, way in between),
        throughput=tuple(Throughput(way.bytes / length) for length, way in between),
        latency_s=tuple(way.mean_s for _, way in between),
        read=_direction([(each.seconds, each.read) for _, each in samples]),
        write=_direction([(each.seconds, each.write) for _, each in samples]),
        percentiles_s={
            name: tuple(way.percentile_s(percent) for _, way in between) for name, percent in PERCENTS.items()
        },
        gapless=True,
    )


def _direction(samples: list[tuple[float, Way]]) -> DirectionSeries | None:
    if not any(way.ios for _, way in samples):
        return None
    return DirectionSeries(
        iops=tuple(Iops(way.ios / length) for length, way in samples),
        throughput=tuple(Throughput(way.bytes / length) for length, way in samples),
        latency_s=tuple(way.mean_s for _, way in samples),
    )
