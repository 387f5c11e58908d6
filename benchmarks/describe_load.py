"""Describe calls of many threads at once: how long the region takes to answer.

A region with --instances instances and --volumes volumes serves in another process. Threads of boto3 share one client
and call DescribeInstances, DescribeVolumes and DescribeInstanceStatus in turn. Times are those of the callers, so they
include the client's own work. Exit code 1 if the 99th percentile is 2 s or more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from region_process import serving_region

LIMIT_S = 2.0
ACTIONS = ("describe_instances", "describe_volumes", "describe_instance_status")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--volumes", type=int, default=40)
    options = parser.parse_args()
    with serving_region() as region:
        ec2 = region.client("ec2", max_pool_connections=options.threads)
        region.launch(ec2, options.instances)
        for _ in range(options.volumes):
            ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")

        def call(number: int) -> float:
            began = time.perf_counter()
            getattr(ec2, ACTIONS[number % len(ACTIONS)])()
            return time.perf_counter() - began

        alone = statistics.median(call(number) for number in range(30))
        began = time.perf_counter()
        with ThreadPoolExecutor(options.threads) as pool:
            times = sorted(pool.map(call, range(options.calls)))
        took = time.perf_counter() - began
    p99 = times[int(0.99 * len(times))]
    print(
        f"{options.instances} instances, {options.volumes} volumes; one caller: {alone * 1000:.1f} ms (median)"
    )
    print(
        f"{options.calls} calls by {options.threads} threads in {took:.1f} s ({options.calls / took:.0f} a second): "
        f"median {statistics.median(times):.2f} s, p99 {p99:.2f} s, longest {times[-1]:.2f} s"
    )
    sys.exit(p99 >= LIMIT_S)


if __name__ == "__main__":
    main()
