"""The data plane on this machine: real instances, real OpenSSH, real disks, real limits."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from real_plane import HAS_WHAT_IT_NEEDS, NEEDS, RealPlane, running_plane, wait_until

from pytest_cloudbench.limits.instances import EbsLimit, LocalDisk
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import gp3, io2
from pytest_cloudbench.twin import machine
from pytest_cloudbench.twin.hosts import hosts
from pytest_cloudbench.twin.hosts.hosts import BootFailed, HostPlan
from pytest_cloudbench.twin.inventory import PlaneError
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.regions import sweep_slot
from pytest_cloudbench.twin.slots import SLOTS, Slot, take_slot
from pytest_cloudbench.twin.volumes import disks
from pytest_cloudbench.twin.volumes.disks import NoRoom

pytestmark = pytest.mark.embedded
needs_root = pytest.mark.skipif(not HAS_WHAT_IT_NEEDS, reason=NEEDS)

COUNTERS = (
    "read_ops", "write_ops", "read_bytes", "write_bytes", "read_us", "write_us", "volume_iops_us",
    "volume_throughput_us", "instance_iops_us", "instance_throughput_us", "queue",
)  # fmt: skip


class Driver(RealPlane):
    """A plane with instances of 80,000 IOPS."""

    def boot(self, instance_id, *, iops=80_000, **plan):
        limit = EbsLimit(Iops(iops), Throughput.from_mbit(19_000))
        self.launch(instance_id, "c5.18xlarge", ebs_limit=limit, **plan)

    def fio(self, instance_id, device, options):
        """Return the IOPS of one job. On a slow machine jobs start apart, and fio adds rates that do not overlap."""
        text = self.ssh(
            instance_id,
            f"sudo fio --name=t --filename={device} --ioengine=libaio --direct=1 --group_reporting --time_based "
            f"--randrepeat=0 --norandommap --output-format=json --allow_file_create=0 {options}",
        )
        job = json.loads(text[text.index("{") :])["jobs"][0]
        return job["read"]["iops"] + job["write"]["iops"]

    def counters(
        self, instance_id, device, options="--log-id=0xd0 --log-len=4096 --namespace-id=1 --raw-binary"
    ):
        page = self.ssh(instance_id, f"sudo nvme get-log {device} {options}", text=False)
        assert len(page) == 4096
        assert struct.unpack_from("<I", page)[0] == 0x3C23B510
        return dict(zip(COUNTERS, struct.unpack_from("<11Q", page, 8), strict=True))


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with running_plane(Driver, tmp_path_factory.mktemp("key")) as driver:
        driver.boot("i-one", user_data=b"#cloud-config\nruncmd:\n - echo ran >> /var/tmp/ran\nfoo: 1\n")
        driver.boot("i-two", zone=1, user_data=b"#!/bin/sh\necho from a script; id -un > /var/tmp/who\n")
        yield driver


def test_the_images_user_logs_in_and_has_sudo(driver):
    out = driver.ssh("i-one", "id -un; pwd; sudo -n id -u; hostname; echo $PATH").split()
    assert out[:3] == ["ec2-user", "/home/ec2-user", "0"]
    assert out[3] == f"ip-{driver.addresses['i-one'].replace('.', '-')}.ec2.internal"
    assert "/usr/sbin" in out[4].split(":")


def test_the_machines_own_files_are_hidden_and_unchanged(driver, tmp_path):
    secret = Path("/var/tmp/cloudbench-test-secret")
    secret.write_text("the machine's")
    try:
        out = driver.ssh("i-one", f"sudo ls -A /root /home /mnt; cat {secret} 2>&1 || true; sudo ls /etc/ssh")
        assert "the machine's" not in out
        assert "ssh_host_rsa_key" not in out
        driver.ssh("i-one", f"sudo rm -f /usr/bin/env; echo mine | sudo tee {secret}; ! test -e /usr/bin/env")
        assert Path("/usr/bin/env").exists()
        assert secret.read_text() == "the machine's"
    finally:
        secret.unlink()


def test_the_machine_cannot_be_changed_through_proc_sys_or_nodes(driver):
    for command in (
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "mknod /tmp/disk b 254 0",
        "hostname -F /etc/hostname && date -s @0",
        "echo 1 > /sys/block/loop0/queue/nomerges",
    ):
        out = driver.ssh("i-one", f"sudo sh -c '{command}' 2>&1 && echo DONE || true")
        assert "DONE" not in out, command


def test_instances_reach_each_other_with_jumbo_frames(driver):
    out = driver.ssh(
        "i-one", f"cat /sys/class/net/eth0/mtu; ssh-keyscan -T 3 {driver.addresses['i-two']} 2>/dev/null"
    )
    assert out.startswith("9001\n")
    assert "ssh-ed25519" in out


def test_user_data_runs_once_and_reports_unsupported_parts(driver):
    def log():
        return driver.ssh("i-one", "cat /var/log/cloud-init-output.log")

    wait_until(lambda: driver.ssh("i-one", "cat /var/tmp/ran", check=False) == "ran\n", "runcmd")
    wait_until(lambda: driver.ssh("i-two", "cat /var/tmp/who", check=False) == "root\n", "script")
    assert "'foo'" in log()
    assert "from a script" in driver.ssh("i-two", "cat /var/log/cloud-init-output.log")
    driver.ssh("i-one", "echo kept > kept; (sleep 1000 &) >/dev/null 2>&1")
    before = driver.ssh("i-one", "cat /etc/ssh/ssh_host_ed25519_key.pub")
    started = time.monotonic()
    driver.plane.instances.reboot("i-one")
    assert time.monotonic() - started < 5
    assert driver.ssh("i-one", "cat kept; cat /var/tmp/ran") == "kept\nran\n"
    assert driver.ssh("i-one", "cat /etc/ssh/ssh_host_ed25519_key.pub") == before
    assert "sshd started" in driver.plane.instances.console_output("i-one")
    console = driver.plane.slot.directory / "i-one.console"
    assert console.stat().st_mode & 0o777 == 0o600  # user data may have printed a secret


def test_an_instance_reboots_and_powers_off_by_itself(driver):
    reboots = []
    user_data = b"#cloud-config\nbootcmd:\n - echo boot >> /var/tmp/boots\nruncmd:\n - sleep 0.3; false\n"
    driver.launch("i-self", user_data=user_data, on_shutdown=reboots.append)
    status = driver.ssh("i-self", "cloud-init status --wait --long; echo exit $?")
    assert ("status: error" in status, "runcmd" in status, "exit 1" in status) == (True, True, True)
    driver.ssh("i-self", "sudo reboot", check=False)
    wait_until(lambda: reboots == [True], "it asks for another boot")
    driver.plane.instances.reboot("i-self")
    assert driver.ssh("i-self", "cat /var/tmp/boots") == "boot\nboot\n"
    refused = driver.ssh("i-self", "poweroff 2>&1; sudo shutdown 18:00 2>&1; echo still here", check=False)
    assert ("root" in refused, "+MINUTES" in refused, "still here" in refused) == (True, True, True)
    driver.ssh("i-self", "sudo shutdown -h now", check=False)
    wait_until(lambda: reboots == [True, False], "it powers off")
    driver.plane.instances.terminate("i-self")


def test_sshd_uses_the_host_key_in_the_user_data(driver, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "host")], check=True)
    private = (tmp_path / "host").read_text().replace("\n", "\n    ")
    public = (tmp_path / "host.pub").read_text().strip()
    user_data = f"#cloud-config\nssh_keys:\n  ed25519_private: |\n    {private}\n  ed25519_public: {public}\n"
    driver.boot("i-key", user_data=user_data.encode(), user="ubuntu")
    try:
        assert driver.ssh("i-key", "id -un", user="ubuntu") == "ubuntu\n"
        scanned = subprocess.run(
            ["ssh-keyscan", "-t", "ed25519", driver.addresses["i-key"]],
            capture_output=True,
            text=True,
            check=True,
        )
        assert public.split()[1] in scanned.stdout
    finally:
        driver.plane.instances.terminate("i-key")
    assert not Path(f"/proc/{driver.plane.network._holder.pid}/root/run/cloudbench/i-key").exists()
    with pytest.raises(PlaneError, match="no instance i-key"):
        driver.plane.instances.start("i-key")


def test_a_volume_keeps_its_data_over_reboot_detach_and_another_instance(driver):
    plane = driver.plane
    plane.volumes.create_disk("vol-0a", gp3(size_gib=10))
    try:
        assert plane.volumes.attach("vol-0a", "i-one", "/dev/sdf") == "nvme1n1"
        link = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0a"
        assert driver.ssh("i-one", f"readlink -f {link} {link}_1").split() == ["/dev/nvme1n1"] * 2
        assert driver.ssh("i-one", f"sudo blockdev --getsize64 {link}") == f"{10 * 1024**3}\n"
        with pytest.raises(PlaneError, match="is attached to i-one"):
            plane.volumes.attach("vol-0a", "i-two", "/dev/sdf")
        driver.ssh(
            "i-one", f"sudo mkfs.ext4 -q {link} && sudo mount {link} /mnt && echo data | sudo tee /mnt/file"
        )
        assert plane.volumes.detach("vol-0a") is False
        assert driver.ssh("i-one", "cat /mnt/file") == "data\n"
        plane.instances.reboot("i-one")
        assert driver.ssh("i-one", f"sudo mount {link} /mnt && cat /mnt/file && sudo umount /mnt") == "data\n"
        assert plane.volumes.detach("vol-0a") is True
        assert driver.ssh("i-one", f"ls /dev/nvme1n1 {link} 2>/dev/null", check=False) == ""
        plane.volumes.attach("vol-0a", "i-two", "/dev/sdf")
        assert driver.ssh("i-two", f"sudo mount {link} /mnt && cat /mnt/file && sudo umount /mnt") == "data\n"
        plane.volumes.modify("vol-0a", gp3(size_gib=12, iops=4000))
        assert driver.ssh("i-two", f"sudo blockdev --getsize64 {link}") == f"{12 * 1024**3}\n"
    finally:
        assert plane.volumes.detach("vol-0a") is True
        plane.volumes.delete_disk("vol-0a")


def test_nvme_list_shows_the_instances_own_devices(driver):
    driver.boot("i-list")
    for number in (1, 2):
        driver.plane.volumes.create_disk(f"vol-1{number}", gp3(size_gib=number))
        driver.plane.volumes.attach(f"vol-1{number}", "i-list", f"/dev/xvda{'abc'[number]}")
    try:
        devices = json.loads(driver.ssh("i-list", "sudo nvme list -o json"))["Devices"]
        assert [(each["DevicePath"], each["SerialNumber"], each["PhysicalSize"]) for each in devices] == [
            ("/dev/nvme1n1", "vol11", 1024**3),
            ("/dev/nvme2n1", "vol12", 2 * 1024**3),
        ]
        assert {each["ModelNumber"] for each in devices} == {"Amazon Elastic Block Store"}
        header, rule, *rows = driver.ssh("i-list", "sudo nvme list").splitlines()
        ends = [match.end() for match in re.finditer("-+", rule)]
        columns = [
            [row[begin:end].strip() for begin, end in zip([0, *ends], ends, strict=False)] for row in rows
        ]
        assert [row[0] for row in columns] == ["/dev/nvme1n1", "/dev/nvme2n1"]
        assert [row[2] for row in columns] == ["vol11", "vol12"]
        assert header.index("Model") == ends[2] + 1
    finally:
        driver.plane.instances.terminate("i-list")
        for number in (1, 2):
            driver.plane.volumes.delete_disk(f"vol-1{number}")


def test_xen_types_have_the_attachments_device_name(driver):
    driver.boot("i-xen", nitro=False)
    driver.plane.volumes.create_disk("vol-0e", gp3(size_gib=1))
    try:
        assert driver.plane.volumes.attach("vol-0e", "i-xen", "/dev/sdg") == "xvdg"
        assert driver.ssh("i-xen", "test -b /dev/xvdg && ls /dev/disk 2>/dev/null", check=False) == ""
        assert driver.ssh("i-xen", "sudo blockdev --getsize64 /dev/xvdg") == f"{1024**3}\n"
        said = driver.ssh("i-xen", "sudo nvme get-log /dev/xvdg --log-id=0xd0 2>&1", check=False)
        assert "Inappropriate ioctl" in said
    finally:
        driver.plane.instances.terminate("i-xen")
        driver.plane.volumes.delete_disk("vol-0e")


def test_local_disks_are_lost_with_a_stop_and_kept_over_a_reboot(driver):
    plane = driver.plane
    address = driver.addresses["i-local"] = plane.network.take_address(0)
    plane.instances.boot(
        HostPlan(
            "i-local", "c5d.large", address, "local", "ec2-user", (driver.public_key,),
            local_disks=(LocalDisk(1, 50, "ssd"),),
        )
    )  # fmt: skip
    plane.volumes.create_disk("vol-0f", gp3(size_gib=1))
    try:
        [(disk, node)] = plane._inventory.instances["i-local"].local._disks
        assert node.name == "nvme1n1"
        assert plane.volumes.attach("vol-0f", "i-local", "/dev/sdf") == "nvme2n1"
        before = os.fstat(disk.descriptor).st_blocks
        driver.ssh(
            "i-local", "sudo dd if=/dev/urandom of=/dev/nvme1n1 bs=1M count=64 oflag=direct status=none"
        )
        assert (os.fstat(disk.descriptor).st_blocks - before) * 512 >= 60 * 2**20
        driver.ssh(
            "i-local", "sudo sh -c 'mkfs.ext4 -q /dev/nvme1n1 && mount /dev/nvme1n1 /mnt && touch /mnt/x'"
        )
        plane.instances.reboot("i-local")
        assert driver.ssh("i-local", "sudo mount /dev/nvme1n1 /mnt; ls /mnt") == "lost+found\nx\n"
        plane.instances.stop("i-local")
        assert disk.loop is None
        assert plane._inventory.instances["i-local"].local.nodes == []
        plane.instances.start("i-local")
        [(_, other)] = plane._inventory.instances["i-local"].local._disks
        assert other.name == "nvme1n1"
        assert other.links != node.links
        assert driver.ssh("i-local", "sudo head -c 1M /dev/nvme1n1 | tr -d '\\0' | wc -c") == "0\n"
        assert driver.ssh("i-local", "sudo blockdev --getsize64 /dev/nvme1n1") == "50000000000\n"
    finally:
        plane.instances.terminate("i-local")
        plane.volumes.delete_disk("vol-0f")


@pytest.mark.alone  # exact within 3 %
def test_limits_are_exact_and_counters_name_the_limit(driver):
    plane = driver.plane
    plane.volumes.create_disk("vol-0b", io2(size_gib=10, iops=2_000))
    plane.volumes.attach("vol-0b", "i-one", "/dev/sdf")
    try:
        load = "--bs=4k --size=64m --iodepth=32 --ramp_time=1 --runtime=4"
        for pattern in ("randread", "randwrite", "randrw --rwmixread=70"):
            iops = driver.fio("i-one", "/dev/nvme1n1", f"--rw={pattern} {load}")
            assert iops == pytest.approx(2_000, rel=0.03), pattern
        counters = driver.counters("i-one", "/dev/nvme1n1")
        assert counters["read_ops"] > 2_000
        assert counters["write_ops"] > 2_000
        # Where udev runs, it reads a device that was written to, in larger pieces than the load.
        assert counters["read_bytes"] >= counters["read_ops"] * 4096
        assert counters["read_bytes"] == pytest.approx(counters["read_ops"] * 4096, rel=0.02)
        assert counters["volume_iops_us"] > 8e6
        assert counters["instance_iops_us"] == counters["instance_throughput_us"] == 0
        again = driver.counters("i-one", "/dev/nvme1n1", "-i 208 -l 4096 -n 1 -b")
        assert again["read_ops"] == counters["read_ops"]
        plane.volumes.modify("vol-0b", io2(size_gib=10, iops=4_000))
        assert driver.fio("i-one", "/dev/nvme1n1", f"--rw=randread {load}") == pytest.approx(4_000, rel=0.03)
    finally:
        assert plane.volumes.detach("vol-0b")
        plane.volumes.delete_disk("vol-0b")


@pytest.mark.alone  # exact within 3 %
def test_an_instances_limit_holds_for_all_its_volumes_together(driver):
    plane = driver.plane
    driver.boot("i-small", iops=3_000)
    names = ["vol-0c", "vol-0d"]
    for name in names:
        plane.volumes.create_disk(name, gp3(size_gib=10))
        plane.volumes.attach(name, "i-small", "/dev/sdf")
    try:
        load = "--rw=randread --bs=4k --size=64m --iodepth=32 --ramp_time=1 --runtime=4"
        both = driver.fio("i-small", "/dev/nvme1n1:/dev/nvme2n1", load)
        assert both == pytest.approx(3_000, rel=0.03)
        counters = driver.counters("i-small", "/dev/nvme2n1")
        assert counters["instance_iops_us"] > 3e6
        assert counters["volume_iops_us"] < 1e6
    finally:
        plane.instances.terminate("i-small")
        for name in names:
            plane.volumes.delete_disk(name)


@pytest.mark.alone  # a busy machine adds to each I/O
def test_a_single_io_takes_the_service_time_of_its_volume_type(driver):
    """With one I/O in flight the service time, and so the rate, is the model's and not this machine's."""
    plane, mean_s = driver.plane, VOLUME_TYPES["gp3"].service_time.mean()
    plane.volumes.create_disk("vol-1a", gp3(size_gib=10, iops=6_000))
    plane.volumes.attach("vol-1a", "i-one", "/dev/sdf")
    try:
        iops = driver.fio("i-one", "/dev/nvme1n1", "--rw=randread --bs=4k --size=64m --iodepth=1 --runtime=3")
        assert 0.7 / mean_s < iops < 1.1 / mean_s  # a busy machine takes longer
        counters = driver.counters("i-one", "/dev/nvme1n1")
        assert counters["volume_iops_us"] == 0
        assert counters["read_us"] / counters["read_ops"] == pytest.approx(mean_s * 1e6, rel=0.3)
    finally:
        assert plane.volumes.detach("vol-1a")
        plane.volumes.delete_disk("vol-1a")


def test_a_volume_detached_by_force_fails_and_can_be_attached_again(driver):
    plane = driver.plane
    plane.volumes.create_disk("vol-1b", gp3(size_gib=1))
    plane.volumes.attach("vol-1b", "i-one", "/dev/sdf")
    try:
        driver.ssh("i-one", "sudo mkfs.ext4 -q /dev/nvme1n1 && sudo mount /dev/nvme1n1 /mnt")
        assert plane.volumes.detach("vol-1b") is False
        assert plane.volumes.detach("vol-1b", force=True) is True
        assert driver.ssh("i-one", "sudo dd if=/dev/zero of=/mnt/x count=1 oflag=direct 2>&1", check=False)
        said = driver.ssh("i-one", "sudo dd if=/dev/urandom of=/mnt/x bs=1M count=4 conv=fsync 2>&1 || true")
        assert "rror" in said
        driver.ssh("i-one", "sudo umount -l /mnt")
        plane.volumes.attach("vol-1b", "i-two", "/dev/sdf")
        assert driver.ssh("i-two", "sudo head -c 4096 /dev/nvme1n1 | wc -c") == "4096\n"
    finally:
        assert plane.volumes.detach("vol-1b")
        plane.volumes.delete_disk("vol-1b")


def test_no_cache_hides_that_a_volume_is_gone(driver):
    """Buffered I/O would continue in the page cache, faster than any volume."""
    plane, devices = driver.plane, []
    for volume_id in ("vol-1c", "vol-1d"):
        plane.volumes.create_disk(volume_id, gp3(size_gib=1))
        devices.append(f"/dev/{plane.volumes.attach(volume_id, 'i-one', '/dev/sdf')}")
    raw, mounted = devices
    fio = "fio --name=x --bs=4k --rw=randwrite --direct=0 --size=64m --time_based --runtime=60 --filename="
    driver.ssh("i-one", f"sudo mkfs.ext4 -q {mounted} && sudo mount {mounted} /mnt")
    loads = [
        subprocess.Popen(driver.command("i-one", f"sudo {fio}{target}"), stdout=subprocess.PIPE, text=True)
        for target in (raw, "/mnt/x")
    ]
    try:
        wait_until(lambda: driver.counters("i-one", raw)["write_ops"] > 0, "a load")
        assert plane.volumes.detach("vol-1c") is True, "open, but not mounted"
        assert plane.volumes.detach("vol-1d", force=True) is True
        for load in loads:
            assert "rror" in load.communicate(timeout=10)[0]
    finally:
        for load in loads:
            load.kill()
            load.communicate()
        driver.ssh("i-one", "sudo pkill fio; sudo umount -l /mnt", check=False)
        plane.volumes.delete_disk("vol-1c")
        plane.volumes.delete_disk("vol-1d")


def test_a_detached_volume_has_all_that_was_written_to_it(driver):
    """The last program that closes a device makes the kernel write what it holds; the region is one too many."""
    plane = driver.plane
    plane.volumes.create_disk("vol-1e", gp3(size_gib=1))
    device = f"/dev/{plane.volumes.attach('vol-1e', 'i-one', '/dev/sdf')}"
    try:
        write = (
            f"head -c 4M /dev/urandom > /tmp/x && sudo dd if=/tmp/x of={device} bs=1M && sha256sum < /tmp/x"
        )
        written = driver.ssh("i-one", write)
        plane.volumes.take_snapshot("snap-1e", "vol-1e")
        assert plane.volumes.detach("vol-1e")
        plane.volumes.create_disk("vol-1f", gp3(size_gib=1), "snap-1e")
        for volume_id in ("vol-1e", "vol-1f"):
            device = f"/dev/{plane.volumes.attach(volume_id, 'i-two', '/dev/sdf')}"
            assert driver.ssh("i-two", f"sudo head -c 4M {device} | sha256sum") == written
            assert plane.volumes.detach(volume_id)
    finally:
        for volume_id in ("vol-1e", "vol-1f"):
            plane.volumes.delete_disk(volume_id)


def test_the_tools_of_an_instance_show_its_own_disks(driver):
    plane = driver.plane
    plane.volumes.create_disk("vol-1f2", gp3(size_gib=1))
    name = plane.volumes.attach("vol-1f2", "i-one", "/dev/sdf")

    def listed(more=""):
        found = json.loads(
            driver.ssh("i-one", f"lsblk -b -J -o NAME,TYPE,SIZE,SERIAL,MODEL,FSTYPE,MOUNTPOINT {more}")
        )
        return {each["name"]: each for each in found["blockdevices"]}

    def partitions():
        return {
            line.split()[3]: int(line.split()[2])
            for line in driver.ssh("i-one", "tail -n +3 /proc/partitions").splitlines()
        }

    try:
        driver.ssh("i-one", f"sudo mkfs.ext4 -q /dev/{name} && sudo mount /dev/{name} /mnt")
        disks = listed()
        assert set(disks) == {"nvme0n1", name}
        assert disks["nvme0n1"]["mountpoint"] == "/"
        assert disks[name] == {
            "name": name, "type": "disk", "size": 1024**3, "serial": "vol1f2", "model": "Amazon Elastic Block Store",
            "fstype": "ext4", "mountpoint": "/mnt",
        }  # fmt: skip
        assert set(listed(f"/dev/{name}")) == {name}
        assert (
            driver.ssh("i-one", "lsblk /dev/nvme9n1 2>&1", check=False)
            == "lsblk: /dev/nvme9n1: not a block device\n"
        )
        assert driver.ssh("i-one", "lsblk -dn -o NAME | sort").split() == ["nvme0n1", name]
        for options in ("-dno NAME", "-dnoNAME", "-dn --output NAME", "-dn --output=NAME"):
            assert driver.ssh("i-one", f"lsblk {options} /dev/{name}").split() == [name], options
        assert partitions().keys() == {"nvme0n1", name}
        assert f"/dev/{name}: " in driver.ssh("i-one", "sudo blkid")
        assert driver.ssh("i-one", "findmnt -n -o SOURCE /mnt") == f"/dev/{name}\n"
        plane.volumes.modify("vol-1f2", gp3(size_gib=2))
        assert partitions()[name] == 2 * 1024**2
        assert listed()[name]["size"] == 2 * 1024**3
        driver.ssh("i-one", "sudo umount /mnt")
        assert plane.volumes.detach("vol-1f2")
        assert set(listed()) == partitions().keys() == {"nvme0n1"}
    finally:
        driver.ssh("i-one", "sudo umount /mnt", check=False)
        plane.volumes.detach("vol-1f2", force=True)
        plane.volumes.delete_disk("vol-1f2")


def test_the_console_of_an_ended_instance_can_be_read_and_leaves_no_file(driver):
    driver.launch("i-ended")
    driver.plane.instances.terminate("i-ended")
    assert "sshd started" in driver.plane.instances.console_output("i-ended")
    assert not list(driver.plane.slot.directory.glob("i-ended*"))


def test_a_failed_boot_has_a_reason_and_leaves_nothing(driver, monkeypatch, tmp_path):
    def interfaces():
        """Return this machine's interfaces but those of other regions."""
        others = {Slot(number).interface for number in range(SLOTS)} - {driver.plane.slot.interface}
        return {path.name for path in Path("/sys/class/net").iterdir()} - others

    before = interfaces()
    plan = HostPlan(
        "i-bad", "t", driver.plane.network.take_address(2), "bad", "ec2-user", (driver.public_key,)
    )
    parse, console = hosts.parse_user_data, driver.plane.instances.console_output

    def once_it_has_failed(text):
        wait_until(lambda: "missing.py" in console("i-bad"), "its interpreter complains")
        return parse(text)

    monkeypatch.setattr(hosts, "parse_user_data", once_it_has_failed)
    monkeypatch.setattr(hosts, "_BOOT", tmp_path / "missing.py")
    with pytest.raises(BootFailed, match=r"i-bad d.*missing\.py"):
        driver.plane.instances.boot(plan)
    assert interfaces() == before
    assert "missing.py" in console("i-bad")
    assert driver.ssh("i-one", "echo alive") == "alive\n"


