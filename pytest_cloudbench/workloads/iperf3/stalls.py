"""Whether everything kept flowing: the times at which nothing arrived on any stream."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.network_measurement import NetworkSeries

STALL_S = 3.0
"""Real seconds without a byte on any stream that no working network has: TCP sends again after 0.2 s, then
after twice as long each time, so it takes four losses of the same segment in a row."""
NOTED_S = 1.0
_BLOCK = Size(128 << 10)
"""What iperf3 sends of TCP at once, unless told otherwise."""
_BLOCKS_APART = 3.0


@dataclass(frozen=True)
class Stall:
    """Nothing flowed from `from_s` to `until_s`, in seconds of the test; `real_s` is how long that took."""

    from_s: float
    until_s: float
    real_s: float

    def __str__(self) -> str:
        real = f" ({self.real_s:.1f} s of real time)" if self.real_s < self.until_s - self.from_s else ""
        return f"from {self.from_s:,.1f} s to {self.until_s:,.1f} s of the test{real}"


def longest_stall(series: NetworkSeries, *, compression: float) -> Stall | None:
    """The longest time without a byte; None when there was something in every sample."""
    longest: Stall | None = None
    began: float | None = None
    before = 0.0
    for second, rate in zip(series.seconds, series.throughput, strict=True):
        if rate.bytes_per_second > 0:
            began = None
        else:
            began = before if began is None else began
            if longest is None or second - began > longest.until_s - longest.from_s:
                longest = Stall(began, second, (second - began) / compression)
        before = second
    return longest


def is_broken(stall: Stall, job: Iperf3Job) -> bool:
    """Whether so long a stall says that the network was away, and not that the load is a trickle."""
    return stall.real_s >= max(STALL_S, _pause_s(job) * _BLOCKS_APART)


def is_noted(stall: Stall, job: Iperf3Job) -> bool:
    """Whether a stall is long enough that a reader of the result should know."""
    return stall.real_s >= max(NOTED_S, _pause_s(job) * _BLOCKS_APART)


def _pause_s(job: Iperf3Job) -> float:
    """Time between two blocks of one stream at the rate that was asked for."""
    if job.bitrate is None:
        return 0.0
    block = job.length or _BLOCK
    return block.bytes * job.streams / job.bitrate.bytes_per_second
