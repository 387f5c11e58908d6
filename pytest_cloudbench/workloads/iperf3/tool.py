"""The iperf3 of one host: its version, and the checks whether it supports a job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job, Iperf3Refused, Iperf3TooOld
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.tool_run import once_per_host

Version = tuple[int, ...]

OLDEST = (3, 1)
"""The first version whose one-off servers (-1) write JSON."""
BOTH_WAYS_SINCE = (3, 7)
CONNECT_TIMEOUT_SINCE = (3, 7)
POOR_UDP_FROM, POOR_UDP_UNTIL = (3, 16), (3, 18)
"""The first threaded versions: their UDP senders spin between datagrams (measured: 184 % CPU at 400 Mbit/s)."""

_VERSION = re.compile(r"iperf (\d+)\.(\d+)(?:\.(\d+))?")
_FACTS_SCRIPT = """\
"$1" --version 2>&1 | head -n 1
nproc
cat /proc/sys/kernel/random/boot_id
cat /proc/sys/net/ipv4/tcp_available_congestion_control
uname -r
"""
_FACT_LINES = 5


class HostIperf3:
    """The iperf3 of one host. Hosts with the same `machine` run on the same processors."""

    def __init__(self, host: Host) -> None:
        self.label = host.label
        self.path = host.ensure_tool("iperf3")
        result = host.run(["sh", "-c", _FACTS_SCRIPT, "sh", self.path], check=False, idempotent=True)
        lines = result.stdout.splitlines()
        if len(lines) < _FACT_LINES:
            words = (result.stderr or result.stdout).strip() or "nothing"
            raise Iperf3Refused(
                f"could not read the version of {self.path} on {self.label}: its output was {words}"
            )
        self.version_line = lines[0].strip()
        self.version = parse_version(self.version_line, self.label)
        self.host_cpus = int(lines[1]) if lines[1].strip().isdecimal() else 1
        self.machine = lines[2].strip()
        self.congestion_controls: tuple[str, ...] = tuple(lines[3].split())
        self.kernel = lines[4].strip()


iperf3_of = once_per_host(HostIperf3)
"""Returns the iperf3 of a host. It is installed if missing, and examined once."""


def parse_version(text: str, host: str) -> Version:
    """Parse the first line of `iperf3 --version` into (3, 12) or (3, 1, 3).

    Raises Iperf3Refused if the line holds no version.
    """
    found = _VERSION.search(text)
    if found is None:
        raise Iperf3Refused(f"iperf3 on {host} printed no known version: its first line was {text[:200]!r}")
    return tuple(int(part) for part in found.groups() if part is not None)


def version_text(version: Sequence[int]) -> str:
    """Return the version as iperf3 writes it."""
    return ".".join(str(part) for part in version)


def check_versions(job: Iperf3Job, client: HostIperf3, server: HostIperf3) -> tuple[str, ...]:
    """Return a condition for each fact about the versions that matters for the result.

    Raises Iperf3TooOld, or BadIperf3Job if an end lacks the congestion control.
    """
    for end in (client, server):
        if end.version < OLDEST:
            raise _too_old(end, f"both ends need at least {version_text(OLDEST)}")
        if job.bidirectional and end.version < BOTH_WAYS_SINCE:
            raise _too_old(end, f"bidirectional=True needs {version_text(BOTH_WAYS_SINCE)} at both ends")
        if job.congestion is not None and job.congestion not in end.congestion_controls:
            raise BadIperf3Job(
                f"congestion={job.congestion!r} is not available on {end.label}: it has "
                f"{', '.join(end.congestion_controls)}"
            )
    conditions = []
    if client.version != server.version:
        conditions.append(
            f"iperf3 {version_text(client.version)} on the client, {version_text(server.version)} on the server"
        )
    poor = [end for end in (client, server) if POOR_UDP_FROM <= end.version < POOR_UDP_UNTIL]
    if job.udp and poor:
        conditions.append(
            f"UDP with iperf3 {version_text(poor[0].version)}: its senders spin and lose datagrams themselves, so "
            "loss and CPU include iperf3's own"
        )
    return tuple(conditions)


def _too_old(end: HostIperf3, needed: str) -> Iperf3TooOld:
    return Iperf3TooOld(f"iperf3 {version_text(end.version)} on {end.label} is too old: {needed}")
