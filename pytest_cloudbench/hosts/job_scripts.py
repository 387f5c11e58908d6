"""The shell scripts behind detached jobs. They need sh, coreutils and util-linux, nothing else.

A job is a directory. It appears complete or not at all: everything is written into a directory of another name, which
is then renamed. Renaming fails if the target is a directory that is not empty, so of two starts of one job exactly one
succeeds, and only that one launches the command.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence

from pytest_cloudbench.hosts.host import command_line

BASE_DIRECTORY = "/var/tmp/cloudbench-{user}"  # noqa: S108 - made with mode 700 and its owner checked

RUNNER = """\
#!/bin/sh
# Runs one command in this directory and keeps its exit code, whatever happens to the connection.
cd "${0%/*}" || exit 1
# Only the login user may enter the folder; files that a root job writes there must be readable for that user.
umask 022
trap '' HUP
trap : INT TERM
# The kernel releases this lock when the runner ends, however it ends.
exec 9< runner
flock 9
# Before the process is known by its number: whoever looks why it ended needs this.
read -r boot < /proc/sys/kernel/random/boot_id
read -r line < /proc/1/stat
set -- ${line##*) }
echo "$boot ${20}" > boot
read -r line < /proc/$$/stat
rest=${line##*) }
set -- $rest
echo "$$ ${20}" > pid.new && mv pid.new pid
sh ./command > stdout 2> stderr < /dev/null 9<&-
code=$?
echo "$code" > exit_code.new && mv exit_code.new exit_code
"""
"""$20 after the command's name is field 22 of /proc/PID/stat, the start time: a later process with the same number has
another one."""

WATCH = """\
#!/bin/sh
# Usage: watch OFFSET LIMIT HOLD. One line "STATE EXIT_CODE BYTES", then the output from OFFSET on.
# It answers as soon as the job has ended, at the latest after HOLD seconds; the lock of the runner ends the wait.
cd "${0%/*}" || exit 1
alive() {
    read -r pid start 2>/dev/null < pid || return 1
    read -r line 2>/dev/null < "/proc/$pid/stat" || return 1
    rest=${line##*) }
    set -- $rest
    [ "$1" != Z ] && [ "${20}" = "$start" ]
}
if [ "${3:-0}" != 0 ]; then
    tries=25
    until [ -f pid ] || [ $tries = 0 ]; do
        sleep 0.02
        tries=$((tries - 1))
    done
    flock -s -w "$3" 9 9< runner
fi
state=gone code=-
if [ -f exit_code ]; then state=ended
elif [ ! -f pid ]; then state=starting
elif alive; then state=running
elif [ -f exit_code ]; then state=ended
fi
[ $state = ended ] && read -r code < exit_code
size=0
[ -f stdout ] && size=$(stat -c %s stdout)
more=$((size - $1))
[ $more -gt $2 ] && more=$2
[ $more -lt 0 ] && more=0
echo "$state $code $more"
[ $more -gt 0 ] && tail -c +$(($1 + 1)) stdout | head -c $more
exit 0
"""

_START = """\
start() {{
    umask 077
    base={base}
    [ -d "$base" ] || mkdir -p "$base" || return 1
    if [ ! -O "$base" ] || [ -L "$base" ]; then
        echo "$base is not a directory of this user" >&2
        return 1
    fi
    job="$base"/{job_id}
    if [ -d "$job" ]; then echo attached; return 0; fi
    # The end of another job may have removed the empty base at this moment.
    new="$base"/.{job_id}-$$
    mkdir "$new" 2> /dev/null || mkdir -p "$new" || return 1
    {files}
    if mv -T "$new" "$job" 2> /dev/null; then
        {launch}
        echo started
    else
        rm -rf "$new"
        [ -d "$job" ] && echo attached
    fi
}}
start
"""

_FETCH = """\
cd {directory} || exit 1
for name in {patterns}; do
    [ -f "$name" ] && set -- "$@" "$name"
done
[ $# -gt 0 ] || exit 0
sizes=$(stat -c '%s %n' -- "$@")
printf '%s\n\n' "$sizes"
sudo=
for name; do [ -r "$name" ] || sudo='sudo -n'; done
# Files that no longer grow are written by one command, which takes a fraction of the time.
if [ -f exit_code ]; then exec $sudo cat -- "$@"; fi
printf '%s\n' "$sizes" | while read -r size name; do $sudo head -c "$size" -- "$name"; done
"""

CLEANUP = """\
# Usage: DIRECTORY. What root made in it usually needs no sudo, which costs as much as the rest.
set -- "$1" "${1%/*}/.${1##*/}-"*
rm -rf -- "$@" 2> /dev/null || sudo -n rm -rf -- "$@"
rmdir -- "${1%/*}" 2> /dev/null
[ ! -e "$1" ]
"""

_KILL = """\
read -r pid start 2> /dev/null < {directory}/pid || pid=
ours() {{
    grep -lszx -e {marker} /proc/[0-9]*/environ | cut -d / -f 3
}}
for step in INT:{patience} TERM:20 KILL:50; do
    found=$(ours)
    [ -n "$found" ] || exit 0
    case $step in
    INT:*)
        case $(sh {directory}/watch 0 0 2> /dev/null) in
        running*) kill -s INT -- "-$pid" 2> /dev/null ;;
        *) continue ;;
        esac
        ;;
    *) kill -s "${{step%%:*}}" $found 2> /dev/null ;;
    esac
    left=${{step##*:}}
    while [ "$left" -gt 0 ] && [ -n "$(ours)" ]; do
        sleep 0.1
        left=$((left - 1))
    done
done
[ -z "$(ours)" ]
"""


def base_directory(user: str) -> str:
    """Return the directory of a user's jobs. /var/tmp survives a restart of the host, so jobs can be examined later."""
    return BASE_DIRECTORY.format(user=user)


def start_script(
    user: str, job_id: str, argv: Sequence[str], files: Mapping[str, bytes], *, sudo: bool
) -> bytes:
    """Return a script for `sh -s` that makes the job's directory and launches the job, or reports that it exists.

    The script is one function, called in the last line: if the connection cuts it off, it does nothing.
    """
    contents = {
        **files,
        "runner": RUNNER.encode(),
        "watch": WATCH.encode(),
        "command": f"{command_line(argv, sudo=False)}\n".encode(),
    }
    writes = []
    for name, data in contents.items():
        file = f'"$new"/{shlex.quote(name)}'
        if data.isascii() and b"\0" not in data:  # printf is part of the shell and starts no process
            writes.append(f"printf %s {shlex.quote(data.decode())} > {file} || return 1")
        else:
            text = base64.encodebytes(data).decode()
            writes.append(f"base64 -d > {file} <<'END' || return 1\n{text}END")
    prefix = f"sudo -n env {marker(job_id)} " if sudo else ""  # sudo clears the environment
    away = "> /dev/null 2>&1 < /dev/null"
    # Some versions of setsid lack --fork. Without it sh starts the job with INT ignored; killing it then needs TERM.
    started = f'{prefix}setsid --fork sh "$job/runner" {away}'
    launch = f'{started} || {{ {prefix}setsid sh "$job/runner" {away} & }}'
    script = _START.format(
        base=shlex.quote(base_directory(user)),
        job_id=shlex.quote(job_id),
        files="\n".join(writes),
        launch=launch,
    )
    return script.encode()


def fetch_script(directory: str, patterns: Sequence[str]) -> str:
    """Return a script that writes "SIZE NAME" for each file of the job that matches, an empty line, and their data."""
    safe = " ".join(_pattern(each) for each in patterns)
    return _FETCH.format(directory=shlex.quote(directory), patterns=safe)


def kill_script(directory: str, *, patience_s: float) -> str:
    """Return a script that ends the job and everything it started, even while the job is still starting.

    It sends INT to the process group, as Ctrl-C does; after `patience_s` it sends TERM, then KILL.
    """
    marked = marker(directory.rpartition("/")[2]).replace(".", r"\.")
    return _KILL.format(
        directory=shlex.quote(directory), marker=shlex.quote(marked), patience=max(1, int(patience_s * 10))
    )


def marker(job_id: str) -> str:
    """Return the variable (NAME=value) that all processes of the job have, including the script that starts it.

    fio puts its workers into sessions of their own, which outlive the process group.
    """
    return f"CLOUDBENCH_JOB={job_id}"


def _pattern(text: str) -> str:
    """Return a shell pattern in which everything but `*` and `?` is quoted."""
    if "/" in text or not text:
        raise ValueError(f"invalid name {text!r}: give the name of a file in the job's directory")
    return "".join(each if each in "*?" else shlex.quote(each) for each in text)
