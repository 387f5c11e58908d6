from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pytest_cloudbench.hosts.connection import HostConnection
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.throttle_counters import (
    EBS_MAGIC,
    CountersSnapshot,
    DeviceCounters,
    read_counters,
    why_no_counters,
)
from pytest_cloudbench.promises.quantities import Size

_DEVICES = [BlockDevice(f"/dev/nvme{n}n1", Size(1 << 30), f"vol-0{n}") for n in (1, 2)]


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
def test_what_is_no_page_of_ec2_is_refused(page: bytes) -> None:
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
    assert delta.elapsed_s == 10.0
    assert delta.volume_iops_exceeded_s == 3.0
    assert delta.volume_throughput_exceeded_s == 7.0
    assert delta.instance_iops_exceeded_s == 0.0
    assert delta.instance_throughput_exceeded_s == 8.5


def test_counters_that_began_anew_count_from_zero() -> None:
    before = CountersSnapshot(0.0, {"a": DeviceCounters.parse(_page(*[9_000_000] * 11))})
    after = CountersSnapshot(5.0, {"a": DeviceCounters.parse(_page(*[2_000_000] * 11))})
    assert after.since(before).volume_iops_exceeded_s == 2.0


def _install_nvme(host: HostConnection, directory: Path, script: str) -> None:
    tool = directory / "nvme"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    host._tools["nvme"] = str(tool)


def test_several_devices_are_read_in_one_command(host: HostConnection, tmp_path: Path) -> None:
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
    assert why_no_counters(host) is None


def test_without_the_log_page_there_are_none_and_it_is_not_tried_again(
    host: HostConnection, tmp_path: Path
) -> None:
    _install_nvme(
        host, tmp_path, 'echo x >> "${0%/*}/calls"; echo "NVMe status: INVALID_LOG_PAGE" >&2; exit 1'
    )
    assert read_counters(host, _DEVICES) is None
    assert read_counters(host, _DEVICES) is None
    assert (tmp_path / "calls").read_text() == "x\n"
    assert "INVALID_LOG_PAGE" in (why_no_counters(host) or "")


def test_xen_devices_have_none(host: HostConnection) -> None:
    assert read_counters(host, [BlockDevice("/dev/xvdf", Size(1 << 30), "vol-0a")]) is None
    assert why_no_counters(host) is None
