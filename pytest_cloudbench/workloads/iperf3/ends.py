"""The two ends of a run: started once each, the server first, and ended together whatever happens."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
from pytest_cloudbench.workloads.runner import Job, Runner

LISTENS_WITHIN_S = 15
SERVER_ENDS_WITHIN_S = 5.0
"""A one-off server ends with its client, which has just ended."""
SERVER_OUTLIVES_S = 120
"""How long beyond a run a server waits, if nobody ends it, for a client that never came."""
_PORT_TRIES = 3
_PORT_TAKEN = ("Address already in use", "exiting")
"""iperf3's words; up to 3.9 it says no more than that it exits."""


@dataclass
class Side:
    """One end: its job, the commands in it, and whether its host was found out of reach."""

    host: Runner
    job: Job
    commands: tuple[tuple[str, ...], ...]
    lost: bool = False

    def end(self) -> None:
        """Interrupt what still runs, so that it writes what it has. A host out of reach is left alone."""
        with contextlib.suppress(Exception):
            self.job.kill()

    def fetch(self) -> dict[str, bytes]:
        """The files of its processes by name; empty where the host is out of reach."""
        try:
            return self.job.fetch(["process-*.json", "process-*.err", CODES_FILE])
        except Exception:  # whatever the host's errors are: what the other end has still counts
            self.lost = True
            return {}

    def remove(self) -> None:
        """Remove the job's directory from the host, unless it was found out of reach."""
        if not self.lost:
            with contextlib.suppress(Exception):
                self.job.cleanup()

    def processes(self, files: dict[str, bytes]) -> list[ProcessFiles]:
        """The files process by process."""
        codes = files.get(CODES_FILE, b"").decode("ascii", "replace").split()
        found = []
        for number in range(1, len(self.commands) + 1):
            output, errors = process_files(number)
            code = codes[number - 1] if number <= len(codes) else ""
            said = files.get(errors, b"").decode("utf-8", "replace")
            found.append(ProcessFiles(files.get(output), said, int(code) if code.isdecimal() else None))
        return found


def start_server(plan: Plan) -> tuple[Side, tuple[int, ...]]:
    """Start the server's processes and return once all listen, with their ports.

    Raises PortBusy, ServerNotUp, and the runner's errors; then nothing of it is left on the host.
    """
    host = plan.path.server_host
    count = len(plan.processes)
    asked = plan.job.port
    taken: set[int] = set()
    for last in (False,) * (_PORT_TRIES - 1) + (True,):
        if asked is not None:
            ports = tuple(range(asked, asked + count))
            check_free(host, ports)
        else:
            ports = free_ports(host, count, but=taken)
        commands = tuple(server_command(plan.server, port, plan.time) for port in ports)
        side = _start(host, commands, limit_s=plan.length_s + SERVER_OUTLIVES_S, name="iperf3-server")
        try:
            ended = _wait_until_listening(side, ports)
        except BaseException:
            side.end()
            side.remove()
            raise
        if not ended:
            return side, ports
        # Between looking and listening somebody else may have taken a port.
        side.end()
        words = _words_of(side)
        side.remove()
        if not any(each in words for each in _PORT_TAKEN):
            raise ServerNotUp(f"the server's iperf3 on {host.label} ended before it listened: {words}")
        if asked is not None:
            raise PortBusy(busy_text(asked, host.label))
        if last:
            raise PortBusy(
                f"every port that was free on {host.label} was taken before iperf3 could listen on it"
            )
        taken.update(ports)
    raise AssertionError("unreachable")


def start_client(plan: Plan, ports: Sequence[int], *, with_samples: bool) -> Side:
    """Start the client's processes, all together. `with_samples`: for the live line, once a second."""
    address = plan.path.server_address
    commands = tuple(
        client_command(plan.client, plan.job, share, plan.time, address=address, port=port)
        for share, port in zip(plan.processes.shares, ports, strict=True)
    )
    return _start(
        plan.path.client_host,
        commands,
        limit_s=plan.length_s + SERVER_OUTLIVES_S,
        name="iperf3-client",
        sample_way_to=address if with_samples else None,
    )


