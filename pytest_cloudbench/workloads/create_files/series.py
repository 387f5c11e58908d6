"""The time series of created files, from the samples in the job's record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.workloads.create_files.record import Record, Sample

_SHORTEST_S = 0.1
"""Shorter intervals give no useful rate."""


@dataclass(frozen=True)
class DeviceSeries:
    """The writes sent to the devices, second by second until the end, by the devices' counters.

    `seconds` holds the end of each interval; the last interval may be shorter than a second.
    """

    gapless: ClassVar[bool] = True
    of_devices: ClassVar[bool] = True

    seconds: tuple[float, ...] = ()
    iops: tuple[Iops, ...] = ()
    throughput: tuple[Throughput, ...] = ()

    def to_dict(self) -> dict[str, list[float]]:
        """Return plain values; keys name the unit."""
        return {
            "seconds": list(self.seconds),
            "write_iops": [value.per_second for value in self.iops],
            "write_bytes_per_s": [value.bytes_per_second for value in self.throughput],
        }


@dataclass(frozen=True)
class FileSeries:
    """Rates second by second from the first file to the last, as written to the page cache.

    `seconds` holds the end of each interval since the start; the last interval ends with the last file and may be
    shorter than a second. `device` continues until all data is on the device; None if its counters are unknown.
    """

    seconds: tuple[float, ...] = ()
    files_per_second: tuple[float, ...] = ()
    throughput: tuple[Throughput, ...] = ()
    device: DeviceSeries | None = None

    def __len__(self) -> int:
        return len(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; keys name the unit."""
        return {
            "seconds": list(self.seconds),
            "files_per_s": list(self.files_per_second),
            "throughput_bytes_per_s": [value.bytes_per_second for value in self.throughput],
            "device": self.device.to_dict() if self.device else None,
        }


def series_of(record: Record) -> FileSeries:
    """Return the rates between the record's samples. An interval too short for a rate is joined to its neighbour."""
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
    """Return pairs of neighbouring points, from the start through the samples to the end."""
    points = [Sample(0.0, 0, 0, 0, 0)]
    for sample in samples:
        if sample.seconds - points[-1].seconds >= _SHORTEST_S and end.seconds - sample.seconds >= _SHORTEST_S:
            points.append(sample)
    points.append(end)
    return [(before, after) for before, after in pairwise(points) if after.seconds > before.seconds]


def _rate(pair: tuple[Sample, Sample], name: str) -> float:
    before, after = pair
    # The counts of several writers are not read at the same instant, so their sum may fall slightly.
    gained = max(0, (getattr(after, name) or 0) - (getattr(before, name) or 0))
    return float(gained / (after.seconds - before.seconds))
