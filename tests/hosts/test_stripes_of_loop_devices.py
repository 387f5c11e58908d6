"""Loop devices of this machine striped by every method that it has, mounted, proven and turned back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cloudbench.hosts.content import read_signature
from pytest_cloudbench.hosts.device_facts import inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import FilesystemError, NotOurs, StripeError
from pytest_cloudbench.hosts.filesystems import mount_new, prove_mounted, unmount
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.hosts.stripe_methods import ChosenMethod, Method, _look, choose_method
from pytest_cloudbench.hosts.stripes import BTRFS_CHUNK, StripedDevices, find_again, stripe, unstripe
from pytest_cloudbench.limits.quantities import Size

pytestmark = pytest.mark.embedded

_SIZE = Size(300 << 20)
_CHUNK = Size(64 << 10)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[BlockDevice]]:
    """Three loop devices over sparse files as Xen volumes; removed afterwards, with their mounts."""
    if os.geteuid() != 0:
        pytest.skip("making a loop device needs root")
    made: list[str] = []
    try:
        for number in range(3):
            backing = tmp_path / f"backing{number}"
            backing.touch()
            os.truncate(backing, _SIZE.bytes)
            said = subprocess.run(
                ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
            )
            if said.returncode != 0:
                pytest.skip(f"this machine makes no loop device: {said.stderr.strip()}")
            made.append(said.stdout.strip())
        yield [
            BlockDevice(path, _SIZE, f"vol-0123456789abcdef{number}", attached_as=path)
            for number, path in enumerate(made)
        ]
    finally:
        for path in made:
            subprocess.run(["umount", "--all-targets", path], capture_output=True, check=False)
            subprocess.run(["losetup", "--detach", path], check=True)


@pytest.fixture
def by_btrfs(host: SshHost) -> None:
    """Make btrfs the chosen method."""
    try:
        chosen = choose_method(host)
    except StripeError as error:
        pytest.skip(str(error))
    if chosen.method != "btrfs":
        pytest.skip(f"this machine stripes by {chosen.method}")


@pytest.fixture(params=["md", "LVM"])
def as_device(
    request: pytest.FixtureRequest,
    host: SshHost,
    disks: list[BlockDevice],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StripedDevices]:
    """A stripe that is a block device; removed after the test. No tool is installed for it."""
    method: Method = request.param
    tool, module = {"md": ("mdadm", "raid0"), "LVM": ("lvcreate", "dm_mod")}[method]
    if shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip(f"{tool} is not installed on this machine")
    if method not in _look(host):
        pytest.skip(f"this machine's kernel has no {module}, or root may not make device nodes here")
    monkeypatch.setattr("pytest_cloudbench.hosts.stripes.choose_method", lambda _: ChosenMethod(method))
    made = stripe(host, disks, chunk=_CHUNK)
    yield made
    subprocess.run(["umount", "--all-targets", made.path], capture_output=True, check=False)
    members = [disk.path for disk in disks]
    endings = {
        "md": [["mdadm", "--stop", made.path], ["mdadm", "--zero-superblock", *members]],
        "LVM": [["vgremove", "-f", "-y", made.name], ["pvremove", "-f", "-y", *members]],
    }
    for ending in endings[method]:
        subprocess.run(ending, capture_output=True, check=False)


@pytest.fixture
def striped(host: SshHost, by_btrfs: None, disks: list[BlockDevice]) -> StripedDevices:
    return stripe(host, disks, chunk=_CHUNK)


def test_a_stripe_by_btrfs_spans_all_its_devices(
    host: SshHost, striped: StripedDevices, disks: list[BlockDevice], tmp_path: Path
) -> None:
    assert (striped.method, striped.chunk, striped.is_device) == ("btrfs", BTRFS_CHUNK, False)
    assert striped.size.bytes == 3 * _SIZE.bytes
    assert "no md" in striped.why
    assert "no LVM" in striped.why
    at = tmp_path / "data"
    mounted = mount_new(host, striped, "btrfs", at=str(at), owner="nobody")
    prove_mounted(host, mounted)
    for disk in disks:
        facts = inspect_device(host, disk.path)
        assert (facts.mounts, facts.used_by) == ((str(at),), ("btrfs",))
        with pytest.raises(NotOurs, match="is in use by btrfs"):
            disk.prove(host)
    before = [_sectors_written(disk) for disk in disks]
    with (at / "file").open("wb", buffering=0) as file:
        file.write(os.urandom(48 << 20))
        os.fsync(file.fileno())
    written = [now - then for now, then in zip(map(_sectors_written, disks), before, strict=True)]
    assert all(each * 512 > 12 << 20 for each in written), "a third of it went to each"
    flags = subprocess.run(["lsattr", str(at / "file")], capture_output=True, text=True, check=True)
    assert "C" in flags.stdout.split()[0], "not copied on write"
    with pytest.raises(NotOurs, match="is mounted on"):
        unstripe(host, striped)
    unmount(host, mounted)
    again = mount_new(host, striped, "btrfs", at=str(at))
    assert again.reused
    assert (at / "file").stat().st_size == 48 << 20
    unmount(host, again)
    unstripe(host, striped)
    assert [read_signature(host, disk.path) for disk in disks] == [None] * 3
    assert stripe(host, disks[:2], chunk=_CHUNK).size.bytes == 2 * _SIZE.bytes


def test_a_stripe_that_is_a_device_is_found_again_after_it_was_stopped(
    host: SshHost, as_device: StripedDevices, disks: list[BlockDevice], tmp_path: Path
) -> None:
    """By md and by LVM: made, proven, written to, stopped, found again with its data, and turned back."""
    assert (as_device.is_device, as_device.chunk) == (True, _CHUNK)
    assert 0 < 3 * _SIZE.bytes - as_device.size.bytes < 3 * (16 << 20), "superblocks take a little"
    as_device.prove(host)
    (holder,) = {inspect_device(host, disk.path).used_by for disk in disks}
    assert holder == (Path(as_device.path).name,)
    with pytest.raises(NotOurs, match=f"is in use by {holder[0]}"):
        disks[0].prove(host)
    at = tmp_path / "data"
    mounted = mount_new(host, as_device, "xfs", at=str(at))
    prove_mounted(host, mounted)
    before = [_sectors_written(disk) for disk in disks]
    content = os.urandom(48 << 20)
    with (at / "file").open("wb", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())
    written = [now - then for now, then in zip(map(_sectors_written, disks), before, strict=True)]
    assert all(each * 512 > 12 << 20 for each in written), "a third of it went to each"
    with pytest.raises(NotOurs, match="is mounted on"):
        unstripe(host, as_device)
    unmount(host, mounted)
    stop = (
        ["mdadm", "--stop", as_device.path]
        if as_device.method == "md"
        else ["vgchange", "-an", as_device.name]
    )
    if shutil.which("udevadm"):  # it may still look at what was unmounted
        subprocess.run(["udevadm", "settle", "--timeout=10"], check=False)
    subprocess.run(stop, check=True, capture_output=True)
    again = find_again(host, as_device, disks)
    mounted = mount_new(host, again, "xfs", at=str(at))
    assert mounted.reused
    assert (at / "file").read_bytes() == content
    unmount(host, mounted)
    unstripe(host, again)
    assert [read_signature(host, disk.path) for disk in disks] == [None] * 3
    assert [inspect_device(host, disk.path).used_by for disk in disks] == [()] * 3
    of_two = stripe(host, disks[:2], chunk=_CHUNK)
    unstripe(host, of_two)


def _sectors_written(disk: BlockDevice) -> int:
    return int(Path(f"/sys/block/{Path(disk.path).name}/stat").read_text().split()[6])


def test_a_lost_mount_is_not_written_to(host: SshHost, striped: StripedDevices, tmp_path: Path) -> None:
    mounted = mount_new(host, striped, "btrfs", at=str(tmp_path / "data"))
    subprocess.run(["umount", mounted.path], check=True)
    with pytest.raises(NotOurs, match=r"stripe of volume .* is not mounted on"):
        prove_mounted(host, mounted)


def test_other_file_systems_do_not_span_devices(host: SshHost, striped: StripedDevices) -> None:
    with pytest.raises(FilesystemError, match="xfs cannot span the stripe of volume"):
        mount_new(host, striped, "xfs", at="/mnt/never")


def test_the_error_names_all_devices_in_use_or_with_data(
    host: SshHost, disks: list[BlockDevice], by_btrfs: None, tmp_path: Path
) -> None:
    subprocess.run(["mkfs.ext4", "-q", disks[0].path], check=True)
    subprocess.run(["mkfs.ext4", "-q", disks[1].path], check=True)
    with pytest.raises(FilesystemError) as caught:
        stripe(host, disks, chunk=_CHUNK)
    assert str(caught.value).count("carries ext4") == 2
    assert "striping would destroy it, which needs overwrite=True" in str(caught.value)
    at = tmp_path / "mnt"
    at.mkdir()
    subprocess.run(["mount", disks[1].path, str(at)], check=True)
    for overwrite in (False, True):
        with pytest.raises(NotOurs, match=rf"{disks[1].path} .* it is mounted on {at}"):
            stripe(host, disks, chunk=_CHUNK, overwrite=overwrite)
    assert read_signature(host, disks[0].path) is not None, "nothing was touched"
    subprocess.run(["umount", str(at)], check=True)
    overwritten = stripe(host, disks, chunk=_CHUNK, overwrite=True)
    assert [read_signature(host, path) for path in overwritten.paths] == [None] * 3


def test_the_root_device_is_never_a_member(host: SshHost, disks: list[BlockDevice]) -> None:
    source = subprocess.run(
        ["findmnt", "-n", "-o", "SOURCE", "/"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not source.startswith("/dev/"):
        pytest.skip("the root file system is on no block device")
    facts = inspect_device(host, source)
    root = BlockDevice(facts.path, Size(facts.size_bytes), "vol-0fedcba987654321", attached_as=facts.path)
    same_size = [BlockDevice(each.path, root.size, each.volume_id, each.path) for each in disks]
    with pytest.raises(NotOurs, match="it holds the root file system"):
        stripe(host, [root, *same_size], chunk=_CHUNK, overwrite=True)
