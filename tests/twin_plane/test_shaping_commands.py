"""The commands that shape a network, the filter's program run by an interpreter, and rtnetlink messages."""

from __future__ import annotations

import ipaddress
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.twin.network.flow_filter import LEAVES, MOST_PEERS, Peers, flow_filter
from pytest_cloudbench.twin.network.shaping import (
    BURST_S,
    CLUSTER_LEAVES,
    EXPRESS_LEAVES,
    FLOW_LEAVES,
    SHARED,
    Shape,
    egress_commands,
    ingress_commands,
    peers_commands,
)
from pytest_cloudbench.twin.network.traffic_control import ClassFigures, parse_figures, rate_message

TCP, UDP, ICMP = 6, 17, 1
ADDRESSES = st.integers(0, 2**17 - 1).map(lambda low: str(ipaddress.IPv4Address("198.18.0.0") + low))
PORTS = st.integers(1, 65_535)


def frame(
    destination, source_port=0, destination_port=0, *, protocol=TCP, options=0, fragment=0, kind=0x0800
):
    """Return the beginning of an Ethernet frame with an IPv4 packet."""
    header = struct.pack(
        ">BBHHHBBH4s4s", 0x45 + options, 0, 1500, 1, fragment, 64, protocol, 0,
        ipaddress.IPv4Address("198.18.0.1").packed, ipaddress.IPv4Address(destination).packed,
    )  # fmt: skip
    ports = struct.pack(">HH", source_port, destination_port)
    return bytes(12) + struct.pack(">H", kind) + header + bytes(4 * options) + ports + bytes(60)


def run(program, packet):
    """Return the answer of the kernel's packet filter. Raises IndexError if the program jumps out of its code."""
    length, _, text = program.partition(",")
    code = [tuple(int(number) for number in line.split()) for line in text.split(",")]
    assert len(code) == int(length)
    accumulator = index = place = 0
    memory = {}
    word = 2**32 - 1
    while True:
        operation, true, false, value = code[place]
        assert 0 <= true <= 255
        assert 0 <= false <= 255
        place += 1
        if operation in (0x20, 0x28, 0x30):
            size = {0x20: 4, 0x28: 2, 0x30: 1}[operation]
            accumulator = int.from_bytes(packet[value : value + size], "big")
        elif operation == 0x48:
            accumulator = int.from_bytes(packet[index + value : index + value + 2], "big")
        elif operation == 0xB1:
            index = 4 * (packet[value] & 0xF)
        elif operation == 0x00:
            accumulator = value
        elif operation == 0x02:
            memory[value] = accumulator
        elif operation == 0x61:
            index = memory[value]
        elif operation == 0x0C:
            accumulator = accumulator + index & word
        elif operation == 0x24:
            accumulator = accumulator * value & word
        elif operation == 0x74:
            accumulator >>= value
        elif operation == 0x05:
            place += value
        elif operation == 0x15:
            place += true if accumulator == value else false
        elif operation == 0x45:
            place += true if accumulator & value else false
        elif operation == 0x16:
            return accumulator
        elif operation == 0x06:
            return value
        else:
            raise AssertionError(f"unknown instruction {operation:#x}")


def minor(answer):
    assert answer >> 16 == 1
    return answer & 0xFFFF


def outside(answer):
    return FLOW_LEAVES <= minor(answer) < FLOW_LEAVES + LEAVES


PLAIN = flow_filter(Peers(), ())


@given(
    destination=ADDRESSES,
    port=PORTS,
    first=st.integers(32_768, 60_000),
    step=st.sampled_from([1, 2, 4]),
    protocol=st.sampled_from([TCP, UDP]),
    options=st.integers(0, 10),
)
def test_consecutive_connections_never_share_a_leaf(destination, port, first, step, protocol, options):
    ports = range(first, first + 64 * step, step)
    out = [
        run(PLAIN, frame(destination, client, port, protocol=protocol, options=options)) for client in ports
    ]
    back = [
        run(PLAIN, frame(destination, port, client, protocol=protocol, options=options)) for client in ports
    ]
    assert all(outside(answer) for answer in out + back)
    assert len(set(out)) == len(set(back)) == 64


def test_unrelated_flows_spread_evenly():
    counts = [0] * LEAVES
    state = 1
    for _ in range(200 * LEAVES):
        state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        client, server = 32_768 + (state >> 33) % 28_000, 5_000 + (state >> 50) % 100
        counts[minor(run(PLAIN, frame("198.18.0.9", client, server))) - FLOW_LEAVES] += 1
    assert min(counts) > 100
    assert max(counts) < 300