def test_an_operation_that_waited_for_a_terminated_instance_is_refused(driver):
    driver.boot("i-short")
    driver.plane.volumes.create_disk("vol-late", gp3(size_gib=1))
    with ThreadPoolExecutor(1) as other, driver.plane._inventory.held("i-short"):
        late = other.submit(driver.plane.volumes.attach, "vol-late", "i-short", "/dev/sdf")
        driver.plane.instances.terminate("i-short")
    with pytest.raises(PlaneError, match="no instance i-short"):
        late.result()
    assert driver.plane._inventory.volumes["vol-late"].disk.loop is None
    driver.plane.volumes.delete_disk("vol-late")


def test_no_room_is_reported_before_anything_is_made(driver, monkeypatch):
    assert driver.plane.store.room() > 2**30
    with monkeypatch.context() as short:
        short.setattr(disks, "memory_available", lambda: 2**20)
        with pytest.raises(
            NoRoom, match=r"no room for vol-x \(10 GiB\): [01] MiB of memory .* --backing DIR"
        ):
            driver.plane.volumes.create_disk("vol-x", gp3(size_gib=10))
    with pytest.raises(PlaneError, match="no volume vol-x"):
        driver.plane.volumes.delete_disk("vol-x")
    wait_until(lambda: driver.plane.store.room() > 2**30, "room again")


