"""The filter that assigns each flow of an instance to a shaping class of its own: a small program for the kernel.

It is written in the classic instruction set of packet filters, which `tc filter ... bpf bytecode` accepts as text, and
returns the number of a class. A flow is the 5-tuple of TCP and UDP, as on EC2. For other protocols, and for fragments,
which have no ports, it is the destination address and the protocol.

The hash must separate flows that run side by side. Connections of one client to one port differ only in their source
port (in the other direction, their destination port), which Linux assigns in even steps. So the ports are added, and a
multiplication spreads neighbouring sums as far apart as possible (Fibonacci hashing). Two flows with unrelated ports
share a class with a probability of 1 in `LEAVES`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field

MAJOR = 1  # of the numbers of all classes
LEAF_BITS = 9  # each new class costs the kernel a search of all: 512 take 20 ms, 2,048 take 300 ms
LEAVES = 1 << LEAF_BITS
SHARED = 2  # minor number of the class for all packets that are no flows
# The first of the `LEAVES` for ordinary flows, for those in a cluster, and for those by ENA Express.
FLOW_LEAVES, CLUSTER_LEAVES, EXPRESS_LEAVES = 0x1000, 0x2000, 0x3000
MOST_PEERS = 251  # a jump reaches 255 instructions; a zone's /24 has no more addresses for instances

_ETHERNET = 14  # bytes before the IP header
_AT_TYPE, _AT_FRAGMENT, _AT_PROTOCOL, _AT_DESTINATION = 12, _ETHERNET + 6, _ETHERNET + 9, _ETHERNET + 16
_IPV4, _TCP, _UDP = 0x0800, 6, 17
_IS_FRAGMENT = 0x3FFF  # more fragments follow, or the offset is not zero
_GOLDEN = 2_654_435_769  # 2**32 over the golden ratio
_SCATTER = 2_246_822_519  # another odd number, so that addresses and ports do not cancel out
_BASE, _SUM, _PORT = 0, 1, 2  # words of scratch memory

# The classic BPF instructions used here (linux/filter.h, linux/bpf_common.h).
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_BEHIND_X = 0x20, 0x28, 0x30, 0x48
_LOAD_NUMBER, _STORE, _LOAD_X, _LOAD_X_HEADER_LENGTH = 0x00, 0x02, 0x61, 0xB1
_ADD_X, _MULTIPLY, _SHIFT_RIGHT = 0x0C, 0x24, 0x74
_JUMP, _IF_EQUAL, _IF_ANY_BIT = 0x05, 0x15, 0x45
_ANSWER, _ANSWER_NUMBER = 0x16, 0x06


@dataclass(frozen=True)
class Peers:
    """Addresses to which flows may be faster.

    ``cluster`` is in the same cluster placement group. TCP to ``express`` and UDP to ``express_udp`` use ENA Express,
    which is faster still.
    """

    cluster: frozenset[str] = frozenset()
    express: frozenset[str] = frozenset()
    express_udp: frozenset[str] = frozenset()


@dataclass
class _Program:
    """Instructions (code, jump if true, number). Jumps name labels; "" is the next instruction."""

    code: list[tuple[int, str, int]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def do(self, code: int, number: int = 0, *, true: str = "") -> None:
        self.code.append((code, true, number))

    def label(self, name: str) -> None:
        self.labels[name] = len(self.code)

    def bytecode(self) -> str:
        lines = []
        for place, (code, true, number) in enumerate(self.code):
            steps = self.labels[true] - place - 1 if true else 0
            lines.append(f"{code} 0 0 {steps}" if code == _JUMP else f"{code} {steps} 0 {number}")
        return f"{len(lines)},{','.join(lines)}"


def class_number(minor: int) -> int:
    """Return the full number of a class, as the kernel expects it."""
    return MAJOR << 16 | minor


def _faster(program: _Program, addresses: frozenset[str], leaves: int | None, other: str) -> None:
    """Add a jump to "hash" for flows to these addresses, with the first of their leaves; else a jump to ``other``."""
    if len(addresses) > MOST_PEERS:
        raise ValueError(f"{len(addresses)} peers of one instance: at most {MOST_PEERS} are supported")
    program.do(_LOAD_WORD, _AT_DESTINATION)
    for peer in sorted(int(ipaddress.IPv4Address(each)) for each in addresses):
        program.do(_IF_EQUAL, peer, true=f"instead of {other}")
    program.do(_JUMP, true=other)
    program.label(f"instead of {other}")
    if leaves is None:
        program.do(_ANSWER_NUMBER, class_number(SHARED))
    else:
        program.do(_LOAD_NUMBER, class_number(leaves))
        program.do(_JUMP, true="hash")


def flow_filter(peers: Peers, leaves: Collection[int]) -> str:
    """Return the program for `tc`: "length,code jt jf k,...". Raises ValueError for more than `MOST_PEERS` peers.

    ``leaves`` has `CLUSTER_LEAVES` and `EXPRESS_LEAVES` if such flows have a limit. Without one they use `SHARED`.
    """
    program = _Program()
    cluster_leaves, express_leaves = (
        first if first in leaves else None for first in (CLUSTER_LEAVES, EXPRESS_LEAVES)
    )
    do = program.do
    do(_LOAD_HALF, _AT_TYPE)
    do(_IF_EQUAL, _IPV4, true="ip")
    do(_ANSWER_NUMBER, class_number(SHARED))
    program.label("ip")
    for protocol, addresses in ((_TCP, peers.express), (_UDP, peers.express_udp)):
        if addresses:
            after = f"not protocol {protocol} by ENA Express"
            do(_LOAD_BYTE, _AT_PROTOCOL)
            do(_IF_EQUAL, protocol, true=f"protocol {protocol}")
            do(_JUMP, true=after)
            program.label(f"protocol {protocol}")
            _faster(program, addresses, express_leaves, after)
            program.label(after)
    if peers.cluster:
        _faster(program, peers.cluster, cluster_leaves, "not in the cluster")
        program.label("not in the cluster")
    do(_LOAD_NUMBER, class_number(FLOW_LEAVES))
    program.label("hash")
    do(_STORE, _BASE)
    do(_LOAD_WORD, _AT_DESTINATION)
    do(_MULTIPLY, _SCATTER)
    do(_STORE, _SUM)
    do(_LOAD_HALF, _AT_FRAGMENT)
    do(_IF_ANY_BIT, _IS_FRAGMENT, true="no ports")
    do(_LOAD_BYTE, _AT_PROTOCOL)
    do(_IF_EQUAL, _TCP, true="ports")
    do(_IF_EQUAL, _UDP, true="ports")
    program.label("no ports")
    do(_LOAD_BYTE, _AT_PROTOCOL)
    do(_JUMP, true="add")
    program.label("ports")
    do(_LOAD_X_HEADER_LENGTH, _ETHERNET)
    do(_LOAD_HALF_BEHIND_X, _ETHERNET)
    do(_STORE, _PORT)
    do(_LOAD_HALF_BEHIND_X, _ETHERNET + 2)
    do(_LOAD_X, _PORT)
    do(_ADD_X)
    program.label("add")
    do(_LOAD_X, _SUM)
    do(_ADD_X)
    do(_MULTIPLY, _GOLDEN)
    do(_SHIFT_RIGHT, 32 - LEAF_BITS)
    do(_LOAD_X, _BASE)
    do(_ADD_X)
    do(_ANSWER)
    return program.bytecode()
