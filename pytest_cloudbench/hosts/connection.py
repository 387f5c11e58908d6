"""A host over SSH: connected within a time limit, its key pinned, never repeating a command by itself."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench.hosts.command import CommandResult, checked_argv, command_line
from pytest_cloudbench.hosts.errors import (
    CommandFailed,
    CommandTimedOut,
    ConnectionDropped,
    HostKeyMismatch,
    HostUnreachable,
    LoginRefused,
)
from pytest_cloudbench.hosts.login_keys import fingerprint, read_host_key, read_private_key

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel

    from pytest_cloudbench.hosts.jobs import DetachedJob
    from pytest_cloudbench.hosts.listener import HostListener

__all__ = ["CommandResult", "HostConnection"]

T = TypeVar("T")

_LOG = "pytest_cloudbench.ssh"
"""paramiko's own log; kept to itself, since a booting host fills it with tracebacks of no interest."""
logging.getLogger(_LOG).addHandler(logging.NullHandler())
logging.getLogger(_LOG).propagate = False

_FIRST_RETRY_S = 0.03
_LONGEST_RETRY_S = 2.0
_ATTEMPT_S = 10.0
_TCP_CONNECT_S = 3.0
_KEEPALIVE_S = 15
_REGION_ENDS_WITHIN_S = 1.0
_CHANNEL_OPEN_S = 20.0
_READ_BYTES = 1 << 16
_KILLED_BY_SIGNAL = 128
"""sshd names the signal in a message that paramiko does not keep; shells say 128 and the signal's number."""


