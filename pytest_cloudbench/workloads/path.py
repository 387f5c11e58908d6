"""Where network load goes: from a client's host to a server's host."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.verdicts.allowances import AllowancePair
from pytest_cloudbench.workloads.runner import Runner


class PathCounters(Protocol):
    """The network allowance counters of both ends at one moment."""

    def since(self, earlier: Any) -> AllowancePair:
        """What the counters gained since `earlier`, a snapshot of the same path."""
        ...


class NetworkPath(Protocol):
    """Two hosts and the network between them."""

    @property
    def client_host(self) -> Runner:
        """The host that opens the connections."""
        ...

    @property
    def server_host(self) -> Runner:
        """The host that waits for them."""
        ...

    @property
    def server_address(self) -> str:
        """The server's address as the client reaches it."""
        ...

    @property
    def label(self) -> str:
        """For people: "m5.2xlarge i-0abc -> m5.2xlarge i-0def"."""
        ...

    @property
    def time_compression(self) -> float:
        """How many seconds of the test one real second stands for; 1.0 where credits go by the clock."""
        ...

    @property
    def client_cpus(self) -> int | None:
        """Processors of the client's host; None where only the host itself can say."""
        ...

    @property
    def server_cpus(self) -> int | None:
        """Processors of the server's host; None where only the host itself can say."""
        ...

    def envelope(self, *, streams: int, reverse: bool) -> Envelope | None:
        """Every ceiling of that many connections, or None where none is known."""
        ...

    def counters(self) -> PathCounters | None:
        """The allowance counters now, or None where the hosts have none."""
        ...
