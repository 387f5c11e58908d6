"""Measure the cost of pacing: CPU time, memory and time to attach, for the Python implementation and the compiled core.

    python benchmarks/pacing_cost.py [--seconds 10]

Needs root. The CPU time is that of the process that paces an instance's volumes; only the kernel's work is missing in
it. The thirty volumes are gp2, so that they have credits. The last lines show the ratio of the two implementations, if
there is a compiled core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

from region_under_test import Region, region

from pytest_cloudbench.limits.volumes import gp2, io2

VOLUMES = 30
RATES = (1_000, 10_000, 40_000, 256_000)
LOAD = "--rw=randrw --rwmixread=70 --bs=4k --size=64m"
CORE = "CLOUDBENCH_TWIN_CORE"


def memory_mib(under_test: Region) -> float:
    """Return the resident memory of the pacing process in MiB."""
    text = Path(f"/proc/{under_test.process('i-1').pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def compiled(under_test: Region) -> bool:
    """Return True if the process uses the compiled core."""
    return "/volumes/core." in Path(f"/proc/{under_test.process('i-1').pid}/maps").read_text()


def cpu_per_io(under_test: Region, name: str, devices: list[str], load: str, seconds: int) -> float:
    """Run a load; return the CPU seconds per 1,000 I/Os."""
    before, began = under_test.process("i-1").cpu_s, time.monotonic()
    served = ios(under_test)
    under_test.fio("i-1", devices, f"{LOAD} {load} --runtime={seconds}")
    used, lasted = under_test.process("i-1").cpu_s - before, time.monotonic() - began
    served = ios(under_test) - served
    print(
        f"  {name}: {served / seconds:9,.0f} IOPS, {used / lasted:6.2%} of a core, "
        f"{1e6 * used / served:.2f} ms per 1,000 I/Os",
        flush=True,
    )
    return 1e3 * used / served


def ios(under_test: Region) -> int:
    """Return the I/Os of all volumes so far."""
    volumes, _ = under_test.plane.volumes.storage_activity()
    return sum(volume.done.read_ops + volume.done.write_ops for volume in volumes)


def cost(seconds: int) -> dict[str, float] | None:
    """Print the figures; return the CPU seconds per 1,000 I/Os by load. None if the compiled core is missing."""
    with region() as under_test:
        under_test.launch("i-1", iops=400_000, mbit=60_000)
        attaching, devices = [], []
        for _ in range(VOLUMES):
            began = time.monotonic()
            devices.append(under_test.volume("i-1", gp2(size_gib=10)))
            attaching.append(time.monotonic() - began)
        if os.environ[CORE] != "python" and not compiled(under_test):
            return None
        print("compiled core:" if compiled(under_test) else "Python:")
        before = under_test.process("i-1").cpu_s
        time.sleep(seconds)
        idle = (under_test.process("i-1").cpu_s - before) / seconds
        print(
            f"  attach: first {attaching[0]:.3f} s, further {statistics.median(attaching[1:]):.3f} s\n"
            f"  {VOLUMES} idle volumes: {idle:.2%} of a core, {memory_mib(under_test):.1f} MiB",
            flush=True,
        )
        found = {}
        name = f"{VOLUMES} volumes"
        found[name] = cpu_per_io(under_test, name, devices, "--numjobs=4 --iodepth=16", seconds)
        for rate in RATES:
            device = under_test.volume("i-1", io2(size_gib=256, iops=rate))
            name = f"limit {rate:7,} IOPS"
            found[name] = cpu_per_io(under_test, name, [device], "--numjobs=4 --iodepth=16", seconds)
        print(f"  memory after that: {memory_mib(under_test):.1f} MiB", flush=True)
    return found


def main() -> None:
    """Measure both implementations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    seconds = parser.parse_args().seconds
    found = []
    for core in ("python", ""):
        os.environ[CORE] = core
        found.append(cost(seconds))
    in_python, in_c = found
    if in_python is None or in_c is None:
        print("there is no compiled core")
        return
    for name, used in in_python.items():
        print(f"{name}: CPU time of the compiled core over Python's: ratio {in_c[name] / used:.3f}")


if __name__ == "__main__":
    main()
