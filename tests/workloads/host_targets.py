"""Targets on the local host for tests: a directory, and block devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size


@dataclass
class HostTarget:
    """A target like that of a volume, without a cloud."""

    host: SshHost
    kind: Literal["block", "directory", "file"]
    paths: tuple[str, ...]
    prove: Callable[[], None] = lambda: None
    label: str = "test target"
    has_room_for: Size | None = None
    conditions: tuple[str, ...] = ()
    data_of_device: Size | None = None
    time_compression: float = 1.0
    modelled_latency: str | None = None

    @property
    def size(self) -> Size:
        return Size(1 << 30)

    @property
    def path(self) -> str:
        return self.paths[0]

    def prove_writable(self) -> None:
        self.prove()

    def prove_readable(self) -> None:
        self.prove()

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope | None:
        return None

    def room(self) -> Size | None:
        return self.has_room_for

    def counters(self) -> None:
        return None
