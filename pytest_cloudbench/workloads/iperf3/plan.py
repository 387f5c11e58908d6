"""Everything about a run that is settled before anything starts on either host."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.processes import Processes, plan_processes
from pytest_cloudbench.workloads.iperf3.tool import HostIperf3, check_versions, iperf3_of
from pytest_cloudbench.workloads.pace import Pace, RunTime, network_time
from pytest_cloudbench.workloads.path import NetworkPath


@dataclass(frozen=True)
class Plan:
    """A job on a path, with its real times, its processes, both ends' iperf3 and what must be said of it."""

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
        """Real seconds of the load, what is omitted included."""
        return self.time.duration_s + self.time.omit_s


def plan_run(path: NetworkPath, job: Iperf3Job, pace: Pace) -> Plan:
    """Settle how `job` runs on `path`. Nothing is started.

    Raises BadIperf3Job, Iperf3TooOld, Iperf3Refused, and the runner's errors (no iperf3 to be had).
    """
    _check_is_path(path)
    client, server = iperf3_of(path.client_host), iperf3_of(path.server_host)
    conditions = check_versions(job, client, server)
    time = network_time(job.duration, job.omit, pace, path.time_compression)
    envelope = path.envelope(streams=job.streams, reverse=job.reverse)
    promised = envelope.promised if envelope is not None else None
    client_cpus = path.client_cpus or client.host_cpus
    server_cpus = path.server_cpus or server.host_cpus
    processes = plan_processes(
        job,
        client,
        server,
        client_cpus=client_cpus,
        server_cpus=server_cpus,
        limit=promised.limit_throughput if promised is not None else None,
    )
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


def _check_is_path(given: object) -> None:
    if not hasattr(given, "server_address"):
        raise BadIperf3Job(
            f"iperf3 runs between two instances: give it ec2_pair, ec2.pair(type) or ec2.path(client, server), "
            f"not {given!r}"
        )