@given(destination=ADDRESSES, ports=st.tuples(PORTS, PORTS, PORTS, PORTS), fragment=st.integers(1, 0x3FFF))
def test_fragments_and_other_protocols_are_flows_of_addresses_and_protocol(destination, ports, fragment):
    pieces = {
        run(PLAIN, frame(destination, ports[0], ports[1], protocol=UDP, fragment=part))
        for part in (fragment, 0x2000)
    }
    assert len(pieces) == 1
    assert outside(pieces.pop())
    pings = {
        run(PLAIN, frame(destination, ports[0], ports[1], protocol=ICMP)),
        run(PLAIN, frame(destination, ports[2], ports[3], protocol=ICMP)),
    }
    assert len(pings) == 1


def test_packets_that_forbid_fragments_are_not_fragments():
    whole, forbidden = (run(PLAIN, frame("198.18.0.9", 40_000, 5_201, fragment=bits)) for bits in (0, 0x4000))
    assert whole == forbidden


def test_other_packets_than_ipv4_are_not_flows():
    for kind in (0x0806, 0x86DD):
        assert minor(run(PLAIN, frame("198.18.0.9", 1, 2, kind=kind))) == SHARED


@given(
    peers=st.frozensets(ADDRESSES, max_size=MOST_PEERS),
    others=st.lists(ADDRESSES, max_size=10),
    ports=st.tuples(PORTS, PORTS),
    leaves=st.booleans(),
)
def test_flows_to_peers_and_only_those_have_the_classes_of_the_cluster(peers, others, ports, leaves):
    program = flow_filter(Peers(peers), (CLUSTER_LEAVES,) if leaves else ())
    for peer in peers:
        got = minor(run(program, frame(peer, *ports)))
        assert CLUSTER_LEAVES <= got < CLUSTER_LEAVES + LEAVES if leaves else got == SHARED
    for other in set(others) - peers:
        assert outside(run(program, frame(other, *ports)))


@given(
    cluster=st.frozensets(ADDRESSES, max_size=5),
    express=st.frozensets(ADDRESSES, min_size=1, max_size=MOST_PEERS),
    udp=st.integers(0, 5),
    ports=st.tuples(PORTS, PORTS),
    leaves=st.booleans(),
)
def test_ena_express_carries_tcp_and_udp_only_between_ends_that_have_it(cluster, express, udp, ports, leaves):
    with_udp = frozenset(sorted(express)[:udp])
    first_leaves = (CLUSTER_LEAVES, EXPRESS_LEAVES) if leaves else (CLUSTER_LEAVES,)
    program = flow_filter(Peers(cluster, express, with_udp), first_leaves)

    def kind(peer, protocol):
        got = minor(run(program, frame(peer, *ports, protocol=protocol)))
        return got if got == SHARED else got - got % 0x1000

    fast = EXPRESS_LEAVES if leaves else SHARED
    for peer in express | cluster:
        ordinary = CLUSTER_LEAVES if peer in cluster else FLOW_LEAVES
        assert kind(peer, TCP) == (fast if peer in express else ordinary)
        assert kind(peer, UDP) == (fast if peer in with_udp else ordinary)
        assert kind(peer, ICMP) == ordinary


@pytest.mark.parametrize("which", ["cluster", "express", "express_udp"])
def test_more_peers_than_supported_are_refused(which):
    many = frozenset(str(ipaddress.IPv4Address("198.18.0.0") + number) for number in range(MOST_PEERS + 1))
    with pytest.raises(ValueError, match="252 peers"):
        flow_filter(Peers(**{which: many}), (CLUSTER_LEAVES,))


# --- commands ----------------------------------------------------------------------------------------


def gbit(figure):
    return Bandwidth.from_gbit(figure)


def classes_of(commands):
    """The classes made: minor number -> (parent, ceiling in bit/s, cburst in bytes)."""
    found = {}
    for command in commands:
        got = re.fullmatch(
            r"class add dev \S+ parent (\S+) classid 1:(\w+) htb rate \w+ ceil (\d+)bit burst \d+ cburst (\d+) "
            r"quantum 65536",
            command,
        )
        if got:
            found[int(got[2], 16)] = (got[1], int(got[3]), int(got[4]))
    return found


