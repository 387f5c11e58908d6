"""Compare buffered with direct writes: both must be limited to the volume's limit and counted as throttled.

    python benchmarks/buffered_writes.py [--seconds 8] [--only NAME]

Needs root. Every line writes as much as the volume takes in `--seconds`: directly, or into the page cache, where the
following sync is timed. "Above the limit" is the time that log page 0xD0 counts.
Required: rates within 2 % of the limit, and at least 90 % of the time counted.
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
    """Write directly or buffered to one volume with XFS; return the line to print."""
    spec, limit, size = VOLUMES[name]
    with region() as under_test:
        under_test.launch("i-1", iops=80_000, mbit=19_000)
        device = under_test.volume("i-1", spec)
        mounted = f"mkfs.xfs -q -K {device} && mkdir -p /data && mount {device} /data && chown ec2-user /data"
        under_test.ssh("i-1", f"sudo sh -c '{mounted}'")
        # The file is five times as large, so that gaps between the I/Os keep write-back from merging them.
        amount = int(limit * seconds) * (MIB if size else 16 * 1024)
        file_size = amount if size else 5 * amount
        how = "--rw=write --bs=1m" if size else "--rw=write:64k --bs=16k"
        how += " --direct=1 --ioengine=libaio --iodepth=32" if kind == "direct" else " --direct=0"
        # Written once before, so that the measurement writes only data and no metadata.
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
    """Return the seconds above the volume's IOPS and above its throughput so far."""
    done = under_test.plane.volumes.storage_activity()[0][0].done
    return done.volume_iops_exceeded_s, done.volume_throughput_exceeded_s


def main() -> None:
    """Run the selected cases one after another."""
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
