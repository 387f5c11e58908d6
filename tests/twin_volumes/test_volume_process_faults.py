"""Instances, volumes and this machine when the process that paces volumes is killed, stopped or cannot be ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from paced_instance import Instance, finished, wait_until

from pytest_cloudbench.limits.quantities import GIB, MIB
from pytest_cloudbench.limits.volumes import gp2, gp3, io2
from pytest_cloudbench.twin.regions import sweep
from pytest_cloudbench.twin.volumes import disks, volume_process
from pytest_cloudbench.twin.volumes.volume_process import VolumeProcessError

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
    ),
]

FAST = io2(size_gib=64, iops=64_000)
MEMORY_CGROUP = Path("/sys/fs/cgroup/memory")
WITHOUT_END = "--time_based --runtime=60"
WRITE_UNTIL_IT_FAILS = "while dd if=/dev/zero of=/mnt/x bs=1M count=64 conv=fsync; do :; done; exit 1"


def ended(pid):
    """Return True if a process has ended, also as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def has_file(number):
    """Return True if a file is bound to a loop device."""
    return Path(f"/sys/block/loop{number}/loop").exists()


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


# --- the process ends or stops -----------------------------------------------------------------------------


@pytest.mark.fault("disks", "the process behind the volumes is killed")
@pytest.mark.parametrize("make", ["mkfs.ext4 -q -E nodiscard", "mkfs.xfs -q -K"])
def test_a_killed_process_fails_all_io_and_the_next_attachment_starts_another(instance, make):
    needs(make.partition(" ")[0])
    raw_id, raw = instance.volume(gp2(size_gib=100))
    mounted_id, mounted = instance.volume(FAST)
    instance.run(f"{make} {mounted} && mount {mounted} /mnt && echo kept > /mnt/kept && sync")
    load = instance.fio(raw, f"--rw=randrw --bs=4k --size=64m --iodepth=32 {WITHOUT_END}")
    writer = instance.start(WRITE_UNTIL_IT_FAILS)
    wait_until(lambda: instance.figures(raw_id).done.read_ops > 500, "a loaded volume", seconds=30)
    before = instance.figures(raw_id)
    loops = [instance.loop(volume_id).number for volume_id in (raw_id, mounted_id)]
    first = instance.server.pid

    os.kill(first, signal.SIGKILL)
    killed = time.monotonic()
    assert "Input/output error" in finished(load, seconds=5, fails=True)
    finished(writer, seconds=5, fails=True)
    assert time.monotonic() - killed < 3
    instance.run("umount /mnt", seconds=5)
    assert instance.stuck() == []
    for volume_id in (raw_id, mounted_id):
        assert instance.plane.volumes.detach(volume_id) is True
    for number in loops:
        wait_until(lambda number=number: not has_file(number), "the loop device is let go")

    after = instance.figures(raw_id)
    assert after.done.read_ops >= before.done.read_ops
    assert after.done.queue_length == 0
    assert before.burst_balance < 99.99
    # A volume that is not in use earns credits again.
    assert before.burst_balance - 0.1 < after.burst_balance < 100
    assert instance.attach(raw_id) == raw
    assert instance.attach(mounted_id) == mounted
    assert instance.server.pid != first
    assert instance.run(f"mount {mounted} /mnt && cat /mnt/kept && umount /mnt") == "kept\n"
    instance.run(f"dd if={raw} of=/dev/null bs=4k count=100 iflag=direct")
    wait_until(lambda: instance.figures(raw_id).done.read_ops >= after.done.read_ops + 100, "new counts")


def test_volumes_of_a_killed_process_can_be_detached_by_force(plane):
    instance = Instance(plane, "i-gone")
    volume_id, device = instance.volume(FAST)
    instance.volume(FAST)
    instance.run(f"mkfs.xfs -q -K {device} && mount {device} /mnt && echo 1 > /mnt/x")
    os.kill(instance.server.pid, signal.SIGKILL)
    assert plane.volumes.detach(volume_id, force=True) is True
    began = time.monotonic()
    instance.close()
    assert time.monotonic() - began < 15


@pytest.mark.fault("disks", "the process behind the volumes hangs")
def test_a_process_that_does_not_answer_is_ended(plane, monkeypatch):
    monkeypatch.setattr(volume_process, "_ANSWER_S", 1.0)
    instance = Instance(plane, "i-mute")
    volume_id, device = instance.volume(FAST)
    load = instance.fio(device, f"--rw=randread --bs=4k --size=64m --iodepth=16 {WITHOUT_END}")
    wait_until(lambda: instance.figures(volume_id).done.read_ops > 0, "a load")
    first = instance.server.pid
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(VolumeProcessError, match="did not answer for 1 s and was ended"):
        plane.volumes.modify(volume_id, FAST)
    finished(load, seconds=5, fails=True)
    assert plane.volumes.detach(volume_id) is True
    instance.attach(volume_id)
    os.kill(instance.server.pid, signal.SIGSTOP)
    began = time.monotonic()
    instance.close()
    assert time.monotonic() - began < 15


