"""Count the API calls of a run with ten instances and forty volumes, and how many of them EC2 would throttle.

    python benchmarks/control_plane_calls.py [--runs 4] [--instances 10] [--volumes 40]

A stand-in for the service, moto on loopback, keeps the resources. What it describes is delayed as on EC2: instances
take 10 to 30 s to run and 30 to 60 s to end, volumes and attachments 3 to 6 s. Every request is counted. Buckets of
tokens per action say how many Describe calls EC2 would have refused: 100 tokens, refilled at 20 a second (EC2 API
Reference, "Request throttling"). They refuse nothing here. Waits have the pace that they have on AWS.

To compare with another version, put its folder first into PYTHONPATH.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.facts import Launch

TOKENS, TOKENS_A_SECOND = 100.0, 20.0
RUNS_S, ENDS_S, DISK_S = (10.0, 30.0), (30.0, 60.0), (3.0, 6.0)


class FarAway(CloudAccess):
    """An endpoint on this machine that counts as one of AWS's."""

    is_loopback = False  # type: ignore[assignment]


class Service:
    """Counts all requests of all runs, and delays what the answers describe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.in_second: Counter[tuple[str, int]] = Counter()
        self.refused: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = defaultdict(lambda: (TOKENS, time.monotonic()))
        self._since: dict[tuple[str, str], float] = {}

    def watch(self, cloud: Cloud) -> None:
        events = cloud.clients.client("ec2").meta.events
        events.register("before-send.ec2", self._count)
        for operation in ("RunInstances", "TerminateInstances", "CreateVolume", "AttachVolume"):
            events.register(f"after-call.ec2.{operation}", getattr(self, f"_after_{operation}"))
        events.register("after-call.ec2.DescribeInstances", self._delay_instances)
        events.register("after-call.ec2.DescribeVolumes", self._delay_volumes)

    def _count(self, request: Any, event_name: str, **_: Any) -> None:
        action, now = event_name.rpartition(".")[2], time.monotonic()
        with self.lock:
            self.calls[action] += 1
            self.in_second[action, int(now)] += 1
            if action.startswith("Describe"):
                tokens, then = self._buckets[action]
                tokens = min(TOKENS, tokens + (now - then) * TOKENS_A_SECOND)
                self.refused[action] += tokens < 1
                self._buckets[action] = (tokens - (tokens >= 1), now)

    def _mark(self, what: str, resource_id: str) -> None:
        self._since.setdefault((what, resource_id), time.monotonic())

    def _is_over(self, what: str, resource_id: str, bounds: tuple[float, float]) -> bool:
        since = self._since.get((what, resource_id))
        lasts = random.Random(f"{what} {resource_id}").uniform(*bounds)
        return since is None or time.monotonic() - since >= lasts

    def _after_RunInstances(self, parsed: Any, **_: Any) -> None:
        for one in parsed.get("Instances", []):
            self._mark("run", one["InstanceId"])

    def _after_TerminateInstances(self, parsed: Any, **_: Any) -> None:
        for one in parsed.get("TerminatingInstances", []):
            self._mark("end", one["InstanceId"])

    def _after_CreateVolume(self, parsed: Any, **_: Any) -> None:
        if "VolumeId" in parsed:
            self._mark("create", parsed["VolumeId"])

    def _after_AttachVolume(self, parsed: Any, **_: Any) -> None:
        if "VolumeId" in parsed:
            self._mark("attach", parsed["VolumeId"])

    def _delay_instances(self, parsed: Any, **_: Any) -> None:
        for one in [each for group in parsed.get("Reservations", []) for each in group["Instances"]]:
            if one["State"]["Name"] == "running" and not self._is_over("run", one["InstanceId"], RUNS_S):
                one["State"] = {"Code": 0, "Name": "pending"}
            if one["State"]["Name"] == "terminated" and not self._is_over("end", one["InstanceId"], ENDS_S):
                one["State"] = {"Code": 32, "Name": "shutting-down"}

    def _delay_volumes(self, parsed: Any, **_: Any) -> None:
        for one in parsed.get("Volumes", []):
            if one["State"] == "available" and not self._is_over("create", one["VolumeId"], DISK_S):
                one["State"] = "creating"
            if not self._is_over("attach", one["VolumeId"], DISK_S):
                for attachment in one.get("Attachments", []):
                    attachment["State"] = "attaching"


def one_run(service: Service, endpoint: str, journals: Path, instances: int, volumes: int) -> None:
    access = FarAway(
        endpoint_url=endpoint,
        region="us-east-1",
        access_key="AKIAEXAMPLE",
        secret_key="none",
        ssh_from_cidr="203.0.113.7/32",
    )
    run_id = new_run_id()
    cloud = Cloud(access, run_id, Journal.open(run_id, access, journals))
    service.watch(cloud)
    with cloud:
        launched = cloud.launch_many([Launch("c5.18xlarge")] * instances)
        share = volumes // instances

        def with_volumes(instance: Any) -> None:
            cloud.attach_all(cloud.create_volumes([gp3(size_gib=1)] * share, instance=instance), instance)

        with ThreadPoolExecutor(instances) as pool:
            list(pool.map(with_volumes, launched))
        print(f"run {run_id}: {instances} instances and {volumes} volumes are there", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1, help="runs side by side, in one account (1)")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--volumes", type=int, default=40)
    options = parser.parse_args()
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    service, began = Service(), time.monotonic()
    failures = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.runs) as pool:
        arguments = (service, f"http://{host}:{port}", Path(folder), options.instances, options.volumes)
        for run in [pool.submit(one_run, *arguments) for _ in range(options.runs)]:
            if (error := run.exception()) is not None:
                failures += 1
                print(f"failed: {error}")
    took_s = time.monotonic() - began
    server.stop()
    print(f"{'action':32} {'calls':>6} {'at most in 1 s':>15} {'EC2 refuses':>12}")
    for action, count in service.calls.most_common():
        peak = max(many for (name, _), many in service.in_second.items() if name == action)
        print(f"{action:32} {count:6} {peak:15} {service.refused[action] or '':>12}")
    print(
        f"{'all':32} {sum(service.calls.values()):6}, {options.runs} runs, {failures} failed, {took_s:.0f} s, "
        f"{sum(service.refused.values())} refused"
    )


if __name__ == "__main__":
    main()
