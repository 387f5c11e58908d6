"""File systems on devices that are ours: making, mounting and unmounting them.

They are never mounted on a directory of the system or on one with content. Unmounting removes only directories that the
mount made.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_cloudbench.hosts.content import (
    read_signature,
    read_signatures,
    refuse_overwriting,
    remember_made,
    wipe,
)
from pytest_cloudbench.hosts.device_facts import DeviceFacts
from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, MountPointRefused, NotOurs
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.hosts.paths import check_path
from pytest_cloudbench.limits.quantities import Size

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
# ext4: at most 1 GiB, about 1/64 of a small file system (mke2fs, ext2fs_default_journal_size); btrfs has none.
_LARGEST_JOURNAL = {"xfs": Size(2 << 30), "ext4": Size(1 << 30), "btrfs": Size(64 << 20)}
_PER_JOURNAL = {"xfs": 2048, "ext4": 64, "btrfs": 2048}
_SMALLEST_JOURNAL = Size(64 << 20)

_MAKE_S = 600.0
_BUSY_TRIES = 20
_BUSY_PAUSE_S = 0.25


# Filesystem Hierarchy Standard 3.0 and hier(7), man-pages 6.03.
_SYSTEM_TREES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr",
)  # fmt: skip
_SYSTEM_DIRECTORIES = (
    "/", "/home", "/lost+found", "/media", "/mnt", "/opt", "/root", "/run", "/run/lock", "/run/user", "/srv", "/tmp",  # noqa: S108
    "/var", "/var/backups", "/var/cache", "/var/crash", "/var/lib", "/var/local", "/var/lock", "/var/log", "/var/mail",
    "/var/opt", "/var/run", "/var/spool", "/var/tmp",  # noqa: S108
)  # fmt: skip

_CHECK = """\
at=$1 owner=$2
refuse() { echo "$at $1" >&2; exit 1; }
real=$(readlink -m -- "$at")
[ "$real" = "$at" ] || refuse "leads to $real: give that path"
if [ -e "$at" ]; then
    [ -d "$at" ] || refuse "is not a directory"
    ! mountpoint -q -- "$at" ||
        refuse "is already the mount point of $(findmnt -n -o SOURCE --mountpoint "$at"): give another directory"
    [ -z "$(ls -A -- "$at")" ] || refuse "is not an empty directory: a mount would hide its content"
