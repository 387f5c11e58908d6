from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pytest_cloudbench.evidence.restorable import plain, restored
from pytest_cloudbench.hosts import throttle_counters
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.hosts.throttle_counters import (
    EBS_MAGIC,
    REGION_MAGIC,
    CountersSnapshot,
    DeviceCounters,
    RegionCounters,
    read_counters,
)
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.twin.volumes.shared_pages import Figures, VolumePage
from pytest_cloudbench.verdicts.observation import MachineDelay

_DEVICES = [BlockDevice(f"/dev/nvme{n}n1", Size(1 << 30), f"vol-0{n}") for n in (1, 2)]
_XEN = [BlockDevice("/dev/xvdf", Size(1 << 30), "vol-0a")]


def _page(*values: int, magic: int = EBS_MAGIC) -> bytes:
    return struct.pack("<I4x11Q", magic, *values).ljust(4096, b"\0")


def test_a_log_page_is_read_field_by_field() -> None:
    counters = DeviceCounters.parse(_page(*range(1, 12)))
    assert (counters.read_ops, counters.write_ops, counters.read_bytes, counters.write_bytes) == (1, 2, 3, 4)
    assert (counters.read_time_us, counters.write_time_us) == (5, 6)
    assert (counters.volume_iops_exceeded_us, counters.volume_throughput_exceeded_us) == (7, 8)
    assert (counters.instance_iops_exceeded_us, counters.instance_throughput_exceeded_us) == (9, 10)
    assert counters.queue_length == 11


@pytest.mark.parametrize("page", [b"", b"\0" * 4096, _page(*range(11), magic=1), _page(*range(11))[:90]])
def test_a_page_that_is_not_ec2s_is_refused(page: bytes) -> None:
    with pytest.raises(ValueError, match="log page"):
        DeviceCounters.parse(page)


def test_the_difference_names_the_longest_throttled_volume() -> None:
    before = CountersSnapshot(
        10.0,
        {
            "a": DeviceCounters.parse(_page(0, 0, 0, 0, 0, 0, 1_000_000, 0, 0, 500_000, 0)),
            "b": DeviceCounters.parse(_page(*[0] * 11)),
        },
    )
    after = CountersSnapshot(
        20.0,
        {
            "a": DeviceCounters.parse(_page(0, 0, 0, 0, 0, 0, 4_000_000, 0, 0, 9_000_000, 0)),
            "b": DeviceCounters.parse(_page(0, 0, 0, 0, 0, 0, 2_000_000, 7_000_000, 0, 1_000_000, 0)),
        },
    )
    delta = after.since(before)
    assert delta is not None
    assert delta.elapsed_s == 10.0
    assert delta.volume_iops_exceeded_s == 3.0
    assert delta.volume_throughput_exceeded_s == 7.0
    assert delta.instance_iops_exceeded_s == 0.0
    assert delta.instance_throughput_exceeded_s == 8.5


def test_the_difference_adds_up_what_all_devices_moved() -> None:
    before = CountersSnapshot(10.0, {name: DeviceCounters.parse(_page(*[100] * 11)) for name in "ab"})
    pages = {"a": _page(0, 0, 4_100, 1_100, *[0] * 7), "b": _page(0, 0, 600, 100, *[0] * 7)}
    after = CountersSnapshot(20.0, {name: DeviceCounters.parse(page) for name, page in pages.items()})
    delta = after.since(before)
    assert delta is not None
    assert (delta.read_bytes, delta.written_bytes) == (4_500, 1_000)


def test_counters_that_started_again_count_from_zero() -> None:
    before = CountersSnapshot(0.0, {"a": DeviceCounters.parse(_page(*[9_000_000] * 11))})
    after = CountersSnapshot(5.0, {"a": DeviceCounters.parse(_page(*[2_000_000] * 11))})
    delta = after.since(before)
    assert delta is not None
    assert delta.volume_iops_exceeded_s == 2.0


def _install_nvme(host: SshHost, directory: Path, script: str) -> None:
    tool = directory / "nvme"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    host._tools["nvme"] = str(tool)


def test_several_devices_are_read_in_one_command(host: SshHost, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"nvme{number}n1").write_bytes(_page(*[number] * 11))
    _install_nvme(host, tmp_path, 'echo "$*" >> "${0%/*}/calls"; cat "${0%/*}/${2##*/}"')
    snapshot = read_counters(host, _DEVICES)
    assert snapshot is not None
    assert {path: each.read_ops for path, each in snapshot.devices.items()} == {
        "/dev/nvme1n1": 1,
        "/dev/nvme2n1": 2,
    }
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"get-log /dev/nvme{n}n1 --log-id=0xd0 --log-len=4096 --namespace-id=1 --raw-binary" for n in (1, 2)
    ]
    assert snapshot.region == {}


