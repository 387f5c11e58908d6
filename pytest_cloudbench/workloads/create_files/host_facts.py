"""Check the host before files are created: the directory, its free space, and the method that the host supports."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.errors import BadFilesJob
from pytest_cloudbench.workloads.create_files.job import FilesJob, why_not_by_dd
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.space import fits
from pytest_cloudbench.workloads.target import Target

_FACTS_SCRIPT = """\
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
# The block devices below: the directory's own device, or, if the file system has its own device number (btrfs), all
# devices of the file system.
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
"""The share of the free space that file systems need for themselves."""
_OF_EACH_FILE = 1024
"""About the most bytes of a file besides its data: inode and directory entry."""
_OLDEST_PYTHON = (3, 7)


@dataclass(frozen=True)
class HostFacts:
    """Facts about the directory and its host.

    free_inodes: None if the file system has no fixed number. python: path of a usable Python 3; None if there is none.
    stats: files in /sys with the counters of the block devices below; empty if there are none.
    """

    free: Size
    block: Size
    free_inodes: int | None
    cpus: int
    python: str | None
    stats: tuple[str, ...]


def check_is_target(given: object) -> None:
    """Raise BadFilesJob unless `given` is a directory target."""
    kind = getattr(given, "kind", None)
    if kind == "directory":
        return
    what = f"not {given!r}"
    if kind in ("block", "file"):
        what = f"{getattr(given, 'label', given)} is {'a device' if kind == 'block' else 'one file'}"
    raise BadFilesJob(
        f"create_files needs a mounted volume to make files on, such as ebs_volume.mounted('xfs'): {what}"
    )


def read_facts(target: Target) -> HostFacts:
    """Read the facts about the target's directory from its host.

    Raises TargetError unless it is a directory that belongs to the login user.
    """
    host, path = target.host.label, target.path
    lines = target.host.run(["sh", "-c", _FACTS_SCRIPT, "sh", path], idempotent=True).stdout.splitlines()
    if not lines or lines[0] == "missing":
        raise TargetError(f"{path} does not exist on {host}: use a mounted directory")
    if lines[0] != "directory":
        raise TargetError(f"{path} on {host} is a {lines[0]}, not a directory")
    try:
        return _parse_facts(lines, path, host)
    except (ValueError, IndexError):
        raise TargetError(
            f"could not read the free space of {path} on {host}: df and stat printed {' | '.join(lines)!r}; install "
            "GNU coreutils there"
        ) from None


def _parse_facts(lines: list[str], path: str, host: str) -> HostFacts:
    owner, user, block, room, cpus, sync, python, *stats = lines[1:]
    if owner != user:
        raise TargetError(
            f"{path} on {host} belongs to {owner}, but {user} creates the files: mount it with owner={user!r}"
        )
    if sync != "sync":
        raise TargetError(
            f"{host} cannot sync a single file system (sync -f): install coreutils 8.24 (2015) or later there"
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
    """Raise TargetError, with the figures, unless the files fit on the file system and the machine behind it."""
    host, path = target.host.label, target.path
    entries = job.count + (job.folders if job.per_folder else 0) + 3
    blocks = -(-job.size.bytes // facts.block.bytes) * job.count
    data = Size(blocks * facts.block.bytes + entries * _OF_EACH_FILE)
    if data.bytes > facts.free.bytes * (1 - _KEPT_FREE):
        raise TargetError(
            f"{job} need {data} in blocks of {facts.block}, but {path} on {host} has {facts.free} free: "
            "lower count= or size="
        )
    if facts.free_inodes is not None and entries > facts.free_inodes:
        raise TargetError(
            f"{job} need {entries:,} inodes, but {path} on {host} has {facts.free_inodes:,} free (df -i): lower "
            "count=, or use a file system without a fixed number of inodes, such as xfs"
        )
    room = target.room()
    if not fits(room, data):
        raise TargetError(
            f"{job} need {data} on {target.label}, but the machine behind it has room for {room}: lower count= or "
            "size=, use --cloudbench-pace=quick, or give the embedded region a folder with "
            "--cloudbench-twin-backing=DIR"
        )


def choose_method(job: FilesJob, facts: HostFacts, host: str) -> tuple[str, tuple[str, ...]]:
    """Choose the method for this host; return it, with a condition if it replaces the preferred one.

    Raises TargetError if the job needs Python and the host has none.
    """
    if job.method == "dd":
        return "dd", ()
    if facts.python is not None:
        return "python", ()
    if job.method == "python":
        raise TargetError(f"{host} has no Python 3.7 or later: install python3 there, or use method='dd'")
    if why := why_not_by_dd(job):
        raise TargetError(f"{host} has no Python 3.7 or later, and {why}")
    return "dd", (f"no Python 3.7 or later on {host}: files created by dd, one process per file",)
