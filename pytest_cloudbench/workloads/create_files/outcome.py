"""Turn the output of a finished job into its measurement, or into an error with the reason."""

from __future__ import annotations

import dataclasses
import errno
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_types import SSD_IO_UNIT
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.create_files.creation import DeviceWrites, FileCreation, Marker
from pytest_cloudbench.workloads.create_files.errors import CreationFailed, FilesystemFull, RecordError
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.record import Failure, Record, Sample, parse_record
from pytest_cloudbench.workloads.create_files.series import series_of
from pytest_cloudbench.workloads.target import Gained, Target
from pytest_cloudbench.workloads.tool_run import text_of

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_KNOWN = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)
_PAGE = 4096
_SHORTEST_S = {"python": 1e-6, "dd": 0.01}
"""The resolution of the method's clock: the shortest time that is reported."""
_LINES_SHOWN = 3


@dataclass(frozen=True)
class Origin:
    """The origin of a measurement: the target, the job, and how it was run."""

    target: Target
    job: FilesJob
    method: str
    cpus: int
    folder: str
    argv: tuple[str, ...]
    started_at: str
    conditions: tuple[str, ...]


def creation_of(
    origin: Origin,
    files: Mapping[str, bytes],
    *,
    exit_code: int,
    counters: Gained,
) -> FileCreation:
    """Build the measurement from the job's files.

    Raises FilesystemFull or CreationFailed with the measured part if the job ended early; RecordError if the job left
    no complete record.
    """
    stderr = text_of(files, "stderr").strip()
    record = parse_record(text_of(files, "stdout"))
    creation = None
    if record.written is not None:
        creation = dataclasses.replace(
            _creation(origin, record, record.written),
            counters=counters.within((record.synced or record.written).seconds).throttled,
            machine_delay=counters.machine_delay,
            raw=dict(files),
        )
    made = 0 if record.written is None else record.written.files
    host, job = origin.target.host.label, origin.job
    if record.failed is not None:
        number, words = _reason(record.failed, stderr)
        done = f"after {made:,} of {job.count:,} files of {job.size}"
        if number in _FULL:
            condition = f"the file system was full {done}"
            raise FilesystemFull(
                f"{origin.target.label} was full {done} ({words}, {origin.folder} on {host}): lower count= or size=, "
                "or use a larger volume",
                _with_condition(creation, condition),
            )
        raise CreationFailed(
            f"creating files on {origin.target.label} failed {done}: {words} ({origin.folder} on {host})",
            _with_condition(creation, f"creating failed {done}"),
        )
    if record.unsynced is not None:
        _, words = _reason(record.unsynced, stderr)
        raise CreationFailed(
            f"{made:,} files of {job.size} were written on {origin.target.label}, but syncing them to the device "
            f"failed: {words} ({origin.folder} on {host})",
            _with_condition(creation, "syncing the files to the device failed"),
        )
    if creation is None or not record.done or exit_code != 0:
        reason = "; ".join(stderr.splitlines()[-_LINES_SHOWN:]) or "it gave no reason"
        raise RecordError(
            f"the job that creates files on {host} ended early with exit code {exit_code}: {reason}"
        )
    return creation


def _creation(origin: Origin, record: Record, written: Sample) -> FileCreation:
    job, target = origin.job, origin.target
    shortest_s = _SHORTEST_S[origin.method]
    written_s = max(written.seconds, shortest_s)
    on_device_s = None if record.synced is None else max(record.synced.seconds, written_s)
    device = _device_writes(record.synced or written)
    block = _block_size(job, device)
    envelope = target.envelope(block, sequential=True)
    return FileCreation(
        files=written.files,
        size=job.size,
        written_s=written_s,
        on_device_s=on_device_s,
        series=series_of(record),
        start_marker=_marker(origin, "start", record.start_ns),
        end_marker=_marker(origin, "end", record.end_ns),
        device_when_written=_device_writes(written),
        device_writes=device,
        block_size=block,
        method=origin.method,
        tool_version=record.tool,
        command=shlex.join(origin.argv),
        host=target.host.label,
        target=target.label,
        started_at=origin.started_at,
        folder=origin.folder if job.keep else None,
        envelope=None if envelope is None else envelope.of_mix(0.0),
        generator=_load(record, on_device_s or written_s, origin.cpus),
        conditions=(*origin.conditions, *_conditions(target, job)),
        asked=job.asked(),
    )


def _conditions(target: Target, job: FilesJob) -> tuple[str, ...]:
    conditions = list(target.conditions)
    if (factor := getattr(target, "time_compression", 1.0)) != 1.0:
        conditions.append(
            f"time compressed {factor:g} times: burst credits drained that much faster than files were created"
        )
    if job.sync == "none":
        conditions.append("sync='none': only the page cache was timed, not the device")
    return tuple(conditions)


def _device_writes(sample: Sample) -> DeviceWrites | None:
    if sample.device_ios is None or sample.device_bytes is None:
        return None
    return DeviceWrites(sample.device_ios, Size(max(0, sample.device_bytes)))


def _block_size(job: FilesJob, device: DeviceWrites | None) -> Size:
    """Return the mean write on the device in whole pages; if unknown, the file size, limited to 4-256 KiB."""
    if device is None or device.ios <= 0 or device.size.bytes < _PAGE:
        return min(max(job.size, Size(_PAGE)), SSD_IO_UNIT)
    return Size(max(1, round(device.size.bytes / device.ios / _PAGE)) * _PAGE)


def _load(record: Record, elapsed_s: float, cpus: int) -> GeneratorLoad | None:
    """Return the CPU load over the whole time: processes that wait for the device at the end are not the limit."""
    if record.cpu_busiest_s is None or record.cpu_total_s is None:
        return None
    return GeneratorLoad(100 * record.cpu_busiest_s / elapsed_s, 100 * record.cpu_total_s / elapsed_s, cpus)


def _marker(origin: Origin, name: str, mtime_ns: int | None) -> Marker | None:
    return None if mtime_ns is None else Marker(f"{origin.folder}/{name}", mtime_ns)


def _with_condition(creation: FileCreation | None, condition: str) -> FileCreation | None:
    if creation is None:
        return None
    return dataclasses.replace(creation, conditions=(*creation.conditions, condition))


def _reason(failure: Failure, stderr: str) -> tuple[int, str]:
    """Return the error number and message of a failure; those of a shell loop are on its standard error."""
    if failure.number:
        return failure.number, failure.words
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for number in _KNOWN:
        for line in (*reversed(lines), failure.words):
            if os.strerror(number) in line:
                return number, line
    return 0, lines[-1] if lines else failure.words
