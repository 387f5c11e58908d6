"""A shell script that runs in an instance as SSM Agent runs one: as root, beside other processes.

The region enters the instance's namespaces, so the script sees what a login sees, and ends with the instance. Its
file is where the agent puts it. Its output is in unnamed files on the instance's disk until it is read. Its process
group is killed at its timeout.

The behaviour is that of the agent's source (github.com/aws/amazon-ssm-agent, read 2026-11): ``sh -c`` executes the
script, so a ``#!`` line is respected; the directory is /usr/bin; HOME is not set; stderr ends with a failed
script's exit status or signal.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import IO, Literal

from pytest_cloudbench.twin.hosts.hosts import Host, instance_directory
from pytest_cloudbench.twin.hosts.instance_commands import LOGIN_PATH

Ending = Literal["exited", "timed out", "cancelled"]

KILLED = 137  # the agent's exit code for a script that it killed
_DIRECTORY = "/usr/bin"
_DROPPED = "-mknod,-sys_module,-sys_boot,-sys_time,-sys_rawio"  # as process 1 of an instance drops them
# The script is written inside: a file that this process has open for writing could not be executed.
_ENTER = (
    'cat >"$3" && chmod 700 "$3" && cd -- "$1" && exec setpriv --bounding-set="$2" -- sh -c "$3" </dev/null'
)
# It has the instance's limits of memory and processors, like everything that process 1 starts.
_LIMIT = 'echo $$ >"$0" && cpus=$1 && shift && exec taskset --cpu-list "$cpus" "$@"'
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Script:
    """A script to run in an instance. ``directory`` is its working directory, "" the agent's own."""

    command_id: str
    text: str
    directory: str = ""
    timeout_s: float = 3600.0


@dataclass(frozen=True)
class ScriptEnd:
    """How a script ended. ``stdout`` and ``stderr`` are its whole output, to be read from the start and closed."""

    ending: Ending
    code: int
    stdout: IO[bytes]
    stderr: IO[bytes]


class RunningScript:
    """A script that was started in an instance. One thread must call ``wait``; any may call ``cancel``."""

    def __init__(self, script: Script, instance_id: str, region: str, host: Host) -> None:
        """Start a script in a running instance. Raises OSError if that is impossible."""
        init_pid = host.init_pid
        self._lock = threading.Lock()
        place = (
            f"var/lib/amazon/ssm/{instance_id}/document/orchestration/{script.command_id}"
            "/awsrunShellScript/0.awsrunShellScript"
        )
        with contextlib.ExitStack() as undo:
            self._stdout, self._stderr = (
                undo.enter_context(_instance_file(init_pid, place, name)) for name in ("stdout", "stderr")
            )
            with open(os.memfd_create("script"), "w+b") as text:
                text.write(script.text.encode())
                text.seek(0)
                self._process = subprocess.Popen(
                    ["sh", "-c", _LIMIT, host.processes_file, ",".join(map(str, host.cpus)),
                     "nsenter", f"--target={init_pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--",
                     "sh", "-c", _ENTER, "sh", script.directory or _DIRECTORY, _DROPPED, f"/{place}/_script.sh"],
                    stdin=text,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    cwd="/",
                    env={
                        "PATH": LOGIN_PATH,
                        "LANG": "C.UTF-8",
                        "AWS_SSM_INSTANCE_ID": instance_id,
                        "AWS_SSM_REGION_NAME": region,
                    },
                    start_new_session=True,
                )  # fmt: skip
            undo.pop_all()
        self._deadline = time.monotonic() + script.timeout_s
        self._cancelled: int | None = os.eventfd(0)

    def cancel(self) -> None:
        """Kill the script's process group. Has no effect once the script has ended."""
        with self._lock:
            if self._cancelled is not None:
                os.eventfd_write(self._cancelled, 1)

    def wait(self) -> ScriptEnd:
        """Collect the output until the script has ended, and return how it ended.

        Like the agent, this waits for all processes that have the script's output open, unless it kills them.
        """
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            ending = self._collect({process.stdout: self._stdout, process.stderr: self._stderr})
            if ending != "exited":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if ending != "exited":
            code = KILLED
        elif code:
            how = f"exit status {code}" if code > 0 else f"signal: {(signal.strsignal(-code) or '').lower()}"
            _write(self._stderr, f"failed to run commands: {how}".encode())
        self._stdout.seek(0)
        self._stderr.seek(0)
        return ScriptEnd(ending, max(code, -1), self._stdout, self._stderr)

    def _collect(self, streams: dict[IO[bytes], IO[bytes]]) -> Ending:
        """Copy the streams into their files until they and the process have ended."""
        exited, cancelled = os.pidfd_open(self._process.pid), self._cancelled
        assert cancelled is not None
        try:
            with selectors.DefaultSelector() as selector:
                for stream, file in streams.items():
                    selector.register(stream, selectors.EVENT_READ, file)
                for event in (exited, cancelled):
                    selector.register(event, selectors.EVENT_READ)
                while len(selector.get_map()) > 1:
                    left_s = self._deadline - time.monotonic()
                    if left_s <= 0:
                        return "timed out"
                    for key, _ in selector.select(left_s):
                        if key.fileobj == cancelled:
                            return "cancelled"
                        if key.data is None or not _copy(key.fd, key.data):
                            selector.unregister(key.fileobj)
            return "exited"
        finally:
            os.close(exited)
            with self._lock:
                self._cancelled = None
                os.close(cancelled)


def _copy(source: int, file: IO[bytes]) -> bool:
    """Copy the data that can be read; return False at the end."""
    data = os.read(source, _CHUNK)
    _write(file, data)
    return bool(data)


def _write(file: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError):  # as with the agent, output beyond the free space is lost
        file.write(data)


def _instance_file(init_pid: int, directory: str, name: str) -> IO[bytes]:
    """Open a new unnamed file on an instance's disk; its space is free once it is closed."""
    with instance_directory(init_pid, directory, create=True) as place:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=place)
        os.unlink(name, dir_fd=place)
    return open(descriptor, "w+b", buffering=0)
