"""A load's own folder in a directory of a host: made for one test, removed at its end.

The folder names the process that made it. So a later run on the same machine knows that a killed run left it, ends
the load that still runs in it, and removes it. A folder made before the machine's last boot, or unused for a
day, is removed if no load runs in it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from pytest_cloudbench.hosts.directory import HostDirectory
from pytest_cloudbench.hosts.errors import CommandFailed, NotOurs
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.hosts.job_scripts import base_directory, marker

_PREFIX = "cloudbench-"
_REMOVE_S = 600.0
_UNKNOWN = "-"
_OUTSIDE_CONTAINERS = "pid:[4026531836]"
"""The kernel's first PID namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h, Linux 6.12."""

# Only processes of jobs count: a backup may read files there too.
_RUNNING = f"""\
running() {{
    for pid in $(find /proc/[0-9]*/fd -maxdepth 1 -lname "*/$1/*" 2> /dev/null | cut -d / -f 3 | sort -u); do
        grep -qsz "^{marker("")}" "/proc/$pid/environ" && echo "$pid"
    done
}}
"""

_CLAIM = f"""\
{_RUNNING}\
# Usage: DIRECTORY FOLDER OWNER JOBS. Make the folder; write its file system, and a line for each folder of another run.
set -e
cd -- "$1"
for each in ./cloudbench-*/.owner; do
    [ -O "$each" ] || continue
    each=${{each%/.owner}}
    state=used
    [ -n "$(find "$each" -mmin -1440 -print -quit)" ] || state=old
    [ -z "$(running "${{each#./}}")" ] || state=running
    printf '%s %s %s\\n' "$state" "${{each#./}}" "$(cat "$each/.owner")"
done
# Jobs of killed runs that ended a day ago; a lock is held by those that still run.
find "$4" -mindepth 1 -maxdepth 1 -type d -mtime +0 -exec flock -n {{}}/runner rm -rf {{}} \\; 2> /dev/null || :
mkdir -m 700 -- "$2"
printf '%s\\n' "$3" > "$2/.owner"
stat -f -c 'on %T' -- "$2"
"""

_END_WHAT_RUNS = f"""\
{_RUNNING}\
for step in TERM:50 KILL:50; do
    found=$(running "${{1##*/}}")
    [ -n "$found" ] || break
    kill -s "${{step%%:*}}" $found 2> /dev/null
    left=${{step##*:}}
    while [ "$left" -gt 0 ] && [ -n "$(running "${{1##*/}}")" ]; do sleep 0.1; left=$((left - 1)); done
done
"""

REFUSE_MOUNTS = r"""
# Usage: refuse_mounts PATH. Exit if something is mounted there or below, which rm would empty; below only for "PATH/".
refuse_mounts() {
    path=$(printf '%s' "$1" | sed 's/\\/\\134/g; s/ /\\040/g; s/\t/\\011/g')
    while read -r _ _ _ _ at _; do
        case $at in "$path"|"${path%/}"/*) ;; *) continue ;; esac
        echo "$at is mounted, and what is mounted is never removed" >&2
        exit 1
    done < /proc/self/mountinfo
}
"""

_REMOVE = f"""\
{REFUSE_MOUNTS}
[ -e "$1" ] || exit 0
[ -O "$1" ] && [ ! -L "$1" ] && [ -f "$1/.owner" ] || {{ echo "$1 is not a folder of this user's runs" >&2; exit 1; }}
refuse_mounts "$(readlink -f -- "$1")"
rm -rf -- "$1"
"""


