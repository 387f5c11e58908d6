"""Paths on the local host for tests: two connections to it, and iperf3 over loopback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.workloads.runner import Runner


@dataclass
class LocalPath:
    """What the topology gives network workloads, without a cloud behind it."""

    client_host: Runner
    server_host: Runner
    server_address: str = "127.0.0.1"
    label: str = "client -> server"
    time_compression: float = 1.0
    client_cpus: int | None = None
    server_cpus: int | None = None
    known_envelope: Envelope | None = None
    read_counters: Callable[[], Any] = lambda: None

    def envelope(self, *, streams: int, reverse: bool) -> Envelope | None:
        return self.known_envelope

    def counters(self) -> Any:
        return self.read_counters()
