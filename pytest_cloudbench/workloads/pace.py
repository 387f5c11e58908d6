"""Pace: how long a measurement may take. "full" runs what the test says, "quick" caps it and says so."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import Enum

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.job import FioJob

QUICK_RUNTIME_S = 6
QUICK_RAMP_S = 1
QUICK_DATA = Size(1 << 30)
"""Most data a quick run lays out on a file system, over all jobs together."""
BURST_S = 600
"""From this duration on a run looks for the end of a burst, and quick pace leaves it more time."""
QUICK_BURST_S = 40
LEAST_COMPRESSED_S = 6
"""Real seconds that a run keeps however much time is compressed, unless the test asks for fewer."""
INTERVAL_S = 1.0
COMPRESSED_INTERVAL_S = 0.1
"""The shortest interval of iperf3."""
COMPRESSED_SAMPLE_S = 0.2
"""Of a fio run that looks for the end of a burst: short enough for many of them after it, and two of the slices of
0.1 s in which a kernel throttles disks, so that each sees as many."""
_LONGER = 1.01


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


def paced(
    job: FioJob, pace: Pace, *, lays_out_files: bool, factor: float = 1.0
) -> tuple[FioJob, tuple[str, ...]]:
    """The job as this pace runs it, in real seconds, and one sentence for each thing that was changed.

    `lays_out_files`: the target is a directory, so that fio writes `size` for every job first. `factor`: how
    many seconds of the test a real one stands for.
    """
    changes: dict[str, object] = {}
    conditions: list[str] = []
    real_s = math.ceil(compressed_seconds(job.runtime, factor))
    ramp_s = math.ceil(job.ramp_time / factor)
    if pace is Pace.QUICK:
        most_s = _quick_seconds(job.runtime)
        if real_s > most_s:
            real_s = most_s
            conditions.append(f"quick pace: runtime {job.runtime:,g} s -> {real_s * factor:,g} s")
        if ramp_s > QUICK_RAMP_S:
            ramp_s = QUICK_RAMP_S
            conditions.append(f"quick pace: ramp {job.ramp_time:,g} s -> {ramp_s * factor:,g} s")
    if factor != 1:
        conditions.append(_compressed(job.runtime, real_s, factor))
    if real_s != job.runtime:
        changes["runtime"] = real_s
    if factor != 1 and job.runtime >= BURST_S:
        changes["sample_s"] = min(job.sample_s, COMPRESSED_SAMPLE_S)
    if ramp_s != job.ramp_time:
        changes["ramp_time"] = ramp_s
    if (
        pace is Pace.QUICK
        and lays_out_files
        and job.size is not None
        and job.size.bytes * job.numjobs > QUICK_DATA.bytes
    ):
        size = max(job.bs, Size(QUICK_DATA.bytes // job.numjobs // job.bs.bytes * job.bs.bytes))
        if size < job.size:
            changes["size"] = size
            conditions.append(f"quick pace: size per job {job.size} -> {size}")
    if not changes:
        return job, ()
    return dataclasses.replace(job, **changes), tuple(conditions)  # type: ignore[arg-type]


@dataclass(frozen=True)
class RunTime:
    """How a network run passes: real seconds, each of which stands for `compression` seconds of the test."""

    duration_s: int
    omit_s: int
    interval_s: float
    compression: float
    conditions: tuple[str, ...]


def compressed_seconds(asked_s: float, factor: float) -> float:
    """Real seconds for so many seconds of the test, where time goes `factor` times faster."""
    return max(asked_s / factor, min(asked_s, LEAST_COMPRESSED_S))


def network_time(duration_s: float, omit_s: float, pace: Pace, factor: float) -> RunTime:
    """The real times of a network run of so many seconds of the test, whole ones as iperf3 takes them.

    Its conditions say what this pace or a compressed time make different from what was asked.
    """
    conditions: list[str] = []
    real_s = math.ceil(compressed_seconds(duration_s, factor))
    omitted_s = math.ceil(omit_s / factor)
    omitting = "iperf3 omits whole real seconds"
    if pace is Pace.QUICK:
        most_s = _quick_seconds(duration_s)
        if real_s > most_s:
            real_s = most_s
            conditions.append(f"quick pace: duration {duration_s:,g} s -> {real_s * factor:,g} s")
        if omitted_s > QUICK_RAMP_S:
            omitted_s, omitting = QUICK_RAMP_S, "quick pace"
    if omitted_s * factor != omit_s:
        conditions.append(f"{omitting}: omit {omit_s:,g} s -> {omitted_s * factor:,g} s")
    if factor != 1:
        conditions.append(_compressed(duration_s, real_s, factor))
    interval_s = INTERVAL_S if factor == 1 else COMPRESSED_INTERVAL_S
    return RunTime(real_s, omitted_s, interval_s, factor, tuple(conditions))


def _quick_seconds(asked_s: float) -> int:
    """The most real seconds that quick pace leaves a run of so many seconds of the test."""
    return QUICK_RUNTIME_S if asked_s < BURST_S else QUICK_BURST_S


def _compressed(asked_s: float, real_s: int, factor: float) -> str:
    ran_s = real_s * factor
    asked = f" ({asked_s:,g} s were asked)" if ran_s > asked_s * _LONGER else ""
    return f"time compressed {factor:g} times: {ran_s:,g} s{asked} ran in {real_s} s"
