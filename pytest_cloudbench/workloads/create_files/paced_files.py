"""What quick pace makes of a job of creating files: seconds of work instead of minutes, and it says so."""

from __future__ import annotations

import dataclasses

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.pace import Pace

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
