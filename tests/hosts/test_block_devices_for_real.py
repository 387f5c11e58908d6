"""Devices and file systems on a loop device of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cloudbench.hosts.device_facts import disks_below, inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import BadPath, FilesystemError, MountPointRefused, NotOurs
from pytest_cloudbench.hosts.filesystems import (
    check_mount_point,
    make_filesystem,
    mount,
    mount_new,
    prove_mounted,
    unmount,
)
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size

pytestmark = pytest.mark.embedded

_VOLUME = "vol-0123456789abcdef0"
_SIZE = Size(400 << 20)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device over a sparse file; removed afterwards, with its mounts."""
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
    """The loop device as a Xen volume: without serial, identified by the name of the attachment."""
    return BlockDevice(loop, _SIZE, _VOLUME, attached_as=loop)


def test_the_facts_of_a_device_are_read(host: SshHost, loop: str) -> None:
    facts = inspect_device(host, loop)
    assert facts.path == loop
    assert facts.size_bytes == _SIZE.bytes
    assert facts.number.startswith("7:")
    assert (facts.mounts, facts.used_by, facts.is_partition, facts.read_only) == ((), (), False, False)


@pytest.mark.parametrize("kind", ["xfs", "ext4", "btrfs"])
def test_a_file_system_is_made_mounted_proven_and_unmounted(
    host: SshHost, volume: BlockDevice, tmp_path: Path, kind: str
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
        volume.prove(host)
    with pytest.raises(NotOurs, match="is mounted on"):
        make_filesystem(host, volume, kind)
    unmount(host, mounted)
    assert not at.exists()
    with pytest.raises(NotOurs, match="is not mounted on"):
        prove_mounted(host, mounted)
    unmount(host, mounted)


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_a_directory_lies_on_the_disk_of_its_file_system(
    host: SshHost, volume: BlockDevice, tmp_path: Path, kind: str
) -> None:
    mounted = mount_new(host, volume, kind, at=str(tmp_path / "mnt"))
    within = tmp_path / "mnt" / "some where"
    within.mkdir()
    assert [each.path for each in disks_below(host, str(within))] == [volume.path]
    unmount(host, mounted)
    assert disks_below(host, "/proc") == []
    assert disks_below(host, str(within)) != [volume.path]


@pytest.mark.alone  # a region that starts meanwhile would hold the mount, and so the partition
def test_a_partition_lies_on_its_disk(host: SshHost, loop: str, tmp_path: Path) -> None:
    made = subprocess.run(
        ["addpart", loop, "1", "2048", "409600"], capture_output=True, text=True, check=False
    )
    part = f"{loop}p1"
    if made.returncode != 0 or not Path(part).is_block_device():
        pytest.skip(f"this machine makes no partitions of loop devices: {made.stderr.strip()}")
    (tmp_path / "mnt").mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", part], check=True)
        subprocess.run(["mount", part, str(tmp_path / "mnt")], check=True)
        assert [each.path for each in disks_below(host, str(tmp_path / "mnt"))] == [loop]
    finally:
        subprocess.run(["umount", "--quiet", str(tmp_path / "mnt")], check=False)
        subprocess.run(["delpart", loop, "1"], check=True)


def test_the_file_system_of_another_is_not_overwritten(host: SshHost, volume: BlockDevice) -> None:
    subprocess.run(["mkfs.ext4", "-q", volume.path], check=True)
    for kind in ("xfs", "ext4"):
        with pytest.raises(FilesystemError, match=r"carries ext4: making .* overwrite=True"):
            make_filesystem(host, volume, kind)
    with pytest.raises(FilesystemError, match=r"carries ext4: making ext4"):
        mount_new(host, volume, "ext4", at="/mnt/never")
    make_filesystem(host, volume, "xfs", overwrite=True)
    with pytest.raises(FilesystemError, match=r"carries xfs, made in this run: making ext4"):
        make_filesystem(host, volume, "ext4")


def test_a_file_system_of_this_run_is_mounted_again_with_its_data(
    host: SshHost, volume: BlockDevice, tmp_path: Path
) -> None:
    first = mount_new(host, volume, "xfs", at=str(tmp_path / "one"))
    assert not first.reused
    (tmp_path / "one" / "kept").write_text("data")
    unmount(host, first)
    again = mount_new(host, volume, "xfs", at=str(tmp_path / "two"))
    assert again.reused
    assert (tmp_path / "two" / "kept").read_text() == "data"
    unmount(host, again)
    with pytest.raises(FilesystemError, match="carries xfs, made in this run: making ext4 would destroy it"):
        mount_new(host, volume, "ext4", at=str(tmp_path / "two"))
    anew = mount_new(host, volume, "xfs", at=str(tmp_path / "two"), overwrite=True)
    assert not anew.reused
    assert list((tmp_path / "two").iterdir()) == []


@pytest.mark.parametrize("words", ["a member of an md array", "an LVM physical volume"])
def test_members_of_arrays_are_not_overwritten(host: SshHost, volume: BlockDevice, words: str) -> None:
    of_md = words.endswith("md array")
    with Path(volume.path).open("r+b") as device:
        device.seek(4096 if of_md else 512)
        device.write(_md_superblock() if of_md else _lvm_label())
    with pytest.raises(FilesystemError, match=words):
        make_filesystem(host, volume)
    make_filesystem(host, volume, overwrite=True)


def test_signatures_that_contradict_each_other_are_not_overwritten(
    host: SshHost, volume: BlockDevice
) -> None:
    subprocess.run(["mkfs.xfs", "-q", "-f", volume.path], check=True)
    with Path(volume.path).open("r+b") as device:
        device.seek(4096)
        device.write(_md_superblock())
        device.seek(512)
        device.write(_lvm_label())
    with pytest.raises(FilesystemError, match="carries"):
        make_filesystem(host, volume)
    make_filesystem(host, volume, "ext4", overwrite=True)
    assert subprocess.run(
        ["wipefs", "--noheadings", "--output", "TYPE", volume.path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split() == ["ext4"]


def _md_superblock() -> bytes:
    """Version 1.2, as mdadm writes it: magic, checksum and the offset of the superblock itself (8 sectors)."""
    block = bytearray(256)
    block[0:4] = bytes.fromhex("fc4e2ba9")
    block[4:8] = (1).to_bytes(4, "little")
    block[16:32] = bytes(range(16))
    block[144:152] = (8).to_bytes(8, "little")
    words = [int.from_bytes(block[at : at + 4], "little") for at in range(0, 256, 4)]
    total = sum(words)
    block[216:220] = ((total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(block)


def _lvm_label() -> bytes:
    """A label in sector 1, as pvcreate writes it, with its checksum."""
    label = bytearray(512)
    label[0:8] = b"LABELONE"
    label[8:16] = (1).to_bytes(8, "little")
    label[20:24] = (32).to_bytes(4, "little")
    label[24:32] = b"LVM2 001"
    label[32:64] = b"0123456789abcdefghijklmnopqrstuv"
    label[16:20] = _lvm_checksum(bytes(label[20:]))
    return bytes(label)


def _lvm_checksum(data: bytes) -> bytes:
    checksum = 0xF597A6CF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0xEDB88320 if checksum & 1 else 0)
    return checksum.to_bytes(4, "little")


def test_a_partition_table_is_not_overwritten(host: SshHost, volume: BlockDevice) -> None:
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    with Path(volume.path).open("r+b") as device:
        device.write((b"\0" * 446 + entry).ljust(510, b"\0") + b"\x55\xaa")
    with pytest.raises(FilesystemError, match="carries a dos partition table: making xfs"):
        make_filesystem(host, volume)


def test_a_device_not_ours_is_not_formatted(host: SshHost, loop: str) -> None:
    with pytest.raises(NotOurs):
        make_filesystem(host, BlockDevice(loop, _SIZE, _VOLUME))
    with pytest.raises(NotOurs, match="not 1,048,576"):
        make_filesystem(host, BlockDevice(loop, Size(1 << 20), _VOLUME, attached_as=loop))
    probe = subprocess.run(["blkid", "-p", loop], capture_output=True, check=False)
    assert probe.returncode == 2


def test_an_unknown_kind_and_a_directory_with_files_are_refused(
    host: SshHost, volume: BlockDevice, tmp_path: Path
) -> None:
    with pytest.raises(FilesystemError, match="'ntfs': use xfs, ext4 or btrfs"):
        make_filesystem(host, volume, "ntfs")
    with pytest.raises(FilesystemError, match="no file system to mount"):
        mount(host, volume, at=str(tmp_path / "new"))
    make_filesystem(host, volume)
    (tmp_path / "something").write_text("x")
    with pytest.raises(FilesystemError, match="not an empty directory"):
        mount(host, volume, at=str(tmp_path))
    with pytest.raises(FilesystemError, match="absolute path"):
        mount(host, volume, at="mnt")


def test_unmounting_a_busy_file_system_waits_and_then_reports_it(
    host: SshHost, volume: BlockDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.hosts.filesystems._BUSY_TRIES", 2)
    mounted = mount_new(host, volume, "ext4", at=str(tmp_path / "mnt"))
    with (tmp_path / "mnt" / "held").open("w"), pytest.raises(FilesystemError, match="busy"):
        unmount(host, mounted)
    unmount(host, mounted)


@pytest.mark.fault("disks", "a mount point that is the system's or in use", leak=True)
def test_a_directory_that_was_there_stays_as_it_was(
    host: SshHost, volume: BlockDevice, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o710)
    os.chown(there, 1234, 1234)
    before = there.stat()
    mounted = mount_new(host, volume, "ext4", at=f"{there}/")
    assert (mounted.path, mounted.made) == (str(there), "")
    unmount(host, mounted)
    after = there.stat()
    assert (after.st_uid, after.st_gid, after.st_mode, after.st_ino) == (
        1234,
        1234,
        before.st_mode,
        before.st_ino,
    )
    deeper = mount_new(host, volume, "ext4", at=str(there / "made" / "too"))
    assert deeper.made == str(there / "made")
    unmount(host, deeper)
    assert list(tmp_path.joinpath("there").iterdir()) == []
    kept = mount_new(host, volume, "ext4", at=str(there / "made" / "too"))
    (there / "made" / "of somebody").touch()
    unmount(host, kept)
    assert [each.name for each in (there / "made").iterdir()] == ["of somebody"], (
        "only empty directories are removed"
    )


@pytest.mark.fault("disks", "a mount point that is the system's or in use")
def test_a_mount_point_in_use_is_refused_before_anything_is_written(
    host: SshHost, volume: BlockDevice, tmp_path: Path
) -> None:
    full, link, file = tmp_path / "full", tmp_path / "link", tmp_path / "file"
    (full / "inside").mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    file.touch()
    for at, owner, words in (
        ("/tmp", None, "/tmp belongs to the system"),
        ("/mnt/../srv/", None, "/srv belongs to the system"),
        ("/usr/local/data", None, "belongs to the system"),
        (str(full), None, "not an empty directory"),
        (str(link), None, "leads to .*elsewhere"),
        (str(file), None, "not a directory"),
        (str(file / "below"), None, "is below .*file, which is not a directory"),
        (str(tmp_path / "new"), "no-such-user", "has no user no-such-user"),
    ):
        with pytest.raises(FilesystemError, match=words):
            mount_new(host, volume, "xfs", at=at, owner=owner)
    assert subprocess.run(["blkid", "-p", volume.path], capture_output=True, check=False).returncode == 2
    assert not (tmp_path / "new").exists()
    with pytest.raises(BadPath, match="the character"):
        mount_new(host, volume, "xfs", at="/mnt/two\nlines")
    mounted = mount_new(host, volume, "xfs", at=str(tmp_path / "new"))
    with pytest.raises(MountPointRefused, match=f"already the mount point of {volume.path}"):
        check_mount_point(host, str(tmp_path / "new"))
    unmount(host, mounted)
