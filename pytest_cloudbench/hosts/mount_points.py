"""Directories that a file system may be mounted on: never one of the system's, never one with content.

Unmounting removes only directories that the mount made.
"""

from __future__ import annotations

import posixpath

from pytest_cloudbench.hosts.errors import MountPointRefused
from pytest_cloudbench.hosts.paths import check_path

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
