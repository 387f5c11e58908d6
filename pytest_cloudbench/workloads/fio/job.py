"""A fio job: typed fields for the parameters that promises depend on; any other fio option is passed through."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.options import check_passed_through, option_text
from pytest_cloudbench.workloads.fio.rates import RateShare, share_rates

PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw")
SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""Engines that finish each I/O before the next: fio limits their depth to one."""
SECTOR_BYTES = 512
"""Direct I/O is a multiple of this (open(2), O_DIRECT)."""
RESULT_FILE = "result.json"
LOG_PREFIX = "series"
HISTOGRAM_COARSENESS = 2
"""The log merges 2^2 of fio's own bins into one: at most 6 % wide, and 1.4 KB a line."""

_MOST_HISTOGRAMS = 4000
"""Histograms that fio may hold until it ends. Each takes 14.5 KiB of the host's memory, however coarse the log."""
_IO_RECORD = Size(2 << 10)
"""fio's record of an I/O in flight, with the kernel's: struct io_u of fio 3.33 has 1 KiB on x86-64."""
_PROCESS = Size(1 << 20)
"""Memory of a job's process: 300 jobs of depth 1 of fio 3.33 took 314 MB of a host's available memory."""
_READS = frozenset({"read", "randread", "rw", "randrw"})
_WRITES = frozenset({"write", "randwrite", "rw", "randrw"})
_SAME_PATTERN = {"readwrite": "rw"}
_RATE_PROCESSES = ("linear", "poisson")


_OTHER_NAMES = {
    "block_size": "bs",
    "depth": "iodepth",
    "duration": "runtime",
    "jobs": "numjobs",
    "queue_depth": "iodepth",
    "time": "runtime",
}
"""Option names that users may try first, and that fio lacks; others are checked on the host."""


