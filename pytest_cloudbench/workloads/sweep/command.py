"""The fio command of one run of a sweep: a closed loop, or Poisson arrivals at a rate.

Independent Poisson streams add up to one, so every job has its own stream. fio computes the time to a stream's next
arrival as a whole number of microseconds times an exponential variate and truncates it (`usec_for_io` in its
backend.c): at rate r the mean time is floor(1,000,000 / r) us, less 0.5 us. High rates per job therefore come in
steps, and the jobs are divided between the two nearest steps.
"""

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
"""The highest rate of one job in arrivals per second: fio's steps above it are too coarse."""
_MOST_JOBS = 16
_FINE_ENOUGH = 20_000
"""Up to this rate of one job, in arrivals per second, fio's steps are smaller than 2 %."""
SizedPath = tuple[str, Size]
"""A device or file, and the size of its working set."""
_PUNCTUAL = 'chrt -R -f 1 true 2> /dev/null && exec chrt -R -f 1 "$@"; exec "$@"'


@dataclass(frozen=True)
class Arrivals:
    """The requested I/Os per second of one job; None for an unused direction."""

    reads: int | None
    writes: int | None

    @property
    def fio_text(self) -> str:
        """The value of fio's option rate_iops."""
        return f"{self.reads or ''},{self.writes or ''}"


def arrival_rate(rate: int) -> float:
    """Return the arrivals per second that fio produces for a requested rate."""
    return _MICROSECONDS / (_MICROSECONDS // rate - 0.5)


def divided(total: float, jobs: int, read_percent: int) -> list[Arrivals]:
    """Return each job's rates; they add up as closely as possible to ``total`` I/Os per second, reads and writes apart.

    Raises BadSweep if a job would get less than 1 I/O per second in a direction, or more than fio can time.
    """
    reads = _streams(total * read_percent / 100, jobs) if read_percent else [None] * jobs
    writes = _streams(total * (100 - read_percent) / 100, jobs) if read_percent < 100 else [None] * jobs
    return [Arrivals(read, write) for read, write in zip(reads, writes, strict=True)]


def _streams(total: float, jobs: int) -> list[int | None]:
    each = total / jobs
    if each < 1:
        raise BadSweep(
            f"{total:,.1f} IOPS are less than 1 for each fio job ({jobs} in all): use a larger share of the "
            "maximum, or fewer devices"
        )
    if each > _HIGHEST:
        raise BadSweep(f"{each:,.0f} IOPS are more than one fio job can time: use more devices")
    slow = _largest_not_above(each)
    fast = max(slow + 1, _MICROSECONDS // (_MICROSECONDS // slow) + 1)
    low, high = arrival_rate(slow), arrival_rate(fast)
    faster = min(jobs, max(0, round((total - jobs * low) / (high - low)))) if high > low else 0
    return [fast if number < faster else slow for number in range(jobs)]


def _largest_not_above(target: float) -> int:
    rate = max(1, int(target))
    while rate > 1 and arrival_rate(rate) > target:
        # All rates within a step are equal: the next lower step is one microsecond longer.
        rate = min(rate - 1, _MICROSECONDS // (_MICROSECONDS // rate + 1))
    return rate


@dataclass(frozen=True)
class Layout:
    """The number of fio jobs on each device, and the queue depth of each job."""

    jobs: int
    depth: int


def layout(mix: Mix, *, threads: int, devices: int, cpus: int, rate: float = 0.0) -> Layout:
    """Choose one job per device, or more if the host has processors for them or ``rate`` requires them.

    A job first waits for its I/Os in flight before it waits for its next arrival (fio's inline submission), so a slow
    I/O can delay an arrival. That is rarer if more jobs share the arrivals. Sequential I/O must come from one job;
    several jobs would interleave their sequences.
    """
    if mix.random_percent < 100:
        return Layout(1, threads)
    needed = max(cpus // devices, math.ceil(rate / devices / _FINE_ENOUGH), 1)
    jobs = max(number for number in range(1, min(needed, _MOST_JOBS, threads) + 1) if threads % number == 0)
    return Layout(jobs, threads // jobs)


def check_kernel_room(outstanding: int, most: int, used: int) -> None:
    """Raise BadSweep if the host's kernel does not allow so many asynchronous I/Os."""
    if outstanding + used > most:
        raise BadSweep(
            f"{outstanding:,} I/Os in flight exceed the {most - used:,} that the host's kernel has left of "
            f"fs.aio-max-nr={most:,}: use fewer threads or devices, or raise it there (sysctl -w fs.aio-max-nr=...)"
        )


def punctual(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command, started in the real-time class if the host permits it.

    At its start fio measures how finely the host sleeps, and it busy-waits for shorter times from then on. On a busy
    host that figure is wrong, and the busy-waiting disturbs the I/O that fio times. The real-time class gives the right
    figure; with reset on fork, fio's jobs are ordinary processes.
    """
    return ("sh", "-c", _PUNCTUAL, "sh", *argv)


def step_options(
    mix: Mix,
    layout: Layout,
    paths: Sequence[SizedPath],
    times: StepTimes,
    arrivals: Sequence[Arrivals] | None,
) -> tuple[str, ...]:
    """Return fio's options. ``arrivals`` holds the rates of each job, device by device; None is a closed loop.

    All jobs form one group, so fio adds up their histograms. They are threads, which start faster than processes.
    """
    argv = [
        "--output-format=json+", f"--status-interval={TICK_S:g}", "--eta=never", "--group_reporting",
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
        # A map of the blocks already used would cost memory and time, and real loads have none.
        found.append("--norandommap")
        if mix.random_percent < 100:
            found.append(f"--percentage_random={mix.random_percent}")
        if mix.skew is not None:
            found.append(f"--random_distribution={mix.skew.fio_text}")
    return found
