"""The plan of a run, made before anything starts: real times, processes, both ends' iperf3, ceilings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Bandwidth, Throughput
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job
from pytest_cloudbench.workloads.iperf3.job import MOST_STREAMS, Iperf3Job
from pytest_cloudbench.workloads.iperf3.tool import (
    HostIperf3,
    Version,
    check_versions,
    iperf3_of,
    version_text,
)
from pytest_cloudbench.workloads.pace import QUICK_RAMP_S, Pace, compressed_seconds, compression_condition
from pytest_cloudbench.workloads.target import NetworkPath

INTERVAL_S = 1.0
COMPRESSED_INTERVAL_S = 0.1
"""The shortest interval of iperf3."""
THREADED_SINCE = (3, 16)
"""Since this version every stream has its own thread (iperf3's release notes)."""
ONE_THREAD_TCP = Bandwidth.from_gbit(12)
ONE_THREAD_UDP = Bandwidth.from_gbit(2)
"""The rate that one thread of an older iperf3 drives with jumbo frames. Measured with 3.12: TCP 13 to 20 Gbit/s;
UDP received 1 Gbit/s (1,448-byte datagrams) to 3 Gbit/s (8,972-byte datagrams)."""


@dataclass(frozen=True)
class RunTime:
    """The times of a run in real seconds, each of which represents `compression` seconds of the test."""

    duration_s: int
    omit_s: int
    interval_s: float
    compression: float
    conditions: tuple[str, ...]


def network_time(duration_s: float, omit_s: float, pace: Pace, factor: float) -> RunTime:
    """Return the real times of a run of `duration_s` seconds of the test; iperf3 takes whole seconds.

    The conditions state what the pace or a compressed time changes.
    """
    conditions: list[str] = []
    real_s = math.ceil(compressed_seconds(duration_s, factor))
    omitted_s = math.ceil(omit_s / factor)
    omitting = "iperf3 omits whole real seconds"
    most_s = pace.most_seconds(duration_s)
    if real_s > most_s:
        real_s = int(most_s)
        conditions.append(f"quick pace: duration {duration_s:,g} s -> {real_s * factor:,g} s")
    if pace is Pace.QUICK and omitted_s > QUICK_RAMP_S:
        omitted_s, omitting = QUICK_RAMP_S, "quick pace"
    if omitted_s * factor != omit_s:
        conditions.append(f"{omitting}: omit {omit_s:,g} s -> {omitted_s * factor:,g} s")
    if factor != 1:
        conditions.append(compression_condition(duration_s, real_s, factor))
    interval_s = INTERVAL_S if factor == 1 else COMPRESSED_INTERVAL_S
    return RunTime(real_s, omitted_s, interval_s, factor, tuple(conditions))


@dataclass(frozen=True)
class Plan:
    """A job on a path, with all decisions made before it starts and the conditions of its result."""

    path: NetworkPath
    job: Iperf3Job
    time: RunTime
    client: HostIperf3
    server: HostIperf3
    client_cpus: int
    server_cpus: int
    processes: Processes
    envelope: Envelope | None
    conditions: tuple[str, ...]

    @property
    def length_s(self) -> int:
        """Real seconds of load, the omitted ones included."""
        return self.time.duration_s + self.time.omit_s


def plan_run(path: NetworkPath, job: Iperf3Job, pace: Pace) -> Plan:
    """Plan how `job` runs on `path`. Nothing is started.

    Raises BadIperf3Job, Iperf3TooOld, Iperf3Refused, and the host's errors if iperf3 cannot be installed.
    """
    if not hasattr(path, "server_address"):
        raise BadIperf3Job(
            "iperf3 runs between two instances: give it ec2_pair, ec2.pair(type) or ec2.path(client, server), "
            f"not {path!r}"
        )
    client, server = iperf3_of(path.client_host), iperf3_of(path.server_host)
    conditions = check_versions(job, client, server)
    time = network_time(job.duration, job.omit, pace, path.time_compression)
    # A path from outside this package might not accept `udp`.
    protocol = {"udp": True} if job.udp else {}
    envelope = path.envelope(streams=job.streams, reverse=job.reverse, **protocol)
    promised = envelope.promised if envelope is not None else None
    client_cpus = path.client_cpus or client.host_cpus
    server_cpus = path.server_cpus or server.host_cpus
    limit = promised.limit_throughput if promised is not None else None
    version = min(client.version, server.version)
    processes = plan_processes(job, version, min(client_cpus, server_cpus), limit)
    if len(processes) > 1 and job.processes is None:
        conditions += (f"{len(processes)} iperf3 processes at each end: {processes.why}",)
    return Plan(
        path=path,
        job=job,
        time=time,
        client=client,
        server=server,
        client_cpus=client_cpus,
        server_cpus=server_cpus,
        processes=processes,
        envelope=envelope,
        conditions=(*time.conditions, *conditions),
    )


@dataclass(frozen=True)
class ProcessShare:
    """The load of one pair of processes; `stream_bits` is the rate per stream in bit/s, None if unlimited."""

    streams: int
    stream_bits: int | None


@dataclass(frozen=True)
class Processes:
    """The load of each process, and the reason for their number as the end of a sentence."""

    shares: tuple[ProcessShare, ...]
    why: str

    def __len__(self) -> int:
        return len(self.shares)


def plan_processes(job: Iperf3Job, version: Version, cpus: int, limit: Throughput | None) -> Processes:
    """Choose as many processes as the load needs and the streams and processors allow.

    version: the older iperf3 of both ends. cpus: the processors of the smaller end. limit: the promised rate of the
    path, None if unknown. Raises BadIperf3Job if there are too few ports.
    """
    least = math.ceil(job.streams / MOST_STREAMS)
    if job.processes is not None:
        count, why = job.processes, "as the test asks"
    else:
        count, why = _count_for_rate(job, version, cpus, limit)
        if count < least:
            count, why = least, f"iperf3 runs up to {MOST_STREAMS} streams per process"
    if job.port is not None and job.port + count - 1 > 65_535:
        raise BadIperf3Job(f"port={job.port} leaves no room for {count} processes: each needs its own port")
    return Processes(share_out(job.streams, count, job.bitrate), why)


def share_out(streams: int, processes: int, bitrate: Throughput | None) -> tuple[ProcessShare, ...]:
    """Divide the streams evenly over the processes (the first ones take the remainder), and the rate over the streams.

    iperf3 takes whole bits per second and reads 0 as unlimited, so a share below 1 bit/s raises BadIperf3Job. The
    sum of the shares is off by less than half a bit per second per stream.
    """
    stream_bits = None
    if bitrate is not None:
        stream_bits = round(bitrate.bytes_per_second * 8 / streams)
        if stream_bits < 1:
            raise BadIperf3Job(f"bitrate={bitrate} is less than 1 bit/s for each of {streams} streams")
    each, more = divmod(streams, processes)
    return tuple(ProcessShare(each + (number < more), stream_bits) for number in range(processes))


def _count_for_rate(job: Iperf3Job, version: Version, cpus: int, limit: Throughput | None) -> tuple[int, str]:
    name = f"iperf3 {version_text(version)}"
    if version >= THREADED_SINCE:
        return 1, f"{name} has a thread for each stream"
    rates = [rate for rate in (job.bitrate, limit) if rate is not None]
    if not rates:
        return 1, "the rate to reach is unknown"
    rate = Bandwidth.of(min(rates) * (2 if job.bidirectional else 1))
    one = ONE_THREAD_UDP if job.udp else ONE_THREAD_TCP
    needed = math.ceil(rate / one)
    if needed == 1:
        return 1, f"one thread of {name} drives {rate}"
    count = max(1, min(needed, job.streams, cpus))
    why = f"{name} has one thread, which drives about {one}, and {rate} may flow"
    if count < needed:
        limited_by = f"{cpus} CPU{'s' * (cpus != 1)}" if cpus < job.streams else "the number of streams"
        why += f"; limited by {limited_by}"
    return count, why
