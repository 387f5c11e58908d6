"""The two ends of a run: start each once, the server first on free ports; end and remove both in every case."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_cloudbench.hosts.host import Host, Job
from pytest_cloudbench.workloads.iperf3.errors import Iperf3Error, PortBusy, ServerNotUp
from pytest_cloudbench.workloads.iperf3.load_script import (
    CODES_FILE,
    LISTENING,
    SCRIPT_FILE,
    client_command,
    load_script,
    process_files,
    server_command,
)
from pytest_cloudbench.workloads.iperf3.output import SERVER, ProcessFiles, iperf3_words, parse_output
from pytest_cloudbench.workloads.iperf3.plan import Plan
from pytest_cloudbench.workloads.ports import FIRST_PORT, LAST_PORT, choose_ports, read_sockets
from pytest_cloudbench.workloads.tool_run import cleaned_up, text_of

LISTENS_WITHIN_S = 15
SERVER_ENDS_WITHIN_S = 5.0
"""A one-off server ends with its client, and the client has ended by then."""
SERVER_OUTLIVES_S = 120
"""A server whose client never connects, and that nobody ends, ends itself this long after the run's time."""
_PORT_TRIES = 3
_PORT_TAKEN = ("Address already in use", "exiting")
"""iperf3's words for a port in use; up to 3.9 it only reports that it exits."""


@dataclass
class Side:
    """One end of a run: its job, and the job's commands."""

    host: Host
    job: Job
    commands: tuple[tuple[str, ...], ...]

    def end(self) -> None:
        """Interrupt running processes, so that they write their results. Errors of the host are ignored."""
        with contextlib.suppress(Exception):
            self.job.kill()

    def fetch(self) -> dict[str, bytes]:
        """Return the processes' files by name; empty if the host cannot be reached."""
        with contextlib.suppress(Exception):  # any error of the host: the other end's output still counts
            return self.job.fetch(["process-*.json", "process-*.err", CODES_FILE])
        return {}

    def processes(self, files: dict[str, bytes]) -> list[ProcessFiles]:
        """Group the fetched files by process."""
        codes = text_of(files, CODES_FILE).split()
        found = []
        for number in range(1, len(self.commands) + 1):
            output, errors = process_files(number)
            code = codes[number - 1] if number <= len(codes) else ""
            exit_code = int(code) if code.isdecimal() else None
            found.append(ProcessFiles(files.get(output), text_of(files, errors), exit_code))
        return found


def start_server(plan: Plan) -> tuple[Side, tuple[int, ...]]:
    """Start the server's processes, wait until all listen, and return them with their ports.

    Raises PortBusy, ServerNotUp and the host's errors; nothing is left on the host then.
    """
    host = plan.path.server_host
    count = len(plan.processes)
    asked = plan.job.port
    taken: set[int] = set()
    for _ in range(_PORT_TRIES):
        if asked is not None:
            ports = tuple(range(asked, asked + count))
            check_free(host, ports)
        else:
            ports = free_ports(host, count, excluded=taken)
        commands = tuple(server_command(plan, port) for port in ports)
        side = _start(plan, host, commands, "iperf3-server")
        try:
            ended = _wait_until_listening(side, ports)
        except BaseException:
            with cleaned_up(side.job):
                raise
        if not ended:
            return side, ports
        # Another process may have taken a port since the check.
        with cleaned_up(side.job):
            side.end()
            words = _server_error(side)
        if not any(each in words for each in _PORT_TAKEN):
            raise ServerNotUp(f"the server's iperf3 on {host.label} ended before it listened: {words}")
        if asked is not None:
            raise _port_busy(asked, host)
        taken.update(ports)
    raise PortBusy(
        f"each free port found on {host.label} was taken before iperf3 could listen on it: try again"
    )


def start_client(plan: Plan, ports: Sequence[int], *, with_samples: bool, start_in_s: float = 0.0) -> Side:
    """Start all client processes together, `start_in_s` from now.

    `with_samples`: write samples once a second for the live line.
    """
    commands = tuple(
        client_command(plan, share, port) for share, port in zip(plan.processes.shares, ports, strict=True)
    )
    sampled_address = plan.path.server_address if with_samples else None
    return _start(
        plan,
        plan.path.client_host,
        commands,
        "iperf3-client",
        sampled_address=sampled_address,
        start_in_s=start_in_s,
    )


def _start(
    plan: Plan,
    host: Host,
    commands: tuple[tuple[str, ...], ...],
    name: str,
    *,
    sampled_address: str | None = None,
    start_in_s: float = 0.0,
) -> Side:
    limit_s = plan.length_s + SERVER_OUTLIVES_S + math.ceil(start_in_s)
    script = load_script(commands, limit_s=limit_s, sampled_address=sampled_address, start_in_s=start_in_s)
    job = host.start_job(["sh", SCRIPT_FILE], files={SCRIPT_FILE: script}, name=name)
    return Side(host, job, commands)


def _wait_until_listening(side: Side, ports: Sequence[int]) -> bool:
    """Return False once all ports listen, True if the processes ended before. Raises ServerNotUp after 15 s."""
    result = side.host.run(
        [
            "sh",
            "-c",
            LISTENING,
            "sh",
            side.job.directory,
            str(LISTENS_WITHIN_S * 10),
            *[f"{port:04X}" for port in ports],
        ],
        check=False,
        timeout_s=LISTENS_WITHIN_S + 30.0,
        idempotent=True,
    )
    if result.exit_code not in (0, 2):
        numbers = ", ".join(str(port) for port in ports)
        raise ServerNotUp(
            f"the server's iperf3 on {side.host.label} did not listen on port {numbers} within {LISTENS_WITHIN_S} s"
        )
    return result.exit_code == 2


def _server_error(side: Side) -> str:
    text = "it gave no reason"
    for each in side.processes(side.fetch()):
        try:
            error = parse_output(each, role=SERVER, reverse=False).error
        except Iperf3Error:
            error = iperf3_words(each.stderr)
        text = error or text
    return text


def free_ports(host: Host, count: int, *, excluded: Collection[int] = ()) -> tuple[int, ...]:
    """Return `count` consecutive unused ports of the host, none of them `excluded`.

    Raises PortBusy if there are none.
    """
    used, _ = read_sockets(host)
    # A random start keeps two simultaneous runs from choosing the same ports.
    start = random.randint(FIRST_PORT, LAST_PORT)  # noqa: S311 - no secret
    found = choose_ports(used | set(excluded), count, start=start)
    if not found:
        raise PortBusy(
            f"{host.label} has no {count} consecutive free ports from {FIRST_PORT:,} to {LAST_PORT:,}"
        )
    return found


def check_free(host: Host, ports: Collection[int]) -> None:
    """Raise PortBusy if something listens on one of these ports of the host."""
    _, listening = read_sockets(host)
    for port in ports:
        if port in listening:
            raise _port_busy(port, host)


def _port_busy(port: int, host: Host) -> PortBusy:
    return PortBusy(
        f"port {port} on {host.label} is in use: another process listens there; choose another port=, or omit it "
        "to use a free one"
    )
