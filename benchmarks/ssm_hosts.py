"""Compare hosts by SSM with hosts by SSH on one embedded region: a command, and output that cannot be compressed.

With `--weather` commands take as long to reach their hosts as on AWS (docs/weather.md).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ways_in import timed

from pytest_cloudbench import launcher
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.hosts.host import Host

COMMANDS = 15
SIZES = (16_000, 256_000, 1_024_000)
BUCKET = "outputs"
MOST_S = 1.0
"""How long a command by SSM may take without weather."""


def main() -> int:
    weather = "--weather" in sys.argv[1:]
    with region("command-delay=1s-3s" if weather else "") as access, tempfile.TemporaryDirectory() as state:
        ssm = replace(access, way_in="ssm", settings=AccountSettings(instance_profile="benchmark"))
        ways = {"SSH": access, "SSM": ssm, "SSM with a bucket": replace(ssm, ssm_bucket=BUCKET)}
        print(f"{'way':20} {'command':>10}" + "".join(f"{f'{size / 1000:,.0f} kB':>12}" for size in SIZES))
        found = {}
        for name, way in ways.items():
            run_id = new_run_id()
            with Cloud(way, run_id, Journal.open(run_id, way, Path(state))) as cloud:
                if way.ssm_bucket:
                    cloud.clients.client("s3").create_bucket(Bucket=BUCKET)
                host = cloud.host(cloud.launch("c5.large"), connect_timeout_s=60)
                host.connect()
                found[name] = measure(host)
            print(
                f"{name:20} {found[name][0]:8.3f} s" + "".join(f"{each:10.2f} s" for each in found[name][1:])
            )
    slowest = found["SSM"][0]
    print(f"a command by SSM: {slowest:.2f} s" + ("" if weather else f", at most {MOST_S:g} s required"))
    return int(slowest > MOST_S and not weather)


@contextmanager
def region(weather: str) -> Iterator[CloudAccess]:
    leased = launcher.start_leased_region([*launcher.under_weather(weather)])
    try:
        record = leased.record
        yield CloudAccess(
            endpoint_url=record.endpoint_url,
            region=record.region,
            access_key=record.access_key,
            secret_key=record.secret_key,
            ssh_from_cidr=record.ssh_from_cidr,
            check_region=leased.check,
        )
    finally:
        leased.close()


def measure(host: Host) -> list[float]:
    """Return the seconds of a command (median), and of one with an output of each size."""
    commands = [timed(lambda: host.run(["true"])) for _ in range(COMMANDS)]
    outputs = [timed(lambda size=size: host.run(["head", "-c", str(size), "/dev/urandom"])) for size in SIZES]
    return [statistics.median(commands), *outputs]


if __name__ == "__main__":
    raise SystemExit(main())
