"""Turn a failed or stalled run into an error that says where and when it failed and what was measured."""

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
"""The client's messages for an unreachable server; the second is that of 3.9."""
_OTHER_END = (
    "control socket has closed unexpectedly",
    "the server has terminated",
    "Broken pipe",
    "reset by",
)
"""The client's messages for a server that has gone away."""
STALL_S = 3.0
"""Real seconds without a byte on any stream that break a run. TCP retransmits after 0.2 s and doubles that each time,
so a working network would have to lose the same segment four times in a row."""
NOTED_S = 1.0
"""Real seconds without a byte that the result notes as a condition."""
_BLOCK = Size(128 << 10)
"""iperf3's default TCP block."""
_BLOCKS_APART = 3.0


def failure_of(plan: Plan, gathered: Gathered, cause: Exception | None) -> Iperf3Error | None:
    """Return the error of a run that ended early; None if it completed.

    cause: the error that stopped the watching (unreachable host, vanished job, timeout), if any.
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
    """Return the error of a completed run in which no data flowed for a while; None if there is none."""
    for each in measurement.directions or (measurement,):
        stall = longest_stall(each.series, compression=plan.time.compression)
        if stall is None or not is_broken(stall, plan.job):
            continue
        way = f", {each.workload.rpartition(', ')[2]}," if measurement.directions else ""
        return Iperf3Interrupted(
            f"no data flowed on {plan.path.label}{way} {stall}: the network between them was interrupted; the error's "
            "measurement holds the data before and after",
            measurement,
        )
    return None


def with_stall_noted(plan: Plan, measurement: NetworkMeasurement) -> NetworkMeasurement:
    """Return the measurement with a condition for its longest time without a byte, if that is long enough."""
    stall = longest_stall(measurement.series, compression=plan.time.compression)
    if stall is None or not is_noted(stall, plan.job):
        return measurement
    return replace(measurement, conditions=(*measurement.conditions, f"no data flowed {stall}"))


def _what_broke(plan: Plan, gathered: Gathered, cause: Exception | None) -> str | None:
    client, server = gathered.client.error, gathered.server.error
    if isinstance(cause, TimeoutError):
        return (
            f"iperf3 on {plan.client.label} was still running long after its {plan.length_s} s and was ended; "
            f"{plan.server.label} may be unreachable"
        )
    if cause is not None:
        return str(cause).rstrip(".")
    if client is None:
        return None
    if any(words in client for words in _OTHER_END):
        why = f": {server}" if server and "closed" not in server else ""
        return f"the server's iperf3 on {plan.server.label} ended during the run ({client}){why}"
    return f"iperf3 on {plan.client.label} ended early: {client}"


def _nothing_measured(plan: Plan, gathered: Gathered, what: str) -> Iperf3Error:
    error = gathered.client.error or ""
    if any(words in error for words in _UNREACHED):
        address = plan.path.server_address
        return Iperf3Refused(
            f"{plan.client.label} cannot reach iperf3 on {plan.server.label} at {address} ({error}): check the "
            "security groups and firewalls between them"
        )
    if gathered.client.unreadable:
        return Iperf3OutputError(f"the output of iperf3 on {plan.client.label} cannot be used: {error}")
    return Iperf3Refused(what)


def _interrupted(plan: Plan, measurement: NetworkMeasurement, what: str) -> Iperf3Interrupted:
    meant_s = plan.time.duration_s * plan.time.compression
    stall = longest_stall(measurement.series, compression=plan.time.compression)
    if stall is not None and is_broken(stall, plan.job):
        what += f"; no data flowed {stall}"
    measured = f"{measurement.runtime_s:,g} s of {meant_s:,g} s were measured (see the error's measurement)"
    return Iperf3Interrupted(f"{what}; {measured}", measurement)


@dataclass(frozen=True)
class Stall:
    """A time without data, from `from_s` to `until_s` in seconds of the test; it lasted `real_s` real seconds."""

    from_s: float
    until_s: float
    real_s: float

    def __str__(self) -> str:
        real = f" ({self.real_s:.1f} s of real time)" if self.real_s < self.until_s - self.from_s else ""
        return f"from {self.from_s:,.1f} s to {self.until_s:,.1f} s of the test{real}"


def longest_stall(series: NetworkSeries, *, compression: float) -> Stall | None:
    """Return the longest time without a byte; None if every sample has data."""
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
    """Return True if the stall is too long for a slow load: the network was interrupted."""
    return stall.real_s >= max(STALL_S, _pause_s(job) * _BLOCKS_APART)


def is_noted(stall: Stall, job: Iperf3Job) -> bool:
    """Return True if the stall is long enough to be noted in the result."""
    return stall.real_s >= max(NOTED_S, _pause_s(job) * _BLOCKS_APART)


def _pause_s(job: Iperf3Job) -> float:
    """Return the seconds between two blocks of one stream at the requested rate."""
    if job.bitrate is None:
        return 0.0
    block = job.length or _BLOCK
    return block.bytes * job.streams / job.bitrate.bytes_per_second
