"""Instances have the memory and the processors of their types, and leave no control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from real_plane import RealPlane, running_plane

from pytest_cloudbench import gp3
from pytest_cloudbench.twin.hosts.run_command import Script

pytestmark = pytest.mark.embedded

_MIB = 1024**2
_TAKE = "head -c {mib}M /dev/zero | tail -c {mib}M | wc -c"
"""Keeps all of it in memory until its end."""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A plane with an instance "i-small" of one processor and 512 MiB."""
    with running_plane(RealPlane, tmp_path_factory.mktemp("key")) as plane:
        plane.launch("i-small", vcpus=1, memory_mib=512)
        if not plane.plane.instances.resources("i-small")[1]:
            pytest.skip("this machine permits no control groups of memory")
        yield plane


def test_a_program_gets_no_more_memory_than_the_type_has(small):
    assert small.ssh("i-small", _TAKE.format(mib=300)) == f"{300 * _MIB}\n"
    assert small.ssh("i-small", _TAKE.format(mib=800)) != f"{800 * _MIB}\n"
    assert small.ssh("i-small", "echo lives") == "lives\n"


def test_a_script_of_ssm_has_the_same_limits(small):
    script = Script("c-1", f"nproc; {_TAKE.format(mib=800)}", timeout_s=60)
    end = small.plane.instances.run_script("i-small", script, "us-east-1").wait()
    with end.stdout, end.stderr:
        said = end.stdout.read().decode().split()
    assert said[0] == "1"
    assert said[-1] != f"{800 * _MIB}"


def test_data_on_disks_is_no_memory_of_the_instance(small):
    """The root disk and the volumes are in the memory of this machine."""
    small.plane.volumes.create_disk("vol-1", gp3(size_gib=2, throughput_mib=1_000, iops=4_000))
    device = small.plane.volumes.attach("vol-1", "i-small", "/dev/sdf")
    try:
        write = "dd if=/dev/zero bs=1M count=700 conv=fsync of="
        small.ssh("i-small", f"sudo mkfs.ext4 -q -E nodiscard /dev/{device} && sudo mount /dev/{device} /mnt")
        small.ssh("i-small", f"sudo {write}/mnt/x && sudo umount /mnt")
        small.ssh("i-small", f"for part in 1 2 3; do {write}$part count=200; sleep 0.3; done 2>/dev/null")
        assert small.ssh("i-small", _TAKE.format(mib=300)) == f"{300 * _MIB}\n"
    finally:
        small.ssh("i-small", "rm -f 1 2 3; sudo umount /mnt", check=False)
        assert small.plane.volumes.detach("vol-1")
        small.plane.volumes.delete_disk("vol-1")


def test_an_instance_has_the_processors_of_its_type_or_all_of_the_machine(small):
    small.launch("i-large", vcpus=4_096)
    try:
        assert small.ssh("i-small", "nproc") == "1\n"
        assert small.ssh("i-large", "nproc") == f"{len(os.sched_getaffinity(0))}\n"
        assert small.plane.instances.resources("i-large") == (len(os.sched_getaffinity(0)), False)
    finally:
        small.plane.instances.terminate("i-large")


def test_the_groups_end_with_their_instances(small):
    small.launch("i-brief", memory_mib=512)

    def groups():
        roots = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
        return {path.name for root in roots for path in root.glob(f"{small.plane.slot.name}/i-*")}

    assert groups() == {"i-small", "i-brief"}
    small.plane.instances.stop("i-brief")
    small.plane.instances.start("i-brief")
    small.plane.instances.terminate("i-brief")
    assert groups() == {"i-small"}
