"""A job of creating files: how many, how large, by what means, and what must be on the device when."""

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
"""Most bytes written in one call."""
LARGEST_BLOCK_FILE = Size(64 << 20)
"""Largest file that dd copies from a file of random bytes, which lies beside the job on the host."""


@dataclass(frozen=True)
class FilesJob:
    """So many files of one size, in a fresh folder of the target.

    content: "random" (one block of random bytes, made once and written again and again, so that nothing
    on the way can compress it or find it empty) or "zero" (as `dd if=/dev/zero`).
    sync: "end" waits for the file system's data to be on the device when all files are written; "each"
    does fsync for every file besides; "none" waits for nothing, so that only the page cache is measured.
    method: "python" (a small program), "dd" (a process per file, as one types it); None takes python
    where the host has it. workers: processes that create files side by side.
    per_folder: files in one folder (None: all in one). keep: leave the files there.

    `FilesJob.of(...)` takes what people write (size="1m").
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
        """The job in a person's words. Raises BadFilesJob naming the field, the value and what is possible."""
        try:
            parsed = Size.parse(size)
        except (ValueError, TypeError) as error:
            raise BadFilesJob(f"size={size!r} is no size of a file: {error}") from None
        known = [each.name for each in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                raise BadFilesJob(f"create_files knows no {name}=: there are {', '.join(known)}")
        return cls(count=count, size=parsed, **fields)

    def __post_init__(self) -> None:
        _whole("count", self.count)
        _whole("workers", self.workers)
        if self.per_folder is not None:
            _whole("per_folder", self.per_folder)
        if self.size.bytes < 1:
            raise BadFilesJob(f"size={self.size}: a file of at least one byte is needed")
        _one_of("content", self.content, CONTENTS)
        _one_of("sync", self.sync, SYNCS)
        if self.method is not None:
            _one_of("method", self.method, METHODS)
        if not isinstance(self.keep, bool):
            raise BadFilesJob(f"keep={self.keep!r} is not True or False")
        if self.workers > self.count:
            raise BadFilesJob(
                f"workers={self.workers:,} have only {self.count:,} files to create between them"
            )
        if self.method == "dd" and (why := why_not_by_dd(self)):
            raise BadFilesJob(f"method='dd': {why}")

    @property
    def data(self) -> Size:
        """What all files hold together."""
        return self.size * self.count

    @property
    def folders(self) -> int:
        """How many folders the files are spread over."""
        return 1 if self.per_folder is None else -(-self.count // self.per_folder)

    def __str__(self) -> str:
        return f"{_files(self.count)} of {self.size}"

    def asked(self) -> dict[str, Any]:
        """The job as plain values, for reports; the keys carry the unit."""
        return {
            "count": self.count,
            "size_bytes": self.size.bytes,
            "content": self.content,
            "sync": self.sync,
            "method": self.method,
            "workers": self.workers,
            "per_folder": self.per_folder,
            "keep": self.keep,
        }


def why_not_by_dd(job: FilesJob) -> str | None:
    """Why dd in a shell loop cannot do this job; None when it can."""
    if job.workers > 1:
        return (
            f"dd runs in one loop, and {job.workers} workers were asked for: use workers=1 or method='python'"
        )
    if job.content == "random" and job.size > LARGEST_BLOCK_FILE:
        return (
            f"dd copies random content from a file of up to {LARGEST_BLOCK_FILE}, and files of {job.size} were "
            "asked for: use content='zero' or method='python'"
        )
    return None


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadFilesJob(f"{name}={value!r} is not a whole number of at least 1")


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadFilesJob(f"{name}={value!r} is not one of {', '.join(choices)}")


QUICK_DATA = Size(512 << 20)
"""Most data of a quick run: four seconds of a volume of 125 MiB/s. The same on every target, so that two can
be compared."""
QUICK_FILES = 10_000
QUICK_SLOW_FILES = 2_000
"""Most files of a quick run where each costs a process (dd) or a wait for the device (fsync)."""


def paced_files(job: FilesJob, pace: Pace, *, method: str) -> tuple[FilesJob, tuple[str, ...]]:
    """The job as this pace runs it, and one sentence for each thing that was changed.

    The count is lowered, and the size only where a single file would be more than a quick run's data. Figures
    of a shortened run are its own: nothing is extrapolated.
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
