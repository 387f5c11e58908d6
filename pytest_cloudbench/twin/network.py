"""The region's network: a switch in a namespace of its own, one cable to this machine, one per instance.

The namespace has no name; it lives as long as the process that holds it, and that process (``cat``) ends
when the region's end of its pipe closes. The kernel then removes namespace, bridge and cables together.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.workshop import Workshop

MTU = 9001  # EC2's jumbo frame
RESERVED_ADDRESSES = 4  # EC2 keeps the first four and the last of every subnet


class NetworkFailed(RuntimeError):
    """The region's network could not be made; the message says which step failed."""


def _ip(commands: list[str], namespace_of: int | None = None) -> None:
    argv = ["ip", "-batch", "-"]
    if namespace_of is not None:
        argv = ["nsenter", f"--net=/proc/{namespace_of}/ns/net", *argv]
    done = subprocess.run(
        argv, input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=20, check=False
    )
    if done.returncode != 0:
        raise NetworkFailed(f"`{' '.join(argv)}` refused {commands!r}: {done.stderr.strip()}")


def _cable(address: str) -> str:
    """The name of an instance's cable at the switch."""
    return "p" + "".join(f"{int(part):02x}" for part in address.split("."))


class Network:
    """The switch of one slot and the cables in it."""

    def __init__(self, slot: Slot, workshop: Workshop) -> None:
        self._slot = slot
        self._taken: set[str] = set()
        self._holder = workshop.run(self._start_holder)
        try:
            self._make_switch()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _start_holder() -> subprocess.Popen[bytes]:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != b"ready":
            holder.kill()
            holder.wait()
            raise NetworkFailed("no network namespace could be made (`unshare --net` failed)")
        return holder

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
        """Let an address be handed out again."""
        self._taken.discard(address)

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

    def unplug(self, address: str) -> None:
        """Remove an instance's cable now, not when the kernel gets to its namespace."""
        with contextlib.suppress(NetworkFailed):
            _ip([f"link delete {_cable(address)}"], self._holder.pid)

    def close(self) -> None:
        """Remove the switch and every cable. A second call does nothing."""
        if self._holder.poll() is None:
            # Removing the cable first makes its end in this machine go now, not when the kernel gets to it.
            subprocess.run(
                ["ip", "link", "delete", self._slot.interface], capture_output=True, timeout=20, check=False
            )
            self._holder.kill()
            self._holder.wait()
        for pipe in (self._holder.stdin, self._holder.stdout):
            if pipe is not None:
                pipe.close()
