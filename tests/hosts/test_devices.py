from __future__ import annotations

from typing import Any

import pytest

from pytest_cloudbench.hosts import devices
from pytest_cloudbench.hosts.device_facts import DeviceFacts, inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice, find_device
from pytest_cloudbench.hosts.errors import DeviceNotFound, NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size

_VOLUME = "vol-0123456789abcdef0"
_SERIAL = "vol0123456789abcdef0"
_SIZE = Size(1 << 30)


def _facts(**changes: object) -> DeviceFacts:
    known: dict[str, object] = {"path": "/dev/nvme1n1", "number": "259:3", "size_bytes": _SIZE.bytes}
    return DeviceFacts(**(known | {"serial": _SERIAL} | changes))  # type: ignore[arg-type]


@pytest.fixture
def prove(host: SshHost, monkeypatch: pytest.MonkeyPatch):
    """A function that proves a device with the facts that the test gives."""

    def prove_facts(facts: DeviceFacts, device: BlockDevice, **options: Any) -> DeviceFacts:
        monkeypatch.setattr(devices, "inspect_devices", lambda *_: [facts])
        return device.prove(host, **options)[0]

    return prove_facts


_OURS = BlockDevice("/dev/nvme1n1", _SIZE, _VOLUME, "/dev/sdf")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"serial": None, "links": (f"nvme-Amazon_Elastic_Block_Store_{_SERIAL}",)},
        {"serial": None, "links": (f"nvme-Amazon_Elastic_Block_Store_{_SERIAL}_1",)},
        {"serial": None, "links": (f"nvme-Amazon_Elastic_Block_Store_{_SERIAL}-ns-1",)},
    ],
)
def test_a_device_with_the_identity_of_the_volume_is_ours(prove, changes) -> None:
    assert prove(_facts(**changes), _OURS).size_bytes == _SIZE.bytes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serial": "vol0fedcba9876543210"}, "says it is vol0fedcba9876543210"),
        ({"serial": None}, "no serial and no by-id link"),
        (
            {"serial": None, "links": (f"nvme-Amazon_Elastic_Block_Store_{_SERIAL}0",)},
            "says it is nvme-Amazon_Elastic",
        ),
        ({"size_bytes": 1 << 29}, "has 536,870,912 bytes, not 1,073,741,824"),
        ({"mounts": ("/",)}, "holds the root file system"),
        ({"mounts": ("/mnt/x", "/data")}, "is mounted on /mnt/x, /data"),
        ({"used_by": ("dm-0",)}, "is in use by dm-0"),
        ({"used_by": ("swap",)}, "is in use by swap"),
        ({"is_partition": True}, "is a partition"),
        ({"has_partitions": True}, "has partitions"),
        ({"read_only": True}, "is read-only"),
        ({"path": "/dev/nvme0n1"}, "leads to /dev/nvme0n1"),
    ],
)
def test_the_error_names_what_does_not_fit(prove, changes, reason) -> None:
    with pytest.raises(NotOurs) as caught:
        prove(_facts(**changes), _OURS)
    assert reason in str(caught.value)
    assert f"not proven to be volume {_VOLUME}, nothing is written to it" in str(caught.value)


@pytest.mark.parametrize("changes", [{"has_partitions": True}, {"read_only": True}])
def test_reading_accepts_partitions_and_read_only_devices(prove, changes) -> None:
    assert prove(_facts(**changes), _OURS, only_read=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serial": "vol0fedcba9876543210"}, "says it is vol0fedcba9876543210"),
        ({"mounts": ("/",), "has_partitions": True}, "holds the root file system"),
        ({"mounts": ("/data",)}, "is mounted on /data"),
        ({"used_by": ("md127",)}, "is in use by md127"),
        ({"is_partition": True}, "is a partition"),
    ],
)
def test_reading_refuses_a_device_in_use(prove, changes, reason) -> None:
    with pytest.raises(NotOurs) as caught:
        prove(_facts(**changes), _OURS, only_read=True)
    assert f"not proven to be volume {_VOLUME}, it is not read: it {reason}" in str(caught.value)


def test_the_error_names_all_that_does_not_fit(prove) -> None:
    with pytest.raises(NotOurs, match=r"mounted on /data, and it is read-only; use directory\('/data'\)"):
        prove(_facts(mounts=("/data",), read_only=True), _OURS)


def test_only_our_own_mount_is_allowed(prove) -> None:
    assert prove(_facts(mounts=("/mnt/a",)), _OURS, mounted_at="/mnt/a")
    with pytest.raises(NotOurs, match=r"is mounted on /mnt/b; use directory\('/mnt/b'\)"):
        prove(_facts(mounts=("/mnt/a", "/mnt/b")), _OURS, mounted_at="/mnt/a")


