"""The layout of the log page, the names of nodes, the doctor's report."""

from __future__ import annotations

import math
import struct

import pytest

from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.limits.volumes import VolumeSpec, gp2, gp3, io2, st1
from pytest_cloudbench.twin.doctor import Check, report
from pytest_cloudbench.twin.hosts.root_disk import separate_system_mounts
from pytest_cloudbench.twin.machine import MachineRecord
from pytest_cloudbench.twin.volumes import loop_devices
from pytest_cloudbench.twin.volumes.disks import GIB, Disk, nitro_node, xen_node
from pytest_cloudbench.twin.volumes.figures import StageFigures, instance_figures, volume_figures
from pytest_cloudbench.twin.volumes.loop_devices import LoopDevice
from pytest_cloudbench.twin.volumes.shared_pages import Figures, VolumePage

MIB = 1024**2
LOOP = LoopDevice(number=5, major=7, minor=5, descriptor=-1)


def test_the_page_has_the_layout_of_log_0xd0(tmp_path):
    page = VolumePage.create(str(tmp_path / "page"))
    figures = Figures(1, 2, 3, 4, 0.5, 0.25, 1.5, 2.5, 3.5, 4.5, 7, 3, 0.75, 0.125)
    page.show(figures)
    data = (tmp_path / "page").read_bytes()
    assert page.figures == figures
    page.clear()
    assert page.figures == Figures()
    page.close()
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


def test_figures_follow_from_the_limits():
    def limits(spec):
        found = volume_figures(spec, factor=1.0, service=None).limits
        return found.iops.per_second, found.bytes.per_second

    assert limits(gp3(size_gib=10)) == (3000, 125 * MIB)
    assert limits(io2(size_gib=80, iops=80_000)) == (80_000, 4000 * MIB)
    assert limits(gp2(size_gib=100))[0] == 3000  # while its credits last
    assert limits(st1(size_gib=1024)) == (math.inf, 250 * MIB)
    assert volume_figures(st1(size_gib=1024), factor=1.0, service=None).whole_units
    assert limits(VolumeSpec.of("gp9", 1)) == (math.inf, math.inf)
    c5 = EbsLimit(Iops(80_000), Throughput.from_mbit(19_000))
    shared = instance_figures(c5, c5, factor=1.0)
    assert (shared.iops.per_second, shared.bytes.per_second) == (80_000, 2_375_000_000)
    assert shared.iops.burst is None
    assert instance_figures(None, None, factor=1.0) == StageFigures()


def test_a_balance_refills_while_nothing_runs():
    burst = volume_figures(gp2(size_gib=100), factor=60.0, service=None).limits.iops.burst
    assert burst.percent(0.0, None, 100.0) == 100
    assert burst.percent(10.0, 0.0, 10.0) == 0
    assert burst.percent(10.0, 0.0, 20.0) == pytest.approx(100 * 10 * 300 * 60 / 5_400_000)
    assert burst.percent(0.0, 5_000_000, 1e6) == 100


def test_the_figures_of_the_disks_are_kept_for_the_next_region(tmp_path):
    record = MachineRecord(tmp_path)
    assert record.disks() is None
    record.set_disks(50_000, 2e9)
    kept = MachineRecord(tmp_path).disks()
    assert (kept.iops, kept.throughput) == (Iops(50_000), Throughput(2e9))
    (tmp_path / "machine.json").write_text('{"boot_id": "another", "iops": 1, "bytes_per_second": 1}')
    assert MachineRecord(tmp_path).disks() is None


def test_parts_of_the_system_on_mounts_of_their_own_are_found():
    mountinfo = "22 27 0:21 / / rw\n23 27 8:2 / /usr rw\n24 27 8:3 / /var rw\n25 27 8:4 / /home rw\n"
    assert sorted(separate_system_mounts(mountinfo)) == ["/usr", "/var"]


def test_the_report_ends_with_a_conclusion():
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
    size = 125 * GIB
    disk = Disk(size, gp3(size_gib=125).io_unit.bytes, -1, None, "label", loop=LOOP)
    disk.modify(size=size, io_unit=gp2(size_gib=125).io_unit.bytes)
    assert (queue / "max_sectors_kb").read_text() == "256"
    disk.modify(size=size, io_unit=st1(size_gib=125).io_unit.bytes)
    assert (queue / "max_sectors_kb").read_text() == "1024"
