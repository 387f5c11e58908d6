"""A job that creates files: how many, how large, by which method, and when they must be on the device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.errors import BadFilesJob
from pytest_cloudbench.workloads.pace import Pace

CONTENTS = ("random", "zero")
SYNCS = ("end", "each", "none")
METHODS = ("python", "dd")
CHUNK = Size(1 << 20)
"""The most bytes written in one call."""
LARGEST_BLOCK_FILE = Size(64 << 20)
"""The largest file that dd copies from a file of random bytes, which is stored beside the job on the host."""
QUICK_DATA = Size(512 << 20)
"""The most data of a quick run: four seconds at 125 MiB/s. It is the same on every target, so two can be compared."""
QUICK_FILES = 10_000
QUICK_SLOW_FILES = 2_000
"""The most files of a quick run if each file costs a process (dd) or a wait for the device (fsync)."""


@dataclass(frozen=True)
class FilesJob:
    """A number of files of one size, in a new folder of the target.

    content: "random" (one block of random bytes, written repeatedly; it cannot be compressed) or "zero" (as
    `dd if=/dev/zero`).
    sync: "end" syncs the file system after the last file; "each" also calls fsync for every file; "none" does not
    wait, so only the page cache is measured.
    method: "python" (a small program) or "dd" (one process per file); None uses python if the host has it.
    workers: processes that create files side by side.
    per_folder: files per folder; None puts all into one. keep: do not remove the files.

    `FilesJob.of(...)` accepts text such as size="1m".
    """

    count: int = 100_000
    size: Size = CHUNK
    content: str = "random"
    sync: str = "end"
    method: str | None = None
    workers: int = 1
    per_folder: int | None = None
    keep: bool = False

    @classmethod
    def of(cls, count: int = 100_000, size: str | int | Size = "1m", **fields: Any) -> FilesJob:
        """Build a job from values as users write them.

        Raises BadFilesJob with the field, its value and the accepted values.
        """
        try:
            parsed = Size.parse(size)
        except (ValueError, TypeError) as error:
            raise BadFilesJob(f"invalid size={size!r}: {error}") from None
        known = [each.name for each in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                raise BadFilesJob(f"unknown create_files option {name}=: use {', '.join(known)}")
        return cls(count=count, size=parsed, **fields)

    def __post_init__(self) -> None:
        _whole("count", self.count)
        _whole("workers", self.workers)
        if self.per_folder is not None:
            _whole("per_folder", self.per_folder)
        if self.size.bytes < 1:
            raise BadFilesJob(f"size={self.size} is too small: use at least 1 byte")
        _one_of("content", self.content, CONTENTS)
        _one_of("sync", self.sync, SYNCS)
        if self.method is not None:
            _one_of("method", self.method, METHODS)
        if not isinstance(self.keep, bool):
            raise BadFilesJob(f"invalid keep={self.keep!r}: use True or False")
        if self.workers > self.count:
            raise BadFilesJob(
                f"workers={self.workers:,} exceeds count={self.count:,}: every worker needs a file"
            )
        if self.method == "dd" and (why := why_not_by_dd(self)):
            raise BadFilesJob(f"method='dd': {why}")

    @property
    def data(self) -> Size:
        """The size of all files together."""
        return self.size * self.count

    @property
    def folders(self) -> int:
        """The number of folders that the files are spread over."""
        return 1 if self.per_folder is None else -(-self.count // self.per_folder)

    def __str__(self) -> str:
        return f"{'1 file' if self.count == 1 else f'{self.count:,} files'} of {self.size}"

    def asked(self) -> dict[str, Any]:
        """Return the job as plain values for reports; keys name the unit."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        size = fields.pop("size").bytes
        return {**fields, "size_bytes": size}


def why_not_by_dd(job: FilesJob) -> str | None:
    """Return why dd in a shell loop cannot do this job; None if it can."""
    if job.workers > 1:
        return f"dd runs in one loop, not in {job.workers} workers: use workers=1 or method='python'"
    if job.content == "random" and job.size > LARGEST_BLOCK_FILE:
        return (
            f"dd copies random content from a file of at most {LARGEST_BLOCK_FILE}, not of {job.size}: use "
            "content='zero' or method='python'"
        )
    return None


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadFilesJob(f"invalid {name}={value!r}: use a whole number of at least 1")


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadFilesJob(f"invalid {name}={value!r}: use one of {', '.join(map(repr, choices))}")


def paced_files(job: FilesJob, pace: Pace, *, method: str) -> tuple[FilesJob, tuple[str, ...]]:
    """Return the job as this pace runs it, and a condition for each change.

    Lowers the count; lowers the size only if one file exceeds the data of a quick run. Figures of a shortened run are
    not extrapolated.
    """
    if pace is Pace.FULL:
        return job, ()
    conditions: list[str] = []
    size = min(job.size, QUICK_DATA)
    if size != job.size:
        conditions.append(f"quick pace: files of {job.size} -> {size}")
    most = QUICK_SLOW_FILES if method == "dd" or job.sync == "each" else QUICK_FILES
    count = min(job.count, most, QUICK_DATA.bytes // size.bytes)
    if count != job.count:
        conditions.append(f"quick pace: {job.count:,} files -> {count:,}")
    if not conditions:
        return job, ()
    workers = min(job.workers, count)
    if workers != job.workers:
        conditions.append(f"quick pace: {job.workers:,} workers -> {workers:,}")
    return dataclasses.replace(job, count=count, size=size, workers=workers), tuple(conditions)
