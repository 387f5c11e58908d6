"""What this machine carries between two instances when nothing shapes it: one client process, five streams.

The twin publishes it so that a run held back by the machine is never taken for a broken promise. Measured once per
boot of the machine, between two namespaces on the region's own switch; raised whenever more is seen.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.boot import CONGESTION_CONTROL
from pytest_cloudbench.twin.network.cables import Network, NetworkFailed, hold_namespace, let_go

PAYLOAD_SHARE = 8949 / 9015
"""Of what passes on the wire, in full frames of TCP over IPv4 at an MTU of 9,001, is payload."""

_STREAMS = 5
_RUN_S = 1
_PORT = 5201
_START_S = 5.0
_LIMIT_S = 15.0
_LAST_ZONE = 3


def probe_network(network: Network) -> float | None:
    """Bytes per second received over the region's switch; None without iperf3, or where it fails."""
    if shutil.which("iperf3") is None:
        return None
    with contextlib.ExitStack() as undo:
        try:
            server, client = (_plugged_in(network, undo) for _ in range(2))
            return _measure(server, client)
        except (NetworkFailed, OSError, subprocess.SubprocessError, ValueError, KeyError):
            return None


def _plugged_in(network: Network, undo: contextlib.ExitStack) -> tuple[int, str]:
    """The process that holds a namespace on the switch, and its address."""
    address = network.take_address(_LAST_ZONE)
    undo.callback(network.give_back, address)
    holder = hold_namespace()
    undo.callback(let_go, holder)
    network.plug_in(holder.pid, address)
    undo.callback(network.unplug, address)

    def set_up() -> None:
        linux.set_interface_address("eth0", address, network.netmask)
        linux.set_interface_up("eth0")
        linux.use_congestion_control(*CONGESTION_CONTROL)

    linux.in_network_namespace(f"/proc/{holder.pid}/ns/net", set_up)
    return holder.pid, address


def _measure(server: tuple[int, str], client: tuple[int, str]) -> float:
    serving = subprocess.Popen(
        [*_inside(server[0]), "iperf3", "-s", "-1", "-p", str(_PORT)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_until_listening(server[0])
        done = subprocess.run(
            [
                *_inside(client[0]), "iperf3", "-c", server[1], "-p", str(_PORT), "-P", str(_STREAMS),
                "-t", str(_RUN_S), "-J",
            ],
            capture_output=True, text=True, timeout=_LIMIT_S, check=True,
        )  # fmt: skip
    finally:
        serving.kill()
        serving.wait()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8


def _inside(pid: int) -> list[str]:
    """Begins a command there that goes with the region, also when the region is killed."""
    return ["setpriv", "--pdeathsig", "KILL", "nice", "-n", "5", "nsenter", f"--net=/proc/{pid}/ns/net"]


def _wait_until_listening(pid: int) -> None:
    deadline = time.monotonic() + _START_S
    listening = f":{_PORT:04X} "
    while time.monotonic() < deadline:
        sockets = "".join(Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
        if listening in sockets:
            return
        time.sleep(0.01)
    raise NetworkFailed(f"iperf3 does not listen within {_START_S:.0f} s")
