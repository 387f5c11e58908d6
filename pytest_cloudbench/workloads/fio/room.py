"""Has the machine behind the target room for the data a job brings? Asked before anything is written.

Only a region embedded on a machine knows such a limit: it keeps its volumes' data in memory, or in a folder.
"""

from __future__ import annotations

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.shared_layout import lay_out_shared
from pytest_cloudbench.workloads.space import fits
from pytest_cloudbench.workloads.target import Target


def make_room(target: Target, job: FioJob, to_lay_out: Size) -> tuple[str, ...]:
    """See that the job's data fits; the conditions under which it does, as sentences.

    ``to_lay_out`` is what files still miss of their size. Files of a job that only reads are made to share
    their blocks where they would not fit in full. Raises TargetError for a job that writes too much.
    """
    room = target.room()
    if room is None:
        return ()
    more = _most_written(target, job, to_lay_out)
    if fits(room, more):
        return ()
    if target.kind == "directory" and job.size is not None and not job.writes:
        return (lay_out_shared(target, job, job.size),)
    raise TargetError(
        f"this job would bring up to {more} of data to {target.label}, and the machine behind it has room for "
        f"{room}: lower size=, use --cloudbench-pace=quick, or give the embedded region a folder with "
        "--cloudbench-twin-backing=DIR"
    )


def _most_written(target: Target, job: FioJob, to_lay_out: Size) -> Size:
    if target.kind == "directory":
        return to_lay_out
    if target.kind == "file" or not job.writes:  # a file is there in full already
        return Size(0)
    reached = target.size
    if job.size is not None:
        reached = min(reached, job.size * job.numjobs * len(target.paths))
    envelope = envelope_of(target, job)
    fastest = envelope.limit_throughput if envelope is not None else None
    if fastest is None:
        return reached
    return min(reached, Size(int(fastest.bytes_per_second * (job.runtime + job.ramp_time))))


def envelope_of(target: Target, job: FioJob) -> Envelope | None:
    """Every ceiling of this job on this target, its reads and writes in their proportion."""
    envelope = target.envelope(job.bs, sequential=job.sequential)
    return None if envelope is None else envelope.of_mix(job.read_share)
