"""Dividing a total rate of Poisson arrivals over fio's jobs and directions.

Independent Poisson streams add up to one, so every job has a stream of its own. fio draws the time to a stream's
next arrival as a whole number of microseconds times an exponential variate and cuts off the fraction
(`usec_for_io` in its backend.c): at a rate r the mean time is floor(1,000,000 / r) us, less half of one. High rates
per job therefore come in steps, and the jobs are divided between the two nearest of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.workloads.sweep.errors import BadSweep

_MICROSECONDS = 1_000_000
_HIGHEST = 500_000
"""Arrivals a second of one job beyond which their steps are too coarse to be called a rate."""


@dataclass(frozen=True)
class Arrivals:
    """What one job asks for each second; None is a direction that it does not use."""

    reads: int | None
    writes: int | None

    @property
    def fio_text(self) -> str:
        """The value of fio's rate_iops."""
        return f"{self.reads or ''},{self.writes or ''}"


def arrival_rate(rate: int) -> float:
    """The arrivals a second that fio makes of an asked rate."""
    return _MICROSECONDS / (_MICROSECONDS // rate - 0.5)


def divided(total: float, jobs: int, read_percent: int) -> list[Arrivals]:
    """Each job's rates, so that they add up as nearly as can be to ``total`` I/Os a second, mix and all.

    Raises BadSweep where a job and direction would get less than one a second, or more than fio can draw.
    """
    reads = _streams(total * read_percent / 100, jobs) if read_percent else [None] * jobs
    writes = _streams(total * (100 - read_percent) / 100, jobs) if read_percent < 100 else [None] * jobs
    return [Arrivals(read, write) for read, write in zip(reads, writes, strict=True)]


def _streams(total: float, jobs: int) -> list[int | None]:
    each = total / jobs
    if each < 1:
        raise BadSweep(
            f"{total:,.1f} I/Os a second over {jobs} devices leave less than one for each: ask for more than so small "
            "a share of the maximum, or for fewer devices"
        )
    if each > _HIGHEST:
        raise BadSweep(f"{each:,.0f} I/Os a second are more than one job of fio can time: take more devices")
    slow = _largest_not_above(each)
    fast = max(slow + 1, _MICROSECONDS // (_MICROSECONDS // slow) + 1)
    low, high = arrival_rate(slow), arrival_rate(fast)
    faster = min(jobs, max(0, round((total - jobs * low) / (high - low)))) if high > low else 0
    return [fast if number < faster else slow for number in range(jobs)]


def _largest_not_above(wanted: float) -> int:
    rate = max(1, int(wanted))
    while rate > 1 and arrival_rate(rate) > wanted:
        # All rates of one step are alike: the next one down begins with a whole microsecond more.
        rate = min(rate - 1, _MICROSECONDS // (_MICROSECONDS // rate + 1))
    return rate
