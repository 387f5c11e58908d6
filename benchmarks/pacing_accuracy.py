"""Measure how exactly limits are held: the rate of volumes over any 10 s relative to the provisioned rate.

    python benchmarks/pacing_accuracy.py [--seconds 10] [--only NAME] [--busy]

Needs root. Every line is one run of fio, by default 64 jobs of depth 16, with 4 s of ramp. The ratios are:

- region: by the counters of the process that paces the volumes, the lowest and highest of any window of that length;
- kernel: the same by the kernel's counters of the disks;
- fio: fio's own final figure, as a user reads it. Its run time is too long by about one mean latency;
- sweep: from fio's first to its last status report, as a sweep measures it.

The aim is 0.3 % on a quiet machine. With --busy two endless loops run at the same time, and the aim is 1 %. "Machine"
is the share of the I/Os' time that this machine added; if it is large, the error may be large too.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from region_under_test import Region, region

from pytest_cloudbench.limits.quantities import MIB
from pytest_cloudbench.limits.volumes import VolumeSpec, gp3, io2

LOAD = "--numjobs=64 --iodepth=16"
RANDOM = f"--rw=randread --bs=4k --size=256m {LOAD}"
BUSY_LOOPS = 2


def mix(reads: int) -> str:
    """Return the default load with this per cent of reads."""
    return f"--rw=randrw --rwmixread={reads} --bs=4k --size=256m {LOAD}"


@dataclass(frozen=True)
class Case:
    """A load on all volumes of an instance, and its limit in IOPS, or in MiB/s if ``size``.

    ``modest`` is a second load, on the last volume alone.
    """

    limit: float
    load: str
    volumes: tuple[VolumeSpec, ...] = (io2(size_gib=80, iops=16_000),)
    instance_iops: float = 80_000
    size: bool = False
    modest: str = ""

    def run(self, under_test: Region, timing: str) -> float:
        """Run the load; return fio's final figure."""
        under_test.launch("i-1", iops=self.instance_iops, mbit=19_000)
        devices = [under_test.volume("i-1", spec) for spec in self.volumes]
        load, other = f"{self.load} {timing}", None
        if self.modest:
            devices, other = devices[:-1], (devices[-1:], f"--name=m {self.modest} {timing}")
        got = under_test.fio("i-1", devices, load, other=other)
        return got["bytes_per_s"] / MIB if self.size else got["iops"]


def one(iops: int) -> tuple[VolumeSpec, ...]:
    """Return one volume with this limit."""
    return (io2(size_gib=80, iops=iops),)


THREE = (io2(size_gib=80, iops=16_000),) * 3
CASES = {
    "100 IOPS": Case(100, "--rw=randread --bs=4k --size=256m --iodepth=4", one(100)),
    "2,000 IOPS": Case(2_000, "--rw=randread --bs=4k --size=256m --numjobs=4 --iodepth=16", one(2_000)),
    "16,000 IOPS": Case(16_000, RANDOM),
    "80,000 IOPS": Case(80_000, RANDOM, one(80_000)),
    "80,000 IOPS, 4 jobs": Case(
        80_000, "--rw=randread --bs=4k --size=256m --numjobs=4 --iodepth=16", one(80_000)
    ),
    "80,000 IOPS, 4 jobs, 70/30": Case(
        80_000, "--rw=randrw --rwmixread=70 --bs=4k --size=256m --numjobs=4 --iodepth=16", one(80_000)
    ),
    "2,264.98 MiB/s at 256 KiB": Case(
        2_375e6 / MIB, f"--rw=read --bs=256k --size=1g {LOAD}", one(80_000), size=True
    ),
    "16,000 IOPS, writes": Case(16_000, f"--rw=randwrite --bs=4k --size=256m {LOAD}"),
    "16,000 IOPS, 70/30": Case(16_000, mix(70)),
    "16,000 IOPS, 50/50": Case(16_000, mix(50)),
    "16,000 IOPS, 30/70": Case(16_000, mix(30)),
    "three volumes under 20,000": Case(20_000, RANDOM, THREE, 20_000),
    "three volumes under 20,000, 70/30": Case(20_000, mix(70), THREE, 20_000),
    "uneven demand under 20,000": Case(
        20_000,
        "--rw=randread --bs=4k --size=256m --numjobs=32 --iodepth=16",
        THREE,
        20_000,
        modest="--rw=randread --bs=4k --size=256m --iodepth=4 --rate_iops=1000",
    ),
    "thirty volumes under 20,000": Case(20_000, RANDOM, (gp3(size_gib=10),) * 30, 20_000),
}


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run this number of endless processes until the block ends."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Run the cases and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--busy", action="store_true", help="run two endless loops at the same time")
    arguments = parser.parse_args()
    timing = f"--ramp_time=4 --runtime={arguments.seconds} --status-interval=1"
    aim = 0.01 if arguments.busy else 0.003
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        with region() as under_test, busy_loops(BUSY_LOOPS if arguments.busy else 0):
            by_fio = case.run(under_test, timing)
            by_region = under_test.served_by_region(arguments.seconds, size=case.size)
            by_kernel = under_test.served_by_kernel(arguments.seconds, size=case.size)
            by_sweep = under_test.between_statuses(size=case.size)
            machine = under_test.region_watch.machine_share()
        low, high, *others = (rate / case.limit for rate in (*by_region, *by_kernel, by_fio, by_sweep))
        held = 1 - aim <= low and high <= 1 + aim
        print(
            f"{name:34} region {low:.4f} to {high:.4f}, kernel {others[0]:.4f} to {others[1]:.4f}, "
            f"fio {others[2]:.4f}, sweep {others[3]:.4f}; machine {machine:.1%}; "
            f"aim {aim:.1%}: {'held' if held else 'missed'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
