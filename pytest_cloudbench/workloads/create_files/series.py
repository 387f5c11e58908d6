"""The time series of a creation of files, from the samples that its job took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.workloads.create_files.record import Record, Sample

_SHORTEST_S = 0.1


@dataclass(frozen=True)
class DeviceSeries:
    """What the devices were given to write, second by second, by their own counters, until the end.

    `seconds` holds the end of each interval; the last may be shorter than a second.
    """

    seconds: tuple[float, ...] = ()
    iops: tuple[Iops, ...] = ()
    throughput: tuple[Throughput, ...] = ()

    def to_dict(self) -> dict[str, list[float]]:
        """Plain values; the keys carry the unit."""
        return {
            "seconds": list(self.seconds),
            "write_iops": [value.per_second for value in self.iops],
            "write_bytes_per_s": [value.bytes_per_second for value in self.throughput],
        }


@dataclass(frozen=True)
class FileSeries:
    """Rates second by second, from the first file to the last; what was written went into the page cache.

    `seconds` holds the end of each interval, counted from the start; the last ends with the last file and may be
    shorter than a second. `device` goes on until all is on the device; None where its counters are not known.
    """

    seconds: tuple[float, ...] = ()
    files_per_second: tuple[float, ...] = ()
    throughput: tuple[Throughput, ...] = ()
    device: DeviceSeries | None = None

    def __len__(self) -> int:
        return len(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the keys carry the unit."""
        return {
            "seconds": list(self.seconds),
            "files_per_s": list(self.files_per_second),
            "throughput_bytes_per_s": [value.bytes_per_second for value in self.throughput],
            "device": self.device.to_dict() if self.device else None,
        }


def series_of(record: Record) -> FileSeries:
    """The rates between the record's samples. An interval too short for a rate is joined to its neighbour."""
    if record.written is None:
        return FileSeries()
    writing = _intervals(record.samples, record.written)
    return FileSeries(
        seconds=tuple(after.seconds for _, after in writing),
        files_per_second=tuple(_rate(pair, "files") for pair in writing),
        throughput=tuple(Throughput(_rate(pair, "bytes")) for pair in writing),
        device=_device_series(record, record.written),
    )


def _device_series(record: Record, written: Sample) -> DeviceSeries | None:
    if written.device_bytes is None:
        return None
    intervals = _intervals(record.samples, record.synced or written)
    return DeviceSeries(
        seconds=tuple(after.seconds for _, after in intervals),
        iops=tuple(Iops(_rate(pair, "device_ios")) for pair in intervals),
        throughput=tuple(Throughput(_rate(pair, "device_bytes")) for pair in intervals),
    )


def _intervals(samples: Sequence[Sample], end: Sample) -> list[tuple[Sample, Sample]]:
    """From the start over the samples to the end, each with the one before it."""
    points = [Sample(0.0, 0, 0, 0, 0)]
    for sample in samples:
        if sample.seconds - points[-1].seconds >= _SHORTEST_S and end.seconds - sample.seconds >= _SHORTEST_S:
            points.append(sample)
    points.append(end)
    return [(before, after) for before, after in pairwise(points) if after.seconds > before.seconds]


def _rate(pair: tuple[Sample, Sample], name: str) -> float:
    before, after = pair
    # Counts of several writers are not read at one instant: they may seem to go back by a little.
    gained = max(0, (getattr(after, name) or 0) - (getattr(before, name) or 0))
    return float(gained / (after.seconds - before.seconds))
