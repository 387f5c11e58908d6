"""What this machine can do when nothing limits it: its disks, and its network between two instances.

The region publishes both figures, so that a run limited by the machine is never reported as a broken promise. Each
is measured once per boot of the machine: the disks by two short fio runs on a scratch disk, the network by iperf3
between two namespaces on the region's switch.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.boot import CONGESTION_CONTROL
from pytest_cloudbench.twin.network.cables import Network, NetworkFailed, hold_namespace, release_namespace
from pytest_cloudbench.twin.region_parts import RegionParts
from pytest_cloudbench.twin.volumes.disks import KIB, MIB, Disk

PAYLOAD_SHARE = 8949 / 9015
"""The share of payload in the bytes on the wire, in full frames of TCP over IPv4 at an MTU of 9,001."""

_RECORD = "machine.json"
_WORTH_KEEPING = 1.02

_SCRATCH_BYTES = 256 * MIB
_DISK_RUN_S = 0.3
_JOBS = 8

_STREAMS = 5
_NETWORK_RUN_S = 1
_PORT = 5201
_START_S = 5.0
_LIMIT_S = 15.0
_LAST_ZONE = 3
_NICE = ("nice", "-n", "5")


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class MachineRecord:
    """The figures measured since the machine booted, in a file for later regions. Any thread may call the methods."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _RECORD
        self._lock = threading.Lock()
        self._iops = self._bytes_per_s = self._network_bytes_per_s = 0.0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._path.read_text())
            if known["boot_id"] == _boot_id():
                self._iops, self._bytes_per_s = float(known["iops"]), float(known["bytes_per_second"])
                self._network_bytes_per_s = float(known.get("network_bytes_per_second", 0.0))
        self._network_probed = self._network_bytes_per_s > 0

    def set_disks(self, iops: float, bytes_per_s: float) -> None:
        """Keep the measured figures of the disks."""
        with self._lock:
            self._iops, self._bytes_per_s = iops, bytes_per_s
            self._write()

    def update_network(self, bytes_per_s: float, *, probed: bool = False) -> None:
        """Keep a rate that the network carried for about a second, if it is the highest so far.

        With ``probed`` it comes from a probe. Until the first probe, `network` returns None.
        """
        with self._lock:
            first = probed and not self._network_probed
            self._network_probed = self._network_probed or probed
            if bytes_per_s <= self._network_bytes_per_s * _WORTH_KEEPING and not first:
                return
            self._network_bytes_per_s = max(self._network_bytes_per_s, bytes_per_s)
            if self._network_probed:
                self._write()

    def network(self) -> Throughput | None:
        """Return what the network carries between two instances; None before the first probe."""
        with self._lock:
            return Throughput(self._network_bytes_per_s) if self._network_probed else None

    def disks(self) -> MachineLimits | None:
        """Return what the disks serve; None before the probe."""
        with self._lock:
            if not self._iops:
                return None
            return MachineLimits(
                Iops(self._iops),
                Throughput(self._bytes_per_s),
                source="fio on a scratch disk of this machine, unthrottled",
                date=time.strftime("%Y-%m-%d"),
            )

    def _write(self) -> None:
        record = {
            "boot_id": _boot_id(),
            "iops": self._iops,
            "bytes_per_second": self._bytes_per_s,
            "network_bytes_per_second": self._network_bytes_per_s if self._network_probed else 0.0,
        }
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(record))
        draft.replace(self._path)


class Machine:
    """Measures disks and network at the first request, one probe at a time, and nothing after `close`."""

    def __init__(self, parts: RegionParts, record: MachineRecord) -> None:
        self._parts = parts
        self._record = record
        self._probing = threading.Lock()
        self._closed = False

    def disks(self) -> MachineLimits | None:
        """Return what the disks serve; the probe takes about a second. None if it fails (no fio)."""
        with self._probing:
            if self._record.disks() is None and not self._closed:
                measured = _probe_disks(self._parts)
                if measured is not None:
                    self._record.set_disks(*measured)
        return self._record.disks()

    def network(self) -> Throughput | None:
        """Return what is carried between two instances; the probe takes about two seconds.

        None if it fails (no iperf3).
        """
        with self._probing:
            if self._record.network() is None and not self._closed:
                measured = _probe_network(self._parts.network)
                if measured is not None:
                    self._record.update_network(measured, probed=True)
        return self._record.network()

    def close(self) -> None:
        """Wait for a running probe, which uses parts that are removed next, and start no new one."""
        self._closed = True
        with self._probing:
            pass