def test_the_bound_on_volumes_follows_the_memory_that_is_left(driver, monkeypatch):
    """Other programs take memory too: then a volume is full, and the machine stays alive."""
    descriptor = driver.plane.store.new_file(2**30)
    try:
        with monkeypatch.context() as short:
            short.setattr(disks, "memory_available", lambda: 0)
            wait_until(lambda: os.fstatvfs(driver.plane.store._data_descriptor).f_bavail <= 256, "a bound")
            with pytest.raises(OSError, match="No space left"):
                os.posix_fallocate(descriptor, 0, 4 * 2**20)
        wait_until(lambda: driver.plane.store.room() > 2**30, "room again")
        assert os.pwrite(descriptor, b"x" * 2**20, 0) == 2**20
    finally:
        os.close(descriptor)


def test_the_machines_disks_are_measured_once(driver, monkeypatch):
    first = driver.plane.machine.disks()
    assert first.iops.per_second > 5_000
    assert first.throughput.bytes_per_second > 50e6
    monkeypatch.setattr(machine, "_probe_disks", lambda parts: pytest.fail("measured again"))
    assert driver.plane.machine.disks().iops >= first.iops


@needs_root
@pytest.mark.alone  # another region may take the same loop device for a file of the same name
def test_volumes_can_be_in_a_directory(tmp_path):
    slot = take_slot(sweep_slot)
    try:
        plane = Plane(slot, backing=tmp_path)
        try:
            plane.instances.boot(HostPlan("i-b", "t", plane.network.take_address(3), "b", "ec2-user", ()))
            plane.volumes.create_disk("vol-b", gp3(size_gib=1))
            assert plane.volumes.attach("vol-b", "i-b", "/dev/sdf") == "nvme1n1"
            loop = plane._inventory.volumes["vol-b"].disk.loop
            backing = plane._inventory.volumes["vol-b"].disk.descriptor
            assert str(tmp_path) in os.readlink(f"/proc/self/fd/{backing}")
            assert list(tmp_path.iterdir()) == []  # the data have no name, so they go with the region
            behind = Path(f"/sys/block/loop{loop.number}/loop/backing_file")
            ours = behind.read_text()
        finally:
            plane.close()
        assert not behind.exists() or behind.read_text() != ours
        with pytest.raises(PlaneError, match="shutting down"):
            plane.volumes.create_disk("vol-late", gp3(size_gib=1))
        with pytest.raises(PlaneError, match="shutting down"):
            plane.instances.boot(HostPlan("i-late", "t", slot.caller_address, "late", "ec2-user", ()))
        with pytest.raises(NoRoom, match="does not exist"):
            Plane(slot, backing=tmp_path / "nowhere")
    finally:
        slot.release()