def _start(
    host: Runner,
    commands: tuple[tuple[str, ...], ...],
    *,
    limit_s: int,
    name: str,
    sample_way_to: str | None = None,
) -> Side:
    script = load_script(commands, limit_s=limit_s, sample_way_to=sample_way_to)
    job = host.start_job(["sh", SCRIPT_FILE], files={SCRIPT_FILE: script}, name=name)
    return Side(host, job, commands)


def _wait_until_listening(side: Side, ports: Sequence[int]) -> bool:
    """Return False once all ports listen, True when the processes ended before. ServerNotUp after a while."""
    said = side.host.run(
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
    if said.exit_code not in (0, 2):
        numbers = ", ".join(str(port) for port in ports)
        raise ServerNotUp(
            f"the server's iperf3 on {side.host.label} did not listen on port {numbers} within {LISTENS_WITHIN_S} s"
        )
    return said.exit_code == 2


def _words_of(side: Side) -> str:
    said = "it gave no reason"
    for each in side.processes(side.fetch()):
        try:
            found = parse_output(each, role=SERVER, reverse=False).error
        except Iperf3Error:
            found = iperf3_words(each.stderr)
        said = found or said
    return said


FIRST, LAST = 20_000, 31_999
"""Below Linux's ephemeral range (from 32,768), so that no outgoing connection takes one in between."""

_FILES = ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6")
_LISTEN = "0A"


def free_ports(host: Runner, count: int, *, but: Collection[int] = ()) -> tuple[int, ...]:
    """`count` ports of that host that nothing uses, neighbours of each other, none of `but`.

    Raises PortBusy when there are none.
    """
    used, _ = sockets_of(host)
    # Two runs that look at the same time should not find the same ones.
    start = random.randint(FIRST, LAST)  # noqa: S311 - no secret
    found = choose_ports(used | set(but), count, start=start)
    if not found:
        raise PortBusy(f"{host.label} has no {count} free ports in a row between {FIRST:,} and {LAST:,}")
    return found


def check_free(host: Runner, ports: Collection[int]) -> None:
    """Raise PortBusy when something listens on one of these ports of the host."""
    _, listening = sockets_of(host)
    for port in ports:
        if port in listening:
            raise PortBusy(busy_text(port, host.label))


def busy_text(port: int, host: str) -> str:
    """The sentence about a port that was asked for and is taken."""
    return (
        f"port {port} on {host} is taken: something listens there already; choose another port=, or leave it out "
        "and a free one is found"
    )


def choose_ports(used: Collection[int], count: int, *, start: int) -> tuple[int, ...]:
    """The first `count` neighbours from `start` on (then from the first) that are not used; empty if none."""
    for first in (*range(start, LAST + 1), *range(FIRST, start)):
        ports = range(first, first + count)
        if ports[-1] <= LAST and not any(port in used for port in ports):
            return tuple(ports)
    return ()


def sockets_of(host: Runner) -> tuple[set[int], set[int]]:
    """The local ports that any socket of the host uses, and those on which TCP listens."""
    # A kernel without IPv6 has no lists of it.
    said = host.run(["cat", *_FILES], check=False, idempotent=True)
    return parse_sockets(said.stdout)


def parse_sockets(text: str) -> tuple[set[int], set[int]]:
    """As `sockets_of`, from the contents of the kernel's lists. Other lines are passed over."""
    used, listening = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or not words[0].endswith(":"):
            continue
        _, _, port_hex = words[1].rpartition(":")
        try:
            port = int(port_hex, 16)
        except ValueError:
            continue
        used.add(port)
        if words[3] == _LISTEN:
            listening.add(port)
    return used, listening
