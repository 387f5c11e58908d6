"""File systems on devices that are ours: signatures of what a device carries, making, mounting and unmounting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, NotOurs
from pytest_cloudbench.hosts.host import operation
from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.device_facts import DeviceFacts
    from pytest_cloudbench.hosts.host import Host

_MAKE = {
    # No discard: on a new volume it has no use, and trimming all of it takes long.
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}
_OVER_SEVERAL = ["-d", "raid0", "-m", "raid0"]
_MOUNT_OPTIONS = {
    "xfs": "noatime",
    # Otherwise the kernel writes inode tables in the background of the measurement.
    "ext4": "noatime,noinit_itable",
    # Copy-on-write data has checksums, and data with checksums goes through the page cache even with direct I/O.
    # Discards would run in the background.
    "btrfs": "noatime,nodatacow,nodiscard",
}
KINDS = tuple(_MAKE)

# mkfs writes mostly the journal. XFS: 1/2048 of the file system, at most 2 GiB (mkfs.xfs(8), "logsize");
# ext4: at most 1 GiB, of a small one about 1/64 (mke2fs, ext2fs_default_journal_size); btrfs has none.
_LARGEST_JOURNAL = {"xfs": Size(2 << 30), "ext4": Size(1 << 30), "btrfs": Size(64 << 20)}
_PER_JOURNAL = {"xfs": 2048, "ext4": 64, "btrfs": 2048}
_SMALLEST_JOURNAL = Size(64 << 20)

_MAKE_S = 600.0
_BUSY_TRIES = 20
_BUSY_PAUSE_S = 0.25

_MOUNT = """\
at=$1 kind=$2 options=$3 device=$4 owner=$5
made=
[ -e "$at" ] || made=1
mkdir -p -- "$at" || exit 1
if mountpoint -q -- "$at"; then
    echo "$at is already the mount point of $(findmnt -n -o SOURCE --mountpoint "$at"): give another directory" >&2
    exit 1
fi
if [ -n "$(ls -A -- "$at")" ]; then
    echo "$at is not an empty directory: a mount would hide its content" >&2
    exit 1
fi
if ! mount -t "$kind" -o "$options" -- "$device" "$at"; then
    [ -n "$made" ] && rmdir -- "$at"
    exit 1