def test_a_host_without_the_log_page_is_asked_once(host: SshHost, tmp_path: Path) -> None:
    _install_nvme(
        host, tmp_path, 'echo x >> "${0%/*}/calls"; echo "NVMe status: INVALID_LOG_PAGE" >&2; exit 1'
    )
    assert read_counters(host, _DEVICES) is None
    assert read_counters(host, _DEVICES) is None
    assert (tmp_path / "calls").read_text() == "x\n"


def test_a_host_with_xen_devices_on_aws_is_asked_once(host: SshHost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_counters(host, _XEN) is None
    monkeypatch.setattr(host, "run", None)
    assert read_counters(host, _XEN) is None


@pytest.fixture
def region_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which an instance of an embedded region has a file for each volume."""
    folder = tmp_path / "ebs-counters"
    folder.mkdir()
    monkeypatch.setattr(throttle_counters, "REGION_FILES", str(folder))
    return folder


def _show(path: Path, answered: int, modelled_s: float, late_s: float) -> None:
    """Write counters to a file as the region does."""
    page = VolumePage.create(str(path))
    page.show(Figures(read_ops=answered, answered=answered, modelled_s=modelled_s, late_s=late_s))
    page.close()


def test_the_counters_of_a_region_are_read_by_the_same_command(
    host: SshHost, tmp_path: Path, region_files: Path
) -> None:
    for number in (1, 2):
        _show(region_files / f"nvme{number}n1", number, number * 0.5, number * 0.25)
    _install_nvme(host, tmp_path, f'head -c 4096 "{region_files}/${{2##*/}}"')
    snapshot = read_counters(host, _DEVICES)
    assert snapshot is not None
    assert [each.read_ops for each in snapshot.devices.values()] == [1, 2]
    assert snapshot.region == {
        "/dev/nvme1n1": RegionCounters(1, 500_000, 250_000),
        "/dev/nvme2n1": RegionCounters(2, 1_000_000, 500_000),
    }


def test_the_magic_number_is_the_regions(region_files: Path) -> None:
    _show(region_files / "nvme1n1", 1, 1.0, 1.0)
    (magic,) = struct.unpack_from("<Q", (region_files / "nvme1n1").read_bytes(), 4096)
    assert magic == REGION_MAGIC


def test_xen_devices_of_a_region_have_only_its_counters(host: SshHost, region_files: Path) -> None:
    _show(region_files / "xvdf", 10, 0.006, 0.001)
    before = read_counters(host, _XEN)
    _show(region_files / "xvdf", 30, 0.018, 0.005)
    after = read_counters(host, _XEN)
    assert before is not None
    assert after is not None
    assert after.devices == {}
    assert after.since(before) is None
    assert after.machine_delay(before) == MachineDelay(20, pytest.approx(0.0006), pytest.approx(0.0002))


def _region(**counted: tuple[int, int, int]) -> CountersSnapshot:
    return CountersSnapshot(1.0, {}, {path: RegionCounters(*figures) for path, figures in counted.items()})


def test_several_volumes_are_summed_without_idle_ones() -> None:
    before = _region(a=(100, 60_000, 1_000), b=(0, 0, 0), c=(7, 7, 7))
    after = _region(a=(200, 160_000, 3_000), b=(300, 500_000, 2_000), c=(7, 7, 7))
    delay = after.machine_delay(before)
    assert delay == MachineDelay(400, pytest.approx(0.0015), pytest.approx(0.00001), volumes=2)
    assert before.machine_delay(before) is None
    assert CountersSnapshot(2.0, {}).machine_delay(CountersSnapshot(1.0, {})) is None


def test_a_volume_that_was_attached_again_counts_from_zero() -> None:
    delay = _region(a=(10, 6_000, 40)).machine_delay(_region(a=(1_000, 9_000_000, 50_000)))
    assert delay == MachineDelay(10, pytest.approx(0.0006), pytest.approx(0.000004))


def test_a_snapshot_in_older_evidence_has_no_counters_of_a_region() -> None:
    kept = plain(CountersSnapshot(1.0, {"a": DeviceCounters.parse(_page(*range(11)))}, {}))
    del kept["region"]
    assert restored(kept).region == {}
