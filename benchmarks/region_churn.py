"""The memory of a region while instances and volumes come and go.

Instances are launched, get a volume, are described and terminated, over and over. The resident memory of the region's
process is printed once a minute; what counts is its growth after the first fifth of the time, per thousand instances.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from region_process import ServingRegion, serving_region


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, in MiB, without memory that it shares (the data of volumes)."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return int(status["RssAnon"].split()[0]) / 1024


def one_life(region: ServingRegion, number: int) -> None:
    ec2 = region.client("ec2")
    [instance] = region.launch(ec2, 1)
    volume = ec2.create_volume(
        AvailabilityZone=ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0][
            "Placement"
        ]["AvailabilityZone"],
        Size=1,
        VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "number", "Value": str(number)}]}],
    )["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 1})
    ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    ec2.describe_volumes()
    ec2.terminate_instances(InstanceIds=[instance])
    ec2.get_waiter("instance_terminated").wait(
        InstanceIds=[instance], WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    ec2.delete_volume(VolumeId=volume)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--side-by-side", type=int, default=2, help="instances at a time (2)")
    options = parser.parse_args()
    with serving_region() as region, ThreadPoolExecutor(options.side_by_side) as pool:
        began = time.monotonic()
        samples = [(0, 0.0, resident_mib(region.pid))]
        lives = 0
        print(f"{'minutes':>8} {'instances':>10} {'MiB':>7}")
        while (elapsed := time.monotonic() - began) < options.minutes * 60:
            list(
                pool.map(lambda number: one_life(region, number), range(lives, lives + options.side_by_side))
            )
            lives += options.side_by_side
            if elapsed >= (len(samples) - 1) * 60:
                samples.append((lives, elapsed / 60, resident_mib(region.pid)))
                print(f"{elapsed / 60:8.1f} {lives:10} {samples[-1][2]:7.1f}", flush=True)
        samples.append((lives, options.minutes, resident_mib(region.pid)))
    settled = next(one for one in samples if one[1] >= options.minutes / 5)
    grown = samples[-1][2] - settled[2]
    more = samples[-1][0] - settled[0]
    if not more:
        sys.exit("too short: no instance ended after the first fifth of the time")
    print(
        f"{lives} instances in {options.minutes:g} minutes: {samples[-1][2]:.1f} MiB at the end, {grown:+.1f} MiB "
        f"since minute {settled[1]:.1f} ({grown / more * 1000:+.0f} MiB for a thousand instances)"
    )


if __name__ == "__main__":
    main()
