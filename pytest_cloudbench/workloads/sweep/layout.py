"""How the threads on a device become fio jobs and their depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cloudbench.workloads.sweep.errors import BadSweep
from pytest_cloudbench.workloads.sweep.mixes import Mix

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
