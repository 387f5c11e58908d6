"""An instance of a region's plane with paced volumes, and a shell inside it."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.twin.hosts.hosts import HostPlan


class Instance:
    """An instance of a region, and a shell inside it as root."""

    def __init__(self, plane, instance_id):
        self.plane = plane
        self.id = instance_id
        self.volumes = []
        limit = EbsLimit(Iops(80_000), Throughput.from_mbit(19_000))
        plane.instances.boot(
            HostPlan(
                instance_id,
                "c5.18xlarge",
                plane.network.take_address(0),
                "h",
                "ec2-user",
                (),
                ebs_limit=limit,
            )
        )

    def volume(self, spec):
        """Make and attach a volume; return its id and its device."""
        volume_id = f"vol-{self.id[2:]}-{len(self.volumes)}"
        self.plane.volumes.create_disk(volume_id, spec)
        self.volumes.append(volume_id)
        return volume_id, self.attach(volume_id)

    def attach(self, volume_id):
        return "/dev/" + self.plane.volumes.attach(volume_id, self.id, "/dev/sdf")

    def start(self, command, *, before=""):
        """Start a shell command in the instance; ``before`` runs outside, in the same process."""
        init = self.plane._inventory.instances[self.id].host.init_pid
        inside = f"exec nsenter -t {init} -a sh -c {shlex.quote(command)}"
        return subprocess.Popen(
            ["sh", "-c", f"{before}{inside}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, command, *, seconds=30):
        """Run a shell command in the instance and return its output. It must succeed in time."""
        return finished(self.start(command), seconds=seconds)

    def fio(self, device, options):
        """Start fio on a device."""
        return self.start(
            f"fio --name=t --filename={device} --ioengine=libaio --direct=1 --allow_file_create=0 "
            f"--output-format=json {options}"
        )

    @property
    def server(self):
        return self.plane._inventory.instances[self.id].paced.process

    def figures(self, volume_id):
        """Return the counters of a volume since it was made."""
        volumes, _ = self.plane.volumes.storage_activity()
        return next(volume for volume in volumes if volume.volume_id == volume_id)

    def loop(self, volume_id):
        return self.plane._inventory.volumes[volume_id].disk.loop

    def allocated(self, volume_id):
        """Return the bytes that a volume's data use."""
        return os.fstat(self.plane._inventory.volumes[volume_id].disk.descriptor).st_blocks * 512

    def stuck(self):
        """Return the instance's processes in uninterruptible sleep, which wait for a disk."""
        namespace = os.readlink(
            f"/proc/{self.plane._inventory.instances[self.id].host.init_pid}/ns/pid_for_children"
        )
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns/pid") == namespace:
                    name, _, fields = (process / "stat").read_text().rpartition(") ")
                    found += [name] if fields[0] == "D" else []
            except OSError:
                continue  # it has ended meanwhile
        return found

    def close(self):
        self.plane.instances.terminate(self.id)
        for volume_id in self.volumes:
            self.plane.volumes.delete_disk(volume_id)


def finished(process, *, seconds=30, fails=False):
    """Wait for a process and return its output. It must succeed, or fail, in time."""
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()  # what it started inside ends with the instance
        process.wait()
        raise AssertionError(f"{process.args} did not end within {seconds} s") from None
    assert (process.returncode != 0) is fails, text
    return text


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
