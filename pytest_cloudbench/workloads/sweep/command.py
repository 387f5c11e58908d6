"""The fio command of one run of a sweep: a closed loop, or Poisson arrivals at a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.job import escaped_path
from pytest_cloudbench.workloads.sweep.errors import BadSweep
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.plan import TICK_S, StepTimes

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


_MOST_JOBS = 16
_FINE_ENOUGH = 20_000
"""Arrivals a second of one job up to which fio's whole microseconds are finer than 2 %."""


@dataclass(frozen=True)
class Layout:
    """So many jobs on each device, each with that depth."""

    jobs: int
    depth: int


def layout(mix: Mix, *, threads: int, devices: int, cpus: int, rate: float = 0.0) -> Layout:
    """One job on each device, and more where the host has processors for them or ``rate`` asks for them.

    A job that waits for its next arrival first collects what it has in flight (fio's inline submission), so an
    arrival can come late when the one before it takes long; that is rarer the more jobs share the arrivals. I/O
    that follows the one before must come from one job, or it would follow somebody else's.
    """
    if mix.random_percent < 100:
        return Layout(1, threads)
    wanted = max(cpus // devices, math.ceil(rate / devices / _FINE_ENOUGH), 1)
    jobs = max(number for number in range(1, min(wanted, _MOST_JOBS, threads) + 1) if threads % number == 0)
    return Layout(jobs, threads // jobs)


def check_kernel_room(outstanding: int, most: int, used: int) -> None:
    """Raise BadSweep when the host's kernel would not take so many asynchronous I/Os."""
    if outstanding + used > most:
        raise BadSweep(
            f"{outstanding:,} I/Os in flight are more than the host's kernel takes, {most - used:,} of "
            f"fs.aio-max-nr={most:,}: take fewer threads or devices, or raise it there (sysctl -w fs.aio-max-nr=...)"
        )


SizedPath = tuple[str, Size]
"""A device or file, and how much of it is gone over."""

_PUNCTUAL = 'chrt -R -f 1 true 2> /dev/null && exec chrt -R -f 1 "$@"; exec "$@"'


def punctual(argv: Sequence[str]) -> tuple[str, ...]:
    """The command, started so that its first moments are not disturbed, where the host lets us.

    fio finds out at its start how finely this host sleeps, and from then on burns processor time for what is
    shorter. On a busy host it finds a bad figure and burns so much that it disturbs the I/O it times. In the
    real-time class (with reset on fork, so that its jobs are ordinary ones) it finds the right one.
    """
    return ("sh", "-c", _PUNCTUAL, "sh", *argv)


def step_argv(
    mix: Mix,
    layout: Layout,
    paths: Sequence[SizedPath],
    times: StepTimes,
    *,
    arrivals: Sequence[Arrivals] | None,
    fio: str = "fio",
) -> tuple[str, ...]:
    """The command line. ``arrivals`` has the rates of each job, device by device; None is a closed loop.

    All jobs are one group, so fio adds up their histograms itself. They are threads, which start sooner than processes.
    """
    argv = [
        fio, "--output-format=json+", f"--status-interval={TICK_S:g}", "--eta=never", "--group_reporting",
        "--lat_percentiles=1", "--allow_file_create=0", *([] if mix.writes else ["--readonly"]),
        f"--rw={mix.pattern}", *_blocks(mix), *_shares(mix),
        "--ioengine=libaio", "--direct=1", "--thread", f"--iodepth={layout.depth}",
        f"--runtime={times.length_s}", "--time_based",
        *([] if arrivals is None else ["--rate_process=poisson"]),
    ]  # fmt: skip
    number = 0
    for path, size in paths:
        for _ in range(layout.jobs if arrivals is not None else 1):
            argv += [f"--name=job{number}", f"--filename={escaped_path(path)}", f"--size={size.bytes}"]
            if arrivals is not None:
                argv.append(f"--rate_iops={arrivals[number].fio_text}")
            elif layout.jobs > 1:
                argv.append(f"--numjobs={layout.jobs}")
            number += 1
    return tuple(argv)


def _blocks(mix: Mix) -> list[str]:
    if len(mix.blocks) == 1:
        return [f"--bs={mix.block_size.bytes}"]
    return ["--bssplit=" + ":".join(f"{size.bytes}/{share}" for size, share in mix.blocks)]


def _shares(mix: Mix) -> list[str]:
    found = []
    if 0 < mix.read_percent < 100:
        found.append(f"--rwmixread={mix.read_percent}")
    if not mix.sequential:
        # Without a map of what was drawn before: it would cost memory and time, and real loads have none.
        found.append("--norandommap")
        if mix.random_percent < 100:
            found.append(f"--percentage_random={mix.random_percent}")
        if mix.skew is not None:
            found.append(f"--random_distribution={mix.skew.fio_text}")
    return found