@needs_root
@pytest.mark.alone  # another region could take the slot and the loop device at once
def test_kill_9_leaves_only_what_the_next_start_sweeps():
    code = """
import sys, time
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.twin.volumes import disks
from pytest_cloudbench.twin.hosts import hosts
from pytest_cloudbench.twin.hosts.hosts import HostPlan
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.slots import take_slot
from pytest_cloudbench.twin.regions import sweep_slot
slot = take_slot(sweep_slot)
plane = Plane(slot)
plane.instances.boot(HostPlan("i-k", "t", plane.network.take_address(0), "k", "ec2-user", ("ssh-ed25519 AAAA",)))
plane.volumes.create_disk("vol-k", gp3(size_gib=1))
plane.volumes.attach("vol-k", "i-k", "/dev/sdf")
loop = plane._inventory.volumes["vol-k"].disk.loop
instance = plane._inventory.instances["i-k"]
print(slot.number, loop.number, instance.paced.process.pid, instance.host.init_pid, flush=True)
time.sleep(600)
"""
    region = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        number, loop, server, init = region.stdout.readline().split()
    finally:
        region.send_signal(signal.SIGKILL)
        region.wait()
        region.stdout.close()
    wait_until(lambda: not Path(f"/proc/{init}").exists(), "the instance's init ends")
    wait_until(lambda: not (Path("/sys/class/net") / Slot(number).interface).exists(), "the cable goes")
    wait_until(lambda: not Path(f"/sys/block/loop{loop}/loop").exists(), "the loop device is let go")
    wait_until(lambda: not Path(f"/proc/{server}").exists(), "the process that paces volumes ends")
    assert not re.search(rf"/run/cloudbench/{number}\\b", Path("/proc/self/mountinfo").read_text())
    slot = take_slot(sweep_slot)
    try:
        if slot.number == int(number):
            assert [path.name for path in slot.directory.iterdir()] == []
    finally:
        slot.release()


