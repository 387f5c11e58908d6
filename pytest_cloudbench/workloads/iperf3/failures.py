"""What went wrong with a run, as one sentence that says where, when, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.iperf3.errors import (
    Iperf3Error,
    Iperf3Interrupted,
    Iperf3OutputError,
    Iperf3Refused,
    Iperf3TimedOut,
)
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.plan import Plan
from pytest_cloudbench.workloads.iperf3.result import Gathered, measurement_of
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement, NetworkSeries

_UNREACHED = ("unable to connect to server", "unable to send control message")
"""The client's words for a server that it did not reach; the second are those of 3.9."""
_OTHER_END = (
    "control socket has closed unexpectedly",
    "the server has terminated",
    "Broken pipe",
    "reset by",
)
"""The client's words for a server that is gone."""


def failure_of(plan: Plan, gathered: Gathered, cause: Exception | None) -> Iperf3Error | None:
    """The error of a run that ended early; None of one that went through.

    cause: what kept us from watching it to its end (a host out of reach, a job that vanished, its time over).
    """
    what = _what_broke(plan, gathered, cause)
    if what is None:
        return None
    if not gathered.measured:
        if isinstance(cause, TimeoutError):
            return Iperf3TimedOut(f"{what}, with nothing measured")
        return _nothing_measured(plan, gathered, what)
    return _interrupted(plan, with_stall_noted(plan, measurement_of(plan, gathered)), what)


def stall_of(plan: Plan, measurement: NetworkMeasurement) -> Iperf3Interrupted | None:
    """The error of a run that went through, but during which nothing flowed for a while."""
    for each in measurement.directions or (measurement,):
        stall = longest_stall(each.series, compression=plan.time.compression)
        if stall is None or not is_broken(stall, plan.job):
            continue
        way = f", {each.workload.rpartition(', ')[2]}," if measurement.directions else ""
        return Iperf3Interrupted(
            f"nothing flowed on {plan.path.label}{way} {stall}: the network between them was away; what was "
            "measured before and after is kept in the error's measurement",
            measurement,
        )
    return None


def with_stall_noted(plan: Plan, measurement: NetworkMeasurement) -> NetworkMeasurement:
    """The measurement, its conditions telling of a time without a byte that a reader should know of."""
    stall = longest_stall(measurement.series, compression=plan.time.compression)
    if stall is None or not is_noted(stall, plan.job):
        return measurement
    return replace(measurement, conditions=(*measurement.conditions, f"nothing flowed {stall}"))


def _what_broke(plan: Plan, gathered: Gathered, cause: Exception | None) -> str | None:
    client, server = gathered.client.error, gathered.server.error
    if isinstance(cause, TimeoutError):
        return (
            f"iperf3 on {plan.client.label} still ran long after its {plan.length_s} s: it was ended, "
            f"{plan.server.label} may be out of reach"
        )
    if cause is not None:
        return str(cause).rstrip(".")
    if client is None:
        return None
    if any(words in client for words in _OTHER_END):
        why = f": {server}" if server and "closed" not in server else ""
        return f"the server's iperf3 on {plan.server.label} ended in the middle ({client}){why}"
    return f"iperf3 on {plan.client.label} ended early: {client}"


def _nothing_measured(plan: Plan, gathered: Gathered, what: str) -> Iperf3Error:
    error = gathered.client.error or ""
    if any(words in error for words in _UNREACHED):
        address = plan.path.server_address
        return Iperf3Refused(
            f"{plan.client.label} does not reach iperf3 on {plan.server.label} at {address} ({error}): does a "
            "security group or a firewall between them keep it out?"
        )
    if gathered.client.unreadable:
        return Iperf3OutputError(f"the output of iperf3 on {plan.client.label} cannot be used: {error}")
    return Iperf3Refused(what)


def _interrupted(plan: Plan, measurement: NetworkMeasurement, what: str) -> Iperf3Interrupted:
    meant_s = plan.time.duration_s * plan.time.compression
    stall = longest_stall(measurement.series, compression=plan.time.compression)
    if stall is not None and is_broken(stall, plan.job):
        what += f"; nothing flowed {stall}"
    kept = f"{measurement.runtime_s:,g} s of {meant_s:,g} s were measured and are kept in the error's measurement"
    return Iperf3Interrupted(f"{what}; {kept}", measurement)


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
