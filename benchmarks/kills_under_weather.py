"""Kill runs with SIGKILL at random moments under weather, start none again, and list what is billed after their leases.

A lease of seconds stands for one of an hour. Each run has a state folder of its own, so none finds the journal of
another one. Needs an embedded region. The exit code is 0 if nothing is billed at the end, else 1.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.launcher import LeasedRegion, start_leased_region, under_weather

TEST = """
import pytest
from pytest_cloudbench import gp3
from pytest_cloudbench.aws import cloud

cloud.SHORTEST_ON_AWS_S = 0  # the lease here is shorter than one that AWS may be asked for

@pytest.mark.ec2_instance("c5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=4), count=3)
def test_everything(ec2, ec2_instance, ebs_volumes, fio):
    second = ec2.launch("c5.large")
    volume = ec2.create_volume(gp3(size_gib=4), second)
    fio(ebs_volumes[0], rw="randread", bs="4k", iodepth=4, runtime=2, ramp_time=0)
    volume.detach()
"""
MARGIN_S = 15.0  # for the end of instances, which the weather delays


@dataclass(frozen=True)
class Runs:
    """Runs of the test on one region."""

    region: LeasedRegion
    lease_s: float
    folder: Path

    def start(self, number: int) -> subprocess.Popen[str]:
        """Start one run in a process group of its own."""
        record = self.region.record
        home = self.folder / str(number)
        home.mkdir()
        (home / "test_it.py").write_text(TEST)
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
                *("--cloudbench-cloud=aws", "--cloudbench-pace=quick", "--cloudbench-evidence=off"),
                *("--cloudbench-address=private", f"--cloudbench-ssh-from={record.ssh_from_cidr}"),
                f"--cloudbench-lease={self.lease_s:g}s",
            ],
            cwd=home,
            env={**os.environ, **record.environment(), "XDG_STATE_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def kill_after(self, number: int, seconds: float) -> str:
        """Kill a run after some seconds; return a line with its id and what of it was billed at that moment."""
        run = self.start(number)
        try:
            run.communicate(timeout=seconds)
            how = "ended before"
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            how = "killed after"
        journals = [path.stem for path in self.folder.glob(f"{number}/cloudbench/journal/*.jsonl")]
        left = dict(billed(self.region, journals)) if journals else {}
        return f"{number:3}: run {', '.join(journals) or '-'} {how} {seconds:4.1f} s, billed {left}"


def client(region: LeasedRegion) -> Any:
    """Return a client that asks until the weather lets it through."""
    import boto3
    from botocore.config import Config

    record = region.record
    return boto3.client(
        "ec2",
        endpoint_url=record.endpoint_url,
        region_name=record.region,
        aws_access_key_id=record.access_key,
        aws_secret_access_key=record.secret_key,
        config=Config(retries={"mode": "standard", "total_max_attempts": 20}),
    )


def billed(region: LeasedRegion, runs: Sequence[str] = ("*",)) -> Counter[str]:
    """Count what of these runs costs money, by kind."""
    ec2, ours = client(region), [{"Name": "tag:cloudbench:run", "Values": list(runs)}]
    reservations = ec2.describe_instances(Filters=ours)["Reservations"]
    states = [each["State"]["Name"] for one in reservations for each in one["Instances"]]
    return Counter(
        {
            "instances": sum(state not in ("shutting-down", "terminated") for state in states),
            "volumes": len(ec2.describe_volumes(Filters=ours)["Volumes"]),
            "snapshots": len(ec2.describe_snapshots(Filters=ours)["Snapshots"]),
        }
    )


def main() -> int:
    """Kill the runs, wait for the leases, and list what is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, metavar="N", help="default: %(default)s")
    parser.add_argument("--weather", default="aws,speed=20", help="default: %(default)s")
    parser.add_argument("--lease", type=float, default=20.0, metavar="SECONDS", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=3, help="runs at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: %(default)s)")
    asked = parser.parse_args()
    moments = random.Random(asked.seed)
    region = start_leased_region(under_weather(asked.weather))
    try:
        with tempfile.TemporaryDirectory() as name:
            runs = Runs(region, asked.lease, Path(name))
            began = time.monotonic()
            whole = runs.start(0)
            said, _ = whole.communicate(timeout=300)
            length_s = time.monotonic() - began
            print(f"a whole run: {length_s:.1f} s, exit code {whole.returncode}; then {dict(billed(region))}")
            if whole.returncode != 0:
                print(said)
                return 1
            times = [moments.uniform(0.1, 0.95) * length_s for _ in range(asked.kills)]
            with ThreadPoolExecutor(asked.workers) as pool:
                for line in pool.map(runs.kill_after, range(1, asked.kills + 1), times):
                    print(line, flush=True)
            left = until_nothing_is_billed(region, asked.lease + MARGIN_S)
            volumes = described_volumes(region)
    finally:
        region.close()
    print(f"{asked.kills} kills; billed after the leases: {dict(left)}")
    for line in volumes:
        print(f"    {line}")
    return 0 if not left.total() else 1


def described_volumes(region: LeasedRegion) -> list[str]:
    """Return the volumes that exist, and which run created each."""
    lines = []
    volumes = client(region).describe_volumes(MaxResults=1000)["Volumes"]
    for volume in sorted(volumes, key=lambda each: each["CreateTime"]):
        run = next((tag["Value"] for tag in volume.get("Tags", []) if tag["Key"] == "cloudbench:run"), "")
        lines.append(
            f"{volume['VolumeId']} {volume['State']}, {volume['Size']} GiB, {volume['CreateTime']:%T}, run {run}"
        )
    return lines


def until_nothing_is_billed(region: LeasedRegion, limit_s: float) -> Counter[str]:
    """Return what is billed after the time limit, or earlier if that is nothing."""
    deadline = time.monotonic() + limit_s
    while (left := billed(region)).total() and time.monotonic() < deadline:
        time.sleep(1)
    return left


if __name__ == "__main__":
    sys.exit(main())