def _probe_disks(parts: RegionParts) -> tuple[float, float] | None:
    """Return IOPS of random 4 KiB reads and bytes/s of 256 KiB reads of a scratch disk; None without fio."""
    store = parts.store
    if shutil.which("fio") is None or store.room() < 2 * _SCRATCH_BYTES:
        return None
    label = f"{parts.slot.name}/probe"
    scratch = Disk(_SCRATCH_BYTES, 256 * KIB, store.new_file(_SCRATCH_BYTES), parts, label)
    with contextlib.closing(scratch):
        loop = scratch.plug_in()
        try:
            block = os.urandom(MIB)
            for number in range(_SCRATCH_BYTES // MIB):  # holes would be read faster than data
                os.pwrite(scratch.descriptor, block, number * MIB)
            iops = _fio(loop.descriptor, "randread", "4k")[0]
            return iops, _fio(loop.descriptor, "read", "256k")[1]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError):
            return None


def _fio(device: int, pattern: str, block_size: str) -> tuple[float, float]:
    done = subprocess.run(
        [
            *_NICE, "fio", "--name=probe", f"--filename=/proc/self/fd/{device}", f"--rw={pattern}",
            f"--bs={block_size}", "--direct=1", "--ioengine=libaio", "--iodepth=16", f"--numjobs={_JOBS}",
            "--readonly", "--thread", "--group_reporting", "--time_based", f"--runtime={int(_DISK_RUN_S * 1000)}ms",
            "--randrepeat=0", "--norandommap", "--output-format=json", "--allow_file_create=0",
            f"--offset_increment={_SCRATCH_BYTES // _JOBS}",
        ],
        capture_output=True, text=True, timeout=20, check=True, pass_fds=(device,), cwd="/",
    )  # fmt: skip
    read = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return float(read["iops"]), float(read["bw_bytes"])


def _probe_network(network: Network) -> float | None:
    """Return the bytes per second that a server receives over the region's switch from one client, in five streams.

    None if that fails.
    """
    if shutil.which("iperf3") is None:
        return None
    with contextlib.ExitStack() as undo:
        try:
            server, client = (_plug_in_namespace(network, undo) for _ in range(2))
            return _iperf3(server, client)
        except (NetworkFailed, OSError, subprocess.SubprocessError, ValueError, KeyError):
            return None


def _plug_in_namespace(network: Network, undo: contextlib.ExitStack) -> tuple[int, str]:
    """Plug a new namespace into the switch; return the process that holds it and its address."""
    address = network.take_address(_LAST_ZONE)
    undo.callback(network.release_address, address)
    holder = hold_namespace()
    undo.callback(release_namespace, holder)
    network.plug_in(holder.pid, address)
    undo.callback(network.unplug, address)

    def set_up() -> None:
        linux.set_interface_address("eth0", address, network.netmask)
        linux.set_interface_up("eth0")
        linux.use_congestion_control(*CONGESTION_CONTROL)

    linux.in_network_namespace(f"/proc/{holder.pid}/ns/net", set_up)
    return holder.pid, address


def _iperf3(server: tuple[int, str], client: tuple[int, str]) -> float:
    serving = subprocess.Popen(
        [*_inside(server[0]), "iperf3", "-s", "-1", "-p", str(_PORT)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_until_listening(server[0])
        done = subprocess.run(
            [
                *_inside(client[0]), "iperf3", "-c", server[1], "-p", str(_PORT), "-P", str(_STREAMS),
                "-t", str(_NETWORK_RUN_S), "-J",
            ],
            capture_output=True, text=True, timeout=_LIMIT_S, check=True,
        )  # fmt: skip
    finally:
        serving.kill()
        serving.wait()
    return float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 8


def _inside(pid: int) -> list[str]:
    """Return the start of a command that runs in a process's network namespace and ends with the region."""
    return ["setpriv", "--pdeathsig", "KILL", *_NICE, "nsenter", f"--net=/proc/{pid}/ns/net"]


def _wait_until_listening(pid: int) -> None:
    deadline = time.monotonic() + _START_S
    listening = f":{_PORT:04X} "
    while time.monotonic() < deadline:
        sockets = "".join(Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
        if listening in sockets:
            return
        time.sleep(0.01)
    raise NetworkFailed(f"iperf3 does not listen within {_START_S:.0f} s")
