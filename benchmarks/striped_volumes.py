"""Compare stripes of 2, 3, 5 and 8 volumes with the sum of their volumes, as the plugin reports them.

    python benchmarks/striped_volumes.py [--instance-type c5.18xlarge] [--counts 2 3 5 8] [--iops 1000] [--depth 128]
        [--seconds 10]

Needs an embedded region. Every line is one run of fio on a stripe: random reads of 8 KiB, with `--depth` I/Os in flight
per volume. Two figures are shown. The plugin's figure is what a user sees. The volumes' counters in /sys, read outside
the instance over windows of almost the run's length, show whether the limits were held. The requirement is 2 % of the
sum, or of the instance's limit if that is lower: with `--instance-type m2.4xlarge --iops 3000` that is the case from
three volumes on.

The number of I/Os in flight matters. A closed load spreads them over all volumes, so a volume sometimes has none by
chance and is idle. With D I/Os in flight on n volumes that costs about (n - 1) / 2D.
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
    limit = stripe.envelope(Size.parse("8k"), sequential=False).promised.limit_iops.per_second
    limited_by = "the volumes" if limit >= asked else "{instance_type}"
    load = dict(rw="randread", bs="8k", iodepth={depth} * count, runtime={seconds}, ramp_time={ramp})
    fio(stripe, **load | {{"runtime": 2}})  # lays out the file
    for _ in range({rounds}):
        with DiskWatch(listed).watching() as watch:
            run = fio(stripe, **load)
        rates = watch.rates({seconds} - 2, size=False, settling_s={ramp})
        seconds = [rate.per_second for rate in run.series.iops]
        print(
            f"{{count}} x {iops:,} IOPS, {{count * {depth}:4}} in flight: {{run.iops:9,.1f}} of {{limit:8,.0f}}, "
            f"limited by {{limited_by}}, ratio "
            f"{{run.iops / limit:.4f}}; seconds {{min(seconds) / limit:.3f}} to {{max(seconds) / limit:.3f}}; by "
            f"the kernel's counters {{min(rates) / limit:.4f}} to {{max(rates) / limit:.4f}}"
        )
"""


def main() -> None:
    """Run fio on each stripe and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instance-type", default="c5.18xlarge")
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 3, 5, 8])
    parser.add_argument("--iops", type=int, default=1_000)
    parser.add_argument("--depth", type=int, default=128, help="I/Os in flight per volume")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--ramp", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    size_gib = max(_SMALLEST_GIB, -(-options.iops // _IOPS_PER_GIB))
    sys.exit(run_session(TEST.format(**vars(options), size_gib=size_gib)).returncode)


if __name__ == "__main__":
    main()