@dataclass(frozen=True)
class FioJob:
    """One fio workload.

    rw: read, write, randread, randwrite, rw or randrw.
    bs: the one block size. iodepth: I/Os in flight per job. numjobs: jobs per device.
    runtime, ramp_time: seconds; the ramp comes first and is not measured.
    size: per job; required in a directory; by default the whole device or file.
    rwmixread: per cent of reads in a mixed pattern (fio's default is 50).
    rate_iops, rate: TOTAL arrival rate over all jobs, devices and both directions. (fio's options of these names are
    per job and per direction; `to_argv` divides the totals.)
    rate_process: "linear" or "poisson". fsync: the number of writes between two fsync.
    sample_s: the length of one sample of the series, in seconds.
    overwrite: True destroys what a raw device carries, which is refused otherwise. In a directory it is fio's option:
    files are laid out before they are written.
    options: any further fio options, checked against the fio on the host before the job starts.

    `FioJob.of(...)` parses user input (bs="4k", rate="100m", further options as keywords).
    """

    rw: str
    bs: Size
    iodepth: int = 1
    numjobs: int = 1
    runtime: float = 60
    ramp_time: float = 0
    size: Size | None = None
    ioengine: str = "libaio"
    direct: bool = True
    rwmixread: int | None = None
    rate_iops: Iops | None = None
    rate: Throughput | None = None
    rate_process: str | None = None
    fsync: int | None = None
    sample_s: float = 1.0
    name: str = "cloudbench"
    overwrite: bool | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls,
        rw: str,
        bs: str | int | Size = "4k",
        *,
        size: str | int | Size | None = None,
        rate_iops: float | Iops | None = None,
        rate: str | int | Throughput | None = None,
        **fields_and_options: Any,
    ) -> FioJob:
        """Parse a job from fio's own words. Keywords that are not fields become further fio options.

        Raises BadFioJob, which names the field, the value and the valid values.
        """
        known = {each.name for each in dataclasses.fields(cls)} - {"options"}
        fields = {key: value for key, value in fields_and_options.items() if key in known}
        options = {key: value for key, value in fields_and_options.items() if key not in known}
        for key in options.keys() & _OTHER_NAMES.keys():
            raise BadFioJob(f"fio has no option {key}=: did you mean {_OTHER_NAMES[key]}=?")
        return cls(
            rw=_SAME_PATTERN.get(rw, rw),
            bs=_size("bs", bs),
            size=None if size is None else _size("size", size),
            rate_iops=_iops(rate_iops),
            rate=_throughput(rate),
            options=options,
            **fields,
        )

    def __post_init__(self) -> None:
        self._check_pattern()
        self._check_shape()
        if not self.name or not all(char.isalnum() or char in "-_." for char in self.name):
            raise BadFioJob(f"name={self.name!r}: letters, digits, '-', '_' and '.' only")
        engine = self.ioengine
        if not engine or not engine.isprintable() or " " in engine:
            raise BadFioJob(f"ioengine={engine!r} is not the name of an engine")
        if engine == "exec" or engine.startswith("external"):
            raise BadFioJob(
                f"ioengine={engine!r} runs a program of its own in place of I/O, which bypasses the target's protection"
            )
        if self.overwrite not in (None, True, False):
            raise BadFioJob(f"overwrite={self.overwrite!r}: use True or False")
        check_passed_through(self.options)
        self.sections(devices=1)

    def _check_pattern(self) -> None:
        if self.rw in ("trim", "randtrim", "trimwrite", "randtrimwrite"):
            raise BadFioJob(f"rw={self.rw!r} discards data instead of moving it and is not measured here")
        if self.rw not in PATTERNS:
            raise BadFioJob(f"rw={self.rw!r} is not a pattern: use one of {', '.join(PATTERNS)}")
        if self.rwmixread is None:
            return
        if not self.mixed:
            raise BadFioJob(f"rwmixread={self.rwmixread} needs rw='rw' or 'randrw', not {self.rw!r}")
        _whole("rwmixread", self.rwmixread, least=0)
        if self.rwmixread > 100:
            raise BadFioJob(f"rwmixread={self.rwmixread} is more than 100 per cent")

    def _check_shape(self) -> None:
        for field_name in ("iodepth", "numjobs"):
            _whole(field_name, getattr(self, field_name), least=1)
        if self.fsync is not None:
            _whole("fsync", self.fsync, least=0)
        _seconds("runtime", self.runtime, least=1)
        _seconds("ramp_time", self.ramp_time, least=0)
        _sample("sample_s", self.sample_s)
        if self.bs.bytes < 1:
            raise BadFioJob(f"bs={self.bs} is not a block size")
        if self.direct and self.bs.bytes % SECTOR_BYTES:
            raise BadFioJob(
                f"bs={self.bs} is not a multiple of {SECTOR_BYTES} bytes, which direct I/O needs: "
                "write bs='4k' for 4 KiB"
            )
        if self.size is not None and self.size.bytes < self.bs.bytes:
            raise BadFioJob(f"size={self.size} is smaller than one block of {self.bs}")
        if self.rate_process is not None and self.rate_process not in _RATE_PROCESSES:
            raise BadFioJob(f"rate_process={self.rate_process!r} is not one of {', '.join(_RATE_PROCESSES)}")
        if self.rate_process == "poisson" and self.rate_iops is None and self.rate is None:
            raise BadFioJob("rate_process='poisson' needs a rate: give rate_iops=")

    @property
    def reads(self) -> bool:
        """True if the job reads."""
        return self.rw in _READS and self.rwmixread != 0

    @property
    def writes(self) -> bool:
        """True if the job writes."""
        return self.rw in _WRITES and self.rwmixread != 100

    @property
    def mixed(self) -> bool:
        return self.rw in _READS and self.rw in _WRITES

    @property
    def sequential(self) -> bool:
        """True if every job accesses its file or device in order."""
        return not self.rw.startswith("rand")

    def outstanding(self, devices: int = 1) -> int:
        """Return how many I/Os the job keeps in flight on that many devices together."""
        depth = 1 if self.ioengine in SYNCHRONOUS else self.iodepth
        return depth * self.numjobs * devices

    def memory(self, devices: int = 1) -> Size:
        """Return about how much of the host's memory fio needs: its buffers, its records of I/Os, its processes."""
        in_flight = self.iodepth * self.numjobs * devices
        return in_flight * (self.bs + _IO_RECORD) + self.numjobs * devices * _PROCESS

    def histogram_samples(self, devices: int = 1) -> int:
        """Return how many samples of the series share one histogram of latencies.

        More than one if fio would need too much of the host's memory for one histogram per sample.
        """
        ways = 2 if self.reads and self.writes else 1
        histograms = self.numjobs * devices * ways * self.runtime / self.sample_s
        return max(1, math.ceil(histograms / _MOST_HISTOGRAMS))

    def sections(self, devices: int) -> list[RateShare]:
        """Return groups of jobs with equal rates, whose sum is the requested total."""
        return share_rates(
            jobs=self.numjobs * devices,
            rate_iops=None if self.rate_iops is None else self.rate_iops.per_second,
            rate_bytes_s=None if self.rate is None else self.rate.bytes_per_second,
            read_percent=self._read_percent,
        )

    @property
    def read_share(self) -> float:
        """The share of reads in its I/Os, from 0 to 1."""
        return self._read_percent / 100

    @property
    def _read_percent(self) -> int:
        if self.mixed:
            return 50 if self.rwmixread is None else self.rwmixread
        return 100 if self.reads else 0

    def to_argv(
        self, kind: Literal["block", "directory", "file"], paths: Sequence[str], *, fio: str = "fio"
    ) -> tuple[str, ...]:
        """Return the command line. It runs in an empty directory, which receives the result and the logs.

        Every block device gets `numjobs` jobs of its own, so that a slow device does not slow down the others; rates
        are divided over all of them. fio's group report has the totals.
        """
        argv = [fio, f"--output={RESULT_FILE}", "--output-format=json+", "--eta=always", "--eta-newline=1"]
        argv += [f"--{name}={value}" for name, value in self._global_options(kind, paths).items()]
        devices = paths if kind == "block" and len(paths) > 1 else [None]
        jobs = [share for share in self.sections(len(devices)) for _ in range(share.jobs)]
        sections = [
            (device, share, len(list(alike)))
            for number, device in enumerate(devices)
            for share, alike in groupby(jobs[number * self.numjobs : (number + 1) * self.numjobs])
        ]
        for number, (device, share, count) in enumerate(sections):
            argv += self._section(number, share, count, device)
        return tuple(argv)

    def asked(self) -> dict[str, Any]:
        """Return the job as plain values for reports; the keys contain the unit."""
        return {
            "rw": self.rw,
            "bs_bytes": self.bs.bytes,
            "iodepth": self.iodepth,
            "numjobs": self.numjobs,
            "runtime_s": self.runtime,
            "ramp_time_s": self.ramp_time,
            "size_bytes": self.size.bytes if self.size else None,
            "ioengine": self.ioengine,
            "direct": self.direct,
            "rwmixread_percent": self.rwmixread,
            "rate_iops_total": self.rate_iops.per_second if self.rate_iops else None,
            "rate_bytes_per_s_total": self.rate.bytes_per_second if self.rate else None,
            "rate_process": self.rate_process,
            "fsync": self.fsync,
            "sample_s": self.sample_s,
            "options": {key: option_text(key, value) for key, value in self.options.items()},
            **({"overwrite": True} if self.overwrite else {}),
        }

    def _global_options(self, kind: str, paths: Sequence[str]) -> dict[str, str]:
        chosen: dict[str, str] = {
            "rw": self.rw,
            "bs": str(self.bs.bytes),
            "ioengine": self.ioengine,
            "iodepth": str(self.iodepth),
            "direct": "1" if self.direct else "0",
            "runtime": f"{self.runtime:g}",
            "time_based": "1",
        }
        if self.ramp_time:
            chosen["ramp_time"] = f"{self.ramp_time:g}"
        further = {name: getattr(self, name) for name in ("size", "rwmixread", "rate_process", "fsync")}
        given = {name: value for name, value in further.items() if value is not None} | dict(self.options)
        chosen.update((name, option_text(name, value)) for name, value in given.items())
        if self.overwrite is not None and kind != "block":
            chosen["overwrite"] = option_text("overwrite", self.overwrite)
        devices = len(paths) if kind == "block" else 1
        if kind == "directory":
            chosen["directory"] = escaped_path(paths[0])
        else:
            chosen["allow_file_create"] = "0"
            if len(paths) == 1:
                chosen["filename"] = escaped_path(paths[0])
        chosen |= {
            "group_reporting": "1",
            "lat_percentiles": "1",
            "log_avg_msec": f"{self.sample_s * 1000:.0f}",
            "per_job_logs": "0",
            "write_iops_log": LOG_PREFIX,
            "write_bw_log": LOG_PREFIX,
            "write_lat_log": LOG_PREFIX,
            "write_hist_log": LOG_PREFIX,
            "log_hist_msec": f"{self.histogram_samples(devices) * self.sample_s * 1000:.0f}",
            "log_hist_coarseness": str(HISTOGRAM_COARSENESS),
        }
        return chosen

    def _section(self, number: int, share: RateShare, jobs: int, path: str | None) -> list[str]:
        name = self.name if number == 0 else f"{self.name}-{number + 1}"
        section = [f"--name={name}", f"--numjobs={jobs}"]
        if path is not None:
            section.append(f"--filename={escaped_path(path)}")
        if self.rate_iops is not None:
            section.append(f"--rate_iops={share.iops_text}")
        if self.rate is not None:
            section.append(f"--rate={share.bytes_text}")
        return section


def escaped_path(path: str) -> str:
    """Return a path as fio reads it; an unescaped colon would end it."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


def _size(field_name: str, value: str | int | Size) -> Size:
    try:
        return Size.parse(value)
    except (ValueError, TypeError) as error:
        raise BadFioJob(f"{field_name}={value!r} is not a size: {error}") from None


def _iops(value: float | Iops | None) -> Iops | None:
    if value is None or isinstance(value, Iops):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadFioJob(f"rate_iops={value!r} is not a number of I/Os per second")
    return Iops(float(value))


def _throughput(value: str | int | Throughput | None) -> Throughput | None:
    if value is None or isinstance(value, Throughput):
        return value
    return Throughput(float(_size("rate", value).bytes))


def _whole(field_name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadFioJob(f"{field_name}={value!r} is not a whole number of at least {least}")


def _seconds(field_name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least or value % 1:
        raise BadFioJob(f"{field_name}={value!r} is not a whole number of seconds of at least {least}")


def _sample(field_name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.05 <= value <= 60:
        raise BadFioJob(f"{field_name}={value!r} is not a length of a sample: use 0.05 to 60 seconds")
