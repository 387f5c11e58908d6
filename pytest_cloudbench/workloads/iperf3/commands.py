"""iperf3's command lines, for both ends."""

from __future__ import annotations

from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.processes import ProcessShare
from pytest_cloudbench.workloads.iperf3.tool import CONNECT_TIMEOUT_SINCE, HostIperf3
from pytest_cloudbench.workloads.pace import RunTime

CONNECT_WITHIN_MS = 10_000


def server_command(iperf3: HostIperf3, port: int, time: RunTime) -> tuple[str, ...]:
    """A server for one client: it ends with it."""
    # A server keeps its own interval: the client's does not reach it.
    return (iperf3.path, "-s", "-1", "-p", str(port), "-i", f"{time.interval_s:g}", "--json")


def client_command(
    iperf3: HostIperf3, job: Iperf3Job, share: ProcessShare, time: RunTime, *, address: str, port: int
) -> tuple[str, ...]:
    """A client with its share of the streams, for the time that really passes."""
    words = [iperf3.path, "-c", address, "-p", str(port), "-t", str(time.duration_s)]
    words += ["-i", f"{time.interval_s:g}", "-P", str(share.streams), "--json"]
    if iperf3.version >= CONNECT_TIMEOUT_SINCE:
        words += ["--connect-timeout", str(CONNECT_WITHIN_MS)]
    if time.omit_s:
        words += ["-O", str(time.omit_s)]
    for asked, option in (
        (job.udp, "-u"),
        (job.reverse, "-R"),
        (job.bidirectional, "--bidir"),
        (job.no_delay, "-N"),
        (job.zerocopy, "-Z"),
    ):
        if asked:
            words.append(option)
    if share.stream_bits is not None:
        words += ["-b", str(share.stream_bits)]
    if job.mss is not None:
        words += ["-M", str(job.mss)]
    if job.window is not None:
        words += ["-w", str(job.window.bytes)]
    if job.length is not None:
        words += ["-l", str(job.length.bytes)]
    if job.congestion is not None:
        words += ["-C", job.congestion]
    if job.dscp is not None:
        words += ["-S", str(job.dscp << 2)]  # the type of service holds the code point in its upper six bits
    return tuple(words)
