"""The log page's layout, the names of nodes, what the doctor says."""

from __future__ import annotations

import math
import os
import struct

import pytest

from pytest_cloudbench.promises.instances import EbsLimit
from pytest_cloudbench.promises.quantities import Iops, Throughput
from pytest_cloudbench.promises.volumes import VolumeSpec, gp2, gp3, io2, st1
from pytest_cloudbench.twin import loop_devices
from pytest_cloudbench.twin.capabilities import Check
from pytest_cloudbench.twin.counters import Counters, CountersPage
from pytest_cloudbench.twin.disks import GIB, Disk, nitro_node, xen_node
from pytest_cloudbench.twin.doctor import report
from pytest_cloudbench.twin.governor import Governor
from pytest_cloudbench.twin.loop_devices import LoopDevice
from pytest_cloudbench.twin.probe import MachineRecord
from pytest_cloudbench.twin.root_disk import separate_system_mounts
from pytest_cloudbench.twin.storage_accounts import InstanceAccount, RateLimit, VolumeAccount

MIB = 1024**2
LOOP = LoopDevice(number=5, major=7, minor=5, direct_io=True, descriptor=-1)


def test_the_page_has_the_layout_of_log_0xd0(tmp_path):
    page = CountersPage(tmp_path / "page")
    page.show(Counters(1, 2, 3, 4, 0.5, 0.25, 1.5, 2.5, 3.5, 4.5, 7))
    data = (tmp_path / "page").read_bytes()
    page.close()
    assert len(data) == 4096
    assert struct.unpack_from("<I", data)[0] == 0x3C23B510
    assert struct.unpack_from("<11Q", data, 8) == (
        1, 2, 3, 4, 500_000, 250_000, 1_500_000, 2_500_000, 3_500_000, 4_500_000, 7,
    )  # fmt: skip


def test_nitro_nodes_carry_the_volume_in_their_links():
    node = nitro_node(1, "vol-0123abc", LOOP)
    assert node.name == "nvme1n1"
    assert node.links[:2] == (
        "disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123abc",
        "disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123abc_1",
    )


def test_xen_nodes_are_named_by_the_attachment():
    assert [xen_node(name, LOOP).name for name in ("/dev/sdf", "xvdba", "/dev/xvdg")] == [
        "xvdf",
        "xvdba",
        "xvdg",
    ]


def test_limits_come_from_the_promises():
    def limit(spec):
        return VolumeAccount(spec, 0.0).limit

    assert limit(gp3(size_gib=10)) == RateLimit(3000, 125 * MIB)
    assert limit(io2(size_gib=80, iops=80_000)).bytes_per_s == 4000 * MIB
    assert limit(gp2(size_gib=100)).iops == 3000  # while its credits last
    assert limit(st1(size_gib=1024)) == RateLimit(250, 250 * MIB)
    assert limit(st1(size_gib=500)).iops == pytest.approx(250 * 500 / 1024)  # one I/O takes one MiB of it
    assert limit(VolumeSpec.of("gp9", 1)) == RateLimit()
    c5 = EbsLimit(Iops(80_000), Throughput.from_mbit(19_000))
    account = InstanceAccount(c5, c5, 0.0)
    assert (account.iops.limit, account.bytes_per_s.limit) == (80_000, 2_375_000_000)
    assert InstanceAccount(None, None, 0.0).iops.limit == math.inf


def test_the_machines_figures_only_rise_and_are_kept_for_the_next_region(tmp_path):
    record = MachineRecord(tmp_path)
    assert record.limits() is None
    record.saw(50_000, 1e9)  # the governor may see something before the probe
    assert record.limits() is None
    record.saw(40_000, 2e9, probed=True)
    record.saw(10_000, 1e6)
    kept = MachineRecord(tmp_path).limits()
    assert (kept.iops, kept.throughput) == (Iops(50_000), Throughput(2e9))
    record.saw(90_000, 1e6)
    assert MachineRecord(tmp_path).limits().iops == Iops(90_000)
    (tmp_path / "machine.json").write_text('{"boot_id": "another", "iops": 1, "bytes_per_second": 1}')
    assert MachineRecord(tmp_path).limits() is None


def test_parts_of_the_system_on_mounts_of_their_own_are_found():
    mountinfo = "22 27 0:21 / / rw\n23 27 8:2 / /usr rw\n24 27 8:3 / /var rw\n25 27 8:4 / /home rw\n"
    assert sorted(separate_system_mounts(mountinfo)) == ["/usr", "/var"]


def test_the_report_ends_with_what_can_be_done():
    fine = Check("root", "ok", "running as root")
    less = Check("tc", "limited", "not found", "apt-get install -y iproute2")
    none = Check("fio", "missing", "not found", "apt-get install -y fio")
    assert report([fine]).endswith("An embedded region can run here.")
    assert report([fine, less]).endswith("limited by: tc.")
    text = report([fine, less, none])
    assert text.endswith("No embedded region can run here: fio missing.")
    assert "remedy: apt-get install -y fio" in text


def test_a_volume_that_changes_its_type_counts_requests_as_the_new_type_does(tmp_path, monkeypatch):
    queue = tmp_path / "loop5" / "queue"
    queue.mkdir(parents=True)
    (queue / "max_sectors_kb").write_text("256")
    monkeypatch.setattr(loop_devices, "_SYS", tmp_path)
    disk = Disk("vol-1", 125 * GIB, gp3(size_gib=125).io_unit.bytes, -1, None, None, "label", loop=LOOP)
    disk.modify(size_gib=125, io_unit=gp2(size_gib=125).io_unit.bytes)
    assert (queue / "max_sectors_kb").read_text() == "256"
    disk.modify(size_gib=125, io_unit=st1(size_gib=125).io_unit.bytes)
    assert (queue / "max_sectors_kb").read_text() == "1024"


def test_a_volume_of_an_unknown_instance_leaves_no_open_file(tmp_path, monkeypatch):
    (tmp_path / "loop5").mkdir()
    (tmp_path / "loop5" / "stat").write_text("0 0 0 0 0 0 0 0 0 0 0")
    monkeypatch.setattr(loop_devices, "_SYS", tmp_path)
    page = CountersPage(tmp_path / "page")
    governor = Governor(throttle=None)
    try:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(KeyError, match="i-gone is not governed"):
            governor.add_volume("i-gone", "vol-1", VolumeAccount(gp3(size_gib=1), 0.0), LOOP, page)
        assert os.listdir("/proc/self/fd") == before
    finally:
        governor.close()
        page.close()
