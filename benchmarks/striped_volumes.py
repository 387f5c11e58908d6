"""Stripes of 2, 3, 5 and 8 volumes against the sum of their volumes, as the plugin reports them.

    python benchmarks/striped_volumes.py [--instance-type c5.18xlarge] [--counts 2 3 5 8] [--iops 1000] [--depth 128]
        [--seconds 10]

Needs what the embedded region needs. Every line is one run of fio on a stripe: random reads of 8 KiB, so many of them
outstanding for each volume. Beside the plugin's figure stands what the volumes' own counters in /sys say, from outside
the instance, over any window of almost that length: the first is what a user sees, the second whether the limits were
held. The bar is 2 %, of the sum or, where the instance allows less, of the instance's own limit: with
`--instance-type m2.4xlarge --iops 3000` that binds from three volumes on.

How many are outstanding matters. A closed load shares them among all volumes; by chance one volume now and then has
none of them and serves nothing meanwhile. With D of them on n volumes that costs about (n - 1) / 2D.
"""

from __future__ import annotations

import argparse
import sys

from pytest_session import run_session

_IOPS_PER_GIB = 50
_SMALLEST_GIB = 20

TEST = """
import pytest
from kernel_counters import DiskWatch
from pytest_cloudbench import io1
from pytest_cloudbench.limits.quantities import Size


@pytest.mark.ec2_instance("{instance_type}")
@pytest.mark.parametrize("count", {counts})
def test_it(ec2, ec2_instance, fio, count):
    volumes = ec2.create_volumes(io1(size_gib={size_gib}, iops={iops}), ec2_instance, count=count)
    stripe = volumes.striped(chunk="64k")
    listed = [ec2_instance.run(["lsblk", "-dno", "MAJ:MIN", volume.path]).stdout.strip() for volume in volumes]
    asked = count * {iops}
    wanted = stripe.envelope(Size.parse("8k"), sequential=False).promised.limit_iops.per_second
    binds = "the volumes" if wanted >= asked else "{instance_type}"
    load = dict(rw="randread", bs="8k", iodepth={depth} * count, runtime={seconds}, ramp_time={ramp})
    fio(stripe, **load | {{"runtime": 2}})  # lays out the file
    for _ in range({rounds}):
        with DiskWatch(listed).watching() as watch:
            run = fio(stripe, **load)
        rates = watch.rates({seconds} - 2, size=False, settling_s={ramp})
        seconds = [rate.per_second for rate in run.series.iops]
        print(
            f"{{count}} x {iops:,} IOPS, {{count * {depth}:4}} outstanding: {{run.iops:9,.1f}} of {{wanted:8,.0f}} "
            f"by {{binds}}, ratio "
            f"{{run.iops / wanted:.4f}}; seconds {{min(seconds) / wanted:.3f}} to {{max(seconds) / wanted:.3f}}; by "
            f"the kernel's counters {{min(rates) / wanted:.4f}} to {{max(rates) / wanted:.4f}}"
        )
"""


def main() -> None:
    """Run them one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instance-type", default="c5.18xlarge")
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 3, 5, 8])
    parser.add_argument("--iops", type=int, default=1_000)
    parser.add_argument("--depth", type=int, default=128, help="outstanding I/Os for each volume")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--ramp", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    size_gib = max(_SMALLEST_GIB, -(-options.iops // _IOPS_PER_GIB))
    sys.exit(run_session(TEST.format(**vars(options), size_gib=size_gib)).returncode)


if __name__ == "__main__":
    main()
