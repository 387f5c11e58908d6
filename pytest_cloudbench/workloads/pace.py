"""Pace: how long a measurement may take. "full" runs what the test says, "quick" caps it and says so."""

from __future__ import annotations

import dataclasses
from enum import Enum

from pytest_cloudbench.promises.quantities import Size
from pytest_cloudbench.workloads.fio.job import FioJob

QUICK_RUNTIME_S = 6
QUICK_RAMP_S = 1
QUICK_DATA = Size(1 << 30)
"""Most data a quick run lays out on a file system, over all jobs together."""


class Pace(Enum):
    """How long measurements may take."""

    QUICK = "quick"
    FULL = "full"

    @classmethod
    def named(cls, name: str) -> Pace:
        """The pace of that name; ValueError names the two there are."""
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"pace {name!r} is unknown: it is quick or full") from None


def paced(job: FioJob, pace: Pace, *, lays_out_files: bool) -> tuple[FioJob, tuple[str, ...]]:
    """The job as this pace runs it, and one sentence for each thing that was changed.

    `lays_out_files`: the target is a directory, so that fio writes `size` for every job first.
    """
    if pace is Pace.FULL:
        return job, ()
    changes: dict[str, object] = {}
    conditions: list[str] = []
    if job.runtime > QUICK_RUNTIME_S:
        changes["runtime"] = QUICK_RUNTIME_S
        conditions.append(f"quick pace: runtime {job.runtime:g} s -> {QUICK_RUNTIME_S} s")
    if job.ramp_time > QUICK_RAMP_S:
        changes["ramp_time"] = QUICK_RAMP_S
        conditions.append(f"quick pace: ramp {job.ramp_time:g} s -> {QUICK_RAMP_S} s")
    if lays_out_files and job.size is not None and job.size.bytes * job.numjobs > QUICK_DATA.bytes:
        size = max(job.bs, Size(QUICK_DATA.bytes // job.numjobs // job.bs.bytes * job.bs.bytes))
        if size < job.size:
            changes["size"] = size
            conditions.append(f"quick pace: size per job {job.size} -> {size}")
    if not changes:
        return job, ()
    return dataclasses.replace(job, **changes), tuple(conditions)  # type: ignore[arg-type]
