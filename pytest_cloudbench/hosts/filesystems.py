"""File systems on devices that are ours: made, mounted, handed to a user, unmounted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, NotOurs
from pytest_cloudbench.hosts.listener import operation
from pytest_cloudbench.hosts.signatures import read_signature, refuse_overwriting, remember_made, wipe
from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.hosts.device_facts import DeviceFacts

_MAKE = {
    # No discard: on a new volume it gains nothing and takes as long as trimming all of it.
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
}
_OVER_SEVERAL = ["-d", "raid0", "-m", "raid0"]
_MOUNT_OPTIONS = {
    "xfs": "noatime",
    # Without it the kernel goes on writing inode tables in the background of the measurement.
    "ext4": "noatime,noinit_itable",
    # Data that is copied on write is checksummed, and checksummed data is read and written through the page
    # cache even where direct I/O was asked for. Discards would go on in the background.
    "btrfs": "noatime,nodatacow,nodiscard",
}
KINDS = tuple(_MAKE)

# What mkfs writes is mostly the journal. XFS: 1/2048 of the file system, at most 2 GiB (mkfs.xfs(8), "logsize");
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
    echo "$at is the mount point of $(findmnt -n -o SOURCE --mountpoint "$at") already: give another directory" >&2
    exit 1
fi
if [ -n "$(ls -A -- "$at")" ]; then
    echo "$at is not an empty directory: what is in it would be out of sight" >&2
    exit 1
fi
if ! mount -t "$kind" -o "$options" -- "$device" "$at"; then
    [ -n "$made" ] && rmdir -- "$at"
    exit 1
fi
chown -- "$owner" "$at" || { umount -- "$at"; exit 1; }
"""


class Carrier(Protocol):
    """What a file system can lie on: a block device that is ours, or several that it spans itself (btrfs)."""

    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def meant(self) -> str: ...

    def prove(self, host: HostConnection, *, mounted_at: str | None = None) -> tuple[DeviceFacts, ...]:
        """The facts of each of `paths`, when it is proven ours and free to overwrite. NotOurs, DeviceNotFound."""
        ...


@dataclass(frozen=True)
class MountedFilesystem:
    """A file system that we mounted: `filesystem` is its kind, `path` where it is, `owner` whose it is.

    `reused`: it was there already, made earlier in this run, and kept its data.
    """

    device: Carrier
    filesystem: str
    path: str
    owner: str
    reused: bool = False


@operation
def mount_new(
    host: HostConnection,
    device: Carrier,
    filesystem: str = "xfs",
    *,
    at: str,
    owner: str | None = None,
    overwrite: bool = False,
    room: Size | None = None,
) -> MountedFilesystem:
    """Make a file system on the device, mount it on `at` and give it to `owner` (default: the login user).

    One of the same kind that this run made there before, on whatever host, is mounted as it is, data and all.
    Anything else that the device carries is refused, or with `overwrite` destroyed; `room` is what is left for the
    file system's own data, as for `make_filesystem`. FilesystemError, NotOurs.
    """
    reused = not overwrite and _made_here(host, device, filesystem)
    if not reused:
        make_filesystem(host, device, filesystem, overwrite=overwrite, room=room)
    return mount(host, device, at=at, owner=owner, reused=reused)


def make_filesystem(
    host: HostConnection,
    device: Carrier,
    filesystem: str = "xfs",
    *,
    overwrite: bool = False,
    room: Size | None = None,
) -> None:
    """Make a file system (xfs, ext4 or btrfs) on the whole device, which must be proven ours.

    A device that carries anything already is refused, or with `overwrite` wiped; so is one whose journal would not
    fit into `room`, what the machine behind the device can still hold (None: no such limit is known).
    FilesystemError, NotOurs.
    """
    if filesystem not in _MAKE:
        raise FilesystemError(
            f"a file system of kind {filesystem!r} is not made here: {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )
    if len(device.paths) > 1 and filesystem != "btrfs":
        raise FilesystemError(f"{filesystem} cannot span {device.meant}: only btrfs takes several devices")
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
        raise FilesystemError(f"{filesystem} could not be made on {device.meant}: {error}") from error
    for path in device.paths:
        remember_made(host, path, filesystem)


def _check_room(filesystem: str, size: Size, room: Size | None) -> None:
    journal = min(_LARGEST_JOURNAL[filesystem], max(_SMALLEST_JOURNAL, size / _PER_JOURNAL[filesystem]))
    if room is not None and room < journal:
        raise FilesystemError(
            f"making {filesystem} on {size} writes up to {journal}, most of it the journal, and the machine behind the "
            f"device has room for {room}: take a smaller disk, or give the embedded region a folder with "
            "--cloudbench-twin-backing=DIR"
        )


def mount(
    host: HostConnection, device: Carrier, *, at: str, owner: str | None = None, reused: bool = False
) -> MountedFilesystem:
    """Mount the device's file system on the directory `at`, made when missing, and give it to `owner`.

    A directory with something in it, or already mounted on, is refused. Raises FilesystemError, NotOurs.
    """
    if not at.startswith("/") or not at.strip("/"):
        raise FilesystemError(f"{at!r} is no directory to mount on: an absolute path is needed")
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


@operation
def prove_mounted(host: HostConnection, mounted: MountedFilesystem) -> None:
    """Raise NotOurs unless the directory is where our own device, and nothing else, is mounted."""
    for facts in mounted.device.prove(host, mounted_at=mounted.path):
        if mounted.path not in facts.mounts:
            raise NotOurs(
                f"{mounted.path} on {host.label} is not where {mounted.device.meant} is mounted: "
                "nothing is written there"
            )


@operation
def unmount(host: HostConnection, mounted: MountedFilesystem) -> None:
    """Unmount it and remove the empty directory; waits some seconds while it is busy. FilesystemError."""
    script = 'mountpoint -q -- "$1" || exit 0; umount -- "$1"'
    for _ in range(_BUSY_TRIES):
        said = host.run(["sh", "-c", script, "sh", mounted.path], sudo=True, check=False)
        if said.exit_code == 0:
            host.run(["rmdir", "--", mounted.path], sudo=True, check=False)
            return
        if "busy" not in said.stderr:
            break
        time.sleep(_BUSY_PAUSE_S)
    raise FilesystemError(f"{mounted.path} on {host.label} cannot be unmounted: {said.stderr.strip()}")


def _made_here(host: HostConnection, device: Carrier, filesystem: str) -> bool:
    """Whether it carries, on each of its devices, one file system of that kind that this run made."""
    device.prove(host)
    carried = {read_signature(host, path) for path in device.paths}
    return len(carried) == 1 and all(
        each is not None and each.kind == filesystem and each.made_here for each in carried
    )
