"""Buffered writes against direct ones: both must be held to the volume's limit, and counted as held back.

    python benchmarks/buffered_writes.py [--seconds 8] [--only NAME]

Needs root. Every line writes as much as the volume takes in so many seconds: directly, or into the page cache, of
which the sync that follows is timed. "Above the limit" is what log page 0xD0 says of that time.
The aim: rates within 2 % of the limit; counters at least 90 % of the time.
"""

from __future__ import annotations

import argparse
import time

from region_under_test import Region, region

from pytest_cloudbench.limits.quantities import MIB
from pytest_cloudbench.limits.volumes import gp3, io1

FIO_STARTS_S = 0.3
VOLUMES = {
    "gp3 125 MiB/s": (gp3(size_gib=20), 125.0, True),
    "io1 1,000 IOPS": (io1(size_gib=20, iops=1_000), 1_000.0, False),
}


def run(name: str, kind: str, seconds: float) -> str:
    """Write in one way on one volume, on XFS; the line about it."""
    spec, limit, size = VOLUMES[name]
    with region() as under_test:
        under_test.launch("i-1", iops=80_000, mbit=19_000)
        device = under_test.volume("i-1", spec)
        mounted = f"mkfs.xfs -q -K {device} && mkdir -p /data && mount {device} /data && chown ec2-user /data"
        under_test.ssh("i-1", f"sudo sh -c '{mounted}'")
        # For I/Os with gaps between, so that write-back cannot put them together: a file of five times as much.
        amount = int(limit * seconds) * (MIB if size else 16 * 1024)
        file_size = amount if size else 5 * amount
        how = "--rw=write --bs=1m" if size else "--rw=write:64k --bs=16k"
        how += " --direct=1 --ioengine=libaio --iodepth=32" if kind == "direct" else " --direct=0"
        # Laid out with data before, so that nothing but the data is written while it is measured.
        under_test.ssh(
            "i-1", f"dd if=/dev/zero of=/data/f bs=1M count={file_size // MIB} oflag=direct && sync -f /data"
        )
        time.sleep(2)
        before = exceeded(under_test)
        fio = f"fio --output-format=json --name=b --filename=/data/f --size={file_size} --io_size={amount} {how}"
        now = "date +%s.%N"
        timed = (
            f"{now}; {fio} > result; {now}"
            if kind == "direct"
            else f"{fio} > result; {now}; sync -f /data; {now}"
        )
        began, ended = (float(text) for text in under_test.ssh("i-1", timed).split())
        counted = [after - earlier for after, earlier in zip(exceeded(under_test), before, strict=True)]
    lasted = ended - began - (FIO_STARTS_S if kind == "direct" else 0.0)
    rate = limit * seconds / lasted
    unit = "MiB/s" if size else "IOPS"
    return (
        f"{name:16} {kind:9} {rate:9,.2f} of {limit:9,.2f} {unit:5} ratio {rate / limit:.4f}; above the limit for "
        f"{counted[0]:.2f} s (IOPS) and {counted[1]:.2f} s (throughput) of {lasted:.2f} s"
    )


def exceeded(under_test: Region) -> tuple[float, float]:
    """Seconds above the volume's IOPS and above its throughput, so far."""
    done = under_test.plane.volumes.storage_activity()[0][0].done
    return done.volume_iops_exceeded_s, done.volume_throughput_exceeded_s


def main() -> None:
    """Run them one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name in VOLUMES:
        for kind in ("direct", "buffered"):
            if options.only in f"{name} {kind}":
                print(run(name, kind, options.seconds), flush=True)


if __name__ == "__main__":
    main()
