"""Devices and file systems on a loop device of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cloudbench.hosts.connection import HostConnection
from pytest_cloudbench.hosts.devices import BlockDevice, inspect_device, prove_ours
from pytest_cloudbench.hosts.errors import FilesystemError, NotOurs
from pytest_cloudbench.hosts.filesystems import make_filesystem, mount, mount_new, prove_mounted, unmount
from pytest_cloudbench.promises.quantities import Size

pytestmark = pytest.mark.embedded

_VOLUME = "vol-0123456789abcdef0"
_SIZE = Size(400 << 20)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device over a sparse file; removed afterwards, with whatever is mounted from it."""
    if os.geteuid() != 0:
        pytest.skip("making a loop device needs root")
    backing = tmp_path / "backing"
    backing.touch()
    os.truncate(backing, _SIZE.bytes)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"this machine makes no loop device: {made.stderr.strip()}")
    path = made.stdout.strip()
    try:
        yield path
    finally:
        subprocess.run(["umount", "--all-targets", path], capture_output=True, check=False)
        subprocess.run(["losetup", "--detach", path], check=True)


@pytest.fixture
def volume(loop: str) -> BlockDevice:
    """The loop device as a Xen volume: no serial, known by the attachment's name."""
    return BlockDevice(loop, _SIZE, _VOLUME, attached_as=loop)


def test_a_device_is_seen_as_it_is(host: HostConnection, loop: str) -> None:
    facts = inspect_device(host, loop)
    assert facts.path == loop
    assert facts.size_bytes == _SIZE.bytes
    assert facts.number.startswith("7:")
    assert (facts.mounts, facts.used_by, facts.is_partition, facts.read_only) == ((), (), False, False)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_a_file_system_is_made_mounted_proven_and_unmounted(
    host: HostConnection, volume: BlockDevice, tmp_path: Path, kind: str
) -> None:
    at = tmp_path / "mnt point"
    mounted = mount_new(host, volume, kind, at=str(at), owner="nobody")
    assert (mounted.filesystem, mounted.path, mounted.owner) == (kind, str(at), "nobody")
    assert os.path.ismount(at)
    assert at.owner() == "nobody"
    options = next(line for line in Path("/proc/mounts").read_text().splitlines() if volume.path in line)
    assert "noatime" in options
    prove_mounted(host, mounted)
    with pytest.raises(NotOurs, match="is mounted on"):
        prove_ours(host, volume)
    with pytest.raises(NotOurs, match="is mounted on"):
        make_filesystem(host, volume, kind)
    unmount(host, mounted)
    assert not at.exists()
    with pytest.raises(NotOurs, match="is not where"):
        prove_mounted(host, mounted)
    unmount(host, mounted)


def test_a_file_system_of_somebody_else_is_not_formatted(host: HostConnection, volume: BlockDevice) -> None:
    subprocess.run(["mkfs.ext4", "-q", volume.path], check=True)
    with pytest.raises(FilesystemError, match=r"carries ext4 already, not made in this run"):
        make_filesystem(host, volume, "xfs")
    make_filesystem(host, volume, "xfs", force=True)
    make_filesystem(host, volume, "ext4")


def test_a_partition_table_is_not_overwritten(host: HostConnection, volume: BlockDevice) -> None:
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    with Path(volume.path).open("r+b") as device:
        device.write((b"\0" * 446 + entry).ljust(510, b"\0") + b"\x55\xaa")
    with pytest.raises(FilesystemError, match="carries dos partition table already"):
        make_filesystem(host, volume)


def test_a_device_not_ours_is_not_formatted(host: HostConnection, loop: str) -> None:
    with pytest.raises(NotOurs):
        make_filesystem(host, BlockDevice(loop, _SIZE, _VOLUME))
    with pytest.raises(NotOurs, match="not 1,048,576"):
        make_filesystem(host, BlockDevice(loop, Size(1 << 20), _VOLUME, attached_as=loop))
    probe = subprocess.run(["blkid", "-p", loop], capture_output=True, check=False)
    assert probe.returncode == 2


def test_an_unknown_kind_and_a_full_directory_are_refused(
    host: HostConnection, volume: BlockDevice, tmp_path: Path
) -> None:
    with pytest.raises(FilesystemError, match="'ntfs' is not made here: xfs or ext4"):
        make_filesystem(host, volume, "ntfs")
    with pytest.raises(FilesystemError, match="no file system to mount"):
        mount(host, volume, at=str(tmp_path / "new"))
    make_filesystem(host, volume)
    (tmp_path / "something").write_text("x")
    with pytest.raises(FilesystemError, match="not an empty directory"):
        mount(host, volume, at=str(tmp_path))
    with pytest.raises(FilesystemError, match="absolute path"):
        mount(host, volume, at="mnt")


def test_a_busy_file_system_is_waited_for_and_then_named(
    host: HostConnection, volume: BlockDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.hosts.filesystems._BUSY_TRIES", 2)
    mounted = mount_new(host, volume, "ext4", at=str(tmp_path / "mnt"))
    with (tmp_path / "mnt" / "held").open("w"), pytest.raises(FilesystemError, match="busy"):
        unmount(host, mounted)
    unmount(host, mounted)
