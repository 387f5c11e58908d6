"""Free ports on a host, found in its kernel's own lists of sockets."""

from __future__ import annotations

import random
from collections.abc import Collection

from pytest_cloudbench.workloads.iperf3.errors import PortBusy
from pytest_cloudbench.workloads.runner import Runner

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
