"""What the network allowance counters of both ends say about a run: which limit dropped or queued packets.

The counters are those of the ENA driver (`ethtool -S`), documented in the EC2 user guide, "Monitor network
performance for your Amazon EC2 instance": packets queued or dropped because an allowance was exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.network import CLIENT_END, SERVER_END
from pytest_cloudbench.verdicts.wording import listed

ACTED_PER_SECOND = 1.0
"""From this many packets a second on, an allowance was not exceeded by chance."""


@dataclass(frozen=True)
class AllowanceDelta:
    """Packets that one end queued or dropped above each of its allowances during ``elapsed_s`` seconds."""

    elapsed_s: float
    bw_in_exceeded: int = 0
    bw_out_exceeded: int = 0
    pps_exceeded: int = 0
    conntrack_exceeded: int = 0
    linklocal_exceeded: int = 0

    @property
    def bandwidth_exceeded(self) -> int:
        """Packets above the bandwidth, in and out: one direction carries the load, whichever it is."""
        return self.bw_in_exceeded + self.bw_out_exceeded

    def acted(self, packets: int) -> bool | None:
        """Whether so many packets show an allowance at work; None for a few that show nothing."""
        if packets <= 0:
            return False
        return True if packets >= ACTED_PER_SECOND * self.elapsed_s else None


@dataclass(frozen=True)
class AllowancePair:
    """The counters of the client and of the server over one run; None for an end that has none."""

    client: AllowanceDelta | None
    server: AllowanceDelta | None

    def of(self, ceiling: Ceiling) -> tuple[AllowanceDelta, ...]:
        """The counters of the ends to which an instance's ceiling belongs; none for other ceilings."""
        if ceiling.scope != INSTANCE:
            return ()
        ends = {CLIENT_END: (self.client,), SERVER_END: (self.server,)}
        return tuple(end for end in ends.get(ceiling.detail, (self.client, self.server)) if end is not None)


def bandwidth_acted(counters: AllowancePair | None, ceiling: Ceiling) -> bool | None:
    """Whether the bandwidth allowance behind a ceiling acted; None where no counter watches it."""
    said = [end.acted(end.bandwidth_exceeded) for end in counters.of(ceiling)] if counters else []
    if not said:
        return None
    if any(said):
        return True
    return None if None in said else False


def exceeded_text(counters: AllowancePair | None) -> str:
    """Which allowances were exceeded at which end, in words; empty where none was or none is counted."""
    if counters is None:
        return ""
    words = []
    for end, delta in (("client", counters.client), ("server", counters.server)):
        if delta is None:
            continue
        for name, packets in (
            ("outbound bandwidth", delta.bw_out_exceeded),
            ("inbound bandwidth", delta.bw_in_exceeded),
            ("packet rate", delta.pps_exceeded),
            ("tracked connections", delta.conntrack_exceeded),
            ("link-local traffic", delta.linklocal_exceeded),
        ):
            if packets > 0:
                words.append(f"{packets:,} packets above the {end}'s {name} allowance")
    return listed(words)
