"""One look at the host before files are created there: the folder, its room, and what the host can do."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.errors import BadFilesJob
from pytest_cloudbench.workloads.create_files.job import FilesJob, why_not_by_dd
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.space import fits
from pytest_cloudbench.workloads.target import Target

_LOOK = """\
if [ ! -e "$1" ]; then echo missing; exit 0; fi
if [ ! -d "$1" ]; then stat -L -c %F -- "$1"; exit 0; fi
echo directory
stat -c %U -- "$1"
id -un
stat -f -c '%S' -- "$1"
df -B1 --output=avail,itotal,iavail -- "$1" | tail -n 1
nproc
case $(sync --help 2>&1) in *-f*) echo sync ;; *) echo - ;; esac
python=$(command -v python3) && "$python" -I -c '
import sys, mmap, select, subprocess, threading
print(sys.executable, *sys.version_info[:2])' 2> /dev/null || echo -
# The block devices below: the one of the directory itself, or where a file system has a number of its own
# (btrfs) the one it was mounted from, with all that belong to it.
number=$(stat -c %d -- "$1")
block=/sys/dev/block/$((number >> 8 & 4095)):$((number & 255 | number >> 12 & 1048320))
if [ ! -e "$block" ]; then
    source=$(df --output=source -- "$1" | tail -n 1)
    [ -b "$source" ] || exit 0
    block=/sys/dev/block/$(printf '%d:%d' $(stat -L -c '0x%t 0x%T' -- "$source"))
fi
name=$(basename "$(readlink -f "$block")")
for each in /sys/fs/btrfs/*/devices/"$name"; do
    [ -e "$each" ] && ls -d "${each%/*}"/*/stat && exit 0
done
[ -e "$block/stat" ] && echo "$block/stat"
exit 0
"""

_KEPT_FREE = 0.02
"""Share of the free space that file systems need for themselves."""
_OF_EACH_FILE = 1024
"""Bytes that a file takes besides its data, at most about: inode and directory entry."""
_OLDEST_PYTHON = (3, 7)


@dataclass(frozen=True)
class HostFacts:
    """What the look found. free_inodes: None where the file system has no fixed number. python: its path.

    stats: files in /sys with the counters of the block devices below; empty where there are none.
    """

    free: Size
    block: Size
    free_inodes: int | None
    cpus: int
    python: str | None
    stats: tuple[str, ...]


def check_is_target(given: object) -> None:
    """Raise BadFilesJob for what is no directory target: a device, several of them, a file, or a plain path."""
    kind = getattr(given, "kind", None)
    if kind == "directory":
        return
    what = f"not {given!r}"
    if kind in ("block", "file"):
        what = f"{getattr(given, 'label', given)} is {'a device' if kind == 'block' else 'one file'}"
    raise BadFilesJob(
        f"create_files needs a mounted volume to make files on, such as ebs_volume.mounted('xfs'): {what}"
    )


def look(target: Target) -> HostFacts:
    """Ask the host once about the target's directory.

    Raises TargetError unless it is a directory that belongs to the login user.
    """
    host, path = target.host.label, target.path
    said = target.host.run(["sh", "-c", _LOOK, "sh", path], idempotent=True).stdout.splitlines()
    if not said or said[0] == "missing":
        raise TargetError(f"{path} does not exist on {host}: a mounted directory is needed")
    if said[0] != "directory":
        raise TargetError(f"{path} on {host} is a {said[0]}, not a directory")
    try:
        return _facts(said, path, host)
    except (ValueError, IndexError):
        raise TargetError(
            f"what room {path} on {host} has cannot be told: its df and stat answered {' | '.join(said)!r} "
            "(GNU coreutils are needed)"
        ) from None


def _facts(said: list[str], path: str, host: str) -> HostFacts:
    owner, user, block, room, cpus, sync, python, *stats = said[1:]
    if owner != user:
        raise TargetError(
            f"{path} on {host} belongs to {owner}, not to {user}, who would create the files: "
            f"mount it with owner={user!r}"
        )
    if sync != "sync":
        raise TargetError(
            f"{host} cannot sync one file system by itself: coreutils 8.24 (of 2015) or later are needed for sync -f"
        )
    available, inodes, free_inodes = room.split()
    if int(block) < 1 or int(available) < 0:
        raise ValueError
    return HostFacts(
        free=Size(int(available)),
        block=Size(int(block)),
        free_inodes=int(free_inodes) if inodes.isdigit() and int(inodes) > 0 else None,
        cpus=int(cpus),
        python=_usable_python(python),
        stats=tuple(stats),
    )


def _usable_python(words: str) -> str | None:
    path, *version = words.rsplit(" ", 2)
    if len(version) != 2 or tuple(int(number) for number in version) < _OLDEST_PYTHON:
        return None
    return path


def check_room(target: Target, job: FilesJob, facts: HostFacts) -> None:
    """Raise TargetError, with the figures, unless the files fit the file system and the machine behind it."""
    host, path = target.host.label, target.path
    entries = job.count + (job.folders if job.per_folder else 0) + 3
    blocks = -(-job.size.bytes // facts.block.bytes) * job.count
    data = Size(blocks * facts.block.bytes + entries * _OF_EACH_FILE)
    if data.bytes > facts.free.bytes * (1 - _KEPT_FREE):
        raise TargetError(
            f"{job} take {data} in blocks of {facts.block}, but {path} on {host} has {facts.free} free: "
            "lower count= or size="
        )
    if facts.free_inodes is not None and entries > facts.free_inodes:
        raise TargetError(
            f"{job} need {entries:,} inodes, but {path} on {host} has {facts.free_inodes:,} free (df -i): lower "
            "count=, or use a file system without a fixed number, such as xfs"
        )
    room = target.room()
    if not fits(room, data):
        raise TargetError(
            f"{job} would bring {data} of data to {target.label}, and the machine behind it has room for {room}: "
            "lower count= or size=, use --cloudbench-pace=quick, or give the embedded region a folder with "
            "--cloudbench-twin-backing=DIR"
        )


def chosen_method(job: FilesJob, facts: HostFacts, host: str) -> tuple[str, tuple[str, ...]]:
    """By what means the files are created on this host, and the condition where that was not the choice.

    Raises TargetError where the host has no Python for what only that can do.
    """
    if job.method == "dd" or (job.method is None and facts.python is None):
        if job.method == "dd":
            return "dd", ()
        if why := why_not_by_dd(job):
            raise TargetError(f"{host} has no Python of at least 3.7, and {why}")
        return "dd", (f"no Python of at least 3.7 on {host}: files created by dd, a process for each",)
    if facts.python is None:
        raise TargetError(f"{host} has no Python of at least 3.7: install python3 there, or use method='dd'")
    return "python", ()