@pytest.mark.fault("disks", "the process behind the volumes hangs")
def test_io_of_a_process_that_cannot_be_ended_is_aborted(instance, monkeypatch):
    """It may wait for I/O that only it could serve. The test uses a stopped process that is never killed."""
    volume_id, device = instance.volume(FAST)
    load = instance.fio(device, f"--rw=randread --size=64m --iodepth=8 {WITHOUT_END}")
    wait_until(lambda: instance.figures(volume_id).done.read_ops > 100, "a load")
    server = instance.server
    monkeypatch.setattr(volume_process, "_END_S", 0.2)
    monkeypatch.setattr(server._process, "kill", lambda: None)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(VolumeProcessError, match="cannot be ended"):
            server.close()
        finished(load, seconds=5, fails=True)
    finally:
        os.kill(server.pid, signal.SIGKILL)


@pytest.mark.fault("kill", "the region is killed, its volume process stopped", leak=True)
def test_the_next_start_ends_a_process_that_was_stopped_when_its_region_was_killed():
    code = """
import subprocess, sys, time
from pytest_cloudbench.limits.volumes import io2
from pytest_cloudbench.twin.hosts.hosts import HostPlan
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.slots import take_slot
from pytest_cloudbench.twin.regions import sweep_slot
plane = Plane(take_slot(sweep_slot))
plane.instances.boot(HostPlan("i-k", "t", plane.network.take_address(0), "k", "ec2-user", ()))
plane.volumes.create_disk("vol-k", io2(size_gib=4, iops=4_000))
plane.volumes.attach("vol-k", "i-k", "/dev/sdf")
instance = plane._inventory.instances["i-k"]
shell = ["nsenter", "-t", str(instance.host.init_pid), "-a"]
load = "dd if=/dev/zero of=/dev/nvme1n1 bs=4k count=4000000 oflag=direct"
subprocess.Popen([*shell, *load.split()], stderr=subprocess.DEVNULL)
loop = plane._inventory.volumes["vol-k"].disk.loop
print(loop.number, instance.paced.process.pid, instance.host.init_pid, flush=True)
time.sleep(600)
"""
    region = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        loop, server, init = region.stdout.readline().split()
        time.sleep(0.5)
        os.kill(int(server), signal.SIGSTOP)
    finally:
        region.kill()
        region.wait()
        region.stdout.close()
    time.sleep(0.5)
    assert not ended(server)
    sweep()
    wait_until(lambda: ended(server), "the process ends")
    wait_until(lambda: ended(init), "the instance's init ends")
    wait_until(lambda: not has_file(loop), "the loop device is let go")


# --- data and room -----------------------------------------------------------------------------------------


@pytest.mark.fault("disks", "the machine behind a volume has no room")
def test_a_write_without_room_fails_and_succeeds_when_there_is_room(instance, monkeypatch):
    _, device = instance.volume(FAST)
    written = f"dd if=/dev/urandom of={device} bs=1M count=64 oflag=direct"
    instance.run(f"dd if=/dev/urandom of={device} bs=1M count=16 oflag=direct")
    store = instance.plane.store
    with monkeypatch.context() as short:
        short.setattr(disks, "memory_available", lambda: 0)
        wait_until(lambda: os.fstatvfs(store._data_descriptor).f_bavail <= 256, "no room")
        said = finished(instance.start(written), fails=True)
        assert "No space left" in said or "Input/output error" in said
        instance.run(f"dd if={device} of=/dev/null bs=1M count=16 iflag=direct")
    wait_until(lambda: instance.plane.store.room() > GIB, "room again")
    assert instance.server.alive
    instance.run(written)
    assert instance.stuck() == []


def test_buffered_writers_short_of_memory_do_not_block_each_other(instance):
    """Dirty pages beyond a cgroup's memory must be written before their writer continues."""
    if not (MEMORY_CGROUP / "memory.limit_in_bytes").exists():
        pytest.skip("needs the memory controller of cgroup v1")
    volume_id, device = instance.volume(FAST)
    instance.run(f"mkfs.xfs -q -K {device} && mount {device} /mnt")
    group = MEMORY_CGROUP / f"cloudbench-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(100 * MIB))
        inside = f"echo $$ > {group}/cgroup.procs; "
        writers = [
            instance.start(f"dd if=/dev/zero of=/mnt/{number} bs=1M count=300 && sync -f /mnt", before=inside)
            for number in range(2)
        ]
        for writer in writers:
            finished(writer, seconds=60)
        instance.run("sync -f /mnt && umount /mnt", seconds=20)
        wait_until(lambda: instance.figures(volume_id).done.write_bytes >= 600 * MIB, "all counts")
        assert instance.server.alive
        assert instance.stuck() == []
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
        group.rmdir()