@given(
    rate=st.floats(0.032, 400),
    over=st.floats(1, 40),
    in_cluster=st.booleans(),
    express=st.booleans(),
    peers=st.frozensets(ADDRESSES, max_size=5),
)
def test_every_class_has_its_rate_and_the_same_time_to_catch_up(rate, over, in_cluster, express, peers):
    shape = Shape(gbit(rate), gbit(rate * over), in_cluster, express)
    commands = egress_commands("eth0", shape, Peers(peers, peers))
    assert commands[0] == "qdisc add dev eth0 root handle 1: htb default 2"
    classes = classes_of(commands)
    assert classes[1][:2] == ("1:", round(rate * 1e9))
    flows = rate * over > 5
    cluster = in_cluster and rate * over > 10
    leaves = [number for number in classes if number > SHARED]
    assert len(leaves) == LEAVES * (flows + (flows and cluster) + (express and rate * over > 25))
    assert len([command for command in commands if command.startswith("filter")]) == flows
    assert len(commands) == 3 + len(leaves) + flows
    for number, (parent, ceiling, burst) in classes.items():
        assert parent == ("1:" if number == 1 else "1:1")
        assert burst == max(1, round(ceiling / 8 * BURST_S)) or abs(burst - ceiling / 8 * BURST_S) <= 1
        if number >= EXPRESS_LEAVES:
            assert ceiling == 25_000_000_000
        elif number >= CLUSTER_LEAVES:
            assert ceiling == 10_000_000_000
        elif number >= FLOW_LEAVES:
            assert ceiling == 5_000_000_000


def test_an_instance_not_faster_than_a_flow_needs_three_commands():
    assert len(egress_commands("eth0", Shape(gbit(0.5), gbit(5)), Peers())) == 3


def test_one_command_replaces_the_peers_in_the_filter():
    shape = Shape(gbit(25), gbit(25), in_cluster=True)
    peers = Peers(frozenset({"198.18.0.7"}))
    (command,) = peers_commands("eth0", shape, peers)
    made = egress_commands("eth0", shape, peers)[-1]
    assert command == made.replace("filter add", "filter replace")
    assert peers_commands("eth0", Shape(gbit(5), gbit(5), in_cluster=True), peers) == []
    assert peers_commands("eth0", Shape(gbit(25), gbit(25)), peers) == []
    assert len(peers_commands("eth0", Shape(gbit(25), gbit(25), express=True), peers)) == 1


def test_ingress_is_one_class_with_a_bounded_queue():
    assert ingress_commands("p1", gbit(2.5), gbit(10)) == [
        "qdisc add dev p1 root handle 1: htb default 1",
        "class add dev p1 parent 1: classid 1:1 htb rate 2500000000bit ceil 2500000000bit burst 6250000 "
        "cburst 6250000 quantum 65536",
        "qdisc add dev p1 parent 1:1 bfifo limit 31250000",
    ]


# --- the kernel's messages ---------------------------------------------------------------------------


def attributes(data):
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x7FFF] = data[4:length]
        data = data[length + (-length % 4) :]
    return found


@given(st.floats(0.001, 400))
def test_the_message_of_a_rate_carries_it_in_both_widths(figure):
    message = rate_message(7, gbit(figure))
    wanted = round(gbit(figure).bytes_per_second)
    assert struct.unpack_from("=iII", message, 4) == (7, 0x10001, 0x10000)
    options = attributes(attributes(message[20:])[2])
    parameters = options[1]
    assert len(parameters) == 44
    for at in (0, 12):
        assert struct.unpack_from("=I", parameters, at + 8)[0] == min(wanted, 2**32 - 1)
    assert struct.unpack_from("=I", parameters, 24)[0] * 64 == BURST_S * 1e9
    if wanted >= 2**32:
        assert struct.unpack("=Q", options[6])[0] == struct.unpack("=Q", options[7])[0] == wanted
    else:
        assert set(options) == {1}


@given(
    size=st.integers(0, 2**64 - 1),
    small=st.tuples(*[st.integers(0, 2**32 - 1)] * 4),
    before=st.binary(max_size=40),
)
def test_figures_are_found_among_other_attributes(size, small, before):
    packets, drops, waits, backlog = small

    def attribute(kind, content):
        return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)

    basic = attribute(1, struct.pack("=QI4x", size, packets))
    queue = attribute(3, struct.pack("=5I", 1, backlog, drops, 2, waits))
    body = bytes(20) + attribute(1, before) + attribute(7, basic + attribute(2, before) + queue)
    assert parse_figures(body) == ClassFigures(size, drops, waits)


def test_a_description_without_figures_is_refused():
    with pytest.raises(ValueError, match="no figures"):
        parse_figures(bytes(20))
