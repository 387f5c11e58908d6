"""A region that serves in a process of its own, for benchmarks of its API."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import boto3
from botocore.config import Config

PARAMETER = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"


@dataclass
class ServingRegion:
    """The endpoint of a region with its key, and its process's id."""

    url: str
    key_id: str
    secret: str
    pid: int
    pipe: Connection

    def client(self, service: str, **config: Any) -> Any:
        """Return a client of the region. ``config`` is botocore's."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.key_id,
            aws_secret_access_key=self.secret,
            config=Config(retries={"max_attempts": 0}, read_timeout=120, **config),
        )

    def image(self) -> str:
        """Return the id of an image for x86_64, whose root device is /dev/sda1."""
        found: str = self.client("ssm").get_parameter(Name=PARAMETER)["Parameter"]["Value"]
        return found

    def launch(self, ec2: Any, count: int) -> list[str]:
        """Launch m5.large instances; return their ids when they run."""
        asked = {"ImageId": self.image(), "InstanceType": "m5.large", "MinCount": count, "MaxCount": count}
        ids = [one["InstanceId"] for one in ec2.run_instances(**asked)["Instances"]]
        ec2.get_waiter("instance_running").wait(
            InstanceIds=ids, WaiterConfig={"Delay": 1, "MaxAttempts": 300}
        )
        return ids

    def renew(self) -> None:
        """Replace the region by an empty one at the same endpoint."""
        self.pipe.send("renew")
        self.pipe.recv()


@contextlib.contextmanager
def serving_region() -> Iterator[ServingRegion]:
    """Serve a region in another process until the block ends."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,))
    process.start()
    there.close()
    try:
        url, key_id, secret = here.recv()
        yield ServingRegion(url, key_id, secret, process.pid or 0, here)
    finally:
        here.close()  # ends the region
        process.join(120)


def _serve(pipe: Connection) -> None:
    from pytest_cloudbench.twin.api.front import Front, build_region
    from pytest_cloudbench.twin.inventory import PlaneError
    from pytest_cloudbench.twin.plane import Plane
    from pytest_cloudbench.twin.regions import sweep_slot
    from pytest_cloudbench.twin.slots import take_slot

    logging.getLogger("pytest_cloudbench").setLevel(logging.CRITICAL)  # tests end hosts that still boot
    slot = take_slot(sweep_slot)
    front = Front()
    front.start()
    plane = Plane(slot)
    try:
        front.open(plane)
        front.region()  # loads moto
        pipe.send((front.url, front.access_key.key_id, front.access_key.secret))
        while pipe.recv() == "renew":
            front.region().close()
            with contextlib.suppress(PlaneError):  # an instance ends by itself meanwhile
                plane.close()
            plane = Plane(slot)
            front._region = build_region(plane)
            pipe.send("renewed")
    except EOFError:
        pass
    finally:
        front.close()
        plane.close()
        slot.release()
