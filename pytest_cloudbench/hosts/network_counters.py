"""Allowance counters of an instance's network interface, which EC2's driver (ENA) shows in `ethtool -S`.

Each counts packets that were queued or dropped because one of the instance's allowances was exceeded: its
bandwidth in and out, packets per second, tracked connections, and traffic to link-local services.
Source: the EC2 user guide, "Monitor network performance for your Amazon EC2 instance".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakSet

from pytest_cloudbench.hosts.errors import CommandFailed, HostError, ToolMissing
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.verdicts.counters import AllowanceDelta

COUNTERS = {
    "bw_in_exceeded": "bw_in_allowance_exceeded",
    "bw_out_exceeded": "bw_out_allowance_exceeded",
    "pps_exceeded": "pps_allowance_exceeded",
    "conntrack_exceeded": "conntrack_allowance_exceeded",
    "linklocal_exceeded": "linklocal_allowance_exceeded",
}
"""Our name of each counter, and the driver's name."""

_ALWAYS_THERE = ("bw_in_exceeded", "bw_out_exceeded")
"""Later versions of the driver added the others; a driver without these two is not EC2's."""

_READ_LIMIT_S = 20.0
_READ = (
    'tool=$1; found=$(ip -o addr show to "$2") || exit 1; found=${found#*: }; name=${found%% *}; '
    '[ -n "$name" ] || { echo "no interface carries $2" >&2; exit 1; }; exec "$tool" -S "${name%%@*}"'
)


class NoAllowanceCounters(ValueError):
    """The statistics of the interface have no allowance counters."""


@dataclass(frozen=True)
class AllowanceSnapshot:
    """One interface's counters, in packets, at one moment of this machine's monotonic clock."""

    taken_s: float
    packets: Mapping[str, int]

    def since(self, earlier: AllowanceSnapshot) -> AllowanceDelta:
        """Return the increase since `earlier`. A counter that is lower now (the host restarted) counts from zero."""

        def gained(name: str) -> int:
            now, then = self.packets.get(name, 0), earlier.packets.get(name, 0)
            return now - then if now >= then else now

        return AllowanceDelta(self.taken_s - earlier.taken_s, **{name: gained(name) for name in COUNTERS})


_DIGITS = 20
"""A counter has 64 bits."""


def parse_statistics(text: str) -> dict[str, int]:
    """Return the allowance counters in the output of `ethtool -S`, by our names.

    Raises NoAllowanceCounters if the driver has none.
    """
    shown: dict[str, int] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        digits = value.strip()
        if colon and digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS:
            shown[name.strip()] = int(digits)
    packets = {ours: shown[theirs] for ours, theirs in COUNTERS.items() if theirs in shown}
    if not all(name in packets for name in _ALWAYS_THERE):
        raise NoAllowanceCounters("the driver of the network interface has no allowance counters")
    return packets


_without: WeakSet[Host] = WeakSet()


@operation("read_allowances", repeatable=True)
def read_allowances(host: Host, address: str) -> AllowanceSnapshot | None:
    """Return the counters of the interface with `address`, the host's private address, at this moment.

    None if they cannot be read: they are evidence, and a measurement does not fail without them. If the reason is
    permanent (another driver, no ethtool and no way to install it), this host is not queried again.
    """
    if host in _without:
        return None
    try:
        tool = host.ensure_tool("ethtool")
        result = host.run(["sh", "-c", _READ, "sh", tool, address], timeout_s=_READ_LIMIT_S, idempotent=True)
        return AllowanceSnapshot(time.monotonic(), parse_statistics(result.stdout))
    except (ToolMissing, CommandFailed, NoAllowanceCounters):
        _without.add(host)
    except HostError:
        pass  # the next attempt may succeed
    return None
