"""Paths on the local host for tests: two connections to it, and iperf3 over loopback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.envelope import Envelope


@dataclass
class LocalPath:
    """A network path like that of a pair of instances, without a cloud."""

    client_host: Host
    server_host: Host
    server_address: str = "127.0.0.1"
    label: str = "client -> server"
    time_compression: float = 1.0
    client_cpus: int | None = None
    server_cpus: int | None = None
    known_envelope: Envelope | None = None
    read_counters: Callable[[], Any] = lambda: None

    def envelope(self, *, streams: int, reverse: bool, udp: bool = False) -> Envelope | None:
        return self.known_envelope

    def counters(self) -> Any:
        return self.read_counters()
