"""The base class of hosts with a POSIX shell: one method runs a command line, and all else is built on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench.hosts.errors import CommandFailed, CommandTimedOut, ConnectionDropped
from pytest_cloudbench.hosts.host import Command, CommandResult, Host, HostListener, checked_argv

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.jobs import DetachedJob

T = TypeVar("T")


class ShellHost(Host):
    """A host with a POSIX shell, coreutils and util-linux. A subclass defines `execute`.

    label: its name in messages. address: its address, for messages and network workloads. user: the login user.
    listener: receives every command, job and operation. look_s: how long one poll of a job waits on the host for the
    job's end; longer in a class whose commands cost more.
    """

    look_s: float = 1.0

    installs_tools: bool = True
    """Whether `ensure_tool` installs what is missing; False on a machine that is not the run's own."""

    def __init__(
        self, label: str, *, address: str = "", user: str = "root", listener: HostListener | None = None
    ) -> None:
        self.label = label
        self.address = address
        self.user = user
        self.listener = listener
        self._tools: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<{self.label} {self.user}@{self.address}>"

    def execute(self, command: Command) -> CommandResult:
        """Run `command.line` by a shell with `command.stdin`, and return `command.result(...)`, whatever the exit code.

        Raise TimeoutError after `command.timeout_s`, ConnectionDropped if it is unknown how the command ended, and
        HostUnreachable if it could not be sent.
        """
        raise NotImplementedError

    def reconnect(self) -> None:
        """Replace a connection that dropped: nothing to do for a host without a connection."""

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
        command = Command(checked_argv(argv), self.user, sudo, timeout_s, idempotent, stdin, mark=self.mark)
        try:
            result = self.run_unrecorded(command)
        except BaseException as error:
            if self.listener is not None:
                self.listener.command(self.label, command, error)
            raise
        if self.listener is not None:
            self.listener.command(self.label, command, result)
        if check and result.exit_code != 0:
            raise CommandFailed(self.label, command.argv, result.exit_code, result.stdout, result.stderr)
        return result

    def run_unrecorded(self, command: Command) -> CommandResult:
        """Run a command, a second time if it is idempotent and the connection dropped; the listener is not called.

        For polling a job that runs for hours: a recording would hold thousands of such commands.
        """
        try:
            try:
                return self.execute(command)
            except ConnectionDropped:
                if not command.idempotent:
                    raise
                return self.execute(command)
        except TimeoutError:
            raise CommandTimedOut(
                f"on {self.label}, `{' '.join(command.argv)}` did not end within {command.timeout_s:g} s; "
                "it may still be running there"
            ) from None

    def perform(self, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        return run() if self.listener is None else self.listener.operation(self.label, name, arguments, run)

    def start_job(self, argv: Sequence[str], **options: Any) -> DetachedJob:
        from pytest_cloudbench.hosts.jobs import start_job

        return start_job(self, argv, **options)

    def find_tool(self, name: str) -> str | None:
        """Return the tool's path on the host, or None."""
        found = self.run(["sh", "-c", 'command -v -- "$1"', "sh", name], check=False, idempotent=True)
        path = found.stdout.strip()
        return path if found.exit_code == 0 and path.startswith("/") else None

    def ensure_tool(self, name: str) -> str:
        if name not in self._tools:
            from pytest_cloudbench.hosts.packages import install

            self._tools[name] = self.find_tool(name) or install(self, name)
        return self._tools[name]
