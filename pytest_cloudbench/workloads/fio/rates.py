"""Division of a total arrival rate over fio's jobs and directions.

fio's rate and rate_iops apply to each job and each direction. A total is therefore divided into whole numbers, and the
first jobs get the remainder, so that the sum is exactly the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pytest_cloudbench.workloads.fio.errors import BadFioJob


@dataclass(frozen=True)
class RateShare:
    """A number of jobs that have these rates per second each. None means no limit, 0 an unused direction."""

    jobs: int
    read_iops: int | None = None
    write_iops: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None

    @property
    def iops_text(self) -> str:
        """The value of fio's rate_iops."""
        return f"{self.read_iops or ''},{self.write_iops or ''}"

    @property
    def bytes_text(self) -> str:
        """The value of fio's rate."""
        return f"{self.read_bytes or ''},{self.write_bytes or ''}"


def share_rates(
    *, jobs: int, rate_iops: float | None, rate_bytes_s: float | None, read_percent: int
) -> list[RateShare]:
    """Return groups of jobs with equal rates, whose sum over all jobs is the rounded total.

    Raises BadFioJob if a direction gets less than one I/O or byte per second and job: 0 means no limit to fio.
    """
    if rate_iops is None and rate_bytes_s is None:
        return [RateShare(jobs)]
    read_iops, write_iops = _directions("rate_iops", "I/O", jobs, rate_iops, read_percent)
    read_bytes, write_bytes = _directions("rate", "byte", jobs, rate_bytes_s, read_percent)
    totals = (read_iops, write_iops, read_bytes, write_bytes)
    # Between two neighbouring borders all jobs have equal shares.
    borders = sorted({0, jobs, *(total % jobs for total in totals if total is not None)})
    shares = []
    for first, end in pairwise(borders):
        parts = [None if total is None else total // jobs + (first < total % jobs) for total in totals]
        shares.append(RateShare(end - first, *parts))
    return shares


def _directions(
    option: str, unit: str, jobs: int, total: float | None, read_percent: int
) -> tuple[int | None, int | None]:
    if total is None:
        return None, None
    whole = round(total)
    reads = round(total * read_percent / 100)
    writes = whole - reads
    for direction, part, used in (("reads", reads, read_percent > 0), ("writes", writes, read_percent < 100)):
        if used and part < jobs:
            raise BadFioJob(
                f"{option}={total:,.0f} leaves {part:,} for {direction}, less than one {unit} a second for "
                f"each of {jobs} jobs: ask for more or run fewer jobs"
            )
    return reads, writes
