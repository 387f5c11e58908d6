"""The region's network: a switch in a namespace of its own, one cable to this machine, one per instance.

The namespace has no name; it lives as long as the process that holds it, and that process (``cat``) ends
when the region's end of its pipe closes. The kernel then removes namespace, bridge and cables together, and with
them all shaping.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from dataclasses import dataclass
from typing import BinaryIO

from pytest_cloudbench.twin.network.shaping import Shape, egress_commands, ingress_commands, peers_commands
from pytest_cloudbench.twin.network.traffic_control import ShapedEnd, ShapedEnds
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.workshop import Workshop

MTU = 9001  # EC2's jumbo frame
RESERVED_ADDRESSES = 4  # EC2 keeps the first four and the last of every subnet


class NetworkFailed(RuntimeError):
    """The region's network could not be made; the message says which step failed."""


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


def _ip(commands: list[str], namespace_of: int | None = None) -> None:
    _run("ip", commands, namespace_of)


def hold_namespace() -> subprocess.Popen[bytes]:
    """Start a process that does nothing but hold a network namespace, until it is killed or its input ends.

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
        let_go(holder)
        raise NetworkFailed("no network namespace could be made (`unshare --net` failed)")
    return holder


def let_go(holder: subprocess.Popen[bytes]) -> None:
    """End a process that holds a namespace. A second call does nothing."""
    if holder.poll() is None:
        holder.kill()
        holder.wait()
    for pipe in (holder.stdin, holder.stdout):
        if pipe is not None:
            pipe.close()


def _cable(address: str) -> str:
    """The name of an instance's cable at the switch."""
    return "p" + "".join(f"{int(part):02x}" for part in address.split("."))


@dataclass
class _Shaped:
    """An instance whose cable is shaped; ``peers`` are those that its filter knows."""

    pid: int
    shape: Shape
    peers: frozenset[str]


class Network:
    """The switch of one slot and the cables in it."""

    def __init__(self, slot: Slot, workshop: Workshop) -> None:
        self._slot = slot
        self._taken: set[str] = set()
        self._groups: dict[str, str] = {}  # of addresses, also of instances that are stopped
        self._shaped: dict[str, _Shaped] = {}
        self._shaping = threading.Lock()
        self._holder = workshop.run(hold_namespace)
        try:
            self._make_switch()
        except BaseException:
            self.close()
            raise

    @property
    def netmask(self) -> str:
        """Of the network that all its addresses are in."""
        return str(self._slot.network.netmask)

    def open_counters(self) -> BinaryIO:
        """The counters of all ports of the switch, as /proc/net/dev shows them, to be read again and again."""
        return open(f"/proc/{self._holder.pid}/net/dev", "rb", buffering=0)

    def _make_switch(self) -> None:
        port = f"{self._slot.interface}s"
        _ip(
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
        _ip(
            [
                f"link set {self._slot.interface} addrgenmode none",
                f"address add {address} dev {self._slot.interface}",
                f"link set {self._slot.interface} up",
            ]
        )

    def take_address(self, zone_index: int) -> str:
        """A free address of the zone, not handed out again until it is given back."""
        network = self._slot.zone_network(zone_index)
        first = int(network.network_address) + RESERVED_ADDRESSES
        for number in range(first, int(network.broadcast_address)):
            address = str(type(network.network_address)(number))
            if address not in self._taken:
                self._taken.add(address)
                return address
        raise NetworkFailed(f"no address is left in {network}")

    def reserve(self, address: str) -> None:
        """Keep an address that somebody else chose from being handed out."""
        self._taken.add(address)

    def give_back(self, address: str) -> None:
        """Let an address be handed out again; it is in no placement group any more."""
        self._taken.discard(address)
        with self._shaping:
            if self._groups.pop(address, None) is not None:
                self._tell_peers()

    def plug_in(self, pid: int, address: str) -> None:
        """Lead a cable from the switch to the network namespace of process ``pid``, as its eth0.

        The hardware address follows from the IP address, so that neighbours find an instance again at
        once after it was stopped and started.
        """
        cable = _cable(address)
        hardware = "06:cb:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        _ip(
            [
                f"link add {cable} mtu {MTU} type veth peer name eth0 address {hardware} mtu {MTU} netns {pid}",
                f"link set {cable} addrgenmode none",
                f"link set {cable} master switch up",
            ],
            self._holder.pid,
        )

    def shape(self, pid: int, address: str, shape: Shape, group: str | None) -> ShapedEnds:
        """Shape the cable of the instance with this address, whose processes are in the namespace of ``pid``.

        ``group`` names its cluster placement group: from now on flows between it and the others there have more.
        The ends are the caller's to close. Raises `NetworkFailed`; the cable is not shaped then.
        """
        cable = _cable(address)
        with self._shaping:
            if group is not None:
                self._groups[address] = group
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
            with self._shaping:
                self._groups.pop(address, None)
            raise NetworkFailed(f"the network of {address} cannot be shaped: {error}") from error
        with self._shaping:
            self._shaped[address] = _Shaped(pid, shape, peers)
            self._tell_peers()
        return ShapedEnds(cable.encode(), egress, ingress)

    def _peers_of(self, address: str) -> frozenset[str]:
        group = self._groups.get(address)
        others = (other for other, its in self._groups.items() if its == group and other != address)
        return frozenset(others) if group is not None else frozenset()

    def _tell_peers(self) -> None:
        """Have every filter know the peers that there are. The caller holds the lock."""
        for address, shaped in self._shaped.items():
            peers = self._peers_of(address)
            if peers == shaped.peers:
                continue
            commands = peers_commands("eth0", shaped.shape, peers)
            with contextlib.suppress(NetworkFailed):  # it may be ending just now
                if commands:
                    _run("tc", commands, shaped.pid)
                shaped.peers = peers

    def unshape(self, pid: int, address: str) -> None:
        """Let a cable have what the machine carries; where it was never shaped nothing happens."""
        with self._shaping:
            self._shaped.pop(address, None)
        for device, namespace_of in (("eth0", pid), (_cable(address), self._holder.pid)):
            with contextlib.suppress(NetworkFailed):
                _run("tc", [f"qdisc delete dev {device} root"], namespace_of)

    def cut(self, address: str) -> None:
        """Take an instance's cable down, as if it were pulled out; its shaping stays. `mend` ends it."""
        _ip([f"link set {_cable(address)} down"], self._holder.pid)

    def mend(self, address: str) -> None:
        """Bring a cable that was cut up again."""
        _ip([f"link set {_cable(address)} up"], self._holder.pid)

    def unplug(self, address: str) -> None:
        """Remove an instance's cable now, not when the kernel gets to its namespace."""
        with self._shaping:
            self._shaped.pop(address, None)
        with contextlib.suppress(NetworkFailed):
            _ip([f"link delete {_cable(address)}"], self._holder.pid)

    def close(self) -> None:
        """Remove the switch and every cable. A second call does nothing."""
        if self._holder.poll() is None:
            # Removing the cable first makes its end in this machine go now, not when the kernel gets to it.
            subprocess.run(
                ["ip", "link", "delete", self._slot.interface], capture_output=True, timeout=20, check=False
            )
        let_go(self._holder)
