"""Removal of what a test leaves on a shared host: processes, files of its jobs, and files in the home directory."""

from __future__ import annotations

from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.folders import REFUSE_MOUNTS
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.hosts.job_scripts import base_directory, marker

_CLEAN_S = 60.0
_LOCAL = ("btrfs", "ext2/ext3", "f2fs", "overlayfs", "tmpfs", "xfs", "zfs")
"""File systems of one machine, as stat(1) names them."""
_NOTE = "/var/tmp/.cloudbench-home"  # noqa: S108 - on an instance that this run launched

_LIST_HOME = f"""\
fail() {{ echo "$*" >&2; exit 1; }}
home=$(getent passwd "$1" | cut -d: -f6)
[ -n "$home" ] && home=$(readlink -e -- "$home") && [ "$home" != / ] || fail "the login user $1 has no home"
place=$(stat -c %d:%i -- "$home") && filesystem=$(stat -f -c %T -- "$home") || exit
case $filesystem in
    {"|".join(_LOCAL)}) ;;
    *) fail "files in $home may be those of other machines, because it is on $filesystem" ;;
esac
list_home() {{ {{ printf '%s\\0' "$place"; find "$home" -xdev -mindepth 1 -print0; }} | sort -z; }}
"""
_NOTE_HOME = f"{_LIST_HOME}list_home > {_NOTE}\n"

# Processes are found by their environment: nothing else shows who started a daemon. This command has no mark.
_END_PROCESSES = """\
marked() { grep -lsz "$@" /proc/[0-9]*/environ | tr -cd '0-9\\n'; }
end_marked() {
    tries=0
    while found=$(marked "$@"); [ -n "$found" ]; do
        tries=$((tries + 1))
        [ $tries -le 50 ] || { echo "processes survive SIGKILL:" $found >&2; exit 1; }
        [ $tries -le 20 ] && signal=TERM || signal=KILL
        kill -$signal $found 2>/dev/null
        sleep 0.1
    done
}
"""
_CLEAN_OURS = f"""\
{_LIST_HOME}{_END_PROCESSES}\
end_marked -e "^$2\\$" -e "^$3"
{REFUSE_MOUNTS}
grep -qzxF -- "$place" {_NOTE} || fail "$home is not the directory that it was at first"
refuse_mounts "$home/"
refuse_mounts "$(readlink -m -- "$4")"
rm -rf -- "$4" || exit
list_home | comm -z -13 {_NOTE} - | xargs -0r rm -rf -- || exit
changed=$(find "$home" -xdev -type f -cnewer {_NOTE})
[ -z "$changed" ] || {{ echo "files of the image were changed:" $changed >&2; exit 1; }}
"""
_CLEAN_OTHERS = f'{_END_PROCESSES}end_marked -e "^$1\\$"\n'

# A plain user cannot read the environment of root's processes, which commands with sudo have started.
_BY_SUDO_IF_ALLOWED = """\
[ "$(id -u)" = 0 ] || ! sudo -n sh -c : 2> /dev/null || exec sudo -n sh -c "$2" sh "$1"
sh -c "$2" sh "$1" || exit
[ "$(id -u)" = 0 ] || ! sudo -n -l 2> /dev/null | grep -q NOPASSWD || {
    echo "it is unknown whether processes of root are left: sudo is allowed for some commands only" >&2
    exit 1
}
"""


def note_home(host: Host) -> None:
    """Record which files the login user's home directory has, for `clean`. Raises HostError."""
    _unrecorded(host, ["sh", "-c", _NOTE_HOME, "sh", host.user], sudo=True)


def clean(host: Host, mark: str, *, ours: bool) -> None:
    """End what a test started and remove the files it left. Raises HostError if something remains.

    ``mark`` is in the environment of each process that the test started. ``ours``: the run launched the host for
    itself. Then the login user's jobs also belong to the test, and so do the files in its home that `note_home` did not
    record; nothing is removed while something is mounted there. On any other host only marked processes are ended;
    HostError is raised if sudo may have started some that are not visible.
    """
    if ours:
        jobs = [marker(""), base_directory(host.user)]
        _unrecorded(host, ["sh", "-c", _CLEAN_OURS, "sh", host.user, mark, *jobs], sudo=True)
    else:
        _unrecorded(host, ["sh", "-c", _BY_SUDO_IF_ALLOWED, "sh", mark, _CLEAN_OTHERS], sudo=False)


def _unrecorded(host: Host, argv: list[str], *, sudo: bool) -> None:
    """Run a command that belongs to no test: it is not recorded, and its processes have no mark."""
    listener, host.listener = host.listener, None
    mark, host.mark = host.mark, ""
    try:
        done = host.run(argv, sudo=sudo, check=False, timeout_s=_CLEAN_S)
    finally:
        host.listener, host.mark = listener, mark
    if done.exit_code != 0:
        raise HostError(f"on {host.label}, {done.stderr.strip() or 'cleaning failed'}")
