"""The measurement of created files: in the page cache, on the device, and second by second."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar

from pytest_cloudbench.limits.cost import Cost
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay
from pytest_cloudbench.verdicts.verdict import Verdict, judging
from pytest_cloudbench.workloads.create_files.series import DeviceSeries, FileSeries
from pytest_cloudbench.workloads.judged import Judged

_LITTLE = 0.01
"""The share of the data up to which writes count as the file system's own, such as its log."""


class NotOnDevice(ValueError):
    """A verdict about the device needs a measurement that waited for the device."""


@dataclass(frozen=True)
class Marker:
    """An empty file created right before the first file or right after the last one."""

    path: str
    mtime_ns: int

    @property
    def mtime(self) -> str:
        """The modification time by the host's clock, ISO 8601 in UTC, to the microsecond."""
        return datetime.fromtimestamp(self.mtime_ns / 1e9, timezone.utc).isoformat(timespec="microseconds")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; keys name the unit."""
        return {"path": self.path, "mtime": self.mtime, "mtime_ns": self.mtime_ns}


@dataclass(frozen=True)
class DeviceWrites:
    """The write I/Os and bytes sent to the devices below the file system until a moment."""

    ios: int
    size: Size

    def to_dict(self) -> dict[str, int]:
        """Return plain values; keys name the unit."""
        return {"ios": self.ios, "bytes": self.size.bytes}


@dataclass(frozen=True)
class DeviceSide:
    """The created files as verdicts judge them: a sequential write load on the device."""

    ios_merge: ClassVar[bool] = True
    """True if the kernel decides how many I/Os carry the data."""
    iops: float
    throughput_mib: float
    block_size: Size
    series: DeviceSeries | None
    envelope: Envelope | None
    counters: ThrottleDelta | None
    generator: GeneratorLoad | None
    outstanding_asked: int
    runtime_s: float
    conditions: tuple[str, ...]
    machine_delay: MachineDelay | None = None
    sequential: bool = True
    latency_mean_s: float = math.nan
    more_load_by: str = "workers"
    idle_at_start_s: float = 0.0


@dataclass(frozen=True, repr=False)
class FileCreation(Judged):
    """The measurement of files created on a mounted target.

    Verdicts judge the data that reached the device: `throughput`; for an IOPS target the device's own write I/Os;
    second by second the device's series. With sync="none" they raise NotOnDevice.
    """

    files: int
    """Number of files created; `asked` holds the requested number."""
    size: Size
    """Size of each file."""
    written_s: float
    """Seconds from the start of the first file until the last was written, page cache included."""
    on_device_s: float | None
    """Seconds from the same start until a sync of that file system ended; None with sync="none"."""
    series: FileSeries
    """Rates of files and of the device, second by second."""
    start_marker: Marker | None
    """Empty file created right before the first file; its time is exact to some milliseconds."""
    end_marker: Marker | None
    """Empty file created right after the last file."""
    device_when_written: DeviceWrites | None
    """Writes sent to the device until `written_s`; None if its counters are unknown."""
    device_writes: DeviceWrites | None
    """Writes sent to the device until the end; None if its counters are unknown."""
    block_size: Size
    """Mean size of the device's writes; if unknown, the largest write that counts as one I/O."""
    method: str
    """"python" or "dd"."""
    tool_version: str
    """Version of the tool."""
    command: str
    """The command that ran on the host."""
    host: str
    """Label of the host."""
    target: str
    """Label of the target."""
    started_at: str
    """Start of the run in UTC, ISO 8601."""
    folder: str | None = None
    """Folder of the files with keep=True; None if they were removed."""
    envelope: Envelope | None = None
    """The ceilings that applied; None if unknown."""
    counters: ThrottleDelta | None = None
    """Time above each limit during the run, by the throttle counters; None if they could not be read."""
    generator: GeneratorLoad | None = None
    """CPU load of the creating processes over `elapsed_s`; None if unknown."""
    machine_delay: MachineDelay | None = None
    """Mean time of an I/O as an embedded region modelled it, and the delay that its machine added; None on AWS."""
    cost: Cost | Any = None
    """Cost of the test's hardware while the files were created; None without prices."""
    conditions: tuple[str, ...] = ()
    """What a reader must know of this run: its pace, caps, deviations."""
    asked: dict[str, Any] = field(default_factory=dict)
    """The workload's own parameters."""
    raw: dict[str, bytes] = field(default_factory=dict)
    """The tool's own output files, by name."""
    on_verdict: Callable[[Verdict], None] | None = field(default=None, compare=False)
    """Called with every verdict."""
    on_comparison: Callable[..., None] | None = field(default=None, compare=False)
    """Called for every verdict that compares runs, as `Judged` says."""

    @property
    def complete(self) -> bool:
        """True if all requested files were created."""
        return self.files == self.asked.get("count")

    @property
    def data(self) -> Size:
        """The size of all created files together."""
        return self.size * self.files

    @property
    def elapsed_s(self) -> float:
        """Seconds until all data was on the device; with sync="none" until the last file was written."""
        return self.written_s if self.on_device_s is None else self.on_device_s

    @property
    def files_per_second(self) -> float:
        """Files per second until the last file was written, page cache included."""
        return self.files / self.written_s

    @property
    def files_per_second_on_device(self) -> float | None:
        """Files per second until all were on the device; None with sync="none"."""
        return None if self.on_device_s is None else self.files / self.on_device_s

    @property
    def written_throughput(self) -> Throughput:
        """Bytes per second until the last file was written, page cache included."""
        return Throughput(self.data.bytes / self.written_s)

    @property
    def throughput(self) -> Throughput | None:
        """Bytes per second until all files were on the device; None with sync="none"."""
        return None if self.on_device_s is None else Throughput(self.data.bytes / self.on_device_s)

    @property
    def throughput_mib(self) -> float | None:
        """`throughput` as a plain number of MiB/s."""
        return None if self.throughput is None else self.throughput.mib

    @property
    def written_throughput_mib(self) -> float:
        """`written_throughput` as a plain number of MiB/s."""
        return self.written_throughput.mib

    @property
    def markers_s(self) -> float | None:
        """Seconds between the modification times of the two marker files."""
        if self.start_marker is None or self.end_marker is None:
            return None
        return (self.end_marker.mtime_ns - self.start_marker.mtime_ns) / 1e9

    @property
    def left_in_page_cache(self) -> Size | None:
        """The data that had not reached the device when the last file was written; None if unknown."""
        if self.device_when_written is None:
            return None
        return Size(max(0, self.data.bytes - self.device_when_written.size.bytes))

    @property
    def work(self) -> dict[str, object]:
        """The work done; the times of two measurements are comparable only if it is equal."""
        names = ("sync", "content", "workers", "per_folder")
        return {
            "files": self.files,
            "size": self.size,
            "method": self.method,
            **{name: self.asked.get(name) for name in names},
        }

    @property
    def device_side(self) -> DeviceSide:
        """The load on the device over `elapsed_s`, as verdicts on ceilings judge it."""
        writes = self.device_writes
        throughput = Throughput(self.data.bytes / self.elapsed_s)
        iops = throughput.in_ios_of(self.block_size).per_second
        ios = -(-self.data.bytes // self.block_size.bytes)
        if self.asked.get("sync") == "each":
            # Each writer waits for one file before it begins the next.
            in_flight = self.asked.get("workers", 1) * -(-self.size.bytes // self.block_size.bytes)
            ios = min(ios, in_flight)
        return DeviceSide(
            iops=writes.ios / self.elapsed_s if writes else iops,
            throughput_mib=throughput.mib,
            block_size=self.block_size,
            series=self.series.device,
            envelope=self.envelope,
            counters=self.counters,
            generator=self.generator,
            outstanding_asked=ios,
            runtime_s=self.elapsed_s,
            conditions=self.conditions,
            machine_delay=self.machine_delay,
            idle_at_start_s=self._idle_at_start_s,
        )

    @property
    def _idle_at_start_s(self) -> float:
        """Seconds at the start in which data went only into the page cache, by the one-second samples."""
        when_written, device = self.device_when_written, self.series.device
        if when_written is None or device is None:
            return 0.0
        little = _LITTLE * self.data.bytes
        if when_written.size.bytes <= little:
            return self.written_s
        given = idle_s = 0.0
        for end_s, rate in zip(device.seconds, device.throughput, strict=True):
            given += rate.bytes_per_second * (end_s - idle_s)
            if given > little:
                break
            idle_s = end_s
        return idle_s

    @judging
    def faster_than(self, other: FileCreation, *, by: float = 1.0) -> Verdict:
        """Judge whether the same work was at least `by` times as fast on the device as in `other` (1.3: 30 % more)."""
        from pytest_cloudbench.verdicts.faster_than import faster_than

        return self._compared(faster_than(self, other, by=by), (self, other))

    def _observed(self) -> DeviceSide:
        if self.on_device_s is None:
            raise NotOnDevice(
                f"with sync='none' the time at which the files on {self.target} reached the device is unknown; only "
                "the page cache was measured: use sync='end' or sync='each'"
            )
        return self.device_side

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for reports and JSON; keys name the unit. Raw files are listed by name only."""
        left = self.left_in_page_cache
        return {
            "workload": "create_files",
            "files": self.files,
            "size_bytes": self.size.bytes,
            "complete": self.complete,
            "written_s": self.written_s,
            "on_device_s": self.on_device_s,
            "files_per_s": self.files_per_second,
            "files_per_s_on_device": self.files_per_second_on_device,
            "written_throughput_mib_per_s": self.written_throughput_mib,
            "throughput_mib_per_s": self.throughput_mib,
            "start_marker": self.start_marker.to_dict() if self.start_marker else None,
            "end_marker": self.end_marker.to_dict() if self.end_marker else None,
            "markers_s": self.markers_s,
            "device_when_written": self.device_when_written.to_dict() if self.device_when_written else None,
            "device_writes": self.device_writes.to_dict() if self.device_writes else None,
            "left_in_page_cache_bytes": None if left is None else left.bytes,
            "series": self.series.to_dict(),
            "block_size_bytes": self.block_size.bytes,
            "method": self.method,
            "tool_version": self.tool_version,
            "command": self.command,
            "host": self.host,
            "target": self.target,
            "started_at": self.started_at,
            "folder": self.folder,
            "envelope": list(self.envelope.explain()) if self.envelope else None,
            "throttle_counters": asdict(self.counters) if self.counters else None,
            "generator": asdict(self.generator) if self.generator else None,
            "machine_delay": asdict(self.machine_delay) if self.machine_delay else None,
            "cost": str(self.cost) if self.cost is not None else None,
            "conditions": list(self.conditions),
            "asked": dict(self.asked),
            "raw_files": sorted(self.raw),
        }

    def __repr__(self) -> str:
        on_device = ""
        if self.on_device_s is not None and self.throughput is not None:
            on_device = f"; on the device after {self.on_device_s:,.2f} s, {self.throughput}"
        return (
            f"{self.files:,} files of {self.size} on {self.target}: written after {self.written_s:,.2f} s, "
            f"{self.files_per_second:,.0f} files/s{on_device}"
            + (f" ({'; '.join(self.conditions)})" if self.conditions else "")
        )
