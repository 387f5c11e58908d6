"""A region's plane on this machine, and OpenSSH's own client to its instances."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_cloudbench.twin.hosts.hosts import HostPlan
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.regions import sweep_slot
from pytest_cloudbench.twin.slots import take_slot

# The plane is the inside of the region's own process; a plain user meets it through sudo, end to end.
NEEDS = "needs root"
HAS_WHAT_IT_NEEDS = os.geteuid() == 0


class RealPlane:
    """A plane with the calls that tests need."""

    def __init__(self, plane, key):
        self.plane = plane
        self.key = key
        self.public_key = key.with_suffix(".pub").read_text()
        self.addresses = {}

    def launch(self, instance_id, instance_type="test", *, zone=0, user="ec2-user", **plan):
        """Boot an instance; ``plan`` has further fields of its `HostPlan`, and what happens when it shuts down."""
        more = {"on_shutdown": plan.pop("on_shutdown")} if "on_shutdown" in plan else {}
        address = self.addresses[instance_id] = self.plane.network.take_address(zone)
        hostname = f"ip-{address.replace('.', '-')}.ec2.internal"
        keys = (self.public_key,)
        host = HostPlan(instance_id, instance_type, address, hostname, user, keys, **plan)
        self.plane.instances.boot(host, **more)

    def command(self, instance_id, command, *, user="ec2-user"):
        """Return the command line that runs a command in an instance."""
        return [
            "ssh", "-i", str(self.key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10", f"{user}@{self.addresses[instance_id]}", command,
        ]  # fmt: skip

    def ssh(self, instance_id, command, *, user="ec2-user", check=True, text=True):
        """Run a command in an instance and return its output."""
        line = self.command(instance_id, command, user=user)
        done = subprocess.run(line, capture_output=True, text=text, timeout=60, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{command!r}: {done.stdout!r} {done.stderr!r}")
        return done.stdout


@contextlib.contextmanager
def running_plane(kind, folder, **options):
    """Yield a new plane as a `RealPlane` of this kind; ``options`` are those of `Plane`."""
    if not HAS_WHAT_IT_NEEDS:
        pytest.skip(NEEDS)
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    slot = take_slot(sweep_slot)
    try:
        plane = Plane(slot, **options)
        try:
            yield kind(plane, key)
        finally:
            plane.close()
            plane.close()
        # As long as the slot is ours: the next region may take it at once.
        assert not (Path("/sys/class/net") / slot.interface).exists()
    finally:
        slot.release()


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