fi
made= above=$at
until [ -z "$above" ] || [ -e "$above" ]; do made=$above above=${above%/*}; done
[ -d "${above:-/}" ] || refuse "is below $above, which is not a directory"
case ${owner%%:*} in *[!0-9]*)
    id -u -- "${owner%%:*}" > /dev/null 2>&1 || { echo "the host has no user ${owner%%:*}" >&2; exit 1; }
esac
"""

CHECK_MOUNT_POINT = f"# Usage: DIRECTORY OWNER. Fail unless a file system may be mounted there.\n{_CHECK}"

_UNMAKE = """\
unmake() {
    [ -n "$made" ] || return 0
    each=$at
    while rmdir -- "$each" 2> /dev/null && [ "$each" != "$made" ]; do each=${each%/*}; done
    return 0
}
"""

MOUNT = f"""\
# Usage: DIRECTORY OWNER KIND OPTIONS DEVICE. Write the first directory that had to be made; nothing if all were there.
{_CHECK}
{_UNMAKE}
mkdir -p -- "$at" || {{ unmake; exit 1; }}
mount -t "$3" -o "$4" -- "$5" "$at" || {{ unmake; exit 1; }}
# The owner of the file system's own root: a directory below it keeps its owner.
chown -- "$owner" "$at" || {{ umount -- "$at" && unmake; exit 1; }}
printf '%s' "$made"
"""

UNMOUNT = f"""\
# Usage: DIRECTORY MADE. Unmount it, and remove the directories from MADE on, which the mount made.
at=$1 made=$2
{_UNMAKE}
if mountpoint -q -- "$at"; then umount -- "$at" || exit 1; fi
unmake
"""


def checked_mount_point(at: str) -> str:
    """Return the path without "." and "..".

    Raises BadPath, or MountPointRefused for a relative path or a system directory.
    """
    check_path("at", at)
    if not at.startswith("/"):
        raise MountPointRefused(f"cannot mount on at={at!r}: give the absolute path of a directory")
    plain = posixpath.normpath(f"/{at.lstrip('/')}")
    if plain in _SYSTEM_DIRECTORIES or any(
        plain == each or plain.startswith(f"{each}/") for each in _SYSTEM_TREES
    ):
        raise MountPointRefused(
            f"cannot mount on at={at!r}: {plain} belongs to the system: give a directory of its own, such as /mnt/data"
        )
    return plain


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


@operation("clear_devices")
def clear_devices(host: Host, devices: Sequence[Carrier]) -> None:
    """Remove all signatures from devices, so that the next test finds them empty. Raises NotOurs or FilesystemError."""
    for device in devices:
        device.prove(host)
    wipe(host, [path for device in devices for path in device.paths])


@dataclass(frozen=True)
class MountedFilesystem:
    """A file system that we mounted: `filesystem` is its kind, `path` its directory, `owner` that directory's owner.

    `reused`: it was made earlier in this run and kept its data. `made` is the first directory of `path` that the mount
    had to make, "" if all were there: unmounting removes the directories of `path` from that one on.
    """

    device: Carrier
    filesystem: str
    path: str
    owner: str
    reused: bool = False
    made: str = ""


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
    """Make a file system on the device, mount it on `at` and give its root to `owner` (default: the login user).

    A file system of this kind that this run made on the device before, on any host, is mounted with its data.
    Anything else on the device is refused, or with `overwrite` destroyed. `room`: see `make_filesystem`.
    Raises FilesystemError or NotOurs, or MountPointRefused before anything is written.
    """
    check_mount_point(host, at, owner)
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
    """Mount the device's file system on the directory `at`, which is made if missing, and give its root to `owner`.

    Raises FilesystemError, NotOurs, or MountPointRefused; see `check_mount_point`.
    """
    at, owner = checked_mount_point(at), owner or host.user
    device.prove(host)
    carried = read_signature(host, device.path)
    if carried is None:
        raise FilesystemError(f"{device.path} on {host.label} carries no file system to mount")
    options = _MOUNT_OPTIONS.get(carried.kind, "noatime")
    if len(device.paths) > 1:
        options += "".join(f",device={path}" for path in device.paths)
    try:
        done = host.run(["sh", "-c", MOUNT, "sh", at, owner, carried.kind, options, device.path], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(
            f"{device.path} could not be mounted on {at} of {host.label}: {error.stderr.strip()}"
        ) from error
    return MountedFilesystem(device, carried.kind, at, owner, reused, done.stdout)


def check_mount_point(host: Host, at: str, owner: str | None = None) -> None:
    """Raise MountPointRefused unless a file system may be mounted on `at` and given to `owner`.

    It refuses system directories, directories that are not empty or already mount points, links, and files.
    """
    at = checked_mount_point(at)
    argv = ["sh", "-c", CHECK_MOUNT_POINT, "sh", at, owner or host.user]
    looked = host.run(argv, sudo=True, check=False, idempotent=True)
    if looked.exit_code != 0:
        raise MountPointRefused(f"nothing is mounted on {at} of {host.label}: {looked.stderr.strip()}")


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
    """Unmount the file system, and remove the directories that the mount made and that are empty.

    A busy file system is retried for 5 s. Raises FilesystemError.
    """
    for _ in range(_BUSY_TRIES):
        result = host.run(["sh", "-c", UNMOUNT, "sh", mounted.path, mounted.made], sudo=True, check=False)
        if result.exit_code == 0:
            return
        if "busy" not in result.stderr:
            break
        time.sleep(_BUSY_PAUSE_S)
    raise FilesystemError(f"{mounted.path} on {host.label} cannot be unmounted: {result.stderr.strip()}")


def _made_here(host: Host, device: Carrier, filesystem: str) -> bool:
    """Return whether the device carries one file system of this kind, over all its paths, that this run made."""
    device.prove(host)
    carried = {*read_signatures(host, device.paths)}
    return len(carried) == 1 and all(
        each is not None and each.kind == filesystem and each.made_here for each in carried
    )