def test_memory_of_volumes_does_not_count_in_a_cgroup_whose_dirty_pages_they_take(plane):
    """In a full cgroup the process would wait for pages that only it can write."""
    if not (MEMORY_CGROUP / "memory.limit_in_bytes").exists():
        pytest.skip("needs the memory controller of cgroup v1")
    own = memory_cgroup("self")
    group = MEMORY_CGROUP / f"cloudbench-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        instance = Instance(plane, "i-group")
        instance.volume(FAST)
        assert memory_cgroup("self") == f"/{group.name}"
        assert memory_cgroup(instance.server.pid) == "/"
        instance.close()
    finally:
        (MEMORY_CGROUP / own.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
        group.rmdir()


def memory_cgroup(process):
    lines = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    return next(
        path for _, controllers, path in (line.split(":", 2) for line in lines) if controllers == "memory"
    )


def test_discarded_data_release_their_room(instance):
    volume_id, device = instance.volume(FAST)
    instance.run(f"dd if=/dev/urandom of={device} bs=1M count=64 oflag=direct")
    assert instance.allocated(volume_id) == 64 * MIB
    instance.run(f"blkdiscard --offset {16 * MIB} --length {32 * MIB} {device}")
    assert instance.allocated(volume_id) == 32 * MIB
    assert instance.run(f"cmp -n {16 * MIB} --ignore-initial={16 * MIB}:0 {device} /dev/zero") == ""
    instance.run(f"! cmp -n {16 * MIB} {device} /dev/zero")
    instance.run(f"fallocate --punch-hole --length {16 * MIB} {device}")
    assert instance.allocated(volume_id) == 16 * MIB


def test_written_data_are_read_back(instance):
    _, device = instance.volume(FAST)
    instance.volume(FAST)
    for pattern in ("randwrite --bsrange=4k-512k", "write --bs=1m", "randrw --bs=4k"):
        load = instance.fio(device, f"--rw={pattern} --size=32m --iodepth=32 --verify=crc32c")
        (job,) = json.loads(finished(load))["jobs"]
        assert job["error"] == 0
        assert job["read"]["total_ios"] >= job["write"]["total_ios"] > 0


@pytest.mark.parametrize(("make", "program"), [("mkfs.xfs -q", "mkfs.xfs"), ("mkfs.ext4 -q", "mkfs.ext4"),
                                               ("mkfs.btrfs -q", "mkfs.btrfs")])  # fmt: skip
def test_file_systems_work_on_paced_volumes(instance, make, program):
    needs(program)
    _, device = instance.volume(gp3(size_gib=8, iops=4_000, throughput_mib=1_000))
    write_and_read_back(instance, f"{make} {device}", device)


@pytest.mark.parametrize("kind", ["md", "btrfs"])
def test_a_stripe_of_two_works_on_paced_volumes(instance, kind):
    needs("mkfs.btrfs" if kind == "btrfs" else "mdadm")
    if kind == "md" and not Path("/proc/mdstat").exists():
        pytest.skip("needs a kernel with md")
    spec = gp3(size_gib=8, iops=4_000, throughput_mib=1_000)
    (first_id, first), (second_id, second) = instance.volume(spec), instance.volume(spec)
    if kind == "btrfs":
        write_and_read_back(instance, f"mkfs.btrfs -q -d raid0 -m raid0 {first} {second}", first)
    else:
        stripe = "/dev/md/paced"
        create = f"mdadm --create {stripe} --quiet --run --level=0 --metadata=1.2 --chunk=64 --raid-devices=2"
        write_and_read_back(instance, f"{create} {first} {second} && mkfs.xfs -q {stripe}", stripe)
        instance.run(f"mdadm --quiet --stop {stripe} && mdadm --quiet --zero-superblock {first} {second}")
    for volume_id in (first_id, second_id):
        assert instance.figures(volume_id).done.write_bytes > 20 * MIB


def write_and_read_back(instance, make, device):
    """Make a file system, write 64 MiB, unmount, mount, and read them back."""
    instance.run(f"{make} && mount {device} /mnt && head -c 64M /dev/urandom > /mnt/x && sync")
    before = instance.run("sha256sum /mnt/x && umount /mnt")
    assert instance.run(f"mount {device} /mnt && sha256sum /mnt/x && umount /mnt") == before


# --- while I/O runs ----------------------------------------------------------------------------------------


def test_detaching_by_force_fails_waiting_requests_at_once(instance):
    volume_id, device = instance.volume(io2(size_gib=4, iops=100))
    other_id, other = instance.volume(FAST)
    instance.run(f"mkfs.xfs -q -K {other} && mount {other} /mnt")
    loads = [
        instance.fio(device, f"--rw=randread --bs=4k --size=64m --iodepth=64 {WITHOUT_END}"),
        instance.start(WRITE_UNTIL_IT_FAILS),
    ]
    wait_until(lambda: instance.figures(volume_id).done.queue_length >= 64, "a queue of 0.6 s")
    began = time.monotonic()
    for gone in (volume_id, other_id):
        assert instance.plane.volumes.detach(gone, force=True) is True
    for load in loads:
        finished(load, seconds=5, fails=True)
    assert time.monotonic() - began < 3
    assert instance.stuck() == []
    instance.run("umount /mnt", seconds=5)
    assert instance.server.alive
    instance.attach(volume_id)
    instance.run(f"dd if={device} of=/dev/null bs=4k count=10 iflag=direct")
