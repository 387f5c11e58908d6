"""What the disks of this machine serve when nothing throttles them.

The twin publishes it so that a run held back by the machine is never taken for a broken promise. Measured
once per boot of the machine with two short fio runs.
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
from pytest_cloudbench.twin.volumes.disks import MIB, Store
from pytest_cloudbench.twin.volumes.loop_devices import bind_loop_device
from pytest_cloudbench.twin.workshop import Workshop

_RECORD = "machine.json"
_SCRATCH_BYTES = 256 * MIB
_RUN_S = 0.3
_JOBS = 8
_WORTH_KEEPING = 1.02


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class MachineRecord:
    """The best figures seen since this machine booted, kept for the next region too."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _RECORD
        self._lock = threading.Lock()
        self._iops = self._bytes_per_s = self._network_bytes_per_s = 0.0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(self._path.read_text())
            if known["boot_id"] == _boot_id():
                self._iops, self._bytes_per_s = float(known["iops"]), float(known["bytes_per_second"])
                self._network_bytes_per_s = float(known.get("network_bytes_per_second", 0.0))
        self._probed = self._iops > 0
        self._network_probed = self._network_bytes_per_s > 0

    def saw(self, iops: float, bytes_per_s: float, *, probed: bool = False) -> None:
        """Take in a figure that was served for a while."""
        with self._lock:
            self._probed = self._probed or probed
            if iops <= self._iops * _WORTH_KEEPING and bytes_per_s <= self._bytes_per_s * _WORTH_KEEPING:
                return
            self._iops = max(self._iops, iops)
            self._bytes_per_s = max(self._bytes_per_s, bytes_per_s)
            if self._probed:
                self._write()

    def saw_network(self, bytes_per_s: float, *, probed: bool = False) -> None:
        """Take in what went from one instance to another for a while."""
        with self._lock:
            first = probed and not self._network_probed
            self._network_probed = self._network_probed or probed
            if bytes_per_s <= self._network_bytes_per_s * _WORTH_KEEPING and not first:
                return
            self._network_bytes_per_s = max(self._network_bytes_per_s, bytes_per_s)
            if self._network_probed:
                self._write()

    def network(self) -> Throughput | None:
        """What goes from one instance to another, or None before the first probe."""
        with self._lock:
            return Throughput(self._network_bytes_per_s) if self._network_probed else None

    def _write(self) -> None:
        record = {
            "boot_id": _boot_id(),
            "iops": self._iops if self._probed else 0.0,
            "bytes_per_second": self._bytes_per_s if self._probed else 0.0,
            "network_bytes_per_second": self._network_bytes_per_s if self._network_probed else 0.0,
        }
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(record))
        draft.replace(self._path)

    def limits(self) -> MachineLimits | None:
        """The figures, or None before the first probe."""
        with self._lock:
            if not self._probed:
                return None
            return MachineLimits(
                Iops(self._iops),
                Throughput(self._bytes_per_s),
                source="fio on a scratch disk of this machine, unthrottled; raised by what was served since",
                date=time.strftime("%Y-%m-%d"),
            )


def probe_machine(store: Store, workshop: Workshop, label: str) -> tuple[float, float] | None:
    """(IOPS of random 4 KiB reads, bytes/s of 256 KiB reads) of a scratch disk; None without fio."""
    if shutil.which("fio") is None or store.room() < 2 * _SCRATCH_BYTES:
        return None
    backing = store.new_file(_SCRATCH_BYTES)
    try:
        loop = workshop.run(lambda: bind_loop_device(backing, label, store.roots))
        try:
            _fill(backing)
            for name, value in (("scheduler", "none"), ("nomerges", "2"), ("max_sectors_kb", "256")):
                loop.set_queue(name, value)
            iops = _fio(loop.descriptor, "randread", "4k")[0]
            return iops, _fio(loop.descriptor, "read", "256k")[1]
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError):
            return None
        finally:
            loop.release()
    finally:
        os.close(backing)


def _fill(backing: int) -> None:
    """Write the scratch data: holes would be read faster than data."""
    block = os.urandom(MIB)
    for number in range(_SCRATCH_BYTES // MIB):
        os.pwrite(backing, block, number * MIB)


def _fio(device: int, pattern: str, block_size: str) -> tuple[float, float]:
    done = subprocess.run(
        [
            "nice", "-n", "5", "fio", "--name=probe", f"--filename=/proc/self/fd/{device}", f"--rw={pattern}",
            f"--bs={block_size}", "--direct=1", "--ioengine=libaio", "--iodepth=16", f"--numjobs={_JOBS}",
            "--readonly", "--thread", "--group_reporting", "--time_based", f"--runtime={int(_RUN_S * 1000)}ms",
            "--randrepeat=0", "--norandommap", "--output-format=json", "--allow_file_create=0",
            f"--offset_increment={_SCRATCH_BYTES // _JOBS}",
        ],
        capture_output=True, text=True, timeout=20, check=True, pass_fds=(device,), cwd="/",
    )  # fmt: skip
    read = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]
    return float(read["iops"]), float(read["bw_bytes"])