@dataclass(frozen=True)
class ClaimedFolder:
    """A load's own folder. `filesystem` is its type as stat(1) names it, such as "xfs" or "tmpfs".

    `removed` are the folders of killed runs that were removed; `left` has a sentence for each that was not.
    """

    path: str
    filesystem: str = ""
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@operation("claim_folder")
def claim_folder(host: Host, directory: str) -> ClaimedFolder:
    """Make a folder in `directory`, and remove those that killed runs on this machine left there.

    Raises NotOurs unless `directory` is one that the login user can write to.
    """
    HostDirectory(host, directory).prove_writable()
    parent = directory.rstrip("/")
    path = f"{parent}/{_PREFIX}{secrets.token_hex(6)}"
    name = path.rpartition("/")[2]
    argv = ["sh", "-c", _CLAIM, "sh", directory, name, owner_line(), base_directory(host.user)]
    lines = [line.partition(" ")[::2] for line in host.run(argv).stdout.splitlines()]
    removed, left = [], []
    for state, (found, owner) in ((word, text.partition(" ")[::2]) for word, text in lines if word != "on"):
        of_this_boot = is_of_this_machine(owner)
        unused = not of_this_boot and (state == "old" or (state == "used" and _is_before_boot(owner)))
        if ended(owner) or unused:
            try:
                _remove(host, f"{parent}/{found}", _REMOVE if unused else _END_WHAT_RUNS + _REMOVE)
                removed.append(f"{parent}/{found}")
            except NotOurs as error:
                left.append(str(error))
        elif not of_this_boot:
            left.append(
                f"{parent}/{found} on {host.label} was made by {_words(owner)}: a run removes it a day after its last "
                "use; remove it now if that run has ended"
            )
    filesystem = next((text for word, text in lines if word == "on"), "")
    return ClaimedFolder(path, filesystem, tuple(removed), tuple(left))


@operation("remove_folder", repeatable=True)
def remove_folder(host: Host, path: str) -> None:
    """Remove a claimed folder with all that is in it. Raises NotOurs if it cannot be removed."""
    _remove(host, path, _REMOVE)


def _remove(host: Host, path: str, script: str) -> None:
    try:
        host.run(["sh", "-c", script, "sh", path], idempotent=True, timeout_s=_REMOVE_S)
    except CommandFailed as error:
        raise NotOurs(
            f"the folder {shlex.quote(path)} of a load on {host.label} could not be removed: {error.stderr.strip()}: "
            "remove it there yourself"
        ) from None


def owner_line() -> str:
    """Return who makes a folder: this boot, the process and its start, the time, the host name, the machine id."""
    when = datetime.now(timezone.utc).isoformat(timespec="minutes")
    return f"{_machine()} {os.getpid()} {_started(os.getpid())} {when} {socket.gethostname()} {_machine_id()}"


def is_of_this_machine(owner: str) -> bool:
    """Return whether an `owner_line` was written on this machine, since its last boot."""
    return owner.partition(" ")[0] == _machine()


def ended(owner: str) -> bool:
    """Return whether the process of an `owner_line` is known to have ended."""
    words = owner.split(" ")
    if len(words) < 3 or not is_of_this_machine(owner) or not words[1].isdigit():
        return False
    return _started(int(words[1])) != words[2]


def _is_before_boot(owner: str) -> bool:
    """Return whether an `owner_line` was probably written on this machine before its last boot.

    Containers may share a machine's id, so they never match. Machines cloned with their host name match wrongly.
    """
    theirs, ours = owner.split(" "), owner_line().split(" ")
    same = len(theirs) == len(ours) and theirs[4:] == ours[4:] and ours[5] != _UNKNOWN
    outside = all(each[0].endswith(f"/{_OUTSIDE_CONTAINERS}") for each in (theirs, ours))
    return same and outside and theirs[0] != ours[0]


def _words(owner: str) -> str:
    """Return an `owner_line` in words."""
    words = owner.split(" ")
    return f"a run on {words[4]} at {words[3]}" if len(words) >= 5 else "another run"


def _machine() -> str:
    """Return an id of this machine's present boot and PID namespace, which differs between containers."""
    if sys.platform != "linux":
        return socket.gethostname()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def _machine_id() -> str:
    """Return the id of this machine, which stays the same across boots; "-" if it is unknown."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or _UNKNOWN
    except (OSError, UnicodeDecodeError):
        return _UNKNOWN


def _started(pid: int) -> str:
    """Return a process's start time in clock ticks since boot (if not on Linux, "running"); "-" if it has ended."""
    try:
        if sys.platform != "linux":
            os.kill(pid, 0)
            return "running"
        # Field 22 of proc_pid_stat(5); the name before it may contain spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return "-"
