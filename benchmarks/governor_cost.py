"""What the governor costs: CPU of its thread with 30 attached volumes, idle, with one and with all busy.

The volumes are gp2, so that credits are accounted for as well.

    python benchmarks/governor_cost.py [--seconds 10]

Needs root. The bar is 3 % of one core.
"""

from __future__ import annotations

import argparse
import time

from region_under_test import Region, region

from pytest_cloudbench.promises.volumes import gp2

VOLUMES = 30


def share_of_a_core(region: Region, seconds: float) -> float:
    """The governor's CPU seconds per second, over ``seconds``."""
    cpu, wall = region.plane.governor_cpu_s, time.monotonic()
    time.sleep(seconds)
    return (region.plane.governor_cpu_s - cpu) / (time.monotonic() - wall)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    seconds = parser.parse_args().seconds
    with region() as under_test:
        under_test.launch("i-1", iops=80_000, mbit=19_000)
        devices = [under_test.volume("i-1", gp2(size_gib=10)) for _ in range(VOLUMES)]
        print(
            f"{VOLUMES} volumes, idle:      {share_of_a_core(under_test, seconds):.2%} of a core", flush=True
        )
        load = f"--rw=randrw --rwmixread=70 --bs=4k --size=64m --numjobs=4 --iodepth=16 --runtime={seconds}"
        for name, some in (("one busy", devices[:1]), ("all busy", devices)):
            cpu, wall = under_test.plane.governor_cpu_s, time.monotonic()
            under_test.fio("i-1", some, load)
            share = (under_test.plane.governor_cpu_s - cpu) / (time.monotonic() - wall)
            print(f"{VOLUMES} volumes, {name}:  {share:.2%} of a core", flush=True)


if __name__ == "__main__":
    main()
