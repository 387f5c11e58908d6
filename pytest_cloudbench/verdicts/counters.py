"""What counters say about a run: for how long a storage limit acted, how many packets exceeded a network allowance.

EBS counts the time for which demand exceeded a limit ("EBS detailed performance statistics", EBS user guide). The ENA
driver counts packets queued or dropped above an allowance (`ethtool -S`; EC2 user guide, "Monitor network performance
for your Amazon EC2 instance").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pytest_cloudbench.limits.ceilings import INSTANCE, VOLUME, Ceiling
from pytest_cloudbench.limits.network import CLIENT_END, SERVER_END
from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.verdicts.wording import listed

# A saturating load is throttled nearly all the time; a ceiling that hardly ever acted did not limit it.
ACTED_SHARE = 0.5
IDLE_SHARE = 0.1

ACTED_PER_SECOND = 1.0
"""At this many packets a second or more, an allowance was not exceeded by chance."""


@dataclass(frozen=True)
class ThrottleDelta:
    """Seconds for which demand exceeded each limit during ``elapsed_s`` seconds of a run.

    For several volumes the volume figures are those of the one that was throttled longest. The instance figures are 0
    if the device reports none. NaN marks a figure that is unknown for a part of a run. ``read_bytes`` and
    ``written_bytes`` are the bytes that all devices moved, for any load; None if unknown.
    """

    elapsed_s: float
    volume_iops_exceeded_s: float = 0.0
    volume_throughput_exceeded_s: float = 0.0
    instance_iops_exceeded_s: float = 0.0
    instance_throughput_exceeded_s: float = 0.0
    read_bytes: int | None = None
    written_bytes: int | None = None

    @classmethod
    def of_hosts(cls, each: Sequence[ThrottleDelta]) -> ThrottleDelta:
        """Return the counters of several hosts under one load.

        The sum of a limit over all hosts acts only while the limit acts on every host, so the shortest time counts.
        """
        read = [one.read_bytes for one in each if one.read_bytes is not None]
        written = [one.written_bytes for one in each if one.written_bytes is not None]
        return cls(
            max(one.elapsed_s for one in each),
            **_least(each),
            read_bytes=sum(read) if len(read) == len(each) else None,
            written_bytes=sum(written) if len(written) == len(each) else None,
        )

    def share_of_others(
        self, read: Throughput, written: Throughput, load_s: float, most: Throughput
    ) -> float | None:
        """Return the share of the devices' bytes that this load cannot have moved, 0 to 1; None if unknown.

        ``read`` and ``written`` are the load's own rates over ``load_s`` seconds. During the rest of ``elapsed_s``, its
        ramp, it may have moved as much as ``most``, the limit, allows. Without a counter for a direction, only the
        load's bytes count there.
        """
        counts = (self.read_bytes, self.written_bytes)
        if sum(filter(None, counts)) <= 0:
            return None
        loads = [rate.bytes_per_second * load_s for rate in (read, written)]
        moved = sum(load if count is None else count for count, load in zip(counts, loads, strict=True))
        own = sum(loads) + most.bytes_per_second * max(0.0, self.elapsed_s - load_s)
        return max(0.0, 1 - own / moved)

    def seconds_of(self, ceiling: Ceiling) -> float | None:
        """Return how long this ceiling was exceeded, in seconds; None if it is not counted or unknown."""
        if self.elapsed_s <= 0:
            return None
        seconds = math.nan
        if ceiling.scope == VOLUME:
            seconds = self.volume_iops_exceeded_s if ceiling.of_iops else self.volume_throughput_exceeded_s
        elif ceiling.scope == INSTANCE:
            seconds = (
                self.instance_iops_exceeded_s if ceiling.of_iops else self.instance_throughput_exceeded_s
            )
        return None if math.isnan(seconds) else seconds

    def acted(self, ceiling: Ceiling) -> bool | None:
        """Return True if the ceiling acted at least half of the run, False if less than a tenth, else None."""
        seconds = self.seconds_of(ceiling)
        if seconds is None:
            return None
        share = seconds / self.elapsed_s
        if share >= ACTED_SHARE:
            return True
        return False if share < IDLE_SHARE else None

    def during(self, length_s: float) -> ThrottleDelta:
        """Return what is certain about a part of the run that lasted ``length_s`` by the counters' own clock.

        The counted time may lie in the rest of the run, so only what exceeds the length of the rest is certain. That is
        returned if it is at least half of the part. If all counted time is less than a tenth of the part, all of it is
        returned. Anything between is unknown: NaN.
        """
        length_s = min(length_s, self.elapsed_s)
        if length_s <= 0:
            return ThrottleDelta(0.0)
        rest_s = self.elapsed_s - length_s

        def certain_s(counted_s: float) -> float:
            least_s = counted_s - rest_s
            if least_s >= ACTED_SHARE * length_s:
                return least_s
            return counted_s if counted_s < IDLE_SHARE * length_s else math.nan

        return ThrottleDelta(
            length_s,
            certain_s(self.volume_iops_exceeded_s),
            certain_s(self.volume_throughput_exceeded_s),
            certain_s(self.instance_iops_exceeded_s),
            certain_s(self.instance_throughput_exceeded_s),
        )


def _least(each: Sequence[ThrottleDelta] | Sequence[AllowanceDelta]) -> dict[str, Any]:
    """Return the smallest value of each counter of an exceeded limit."""
    names = [field.name for field in fields(each[0]) if "_exceeded" in field.name]
    return {name: min(getattr(one, name) for one in each) for name in names}


@dataclass(frozen=True)
class AllowanceDelta:
    """Packets that one end queued or dropped above each of its allowances during ``elapsed_s`` seconds."""

    elapsed_s: float
    bw_in_exceeded: int = 0
    bw_out_exceeded: int = 0
    pps_exceeded: int = 0
    conntrack_exceeded: int = 0
    linklocal_exceeded: int = 0

    @classmethod
    def of_hosts(cls, each: Sequence[AllowanceDelta]) -> AllowanceDelta:
        """Return the counters of several hosts under one load: the smallest value of each counter."""
        return cls(max(one.elapsed_s for one in each), **_least(each))

    @property
    def bandwidth_exceeded(self) -> int:
        """Packets above the bandwidth, in and out: one direction carries the load."""
        return self.bw_in_exceeded + self.bw_out_exceeded

    def acted(self, packets: int) -> bool | None:
        """Return True if this many packets show that an allowance acted, False for none, None for too few to decide."""
        if packets <= 0:
            return False
        return True if packets >= ACTED_PER_SECOND * self.elapsed_s else None


@dataclass(frozen=True)
class AllowancePair:
    """The counters of the client and of the server over one run; None for an end without any."""

    client: AllowanceDelta | None
    server: AllowanceDelta | None

    @classmethod
    def of_pairs(cls, each: Sequence[AllowancePair]) -> AllowancePair:
        """Return the counters of several pairs under one load; None for an end if one pair has no counters there."""
        clients = [pair.client for pair in each if pair.client is not None]
        servers = [pair.server for pair in each if pair.server is not None]
        return cls(
            AllowanceDelta.of_hosts(clients) if len(clients) == len(each) else None,
            AllowanceDelta.of_hosts(servers) if len(servers) == len(each) else None,
        )

    def of(self, ceiling: Ceiling) -> tuple[AllowanceDelta, ...]:
        """Return the counters of the ends to which an instance's ceiling belongs; none for other ceilings."""
        if ceiling.scope != INSTANCE:
            return ()
        ends = {CLIENT_END: (self.client,), SERVER_END: (self.server,)}
        return tuple(end for end in ends.get(ceiling.detail, (self.client, self.server)) if end is not None)

    def bandwidth_acted(self, ceiling: Ceiling) -> bool | None:
        """Return whether the bandwidth allowance behind a ceiling acted; None if unknown."""
        said = [end.acted(end.bandwidth_exceeded) for end in self.of(ceiling)]
        if any(said):
            return True
        return None if None in said or not said else False

    @property
    def exceeded_text(self) -> str:
        """Which allowances were exceeded at which end, in words; empty if none was."""
        words = []
        for end, delta in (("client", self.client), ("server", self.server)):
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
