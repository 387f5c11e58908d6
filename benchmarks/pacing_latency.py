"""Compare the latency of a paced volume, measured by fio, with the model.

    python benchmarks/pacing_latency.py [--seconds 10] [--only NAME]

Needs root. Below its limits a volume answers after its type's service time (`ServiceTime.quantile`). At a limit, by
Little's law, every I/O takes the number of I/Os in flight divided by the limit. Every line is one run of fio. It shows
the 50th and 99th percentile of the completion latency relative to the model, and the share of the I/Os' time that this
machine added. The aim is 10 % for the 50th percentile and 25 % for the 99th.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from region_under_test import region

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import VolumeSpec, gp2, gp3, io1, io2, st1

AIM_P50, AIM_P99 = 0.10, 0.25


@dataclass(frozen=True)
class Case:
    """A volume with ``depth`` I/Os in flight; ``limit`` is the IOPS limit if they reach it, else 0."""

    spec: VolumeSpec
    depth: int
    limit: float = 0
    rw: str = "randread"
    block: str = "4k"

    def model(self, share: float) -> float:
        """Return the time in seconds that this share of the I/Os does not exceed."""
        if self.limit:
            return self.depth / self.limit
        service = VOLUME_TYPES[self.spec.type].service_time
        return service.quantile(share, Size.parse(self.block).bytes, write=self.way == "write")

    @property
    def way(self) -> str:
        """The direction of fio's result that counts."""
        return "write" if "write" in self.rw else "read"


CASES = {
    "gp3 16,000 IOPS": Case(gp3(size_gib=100, iops=16_000), 1),
    "gp3 16,000 IOPS, writes": Case(gp3(size_gib=100, iops=16_000), 1, rw="randwrite"),
    "gp3 16,000 IOPS, 64 KiB": Case(gp3(size_gib=100, iops=16_000, throughput_mib=1_000), 1, block="64k"),
    "gp3 16,000 IOPS, depth 4": Case(gp3(size_gib=100, iops=16_000), 4),
    "gp3 80,000 IOPS, depth 16": Case(gp3(size_gib=200, iops=80_000), 16),
    "gp3 3,000 IOPS, depth 4": Case(gp3(size_gib=100), 4, 3_000),
    "gp3 6,000 IOPS, depth 64": Case(gp3(size_gib=100, iops=6_000), 64, 6_000),
    "gp3 16,000 IOPS, depth 64": Case(gp3(size_gib=100, iops=16_000), 64, 16_000),
    "gp2 3,000 IOPS": Case(gp2(size_gib=1_000), 1),
    "gp2 3,000 IOPS, depth 64": Case(gp2(size_gib=1_000), 64, 3_000),
    "io1 10,000 IOPS, depth 4": Case(io1(size_gib=200, iops=10_000), 4),
    "io2 64,000 IOPS": Case(io2(size_gib=80, iops=64_000), 1),
    "io2 64,000 IOPS, depth 4": Case(io2(size_gib=80, iops=64_000), 4),
    "io2 1,000 IOPS": Case(io2(size_gib=80, iops=1_000), 1, 1_000),
    "io2 5,000 IOPS, depth 4": Case(io2(size_gib=80, iops=5_000), 4, 5_000),
    "io2 16,000 IOPS, depth 64": Case(io2(size_gib=80, iops=16_000), 64, 16_000),
    "st1 1,000 GiB": Case(st1(size_gib=1_000), 1),
}


def main() -> None:
    """Run the cases and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        with region() as under_test:
            under_test.launch("i-1", iops=400_000, mbit=60_000)
            device = under_test.volume("i-1", case.spec)
            got = under_test.fio(
                "i-1",
                [device],
                f"--rw={case.rw} --bs={case.block} --size=4g --iodepth={case.depth} --ramp_time=1 "
                f"--runtime={arguments.seconds}",
            )
            machine = under_test.region_watch.machine_share(settling_s=1)
        p50, p99 = got[f"{case.way}_p50"], got[f"{case.way}_p99"]
        ratios = p50 / case.model(0.5), p99 / case.model(0.99)
        held = abs(ratios[0] - 1) <= AIM_P50 and abs(ratios[1] - 1) <= AIM_P99
        print(
            f"{name:26} p50 {p50 * 1e3:7.3f} ms, ratio {ratios[0]:.3f}; p99 {p99 * 1e3:7.3f} ms, ratio "
            f"{ratios[1]:.3f}; machine {machine:.1%}; aim {AIM_P50:.0%} and {AIM_P99:.0%}: "
            f"{'held' if held else 'missed'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
