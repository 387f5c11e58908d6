"""A small region for benchmarks: instances, volumes, and fio inside an instance."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernel_counters import DiskWatch, RegionWatch

from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.twin.hosts.hosts import HostPlan
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.regions import sweep_slot
from pytest_cloudbench.twin.slots import take_slot
from pytest_cloudbench.twin.volumes.volume_process import VolumeProcess
from pytest_cloudbench.workloads.sweep.status import StatusReader, Totals


class Region:
    """A region's data plane with the calls that benchmarks need."""

    def __init__(self, plane: Plane, key: Path) -> None:
        self.plane = plane
        self._key = key
        self._addresses: dict[str, str] = {}
        self._volumes = 0

    def launch(
        self,
        instance_id: str,
        *,
        iops: float = 0,
        mbit: float = 0,
        baseline: EbsLimit | None = None,
        maximum: EbsLimit | None = None,
        **plan: Any,
    ) -> None:
        """Boot an instance with constant EBS limits, or with a baseline and a maximum.

        ``plan`` holds further fields of its `HostPlan`.
        """
        address = self.plane.network.take_address(0)
        self._addresses[instance_id] = address
        limit = maximum or EbsLimit(Iops(iops), Throughput.from_mbit(mbit))
        key = self._key.with_suffix(".pub").read_text()
        self.plane.instances.boot(
            HostPlan(
                instance_id,
                "benchmark",
                address,
                instance_id,
                "ec2-user",
                (key,),
                ebs_limit=limit,
                ebs_baseline=baseline,
                **plan,
            )
        )

    def volume(self, instance_id: str, spec: VolumeSpec) -> str:
        """Create and attach a volume; return its device in the instance."""
        self._volumes += 1
        volume_id = f"vol-{self._volumes:017x}"
        self.plane.volumes.create_disk(volume_id, spec)
        return "/dev/" + self.plane.volumes.attach(volume_id, instance_id, "/dev/sdf")

    def process(self, instance_id: str) -> VolumeProcess:
        """Return the process that paces an instance's volumes."""
        process = self.plane._inventory.instances[instance_id].paced.process
        assert process is not None
        return process

    def address(self, instance_id: str) -> str:
        """Return the instance's address."""
        return self._addresses[instance_id]

    def command(self, instance_id: str, command: str) -> list[str]:
        """Return the ssh command line that runs a command in the instance."""
        return [
            "ssh", "-i", str(self._key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "LogLevel=ERROR", f"ec2-user@{self._addresses[instance_id]}", command,
        ]  # fmt: skip

    def ssh(self, instance_id: str, command: str, timeout_s: float = 120) -> str:
        """Run a command in the instance by OpenSSH's client; return its output."""
        done = subprocess.run(
            self.command(instance_id, command), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command!r} failed on {instance_id}: {done.stderr.strip()}")
        return done.stdout

    def fio(
        self, instance_id: str, devices: list[str], options: str, other: tuple[list[str], str] | None = None
    ) -> dict[str, float]:
        """Run fio in the instance, with an optional second job ``other``; return IOPS (also by direction) and bytes/s.

        Percentiles of the completion latency are in seconds: "read_p99". ``watch`` and ``region_watch`` hold the
        counters of the kernel and the region during the run, ``totals`` the statuses that fio printed before its end.
        """
        every = (
            "--ioengine=libaio --direct=1 --group_reporting --time_based --randrepeat=0 --norandommap "
            "--allow_file_create=0"
        )
        command = f"sudo fio --output-format=json --name=b --filename={':'.join(devices)} {every} {options}"
        if other is not None:
            command += f" {other[1]} --new_group --filename={':'.join(other[0])} {every}"
        self.watch = DiskWatch(
            f"{volume.node.major}:{volume.node.minor}"
            for volume in self.plane._inventory.volumes.values()
            if volume.node is not None
        )
        self.region_watch = RegionWatch(self.plane, instance_id)
        with self.watch.watching(), self.region_watch.watching():
            text = self.ssh(instance_id, command)
        (block,) = set(re.findall(r"--bs=(\w+)", command))
        *statuses, (_, final) = StatusReader(Size.parse(block).bytes).feed(text)
        self.totals: list[Totals] = [totals for totals, _ in statuses]
        jobs = json.loads(final)["jobs"]
        total = {"iops": 0.0, "bytes_per_s": 0.0, "read_iops": 0.0, "write_iops": 0.0}
        for job in jobs:
            for way in ("read", "write"):
                total["iops"] += job[way]["iops"]
                total["bytes_per_s"] += job[way]["bw_bytes"]
                total[f"{way}_iops"] += job[way]["iops"]
                latency = job[way]["clat_ns"]
                for key, value in latency.get("percentile", {}).items():
                    total[f"{way}_p{float(key):g}"] = value * 1e-9
        return total

    def served_by_kernel(self, seconds: float, *, size: bool) -> tuple[float, float]:
        """Return the lowest and highest rate (IOPS, or MiB/s if ``size``) of all windows of this length."""
        return _ends(self.watch.rates(seconds, size=size))

    def served_by_region(self, seconds: float, *, size: bool) -> tuple[float, float]:
        """Return the same by the counters of the process that paces the instance's volumes."""
        return _ends(self.region_watch.rates(seconds, size=size))

    def between_statuses(self, *, size: bool) -> float:
        """Return the rate from fio's first to its last status, as a sweep measures it; NaN without statuses."""
        kept = self.totals
        for number in range(len(kept) - 1, 0, -1):
            if kept[number].seconds < kept[number - 1].seconds:  # fio starts again after its ramp
                kept = kept[number:]
                break
        if len(kept) < 2:
            return float("nan")
        between = kept[-1].since(kept[0])
        return (between.both.bytes / 1024**2 if size else between.both.ios) / between.seconds


def _ends(rates: list[float]) -> tuple[float, float]:
    return (min(rates), max(rates)) if rates else (float("nan"), float("nan"))


@contextlib.contextmanager
def region(time_compression: float = 1.0) -> Iterator[Region]:
    """Open a region until the block ends; its burst credits run ``time_compression`` times faster than the clock."""
    with tempfile.TemporaryDirectory() as directory:
        key = Path(directory) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        slot = take_slot(sweep_slot)
        try:
            plane = Plane(slot, time_compression=time_compression)
            try:
                yield Region(plane, key)
            finally:
                plane.close()
        finally:
            slot.release()
