"""The `tc` commands that shape an instance's network. Pure; cables.py runs them.

Egress, on the instance's own eth0: one class limits the whole instance to its rate. Below it every flow has a class of
its own, limited to `FLOW_LIMIT`. Flows to peers in the same cluster placement group, or by ENA Express, have a higher
limit. These classes have almost no rate of their own and share the whole in turns. The sender waits in its own kernel,
so no packet is lost. If the whole is not faster than the limit of one flow, flows need no classes.

Ingress, at the switch's end of the cable: one class with a bounded queue. Packets that do not fit are lost, as on EC2.

Rates count the bytes on the wire, headers included, as EC2 does: 0.7 % more than the payload in frames of 9,001 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.network import (
    FLOW_LIMIT,
    FLOW_LIMIT_IN_CLUSTER,
    FLOW_LIMIT_WITH_ENA_EXPRESS,
)
from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.twin.network.flow_filter import (
    CLUSTER_LEAVES,
    EXPRESS_LEAVES,
    FLOW_LEAVES,
    LEAVES,
    MAJOR,
    SHARED,
    Peers,
    flow_filter,
)

WHOLE = 1  # minor number of the class that holds the instance

BURST_S = 0.020
"""A class may catch up on this many seconds in which it could not send because this machine was busy."""

QUANTUM = 64 * 1024  # bytes that a class sends in its turn: the kernel's largest packet
_QUEUE_S = 0.025  # in which a full ingress queue empties at the whole rate
_LEAST_QUEUE = 512 * 1024
_OWN_RATE = "8kbit"  # of a leaf: a class must have one; above it the class borrows from the whole
_FILTER = f"parent {MAJOR}: protocol all prio 1 handle 1 bpf bytecode"


@dataclass(frozen=True)
class Shape:
    """The present rate of an instance's network, and its highest rate.

    ``in_cluster``: the instance is in a cluster placement group and may have peers there. ``express``: its TCP uses ENA
    Express with peers that do; ``express_udp``: its UDP as well.
    """

    rate: Throughput
    highest: Throughput
    in_cluster: bool = False
    express: bool = False
    express_udp: bool = False

    @property
    def leaves(self) -> dict[int, Throughput]:
        """The limit of one flow by the first minor number of its leaves, only if it is below the instance's."""
        limits = {FLOW_LEAVES: FLOW_LIMIT}
        if self.in_cluster:
            limits[CLUSTER_LEAVES] = FLOW_LIMIT_IN_CLUSTER
        if self.express:
            limits[EXPRESS_LEAVES] = FLOW_LIMIT_WITH_ENA_EXPRESS
        return {first: limit for first, limit in limits.items() if limit < self.highest}

    def faster_peers(self, peers: Peers) -> Peers:
        """Return those of the peers to which its flows may be faster."""
        return Peers(
            peers.cluster if self.in_cluster else frozenset(),
            peers.express if self.express else frozenset(),
            peers.express_udp if self.express_udp else frozenset(),
        )


def burst_bytes(rate: Throughput) -> int:
    """Return the bytes of `BURST_S` at this rate."""
    return max(1, round(rate.bytes_per_second * BURST_S))


def egress_commands(device: str, shape: Shape, peers: Peers) -> list[str]:
    """Return the commands that shape the traffic leaving through ``device``."""
    commands = [
        f"qdisc add dev {device} root handle {MAJOR}: htb default {SHARED:x}",
        _whole(device, shape.rate),
        _leaf(device, SHARED, shape.highest),
    ]
    for first, limit in shape.leaves.items():
        commands += [_leaf(device, first + number, limit) for number in range(LEAVES)]
    if shape.leaves:
        commands.append(_filter("add", device, shape, peers))
    return commands


def peers_commands(device: str, shape: Shape, peers: Peers) -> list[str]:
    """Return the commands that replace the peers to which flows may be faster."""
    if not (shape.leaves and (shape.in_cluster or shape.express)):
        return []
    return [_filter("replace", device, shape, peers)]


def ingress_commands(device: str, rate: Throughput, highest: Throughput) -> list[str]:
    """Return the commands that shape the traffic of the switch to ``device``, the cable to an instance."""
    queue = max(_LEAST_QUEUE, round(highest.bytes_per_second * _QUEUE_S))
    return [
        f"qdisc add dev {device} root handle {MAJOR}: htb default {WHOLE:x}",
        _whole(device, rate),
        f"qdisc add dev {device} parent {MAJOR}:{WHOLE:x} bfifo limit {queue}",
    ]


def _filter(verb: str, device: str, shape: Shape, peers: Peers) -> str:
    program = flow_filter(shape.faster_peers(peers), shape.leaves)
    return f'filter {verb} dev {device} {_FILTER} "{program}"'


def _whole(device: str, rate: Throughput) -> str:
    bits, burst = _bits(rate), burst_bytes(rate)
    return (
        f"class add dev {device} parent {MAJOR}: classid {MAJOR}:{WHOLE:x} htb rate {bits} ceil {bits} "
        f"burst {burst} cburst {burst} quantum {QUANTUM}"
    )


def _leaf(device: str, minor: int, ceiling: Throughput) -> str:
    return (
        f"class add dev {device} parent {MAJOR}:{WHOLE:x} classid {MAJOR}:{minor:x} htb rate {_OWN_RATE} "
        f"ceil {_bits(ceiling)} burst 1600 cburst {burst_bytes(ceiling)} quantum {QUANTUM}"
    )


def _bits(rate: Throughput) -> str:
    return f"{round(rate.bytes_per_second * 8)}bit"
