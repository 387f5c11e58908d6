"""The iperf3 of one host: its version, and whether it can do what a job asks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job, Iperf3Refused, Iperf3TooOld
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.runner import Runner

Version = tuple[int, ...]

OLDEST = (3, 1)
"""One-off servers (-1) that answer in JSON."""
BOTH_WAYS_SINCE = (3, 7)
CONNECT_TIMEOUT_SINCE = (3, 7)
POOR_UDP_FROM, POOR_UDP_UNTIL = (3, 16), (3, 18)
"""The first threaded versions: their senders spin between datagrams (measured: 184 % CPU for 400 Mbit/s)."""

_VERSION = re.compile(r"iperf (\d+)\.(\d+)(?:\.(\d+))?")
_LOOK = """\
"$1" --version 2>&1 | head -n 1
nproc
cat /proc/sys/kernel/random/boot_id
cat /proc/sys/net/ipv4/tcp_available_congestion_control
"""
_LINES = 4


class HostIperf3:
    """The iperf3 of one host. Asked once per host, not once per run.

    `machine` tells apart the machines that hosts run on: hosts with the same share their processors.
    """

    def __init__(self, runner: Runner) -> None:
        self.label = runner.label
        self.path = runner.ensure_tool("iperf3")
        said = runner.run(["sh", "-c", _LOOK, "sh", self.path], check=False, idempotent=True)
        lines = said.stdout.splitlines()
        if len(lines) < _LINES:
            words = (said.stderr or said.stdout).strip() or "nothing"
            raise Iperf3Refused(
                f"{self.path} on {self.label} cannot be asked for its version: it said {words}"
            )
        self.version_line = lines[0].strip()
        self.version = parse_version(self.version_line, self.label)
        self.host_cpus = int(lines[1]) if lines[1].strip().isdecimal() else 1
        self.machine = lines[2].strip()
        self.congestion_controls: tuple[str, ...] = tuple(lines[3].split())


_hosts: WeakKeyDictionary[Runner, HostIperf3] = WeakKeyDictionary()


def iperf3_of(runner: Runner) -> HostIperf3:
    """The iperf3 of that host; installed when missing, looked at only the first time."""
    known = _hosts.get(runner)
    if known is None:
        known = _hosts[runner] = HostIperf3(runner)
    return known


def parse_version(text: str, host: str) -> Version:
    """The version in the first line of `iperf3 --version`, as (3, 12) or (3, 1, 3).

    Raises Iperf3Refused for a line without one.
    """
    found = _VERSION.search(text)
    if found is None:
        raise Iperf3Refused(f"iperf3 on {host} names no version that is known: it said {text[:200]!r}")
    return tuple(int(part) for part in found.groups() if part is not None)


def version_text(version: Sequence[int]) -> str:
    """The version as iperf3 writes it."""
    return ".".join(str(part) for part in version)


def check_versions(job: Iperf3Job, client: HostIperf3, server: HostIperf3) -> tuple[str, ...]:
    """One sentence for each thing about the tools that a reader of the result must know.

    Raises Iperf3TooOld, or BadIperf3Job for a congestion control that an end does not have.
    """
    for end in (client, server):
        if end.version < OLDEST:
            raise Iperf3TooOld(_too_old(end, f"at least {version_text(OLDEST)} is needed at both ends"))
        if job.bidirectional and end.version < BOTH_WAYS_SINCE:
            needed = version_text(BOTH_WAYS_SINCE)
            raise Iperf3TooOld(_too_old(end, f"bidirectional=True needs {needed} at both ends"))
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
            f"UDP with iperf3 {version_text(poor[0].version)}, whose senders spin and lose datagrams of their own: "
            "loss and CPU are not the network's alone"
        )
    return tuple(conditions)


def _too_old(end: HostIperf3, what: str) -> str:
    return f"iperf3 {version_text(end.version)} on {end.label} is too old: {what}"
