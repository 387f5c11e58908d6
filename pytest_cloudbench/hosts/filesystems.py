"""File systems on devices that are ours: made, mounted, handed to a user, unmounted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pytest_cloudbench.hosts.devices import BlockDevice, prove_ours
from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, NotOurs

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

_MAKE = {
    # No discard: on a new volume it gains nothing and takes as long as trimming all of it.
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard"],
}
_MOUNT_OPTIONS = {
    "xfs": "noatime",
    # Without it the kernel goes on writing inode tables in the background of the measurement.
    "ext4": "noatime,noinit_itable",
}
KINDS = tuple(_MAKE)

_MAKE_S = 600.0
_NOTHING_FOUND = 2
_BUSY_TRIES = 20
_BUSY_PAUSE_S = 0.25

_MOUNT = """\
mkdir -p -- "$1" || exit 1
if mountpoint -q -- "$1" || [ -n "$(ls -A -- "$1")" ]; then
    echo "$1 is not an empty directory" >&2
    exit 1
fi
mount -o "$2" -- "$3" "$1" || exit 1
chown -- "$4" "$1" || { umount -- "$1"; exit 1; }
"""

_made: WeakKeyDictionary[HostConnection, set[str]] = WeakKeyDictionary()
"""UUIDs of the file systems made in this run, by host: those may be made anew."""


@dataclass(frozen=True)
class MountedFilesystem:
    """A file system that we mounted: `filesystem` is its kind, `path` where it is, `owner` whose it is."""

    device: BlockDevice
    filesystem: str
    path: str
    owner: str


def mount_new(
    host: HostConnection,
    device: BlockDevice,
    filesystem: str = "xfs",
    *,
    at: str,
    owner: str | None = None,
    force: bool = False,
) -> MountedFilesystem:
    """Make a file system on the device, mount it on `at` and give it to `owner` (default: the login user)."""
    make_filesystem(host, device, filesystem, force=force)
    return mount(host, device, at=at, owner=owner)


def make_filesystem(
    host: HostConnection, device: BlockDevice, filesystem: str = "xfs", *, force: bool = False
) -> None:
    """Make a file system (xfs or ext4) on the whole device, which must be proven ours.

    A device that carries a file system or a partition table already is refused, unless that was made here
    in this run, or with force. Raises FilesystemError, NotOurs.
    """
    if filesystem not in _MAKE:
        raise FilesystemError(f"a file system of kind {filesystem!r} is not made here: {' or '.join(KINDS)}")
    tool = host.ensure_tool(_MAKE[filesystem][0])
    prove_ours(host, device)
    made = _made.setdefault(host, set())
    found = _signature(host, device.path)
    if found and found.get("UUID") not in made and not force:
        what = found.get("TYPE") or f"{found.get('PTTYPE', 'unknown')} partition table"
        raise FilesystemError(
            f"{device.path} on {host.label} carries {what} already, not made in this run: "
            "it is not formatted (force=True would)"
        )
    try:
        host.run([tool, *_MAKE[filesystem][1:], device.path], sudo=True, timeout_s=_MAKE_S)
    except CommandFailed as error:
        raise FilesystemError(f"{filesystem} could not be made on {device.path}: {error}") from error
    uuid = _signature(host, device.path).get("UUID")
    if uuid is None:
        raise FilesystemError(f"{filesystem} was made on {device.path} of {host.label}, but is not there")
    made.add(uuid)


def mount(
    host: HostConnection, device: BlockDevice, *, at: str, owner: str | None = None
) -> MountedFilesystem:
    """Mount the device's file system on the directory `at`, made when missing, and give it to `owner`.

    A directory with something in it, or already mounted on, is refused. Raises FilesystemError, NotOurs.
    """
    if not at.startswith("/") or not at.strip("/"):
        raise FilesystemError(f"{at!r} is no directory to mount on: an absolute path is needed")
    prove_ours(host, device)
    owner = owner or host.user
    kind = _signature(host, device.path).get("TYPE")
    if kind is None:
        raise FilesystemError(f"{device.path} on {host.label} carries no file system to mount")
    options = _MOUNT_OPTIONS.get(kind, "noatime")
    try:
        host.run(["sh", "-c", _MOUNT, "sh", at, options, device.path, owner], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(
            f"{device.path} could not be mounted on {at} of {host.label}: {error.stderr.strip()}"
        ) from error
    return MountedFilesystem(device, kind, at, owner)


def prove_mounted(host: HostConnection, mounted: MountedFilesystem) -> None:
    """Raise NotOurs unless the directory is where our own device, and nothing else, is mounted."""
    facts = prove_ours(host, mounted.device, mounted_at=mounted.path)
    if mounted.path not in facts.mounts:
        raise NotOurs(
            f"{mounted.path} on {host.label} is not where {mounted.device.meant} is mounted: "
            "nothing is written there"
        )


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


def _signature(host: HostConnection, path: str) -> dict[str, str]:
    """What the device carries, read from the device itself and not from udev's memory."""
    said = host.run(["blkid", "-p", "-o", "export", "--", path], sudo=True, check=False, idempotent=True)
    if said.exit_code == _NOTHING_FOUND:
        return {}
    if said.exit_code != 0:
        raise FilesystemError(f"what {path} on {host.label} carries cannot be told: {said.stderr.strip()}")
    pairs = (line.partition("=") for line in said.stdout.splitlines())
    return {key: value for key, _, value in pairs}
