"""What the rest of the package knows of a host: it runs commands and detached jobs, and returns their output and files.

`Host` is the protocol; `ShellHost` in shell_host.py is the base class, whose subclasses define one method. No code
outside this folder names a kind of host: `open_host` in login.py makes the one that a login needs.
"""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="Host")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class CommandResult:
    """A finished command. `seconds` is the time from sending it to receiving its exit code."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit_code: int
    seconds: float
    stdout_bytes: bytes = b""


@dataclass(frozen=True)
class Command:
    """One short command for a host, as `Host.run` describes it. `user` is the login user; `mark`: see `Host`."""

    argv: tuple[str, ...]
    user: str = "root"
    sudo: bool = False
    timeout_s: float = 60.0
    idempotent: bool = False
    stdin: bytes | None = None
    began: float = field(default_factory=time.monotonic)
    mark: str = ""

    @property
    def line(self) -> str:
        """The command as one line for a POSIX shell, with sudo if the user needs it."""
        return command_line(self.argv, sudo=self.sudo and self.user != "root", mark=self.mark)

    def result(self, exit_code: int, stdout: bytes, stderr: bytes) -> CommandResult:
        """Return the result of this command, which has just ended."""
        return CommandResult(
            argv=self.argv,
            stdout=stdout.decode("utf-8", "replace"),
            stderr=stderr.decode("utf-8", "replace"),
            exit_code=exit_code,
            seconds=time.monotonic() - self.began,
            stdout_bytes=stdout,
        )


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command. A string is refused, because splitting it into words would be a guess.

    Raises TypeError for a string or for words that are not strings, ValueError for an empty command or a NUL.
    """
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"a command is a list of words, not a string: {argv!r}")
    words = tuple(argv)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"the words of a command are strings, not {word!r}")
        if "\0" in word:
            raise ValueError(f"a word of a command contains a NUL character: {word!r}")
    if not words or not words[0]:
        raise ValueError("the command is empty")
    return words


def command_line(argv: Sequence[str], *, sudo: bool, mark: str = "") -> str:
    """Return the line for the login shell: English messages, and sbin in the PATH for every user.

    ``mark``, such as "NAME=value", is in the environment of all processes that the command starts.
    """
    quoted = shlex.join(checked_argv(argv))
    # exec env: some shells do not support "NAME=value command", and with exec no shell stays in between.
    environment = f'env LC_ALL=C "PATH={_PATH}:$PATH"' + (f" {mark}" if mark else "")
    return f"exec sudo -n -- {environment} {quoted}" if sudo else f"exec {environment} {quoted}"


@dataclass(frozen=True)
class JobState:
    """A job at one moment: `exit_code` is None while it runs, `new_output` is what it wrote since the last poll."""

    running: bool
    exit_code: int | None
    new_output: str


class Job(Protocol):
    """A command that runs on the host with or without a connection."""

    @property
    def directory(self) -> str:
        """The job's own directory on the host; the command runs in it."""
        ...

    @property
    def host_label(self) -> str:
        """The host's label, for messages."""
        ...

    def wait(self, timeout_s: float, *, on_output: Callable[[str], None] | None = None) -> JobState:
        """Return the final state once the job has ended.

        on_output: called with each new piece of the job's output, about once a second.
        Raises JobTimedOut, a TimeoutError, after `timeout_s` (the job continues), JobVanished or HostLost.
        """
        ...

    def fetch(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the job's files that match these names (patterns with * and ?); missing files are left out."""
        ...

    def why_ended(self) -> str:
        """Examine the host; return why the job ended without a result, as the end of a sentence."""
        ...

    def kill(self) -> None:
        """Interrupt the job and everything it started, so that it can write its results; kill what remains."""
        ...

    def cleanup(self) -> None:
        """Remove the job's directory from the host."""
        ...


class Host(Protocol):
    """A machine that runs commands. Its methods may be called from several threads.

    `label` names it in messages ("m5.xlarge i-0abc"), `address` and `user` are where and as whom commands run.
    `listener`, if it is not None, receives every command, job and operation. `mark`, if it is not empty, is in the
    environment of every process that commands start, so that they can be found later: "NAME=value".
    """

    mark: str = ""
    label: str
    address: str
    user: str
    listener: HostListener | None

    def connect(self, timeout_s: float | None = None) -> None:
        """Make sure that the host answers; the first command connects too. Raises HostUnreachable."""
        return

    def close(self) -> None:
        """Close all connections. Detached jobs continue."""
        return

    def expect_reboot(self) -> None:
        """Drop all connections, because the host restarts; the next command waits as long as for a first boot."""
        return

    def run(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        check: bool = True,
        timeout_s: float = 60.0,
        idempotent: bool = False,
        stdin: bytes | None = None,
    ) -> CommandResult:
        """Run one short command and wait for its end.

        argv: the words of the command; the host quotes them. sudo: run as root, without a password.
        check: raise CommandFailed if the exit code is not 0.
        timeout_s: raise CommandTimedOut after that time; the command may still run on the host.
        idempotent: the command may run a second time if the connection drops during the first; otherwise
        ConnectionDropped is raised and nothing is repeated. stdin: bytes for its standard input.
        """
        ...

    def start_job(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        files: Mapping[str, bytes] | None = None,
        name: str = "job",
        job_id: str | None = None,
    ) -> Job:
        """Start a long command in a directory of its own with `files` in it; it needs no connection to continue.

        name: the beginning of the directory's name. job_id: the same id never starts twice; a second
        start attaches to the existing job. Raises HostError if the job could not be started.
        """
        ...

    def ensure_tool(self, name: str) -> str:
        """Return the tool's path on the host; a missing one is installed by the host's package manager.

        Raises ToolMissing with the package manager's message.
        """
        ...

    def perform(self, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Run an `operation` by calling `run`, and let a recording observe it; a replay returns the recorded result."""
        ...


class HostListener(Protocol):
    """Receives everything that happens on a host; ``host`` is the host's label."""

    def command(self, host: str, command: Command, ended: CommandResult | BaseException) -> None:
        """Receive a command that has ended, with its result or its error."""
        ...

    def job_started(self, host: str, job: str, argv: Sequence[str], *, sudo: bool) -> None:
        """Receive the start of a detached job."""
        ...

    def job_ended(self, host: str, job: str, *, exit_code: int | None, seconds: float) -> None:
        """Receive the end of a job, `seconds` after its start."""
        ...

    def operation(self, host: str, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Run an operation, and return its result or raise its error."""
        ...


REPEATABLE_OPERATIONS: set[str] = set()
"""Names of the operations that only read: a replay may answer one more often than it was recorded."""


def operation(
    name: str, *, repeatable: bool = False
) -> Callable[[Callable[Concatenate[H, P], T]], Callable[Concatenate[H, P], T]]:
    """Mark a function whose first argument is a host as one operation, which is recorded and replayed as a whole.

    A replay finds it by ``name`` and arguments, so the function may be renamed and its commands may change. An option
    that is None counts as left out: a new option with that default keeps old recordings valid. A ``repeatable``
    operation only reads.
    """
    if repeatable:
        REPEATABLE_OPERATIONS.add(name)

    def decorate(function: Callable[Concatenate[H, P], T]) -> Callable[Concatenate[H, P], T]:
        @functools.wraps(function)
        def performed(host: H, /, *args: P.args, **kwargs: P.kwargs) -> T:
            options = {option: value for option, value in kwargs.items() if value is not None}
            arguments = [*args, options] if options else list(args)
            return host.perform(name, arguments, functools.partial(function, host, *args, **kwargs))

        return performed

    return decorate