def test_a_xen_device_is_identified_by_the_name_of_the_attachment(prove) -> None:
    device = BlockDevice("/dev/xvdf", _SIZE, _VOLUME, "/dev/sdf")
    assert prove(_facts(path="/dev/xvdf", serial=None), device)
    with pytest.raises(NotOurs, match="no serial"):
        prove(_facts(path="/dev/xvdg", serial=None), BlockDevice("/dev/xvdg", _SIZE, _VOLUME, "/dev/sdf"))


def test_an_instance_store_is_identified_by_its_model(prove) -> None:
    local = BlockDevice("/dev/nvme1n1", _SIZE)
    assert prove(_facts(serial="AWS123", model="Amazon EC2 NVMe Instance Storage"), local)
    with pytest.raises(NotOurs, match="an instance store"):
        prove(_facts(model="Amazon Elastic Block Store"), local)


def test_a_mistyped_path_is_refused(host: SshHost, tmp_path) -> None:
    with pytest.raises(DeviceNotFound, match="/dev/nvme77n1 does not exist on instance i-0test"):
        inspect_device(host, "/dev/nvme77n1")
    plain = tmp_path / "nvme1n1"
    plain.write_text("x")
    with pytest.raises(DeviceNotFound, match="is a regular file, not a block device"):
        inspect_device(host, str(plain))


def test_a_volume_that_is_not_attached_is_not_found(host: SshHost) -> None:
    with pytest.raises(DeviceNotFound, match=rf"{_VOLUME} .* within 0\.1 s"):
        find_device(host, _VOLUME, size=_SIZE, timeout_s=0.1)


@pytest.mark.parametrize("odd", ["vol-", "vol-xyz", "i-0123456789abcdef0", "vol-0123; reboot", ""])
def test_invalid_volume_ids_are_refused(host: SshHost, odd: str) -> None:
    with pytest.raises(ValueError, match="volume id"):
        find_device(host, odd, size=_SIZE)


_STORE_LINK = "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS0123456789ABCDEF0"


@pytest.mark.parametrize(
    "says",
    [
        {"serial": "AWS0123456789ABCDEF0", "model": "Amazon EC2 NVMe Instance Storage"},
        {"serial": None, "links": (f"{_STORE_LINK}-ns-1", f"{_STORE_LINK}_1", _STORE_LINK)},
    ],
)
def test_a_local_disk_is_identified_by_its_serial(prove, says) -> None:
    facts = _facts(**says)
    assert facts.instance_store_serial == "AWS0123456789ABCDEF0"
    prove(facts, BlockDevice("/dev/nvme1n1", _SIZE, serial="AWS0123456789ABCDEF0"))
    prove(facts, BlockDevice("/dev/nvme1n1", _SIZE))
    with pytest.raises(NotOurs, match="says it is AWS0123456789ABCDEF0: the instance has other local disks"):
        prove(facts, BlockDevice("/dev/nvme1n1", _SIZE, serial="AWSOTHER"))


def test_finding_local_disks_waits_for_all_of_them(host: SshHost, monkeypatch) -> None:
    one = BlockDevice("/dev/nvme1n1", _SIZE, serial="AWS1")
    shown = iter([[], [one]])
    monkeypatch.setattr(devices, "instance_store_devices", lambda _: next(shown))
    assert devices.find_instance_store(host, 1) == [one]
    monkeypatch.setattr(devices, "instance_store_devices", lambda _: [one, one])
    with pytest.raises(DeviceNotFound, match=r"2 disks of an instance store .* 1"):
        devices.find_instance_store(host, 1)
    monkeypatch.setattr(devices, "instance_store_devices", lambda _: [])
    with pytest.raises(DeviceNotFound, match=r"0 disks of an instance store, DescribeInstanceTypes .* 1"):
        devices.find_instance_store(host, 1, timeout_s=0.0)


def test_waiting_for_a_size_ends_when_the_device_has_it(host: SshHost, monkeypatch) -> None:
    sizes = iter([1 << 30, 1 << 31])
    monkeypatch.setattr(devices, "inspect_device", lambda *_: _facts(size_bytes=next(sizes)))
    grown = BlockDevice("/dev/nvme1n1", Size(1 << 31), _VOLUME)
    devices.wait_for_size(host, grown)
    monkeypatch.setattr(devices, "inspect_device", lambda *_: _facts())
    with pytest.raises(DeviceNotFound, match="still has 1,073,741,824 bytes after 0 s"):
        devices.wait_for_size(host, grown, timeout_s=0.0)