class HostConnection:
    """One host. Safe to use from several threads: each has a connection of its own.

    address, port, user: where and as whom. private_key: the key's PEM text; it stays in memory.
    host_public_key: the host's public key line ("ssh-ed25519 AAAA..."); any other key is refused.
    label: how messages name the host, e.g. "instance i-0abc".
    connect_timeout_s: how long a host that was just launched may take to answer.
    login_grace_s: how long a refused login is retried, because a booting host installs keys late.
    reconnect_timeout_s: how long a host that has answered before may be away.

    No agent, no ~/.ssh, no known_hosts file: what is trusted is what was passed in.
    Connecting happens with the first command, or by `connect()`. `listener`, where it is not None, is told of
    every command, job and operation. `check_region`, where it is not None, is called when the host does not answer;
    what it raises, because there is nothing left that could answer, ends every attempt.
    """

    listener: HostListener | None = None
    check_region: Callable[[], None] | None = None

    def __init__(
        self,
        address: str,
        user: str,
        *,
        private_key: str | None = None,
        private_key_file: str | Path | None = None,
        host_public_key: str,
        port: int = 22,
        label: str | None = None,
        connect_timeout_s: float = 180.0,
        login_grace_s: float = 60.0,
        reconnect_timeout_s: float = 60.0,
    ) -> None:
        if (private_key is None) == (private_key_file is None):
            raise ValueError("give either private_key or private_key_file")
        if private_key is None:
            private_key = Path(str(private_key_file)).expanduser().read_text()
        self.address = address
        self.port = port
        self.user = user
        self.label = label or f"host {address}"
        self.connect_timeout_s = connect_timeout_s
        self.login_grace_s = login_grace_s
        self.reconnect_timeout_s = reconnect_timeout_s
        self._private_key = read_private_key(private_key)
        self._host_key = read_host_key(host_public_key)
        self._lock = threading.Lock()
        self._open: dict[int, tuple[threading.Thread, Connection]] = {}
        self._answered_before = False
        self._closed = False
        self._tools: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<{self.label} {self.user}@{self.address}:{self.port}>"

    def __enter__(self) -> HostConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Connecting ------------------------------------------------------------------------------------

    def connect(self, timeout_s: float | None = None) -> None:
        """Be connected within `timeout_s` (default: connect_timeout_s, once it answered reconnect_timeout_s).

        Refused connections, timeouts and half-started servers are tried again, quickly at first.
        Raises HostUnreachable, HostKeyMismatch (at once) or LoginRefused (after login_grace_s).
        """
        self._connection(timeout_s)

    def close(self) -> None:
        """Close the connections of all threads. Detached jobs on the host go on."""
        with self._lock:
            self._closed = True
            opened = [connection for _, connection in self._open.values()]
            self._open.clear()
        for connection in opened:
            _close_quietly(connection)

    def drop(self) -> None:
        """Forget this thread's connection; the next command connects anew."""
        with self._lock:
            found = self._open.pop(threading.get_ident(), None)
        if found is not None:
            _close_quietly(found[1])

    def forget_boot(self) -> None:
        """The host is being restarted: drop all connections and allow it the time of a first boot again."""
        with self._lock:
            opened = [connection for _, connection in self._open.values()]
            self._open.clear()
            self._answered_before = False
        for connection in opened:
            _close_quietly(connection)

    def _connection(self, timeout_s: float | None = None) -> Connection:
        thread = threading.current_thread()
        with self._lock:
            if self._closed:
                raise HostUnreachable(f"{self._place()} is not connected any more: it was closed")
            found = self._open.get(threading.get_ident())
            if found is not None and found[0] is thread and _is_alive(found[1]):
                return found[1]
        self.drop()
        limit_s = timeout_s
        if limit_s is None:
            limit_s = self.reconnect_timeout_s if self._answered_before else self.connect_timeout_s
        connection = self._connect_within(limit_s)
        with self._lock:
            self._answered_before = True
            ended = [key for key, (owner, _) in self._open.items() if not owner.is_alive()]
            stale = [self._open.pop(key)[1] for key in ended]
            self._open[threading.get_ident()] = (thread, connection)
        for each in stale:
            _close_quietly(each)
        return connection

    def _connect_within(self, limit_s: float) -> Connection:
        from paramiko import AuthenticationException, BadHostKeyException, SSHException

        began = time.monotonic()
        deadline = began + limit_s
        pause_s = _FIRST_RETRY_S
        first_refusal: float | None = None
        while True:
            left_s = deadline - time.monotonic()
            try:
                return self._connect_once(max(0.5, min(_ATTEMPT_S, left_s)))
            except BadHostKeyException as error:
                raise HostKeyMismatch(
                    f"{self._place()} answered with host key {fingerprint(error.key)}, not with "
                    f"{fingerprint(self._host_key)} that it was given: this is another machine, "
                    "nothing was sent to it"
                ) from None
            except AuthenticationException as error:
                first_refusal = first_refusal or time.monotonic()
                if time.monotonic() - first_refusal >= self.login_grace_s or time.monotonic() >= deadline:
                    raise LoginRefused(
                        f"{self._place()} does not accept our key for user {self.user!r}, tried for "
                        f"{time.monotonic() - first_refusal:.0f} s: {_words(error)}"
                    ) from None
                last: Exception = error
            except (OSError, EOFError, SSHException) as error:
                last = error
            if self.check_region is not None:
                self.check_region()
            if time.monotonic() + pause_s >= deadline:
                raise HostUnreachable(
                    f"{self._place()} did not answer within {limit_s:g} s: last error {_words(last)}"
                ) from last
            time.sleep(pause_s)
            pause_s = min(_LONGEST_RETRY_S, pause_s * 1.5)

    def _connect_once(self, timeout_s: float) -> Connection:
        from fabric import Config, Connection
        from paramiko import RejectPolicy

        # A new attempt reaches a host that has just come up sooner than the repeats of an old one.
        channel = socket.create_connection((self.address, self.port), timeout=min(timeout_s, _TCP_CONNECT_S))
        connection: Connection | None = None
        try:
            # Small packets go back and forth: waiting to fill them costs 40 ms a command.
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(
                self.address,
                user=self.user,
                port=self.port,
                config=Config(lazy=True, overrides={"load_ssh_configs": False}),
                connect_kwargs={
                    "pkey": self._private_key,
                    "sock": channel,
                    "allow_agent": False,
                    "look_for_keys": False,
                    "timeout": timeout_s,
                    "banner_timeout": timeout_s,
                    "auth_timeout": timeout_s,
                    "channel_timeout": _CHANNEL_OPEN_S,
                },
            )
            known_as = self.address if self.port == 22 else f"[{self.address}]:{self.port}"
            connection.client.get_host_keys().add(known_as, self._host_key.get_name(), self._host_key)
            connection.client.set_missing_host_key_policy(RejectPolicy())
            connection.client.set_log_channel(_LOG)
            connection.open()
            transport = connection.transport
            transport.set_keepalive(_KEEPALIVE_S)
        except BaseException:
            if connection is not None:
                _close_quietly(connection)
            channel.close()
            raise
        return connection

    def _region_may_have_ended(self) -> None:
        """A region's hosts go with it, a little before its own end can be seen."""
        deadline = time.monotonic() + _REGION_ENDS_WITHIN_S
        while self.check_region is not None:
            self.check_region()
            if time.monotonic() >= deadline:
                return
            time.sleep(_FIRST_RETRY_S)

    def _place(self) -> str:
        return f"{self.label} at {self.address}:{self.port}"

    # Commands --------------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        check: bool = True,
        timeout_s: float = 60.0,
        idempotent: bool = False,
        stdin: bytes | None = None,
        heard: bool = True,
    ) -> CommandResult:
        """Run one short command and wait for its end.

        argv: a list of words; it is quoted here. sudo: as root, without a password.
        check: raise CommandFailed for an exit code other than 0.
        timeout_s: CommandTimedOut after that; the command may then still run on the host.
        idempotent: may be run once more when the connection drops in the middle; otherwise
        ConnectionDropped is raised and nothing is repeated. stdin: bytes for its standard input.
        heard: whether the listener is told; not of every look at a job that runs for hours.
        """
        words = checked_argv(argv)
        listener = self.listener if heard else None
        began = time.monotonic()
        try:
            result = self._run(words, sudo, timeout_s, idempotent, stdin)
        except BaseException as error:
            if listener is not None:
                seconds = time.monotonic() - began
                listener.command(self.label, words, sudo=sudo, seconds=seconds, error=error)
            raise
        if listener is not None:
            listener.command(
                self.label,
                words,
                sudo=sudo,
                seconds=result.seconds,
                exit_code=result.exit_code,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        if check and result.exit_code != 0:
            raise CommandFailed(self.label, words, result.exit_code, result.stdout, result.stderr)
        return result

    def perform(self, name: str, arguments: Sequence[Any], run: Callable[[], T]) -> T:
        """Have a whole piece of work on this host done, the listener told of it; see `listener.operation`."""
        return run() if self.listener is None else self.listener.operation(self.label, name, arguments, run)

    def _run(
        self, words: tuple[str, ...], sudo: bool, timeout_s: float, idempotent: bool, stdin: bytes | None
    ) -> CommandResult:
        line = command_line(words, sudo=sudo and self.user != "root")
        began = time.monotonic()
        try:
            stdout, stderr, exit_code = self._execute(line, words, timeout_s, stdin)
        except ConnectionDropped:
            if not idempotent:
                raise
            stdout, stderr, exit_code = self._execute(line, words, timeout_s, stdin)
        return CommandResult(
            argv=words,
            stdout=stdout.decode("utf-8", "replace"),
            stderr=stderr.decode("utf-8", "replace"),
            exit_code=exit_code,
            seconds=time.monotonic() - began,
            stdout_bytes=stdout,
        )

    def _execute(
        self, line: str, words: Sequence[str], timeout_s: float, stdin: bytes | None
    ) -> tuple[bytes, bytes, int]:
        from paramiko import SSHException

        channel = self._open_channel(line)
        try:
            return _converse(channel, stdin, time.monotonic() + timeout_s)
        except TimeoutError:
            raise CommandTimedOut(
                f"on {self.label}, `{' '.join(words)}` did not end within {timeout_s:g} s; "
                "it may still be running there"
            ) from None
        except (OSError, EOFError, SSHException) as error:
            self.drop()
            self._region_may_have_ended()
            raise ConnectionDropped(
                f"the connection to {self._place()} dropped while `{' '.join(words)}` ran ({_words(error)}); "
                "it was not run again"
            ) from error
        finally:
            with contextlib.suppress(Exception):
                channel.close()

    def _open_channel(self, line: str) -> Channel:
        """A channel with the command on its way. A dead connection is noticed here and made anew."""
        from paramiko import SSHException

        for again in (True, False):
            connection = self._connection()
            try:
                channel = connection.transport.open_session(timeout=_CHANNEL_OPEN_S)
            except (OSError, EOFError, SSHException) as error:
                # Nothing was sent yet, so trying once more repeats no command.
                self.drop()
                if not again:
                    raise ConnectionDropped(
                        f"{self._place()} takes connections but opens no channel: {_words(error)}"
                    ) from error
                continue
            try:
                channel.settimeout(_CHANNEL_OPEN_S)
                channel.exec_command(line)
            except (OSError, EOFError, SSHException) as error:
                self.drop()
                raise ConnectionDropped(
                    f"the connection to {self._place()} dropped while a command was sent: {_words(error)}; "
                    "it was not run again"
                ) from error
            return channel
        raise AssertionError("unreachable")

    # Jobs, tools -----------------------------------------------------------------------------------

    def start_job(
        self,
        argv: Sequence[str],
        *,
        sudo: bool = False,
        files: Mapping[str, bytes] | None = None,
        name: str = "job",
        job_id: str | None = None,
    ) -> DetachedJob:
        """Start a long command that goes on without a connection; see jobs.start_job."""
        from pytest_cloudbench.hosts.jobs import start_job

        return start_job(self, argv, sudo=sudo, files=files or {}, name=name, job_id=job_id)

    def ensure_tool(self, name: str) -> str:
        """Path of the tool on this host, installed when missing; see tools.ensure_tool."""
        from pytest_cloudbench.hosts.tools import ensure_tool

        if name not in self._tools:
            self._tools[name] = ensure_tool(self, name)
        return self._tools[name]


def _converse(channel: Channel, stdin: bytes | None, deadline: float) -> tuple[bytes, bytes, int]:
    """Feed a command and collect what it says. TimeoutError past the deadline, EOFError when it was cut off."""
    feeder: threading.Thread | None = None
    if stdin:
        # The command may answer before it has read everything: both ways must flow at once.
        feeder = threading.Thread(target=_feed, args=(channel, stdin), daemon=True)
        feeder.start()
    else:
        channel.shutdown_write()
    errors: list[bytes] = []
    error_reader = threading.Thread(target=_drain, args=(channel.recv_stderr, errors), daemon=True)
    channel.settimeout(max(0.01, deadline - time.monotonic()))
    output: list[bytes] = []
    error_reader.start()
    while piece := channel.recv(_READ_BYTES):
        output.append(piece)
        channel.settimeout(max(0.01, deadline - time.monotonic()))
    if not channel.status_event.wait(max(0.01, deadline - time.monotonic())):
        raise TimeoutError
    error_reader.join(max(0.1, deadline - time.monotonic()))
    exit_code = channel.exit_status
    if exit_code < 0:
        if not channel.eof_received:
            raise EOFError("it ended without an exit code")
        exit_code = _KILLED_BY_SIGNAL
    return b"".join(output), b"".join(errors), exit_code


def _drain(receive: Callable[[int], bytes], into: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while piece := receive(_READ_BYTES):
            into.append(piece)


def _feed(channel: Channel, data: bytes) -> None:
    with contextlib.suppress(OSError):
        channel.sendall(data)
    with contextlib.suppress(OSError):
        channel.shutdown_write()


def _is_alive(connection: Any) -> bool:
    transport = connection.transport
    return transport is not None and transport.is_active() and transport.is_authenticated()


def _close_quietly(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.close()


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
