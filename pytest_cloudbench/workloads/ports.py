"""Free ports of a host, by the kernel's lists of sockets."""

from __future__ import annotations

from collections.abc import Collection

from pytest_cloudbench.hosts.host import Host

FIRST_PORT, LAST_PORT = 20_000, 31_999
"""Below Linux's ephemeral range (from 32,768), so no outgoing connection takes a port in the meantime."""
_SOCKET_LISTS = ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6")
_LISTEN = "0A"


def choose_ports(used: Collection[int], count: int, *, start: int) -> tuple[int, ...]:
    """Return the first `count` consecutive unused ports, searching from `start` and then from the first port.

    Empty if there are none.
    """
    for first in (*range(start, LAST_PORT + 1), *range(FIRST_PORT, start)):
        ports = range(first, first + count)
        if ports[-1] <= LAST_PORT and not any(port in used for port in ports):
            return tuple(ports)
    return ()


def read_sockets(host: Host) -> tuple[set[int], set[int]]:
    """Return the local ports in use on the host, and those of them on which TCP listens."""
    # Not checked: a kernel without IPv6 lacks two of the files.
    return parse_sockets(host.run(["cat", *_SOCKET_LISTS], check=False, idempotent=True).stdout)


def parse_sockets(text: str) -> tuple[set[int], set[int]]:
    """Parse the kernel's socket lists as `read_sockets` returns them. Other lines are skipped."""
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
