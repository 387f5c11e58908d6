"""The region's network: a switch in a namespace of its own, with a cable to this machine and one to each instance.

The namespace has no name. It lives as long as the process that holds it (``cat``), which ends when the region's end of
its pipe closes. Then the kernel removes namespace, bridge, cables and shaping together.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass
from typing import BinaryIO

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.network.flow_filter import Peers
from pytest_cloudbench.twin.network.shaping import Shape, egress_commands, ingress_commands, peers_commands
from pytest_cloudbench.twin.network.traffic_control import ShapedEnd, ShapedEnds
from pytest_cloudbench.twin.slots import PUBLIC_NETMASK, Slot
from pytest_cloudbench.twin.workshop import Workshop

MTU = 9001  # EC2's jumbo frame
RESERVED_ADDRESSES = 4  # EC2 keeps the first four and the last of every subnet
PUBLIC_LABEL = "eth0:1"


class NetworkFailed(RuntimeError):
    """A step on the region's network failed; the message names it."""


def _run(program: str, commands: list[str], namespace_of: int | None = None) -> None:
    argv = [program, "-batch", "-"]
    if namespace_of is not None:
        argv = ["nsenter", f"--net=/proc/{namespace_of}/ns/net", *argv]
    try:
        done = subprocess.run(
            argv, input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkFailed(f"`{' '.join(argv)}` could not be run: {error}") from error
    if done.returncode != 0:
        few = [*commands[:8], f"and {len(commands) - 8} more"] if len(commands) > 8 else commands
        raise NetworkFailed(f"`{' '.join(argv)}` refused {few!r}: {done.stderr.strip()}")


def hold_namespace() -> subprocess.Popen[bytes]:
    """Start a process that only holds a network namespace, until it is killed or its input ends.

    Raises `NetworkFailed`.
    """
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert holder.stdout is not None
    if holder.stdout.readline().strip() != b"ready":
        release_namespace(holder)
        raise NetworkFailed("no network namespace could be made (`unshare --net` failed)")
    return holder


def release_namespace(holder: subprocess.Popen[bytes]) -> None:
    """End a process that holds a namespace. A second call does nothing."""
    if holder.poll() is None:
        holder.kill()
        holder.wait()
    for pipe in (holder.stdin, holder.stdout):
        if pipe is not None:
            pipe.close()


def _hardware(address: str) -> bytes:
    """Return the hardware address of an instance, which follows from its private address."""
    return b"\x06\xcb" + socket.inet_aton(address)


def _cable(address: str) -> str:
    """Return the name of an instance's cable at the switch."""
    return "p" + "".join(f"{int(part):02x}" for part in address.split("."))


@dataclass
class _Shaped:
    """An instance whose cable is shaped; ``peers`` are the addresses in its filter."""

    pid: int
    shape: Shape
    peers: Peers


class Network:
    """The switch of one slot and the cables in it."""

    def __init__(self, slot: Slot, workshop: Workshop) -> None:
        self._slot = slot
        self._taken: dict[str, int | None] = {}  # with the zone of each; None for a public address
        # The shape and the cluster placement group of each address, also of instances that are stopped.
        self._peers: dict[str, tuple[Shape, str | None]] = {}
        self._shaped: dict[str, _Shaped] = {}
        self._lock = threading.Lock()
        self._holder = workshop.run(hold_namespace)
        try:
            self._make_switch()
        except BaseException:
            self.close()
            raise

    @property
    def netmask(self) -> str:
        """The netmask of the network that contains all addresses."""
        return str(self._slot.network.netmask)

    def open_counters(self) -> BinaryIO:
        """Open the counters of all ports of the switch (/proc/net/dev), for repeated reads."""
        return open(f"/proc/{self._holder.pid}/net/dev", "rb", buffering=0)

    def _make_switch(self) -> None:
        port = f"{self._slot.interface}s"
        _run(
            "ip",
            [
                "link set lo up",
                f"link add switch mtu {MTU} type bridge forward_delay 0 stp_state 0",
                f"link add {port} mtu {MTU} type veth peer name {self._slot.interface} mtu {MTU} netns {os.getpid()}",
                "link set switch addrgenmode none",
                f"link set {port} addrgenmode none",
                f"link set {port} master switch up",
                "link set switch up",
            ],
            self._holder.pid,
        )
        address = f"{self._slot.caller_address}/{self._slot.network.prefixlen}"
        _run(
            "ip",
            [
                f"link set {self._slot.interface} addrgenmode none",
                f"address add {address} dev {self._slot.interface}",
                f"link set {self._slot.interface} up",
                f"route add {self._slot.public_network} dev {self._slot.interface} src {self._slot.caller_address}",
            ],
        )

    def take_address(self, zone_index: int, network: ipaddress.IPv4Network | None = None) -> str:
        """Take and return a free address of ``network``, a subnet of the zone; by default the zone's default subnet.

        All subnets share one switch, so an address is taken only once, even if two VPCs overlap. Raises
        `NetworkFailed` if there is none.
        """
        return self._take(network or self._slot.zone_network(zone_index), zone_index)

    def take_public_address(self) -> str:
        """Take and return a free public address. Raises `NetworkFailed` if there is none."""
        return self._take(self._slot.public_network, None)

    def _take(self, network: ipaddress.IPv4Network, zone_index: int | None) -> str:
        with self._lock:
            for number in range(RESERVED_ADDRESSES, network.num_addresses - 1):
                address = str(network[number])
                if address not in self._taken:
                    self._taken[address] = zone_index
                    return address
        raise NetworkFailed(f"no address is left in {network}")

    def is_free(self, address: str) -> bool:
        """Return True if nothing has taken this address."""
        with self._lock:
            return address not in self._taken

    def reserve_address(self, zone_index: int, address: str) -> None:
        """Take this address. Raises `NetworkFailed` if it is taken."""
        with self._lock:
            if address in self._taken:
                raise NetworkFailed(f"the address {address} is in use")
            self._taken[address] = zone_index

    def release_address(self, address: str) -> None:
        """Release an address and remove it from its placement group."""
        with self._lock:
            self._taken.pop(address, None)
            self._peers.pop(address, None)
            self._update_peers()

    def plug_in(self, pid: int, address: str) -> None:
        """Make a cable from the switch to the network namespace of process ``pid``, as its eth0.

        The hardware address follows from the IP address, so neighbours reach an instance at once after a stop and
        start.
        """
        cable = _cable(address)
        hardware = _hardware(address).hex(":")
        _run(
            "ip",
            [
                f"link add {cable} mtu {MTU} type veth peer name eth0 address {hardware} mtu {MTU} netns {pid}",
                f"link set {cable} addrgenmode none",
                f"link set {cable} master switch up",
            ],
            self._holder.pid,
        )

    def set_public_address(self, pid: int, private: str, public: str | None) -> None:
        """Set the public address of the running instance at ``private``, whose process 1 is ``pid``; None removes it.

        It is a second address of eth0, so its traffic has the instance's limits. Raises `NetworkFailed`.
        """
        commands = [f"address flush dev eth0 label {PUBLIC_LABEL}"]
        if public is not None:
            length = ipaddress.IPv4Network(f"0.0.0.0/{PUBLIC_NETMASK}").prefixlen
            commands.append(f"address add {public}/{length} dev eth0 label {PUBLIC_LABEL}")
        _run("ip", commands, pid)
        if public is not None:
            self.announce(pid, private, public)

    @staticmethod
    def announce(pid: int, private: str, public: str) -> None:
        """Tell this machine and the other instances by ARP where a public address is now: it may have moved."""
        hardware, address = _hardware(private), socket.inet_aton(public)
        request = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + hardware + address + bytes(6) + address
        frame = b"\xff" * 6 + hardware + b"\x08\x06" + request

        def send() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
                raw.bind(("eth0", 0))
                raw.send(frame)

        linux.in_network_namespace(f"/proc/{pid}/ns/net", send)

    def shape(self, pid: int, address: str, shape: Shape, group: str | None) -> ShapedEnds:
        """Shape the cable of the instance with this address, whose eth0 is in the namespace of process ``pid``.

        ``group`` names its cluster placement group, within which flows may be faster. The caller closes the ends.
        Raises `NetworkFailed`; then the cable is not shaped.
        """
        cable = _cable(address)
        with self._lock:
            self._peers[address] = shape, group
            peers = self._peers_of(address)
        try:
            _run("tc", ingress_commands(cable, shape.rate, shape.highest), self._holder.pid)
            _run("tc", egress_commands("eth0", shape, peers), pid)
            with contextlib.ExitStack() as undo:
                egress = ShapedEnd(f"/proc/{pid}/ns/net", "eth0")
                undo.callback(egress.close)
                ingress = ShapedEnd(f"/proc/{self._holder.pid}/ns/net", cable)
                undo.pop_all()
        except (NetworkFailed, OSError) as error:
            self.unshape(pid, address)
            with self._lock:
                self._peers.pop(address, None)
            raise NetworkFailed(f"the network of {address} cannot be shaped: {error}") from error
        with self._lock:
            self._shaped[address] = _Shaped(pid, shape, peers)
            self._update_peers()
        return ShapedEnds(cable.encode(), egress, ingress)

    def _peers_of(self, address: str) -> Peers:
        _, group = self._peers.get(address, (None, None))
        others = {other: found for other, found in self._peers.items() if other != address}
        zone = self._taken.get(address)  # ENA Express works within a zone
        near = {other: shape for other, (shape, _) in others.items() if self._taken.get(other) == zone}
        return Peers(
            frozenset(other for other, (_, its) in others.items() if group is not None and its == group),
            frozenset(other for other, shape in near.items() if shape.express),
            frozenset(other for other, shape in near.items() if shape.express and shape.express_udp),
        )

    def _update_peers(self) -> None:
        """Update the peers in every filter. The caller holds the lock."""
        for address, shaped in self._shaped.items():
            peers = self._peers_of(address)
            if peers == shaped.peers:
                continue
            commands = peers_commands("eth0", shaped.shape, peers)
            with contextlib.suppress(NetworkFailed):  # the instance may be ending just now
                if commands:
                    _run("tc", commands, shaped.pid)
                shaped.peers = peers

    def unshape(self, pid: int, address: str) -> None:
        """Remove the shaping of a cable. Without effect if it was never shaped."""
        with self._lock:
            self._shaped.pop(address, None)
        for device, namespace_of in (("eth0", pid), (_cable(address), self._holder.pid)):
            with contextlib.suppress(NetworkFailed):
                _run("tc", [f"qdisc delete dev {device} root"], namespace_of)

    def unplug(self, address: str) -> None:
        """Remove an instance's cable now; the kernel would remove it later with its namespace."""
        with self._lock:
            self._shaped.pop(address, None)
        with contextlib.suppress(NetworkFailed):
            _run("ip", [f"link delete {_cable(address)}"], self._holder.pid)

    def close(self) -> None:
        """Remove the switch and every cable. A second call does nothing."""
        if self._holder.poll() is None:
            # The kernel would remove this machine's end of the cable only some time later.
            subprocess.run(
                ["ip", "link", "delete", self._slot.interface], capture_output=True, timeout=20, check=False
            )
        release_namespace(self._holder)
