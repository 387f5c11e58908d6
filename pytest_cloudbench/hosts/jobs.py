"""Detached jobs: started once, watched over any connection; their files are fetched at the end.

A job that ended without a result is examined: its host was restarted, out of memory or its disk full, or a signal
killed it.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import shlex
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_cloudbench.hosts.errors import (
    CommandTimedOut,
    ConnectionDropped,
    HostError,
    HostLost,
    HostUnreachable,
    JobTimedOut,
    JobVanished,
)
from pytest_cloudbench.hosts.host import Command, CommandResult, JobState, checked_argv
from pytest_cloudbench.hosts.job_scripts import (
    CLEANUP,
    base_directory,
    fetch_script,
    kill_script,
    marker,
    start_script,
)
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.limits.quantities import Size

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}\Z")
_RESERVED = frozenset({"runner", "watch", "command", "pid", "boot", "exit_code", "stdout", "stderr"})
_START_GRACE_S = 10.0
_START_TAKES_S = 0.3
_OUTPUT_AT_ONCE = 1 << 20
_FETCH_S = 300.0
_INTERRUPT_PATIENCE_S = 5.0


def start_job(
    host: ShellHost,
    argv: Sequence[str],
    *,
    sudo: bool = False,
    files: Mapping[str, bytes] | None = None,
    name: str = "job",
    job_id: str | None = None,
) -> DetachedJob:
    """Start `argv` as a detached job; see `Host.start_job`.

    If the connection drops meanwhile, the script runs again: it attaches to a job that has started. Raises ValueError
    for an invalid id or file name, HostError if the job could not be started.
    """
    words = checked_argv(argv)
    job_id = job_id or f"{name}-{uuid.uuid4().hex[:12]}"
    if not _JOB_ID.match(job_id):
        raise ValueError(f"invalid job id {job_id!r}: use up to 100 letters, digits, '-', '_' and '.'")
    for file_name in files or {}:
        if "/" in file_name or file_name in _RESERVED or file_name.startswith("."):
            raise ValueError(f"a job's file cannot be called {file_name!r}: give another name")
    sudo = sudo and host.user != "root"
    script = start_script(host.user, job_id, words, files or {}, sudo=sudo)
    job = DetachedJob(host, job_id, words, sudo=sudo)
    try:
        result = host.run(["env", marker(job_id), "sh", "-s"], stdin=script, check=False, idempotent=True)
    except KeyboardInterrupt:
        # The script may start the job, which nobody would kill later. It may still be on its way to the host: wait.
        time.sleep(_START_TAKES_S)
        with contextlib.suppress(HostError):
            job.kill()
            job.cleanup()
        raise
    if result.stdout.strip() not in ("started", "attached"):
        reason = result.stderr.strip() or "its directory could not be created"
        raise HostError(f"on {host.label}, job {job_id} could not be started: {reason}")
    if host.listener is not None:
        host.listener.job_started(host.label, job_id, words, sudo=sudo)
    return job


class DetachedJob:
    """A job on a host. The object holds no connection; one thread at a time may use it."""

    def __init__(self, host: ShellHost, job_id: str, argv: Sequence[str], *, sudo: bool) -> None:
        self._host = host
        self._sudo = sudo
        self._offset = 0
        # Keeps the first bytes of an incomplete character until the rest arrives.
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._began = time.monotonic()
        self._lost = False
        self._end_reported = False
        self.job_id = job_id
        self.argv = tuple(argv)
        self.directory = f"{base_directory(host.user)}/{job_id}"

    @property
    def host_label(self) -> str:
        return self._host.label

    def __repr__(self) -> str:
        return f"<job {self.job_id} on {self._host.label}>"

    def poll(self) -> JobState:
        """Return the state of the job, by one command. Raises JobVanished if it has ended without an exit code."""
        return self._poll(0.0)

    def _poll(self, hold_s: float) -> JobState:
        """Return the state of the job as soon as it has ended, at the latest after `hold_s`."""
        argv = ("sh", f"{self.directory}/watch", str(self._offset), str(_OUTPUT_AT_ONCE), f"{hold_s:.2g}")
        result = self._host.run_unrecorded(Command(argv, self._host.user, idempotent=True))
        head, _, output = result.stdout_bytes.partition(b"\n")
        words = head.decode("ascii", "replace").split()
        if result.exit_code == 0 and len(words) == 2 and words[0] == "ended":
            words.insert(1, "-")  # the exit code could not be written
        if result.exit_code != 0 or len(words) != 3:
            raise JobVanished(
                f"{self._name()} is gone with its directory {self.directory}: {result.stderr.strip()}"
            )
        state, code, size = words
        if state == "ended" and not code.isdigit():
            state = "gone"
        self._offset += min(int(size), len(output))
        if state == "gone" or (state == "starting" and self._age_s() > _START_GRACE_S):
            raise JobVanished(
                f"{self._name()} ended without an exit code: {self.why_ended()}; what it wrote is in {self.directory} "
                "there"
            )
        if state == "ended":
            self._report_end(int(code))
        return JobState(
            running=state != "ended",
            exit_code=int(code) if state == "ended" else None,
            new_output=self._decode(output, state == "ended"),
        )

    def wait(self, timeout_s: float, *, on_output: Callable[[str], None] | None = None) -> JobState:
        """Return the final state once the job has ended; see `Job.wait`.

        Each poll waits on the host, so that it returns as soon as the job has ended. A dropped connection is replaced
        and the poll repeated; the job is never started again.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            state = self._look(max(0.0, min(self._host.look_s, deadline - time.monotonic())))
            if state.new_output and on_output is not None:
                on_output(state.new_output)
            if not state.running and len(state.new_output) < _OUTPUT_AT_ONCE // 4:
                return state
            if state.running and time.monotonic() >= deadline:
                raise JobTimedOut(f"{self._name()} still ran after {timeout_s:g} s")

    def why_ended(self) -> str:
        """Return why it ended without a result, as the end of a sentence: restart, memory, disk or signal."""
        with contextlib.suppress(HostError):
            argv = ["sh", "-c", _WHY_ENDED, "sh", self.directory]
            return cause(self._host.run(argv, check=False, idempotent=True).stdout, self.argv)
        return "it was killed, or its host was restarted"

    def fetch(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the content of the job's files that match `names` (patterns with * and ?), by one command.

        Raises HostError if they changed meanwhile.
        """
        script = fetch_script(self.directory, names)
        data = self._run("be read", ["sh", "-c", script], timeout_s=_FETCH_S).stdout_bytes
        try:
            return _unpacked(data)
        except ValueError as error:
            raise HostError(f"{self._name()} cannot be read: {error}") from None

    def kill(self) -> None:
        """End the job and everything it started: interrupt it, and kill what still runs after 5 s.

        Returns once all of it has ended. Raises HostError if it cannot be ended, HostLost if its host was lost.
        """
        script = kill_script(self.directory, patience_s=_INTERRUPT_PATIENCE_S)
        result = self._run("be ended", ["sh", "-c", script], sudo=self._sudo, check=False)
        if result.exit_code != 0:
            raise HostError(
                f"{self._name()} cannot be ended: {result.stderr.strip() or 'it survives SIGKILL'}"
            )

    def cleanup(self) -> None:
        """Remove the job's directory from the host, and the parent directory if no other job is in it."""
        self._run("be removed", ["sh", "-c", CLEANUP, "sh", self.directory])

    def _run(self, what: str, argv: Sequence[str], **options: Any) -> CommandResult:
        """Run a command for the job, unless its host was lost: another attempt would take as long as the first."""
        if self._lost:
            raise HostLost(f"{self._name()} cannot {what}: its host was lost")
        try:
            return self._host.run(argv, idempotent=True, **options)
        except HostUnreachable:
            self._lost = True
            raise

    def _look(self, hold_s: float) -> JobState:
        try:
            try:
                return self._poll(hold_s)
            except (ConnectionDropped, CommandTimedOut):
                # poll has tried twice already: wait as long as a host may be unreachable.
                self._host.reconnect()
                return self.poll()
        except (HostUnreachable, ConnectionDropped, CommandTimedOut) as error:
            self._lost = True
            raise HostLost(
                f"{self._name()}, running for {self._age_s():.0f} s, can no longer be watched: {error}. The job was "
                f"not started again; if the host still runs, its results are in {self.directory}"
            ) from error

    def _report_end(self, exit_code: int) -> None:
        if self._host.listener is not None and not self._end_reported:
            self._end_reported = True
            self._host.listener.job_ended(
                self._host.label, self.job_id, exit_code=exit_code, seconds=self._age_s()
            )

    def _name(self) -> str:
        return f"job {self.job_id} on {self._host.label} (`{shlex.join(self.argv)[:200]}`)"

    def _age_s(self) -> float:
        return time.monotonic() - self._began


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Return the files in the output of a `fetch_script`. Raises ValueError if they are not as long as listed."""
    listed, _, content = data.partition(b"\n\n")
    files = {}
    position = 0
    for line in listed.decode().splitlines():
        size, _, name = line.partition(" ")
        files[name] = content[position : position + int(size)]
        position += int(size)
    if position != len(content):
        raise ValueError(f"its files are listed with {position:,} bytes and came with {len(content):,}")
    return files


# The kernel's log needs root on most hosts. journalctl may show it if dmesg is refused.
_WHY_ENDED = """\
cd -- "$1" || exit 1
read -r boot < /proc/sys/kernel/random/boot_id
read -r line < /proc/1/stat
set -- ${line##*) }
echo "now=$boot ${20}"
[ -f boot ] && echo "then=$(cat boot)"
[ -f pid ] && echo "pid=$(cat pid)"
df -B1 --output=avail,target . | tail -n 1 | sed 's/^ */room=/'
{ sudo -n dmesg || dmesg || journalctl -k -b -q --no-pager -o short-monotonic; } 2> /dev/null |
    grep -F 'Killed process' | tail -n 200 | sed 's/^/log=/'
exit 0
"""
_KILLED = re.compile(r"\[ *(\d+\.\d+)\].*Killed process (\d+) \(([^)]+)\)")
_TICKS_PER_S = 100
"""USER_HZ, the unit of start times in /proc (proc(5))."""
_FULL = Size(1 << 20)
_COMM = 15
"""How many characters of a program's name the kernel keeps (proc(5), comm)."""


def cause(said: str, argv: Sequence[str]) -> str:
    """Return the cause in the output of `_WHY_ENDED`. Of programs that the kernel killed, only those in argv count."""
    programs = {word.rpartition("/")[2][:_COMM] for word in argv}
    facts: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, _, value = line.partition("=")
        facts.setdefault(name, []).append(value)
    now, then = facts.get("now", [""])[0], facts.get("then", [""])[0]
    if then and now and then != now:
        return "its host was restarted"
    since_s = _started_s(facts.get("pid", [""])[0])
    for line in facts.get("log", []):
        found = _KILLED.search(line)
        if found is not None and float(found[1]) >= since_s and found[3] in programs:
            return f"its host was out of memory, and the kernel killed {found[3]} (process {found[2]}), as its log says"
    room, _, place = facts.get("room", [""])[0].partition(" ")
    if room.isdigit() and int(room) < _FULL.bytes:
        return f"the disk of its host is full: {place.strip()} has {Size(int(room))} left"
    if then:
        return (
            "it was killed on its host, by a signal: the host was not restarted, its disk has room, and no message of "
            "the kernel about a lack of memory was found"
        )
    return "it was killed, or its host was restarted"


def _started_s(pid: str) -> float:
    """Return when a job started, in seconds since the boot, from its file "pid"; 0 if that is unknown."""
    words = pid.split()
    return int(words[1]) / _TICKS_PER_S if len(words) == 2 and words[1].isdigit() else 0.0