def test_public_addresses_lead_to_instances_of_another_vpc(driver):
    """Only its public address leads to an instance of a client's VPC, also after the address has moved."""
    network = driver.plane.network
    public = network.take_public_address()
    private = {}
    for name, given in (("i-vpc", public), ("i-vpc-other", None)):
        private[name] = network.take_address(1, ipaddress.IPv4Network("10.7.1.0/24"))
        driver.addresses[name] = public
        hostname = name.removeprefix("i-")
        keys = (driver.public_key,)
        driver.plane.instances.boot(
            HostPlan(
                name, "t", private[name], hostname, "ec2-user", keys, public_ip=given, netmask="255.255.0.0"
            )
        )
    try:
        assert driver.ssh("i-vpc", "hostname").strip() == "vpc"
        answer = driver.ssh("i-vpc", f"exec 3</dev/tcp/{private['i-vpc-other']}/22 && head -c 4 <&3")
        assert answer == "SSH-"
        driver.plane.instances.set_public_ip("i-vpc", None)
        driver.plane.instances.set_public_ip("i-vpc-other", public)
        assert driver.ssh("i-vpc-other", "hostname").strip() == "vpc-other"
        driver.plane.instances.stop("i-vpc-other")
        driver.plane.instances.start("i-vpc-other")
        assert driver.ssh("i-vpc-other", "hostname").strip() == "vpc-other"
    finally:
        for name in private:
            driver.plane.instances.terminate(name)
        network.release_address(public)