fi
chown -- "$owner" "$at" || { umount -- "$at"; exit 1; }
"""

_NOTHING_FOUND = 2
_CONTRADICTING = 8
_WORDS = {
    "linux_raid_member": "a member of an md array",
    "LVM2_member": "an LVM physical volume",
    "swap": "swap space",
    "crypto_LUKS": "a LUKS container",
}

_made_by_us: set[str] = set()
"""UUIDs of the file systems made by this process, on any host: a volume may have moved since."""


@dataclass(frozen=True)
class Signature:
    """What a device carries: `kind` as blkid names it ("xfs", "LVM2_member"), or the kind of partition table."""

    kind: str
    uuid: str | None = None
    is_partition_table: bool = False

    @property
    def made_here(self) -> bool:
        """Whether this run made the file system."""
        return self.uuid is not None and self.uuid in _made_by_us

    def __str__(self) -> str:
        if self.is_partition_table:
            return f"a {self.kind} partition table"
        return _WORDS.get(self.kind, f"{self.kind}, made in this run" if self.made_here else self.kind)


def read_signature(host: Host, path: str) -> Signature | None:
    """Return what the device carries, read from the device itself and not from udev's cache; None if nothing.

    Raises FilesystemError if that cannot be read.
    """
    result = host.run(["blkid", "-p", "-o", "export", "--", path], sudo=True, check=False, idempotent=True)
    if result.exit_code == _NOTHING_FOUND:
        return None
    if result.exit_code == _CONTRADICTING:
        return Signature("signatures of several kinds")
    if result.exit_code != 0:
        raise FilesystemError(f"cannot read what {path} on {host.label} carries: {result.stderr.strip()}")
    pairs = {key: value for key, _, value in (line.partition("=") for line in result.stdout.splitlines())}
    if "TYPE" in pairs:
        return Signature(pairs["TYPE"], pairs.get("UUID"))
    return Signature(pairs.get("PTTYPE", "unknown"), pairs.get("PTUUID"), is_partition_table=True)


@operation("refuse_overwriting", repeatable=True)
def refuse_overwriting(host: Host, paths: Sequence[str], what_for: str) -> None:
    """Raise FilesystemError with every device of `paths` that carries something."""
    found = [(path, signature) for path in paths if (signature := read_signature(host, path)) is not None]
    if found:
        carries = ", ".join(f"{path} carries {signature}" for path, signature in found)
        raise FilesystemError(
            f"on {host.label}, {carries}: {what_for} would destroy it, which needs overwrite=True"
        )


@operation("refuse_content", repeatable=True)
def refuse_content(host: Host, paths: Sequence[str]) -> None:
    """Raise NotOurs with every device of `paths` that carries something, for devices that the run did not create."""
    found = [(path, signature) for path in paths if (signature := read_signature(host, path)) is not None]
    if found:
        carries = ", ".join(f"{path} carries {signature}" for path, signature in found)
        raise NotOurs(
            f"on {host.label}, {carries}: nothing is written to it; if that is no longer needed, remove it by wipefs "
            "--all yourself"
        )


def wipe(host: Host, paths: Sequence[str]) -> None:
    """Remove every signature from devices that the caller has proven ours. Raises FilesystemError."""
    try:
        host.run(["wipefs", "--all", "--quiet", "--", *paths], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(f"{', '.join(paths)} could not be wiped: {error}") from error


@operation("clear_devices")
def clear_devices(host: Host, devices: Sequence[Carrier]) -> None:
    """Remove every signature from devices that the next test finds empty. Raises NotOurs or FilesystemError."""
    for device in devices:
        device.prove(host)
    wipe(host, [path for device in devices for path in device.paths])


def remember_made(host: Host, path: str, kind: str) -> Signature:
    """Remember the file system that was just made there. Raises FilesystemError if there is none."""
    signature = read_signature(host, path)
    if signature is None or signature.kind != kind or signature.uuid is None:
        raise FilesystemError(f"{kind} was made on {path} of {host.label}, but was not found there")
    _made_by_us.add(signature.uuid)
    return signature


class Carrier(Protocol):
    """What can carry a file system: a block device that is ours, or several that the file system spans (btrfs)."""

    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def hardware(self) -> str: ...

    def prove(self, host: Host, *, mounted_at: str | None = None) -> tuple[DeviceFacts, ...]:
        """Return the facts of each of `paths`, once it is proven ours and free. Raises NotOurs or DeviceNotFound."""
        ...


@dataclass(frozen=True)
class MountedFilesystem:
    """A file system that we mounted: `filesystem` is its kind, `path` its directory, `owner` the owner of that.

    `reused`: it was made earlier in this run and kept its data.
    """

    device: Carrier
    filesystem: str
    path: str
    owner: str
    reused: bool = False


@operation("mount_new")
def mount_new(
    host: Host,
    device: Carrier,
    filesystem: str = "xfs",
    *,
    at: str,
    owner: str | None = None,
    overwrite: bool = False,
    room: Size | None = None,
) -> MountedFilesystem:
    """Make a file system on the device, mount it on `at` and make `owner` its owner (default: the login user).

    A file system of this kind that this run made on the device before, on any host, is mounted with its data.
    Anything else on the device is refused, or with `overwrite` destroyed. `room`: see `make_filesystem`.
    Raises FilesystemError or NotOurs.
    """
    reused = not overwrite and _made_here(host, device, filesystem)
    if not reused:
        make_filesystem(host, device, filesystem, overwrite=overwrite, room=room)
    return mount(host, device, at=at, owner=owner, reused=reused)


def make_filesystem(
    host: Host,
    device: Carrier,
    filesystem: str = "xfs",
    *,
    overwrite: bool = False,
    room: Size | None = None,
) -> None:
    """Make a file system (xfs, ext4 or btrfs) on the whole device, which must be proven ours.

    A device that carries anything is refused, or with `overwrite` wiped. `room` is how much data the machine behind
    the device can still hold (None if no such limit is known): a larger journal is refused.
    Raises FilesystemError or NotOurs.
    """
    if filesystem not in _MAKE:
        raise FilesystemError(
            f"unknown kind of file system {filesystem!r}: use {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )
    if len(device.paths) > 1 and filesystem != "btrfs":
        raise FilesystemError(f"{filesystem} cannot span {device.hardware}: only btrfs spans several devices")
    tool = host.ensure_tool(_MAKE[filesystem][0])
    size = Size(sum(facts.size_bytes for facts in device.prove(host)))
    _check_room(filesystem, size, room)
    if overwrite:
        wipe(host, device.paths)
    else:
        refuse_overwriting(host, device.paths, f"making {filesystem}")
    options = _MAKE[filesystem][1:] + (_OVER_SEVERAL if len(device.paths) > 1 else [])
    try:
        host.run([tool, *options, "--", *device.paths], sudo=True, timeout_s=_MAKE_S)
    except CommandFailed as error:
        raise FilesystemError(f"{filesystem} could not be made on {device.hardware}: {error}") from error
    for path in device.paths:
        remember_made(host, path, filesystem)


def _check_room(filesystem: str, size: Size, room: Size | None) -> None:
    journal = min(_LARGEST_JOURNAL[filesystem], max(_SMALLEST_JOURNAL, size / _PER_JOURNAL[filesystem]))
    if room is not None and room < journal:
        raise FilesystemError(
            f"making {filesystem} on {size} writes up to {journal}, most of it the journal, but the machine behind the "
            f"device has room for {room}: use a smaller disk, or give the embedded region a folder with "
            "--cloudbench-twin-backing=DIR"
        )


def mount(
    host: Host, device: Carrier, *, at: str, owner: str | None = None, reused: bool = False
) -> MountedFilesystem:
    """Mount the device's file system on the directory `at`, which is created if missing, and make `owner` its owner.

    A directory that is not empty, or already a mount point, is refused. Raises FilesystemError or NotOurs.
    """
    if not at.startswith("/") or not at.strip("/"):
        raise FilesystemError(f"cannot mount on {at!r}: give the absolute path of a directory")
    device.prove(host)
    owner = owner or host.user
    carried = read_signature(host, device.path)
    if carried is None:
        raise FilesystemError(f"{device.path} on {host.label} carries no file system to mount")
    options = _MOUNT_OPTIONS.get(carried.kind, "noatime")
    if len(device.paths) > 1:
        options += "".join(f",device={path}" for path in device.paths)
    try:
        host.run(["sh", "-c", _MOUNT, "sh", at, carried.kind, options, device.path, owner], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(
            f"{device.path} could not be mounted on {at} of {host.label}: {error.stderr.strip()}"
        ) from error
    return MountedFilesystem(device, carried.kind, at, owner, reused)


@operation("prove_mounted", repeatable=True)
def prove_mounted(host: Host, mounted: MountedFilesystem) -> None:
    """Raise NotOurs unless our own device, and nothing else, is mounted on the directory."""
    for facts in mounted.device.prove(host, mounted_at=mounted.path):
        if mounted.path not in facts.mounts:
            raise NotOurs(
                f"{mounted.device.hardware} is not mounted on {mounted.path} of {host.label}: nothing is written there"
            )


@operation("unmount")
def unmount(host: Host, mounted: MountedFilesystem) -> None:
    """Unmount the file system and remove its directory. A busy one is retried for 5 s. Raises FilesystemError."""
    script = 'mountpoint -q -- "$1" || exit 0; umount -- "$1"'
    for _ in range(_BUSY_TRIES):
        result = host.run(["sh", "-c", script, "sh", mounted.path], sudo=True, check=False)
        if result.exit_code == 0:
            host.run(["rmdir", "--", mounted.path], sudo=True, check=False)
            return
        if "busy" not in result.stderr:
            break
        time.sleep(_BUSY_PAUSE_S)
    raise FilesystemError(f"{mounted.path} on {host.label} cannot be unmounted: {result.stderr.strip()}")


def _made_here(host: Host, device: Carrier, filesystem: str) -> bool:
    """Return whether this run made the file system on it, one of this kind over all its devices."""
    device.prove(host)
    carried = {read_signature(host, path) for path in device.paths}
    return len(carried) == 1 and all(
        each is not None and each.kind == filesystem and each.made_here for each in carried
    )
