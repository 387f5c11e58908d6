"""A host over SSH: connected within a time limit, its key pinned; no command is repeated unless it is idempotent."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import ConnectionDropped, HostUnreachable, LoginRefused
from pytest_cloudbench.hosts.host import Command, CommandResult
from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.proxy_command import proxy_failure
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.hosts.ways import (
    CHANNEL_OPEN_S,
    LOG,
    close_quietly,
    error_text,
    find_server,
    is_alive,
    open_connection,
)

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel
    from typing_extensions import Self

logging.getLogger(LOG).addHandler(logging.NullHandler())
logging.getLogger(LOG).propagate = False

_FIRST_RETRY_S = 0.03
_LONGEST_RETRY_S = 2.0
_ATTEMPT_S = 10.0
_REGION_ENDS_WITHIN_S = 1.0
_READ_BYTES = 1 << 16
_KILLED_BY_SIGNAL = 128
"""sshd names the signal in a message that paramiko drops; a shell's exit code is 128 plus the signal's number."""


class SshHost(ShellHost):
    """A host over SSH. It is safe to use from several threads: each has a connection of its own.

    If the login has a private key, no agent, key file or ~/.ssh/config is used for the host; if it has a host key, no
    known_hosts file. Raises ValueError if a key or a bastion cannot be read, HostError if ~/.ssh/config cannot.
    """

    def __init__(self, login: HostLogin) -> None:
        server = find_server(login)
        super().__init__(login.label or f"host {login.address}", address=server.host, user=server.user)
        self.port = server.port
        self.check_region = login.check_region
        self.installs_tools = login.installs_tools
        self._login = login
        self._server = server
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, Connection] = {}
        self._answered_before = False
        self._booted = False
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, timeout_s: float | None = None) -> None:
        """Connect within `timeout_s` (default: the login's timeout for a first connection, or for a later one).

        Refused connections, timeouts and half-started servers are retried, quickly at first.
        The first connection after a boot waits for the end of that boot, if the login says so. Raises HostUnreachable,
        HostKeyMismatch (at once), LoginRefused (after the login's grace time), or HostError if the boot failed.
        """
        self._connection(timeout_s)
        if self._login.boot_s is not None and not self._booted:
            from pytest_cloudbench.hosts.boot import wait_for_boot

            wait_for_boot(self, self._login.boot_s)
            self._booted = True
            if self._login.when_booted is not None:
                self._login.when_booted(self)

    def reconnect(self) -> None:
        """Replace this thread's connection. Raises HostUnreachable after the login's reconnect_timeout_s."""
        self.drop()
        self.connect(self._login.reconnect_timeout_s)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._drop_all()
        self._server.way.close()

    def drop(self) -> None:
        """Close this thread's connection; the next command connects again."""
        with self._lock:
            found = self._take_own()
        for each in found:
            close_quietly(each)

    def expect_reboot(self) -> None:
        self._answered_before = self._booted = False
        self._drop_all()

    def _drop_all(self) -> None:
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
        for connection in opened:
            close_quietly(connection)

    def _take_own(self) -> list[Connection]:
        """Remove and return the connections of this thread and of ended threads. The caller holds the lock."""
        owners = [threading.current_thread(), *(each for each in self._open if not each.is_alive())]
        return [self._open.pop(each) for each in owners if each in self._open]

    def _connection(self, timeout_s: float | None = None) -> Connection:
        thread = threading.current_thread()
        with self._lock:
            if self._closed:
                raise HostUnreachable(f"{self._place()} was closed")
            found = self._take_own()
            usable = next(filter(is_alive, found), None)
            if usable is not None:
                self._open[thread] = usable
        for each in found:
            if each is not usable:
                close_quietly(each)
        if usable is not None:
            return usable
        limit_s = timeout_s
        if limit_s is None:
            login = self._login
            limit_s = login.reconnect_timeout_s if self._answered_before else login.connect_timeout_s
        connection = self._connect_within(limit_s)
        with self._lock:
            self._answered_before = True
            self._open[thread] = connection
        return connection

    def _connect_within(self, limit_s: float) -> Connection:
        from paramiko import AuthenticationException, SSHException

        began = time.monotonic()
        deadline = began + limit_s
        pause_s = _FIRST_RETRY_S
        first_refusal: float | None = None
        while True:
            left_s = deadline - time.monotonic()
            try:
                return self._connect_once(max(0.5, min(_ATTEMPT_S, left_s)))
            except AuthenticationException as error:
                first_refusal = first_refusal or time.monotonic()
                if not self._login.private_key:
                    # An existing host has its keys installed: a retry would not help.
                    raise LoginRefused(
                        f"{self._place()} refuses the login of user {self.user!r}: {error_text(error)}"
                    ) from None
                if (
                    time.monotonic() - first_refusal >= self._login.login_grace_s
                    or time.monotonic() >= deadline
                ):
                    raise LoginRefused(
                        f"{self._place()} does not accept our key for user {self.user!r}, tried for "
                        f"{time.monotonic() - first_refusal:.0f} s: {error_text(error)}"
                    ) from None
                last: Exception = error
            except (OSError, EOFError, SSHException) as error:
                last = error
            if self.check_region is not None:
                self.check_region()
            if time.monotonic() + pause_s >= deadline:
                raise HostUnreachable(
                    f"{self._place()} did not answer within {limit_s:g} s: last error {error_text(last)}"
                ) from last
            time.sleep(pause_s)
            pause_s = min(_LONGEST_RETRY_S, pause_s * 1.5)

    def _connect_once(self, timeout_s: float) -> Connection:
        return open_connection(replace(self._server, port=self.port), timeout_s, place=self._place())

    def _region_may_have_ended(self) -> None:
        """Raise if the region has ended. Waits 1 s for that: its hosts end slightly before its own end is visible."""
        deadline = time.monotonic() + _REGION_ENDS_WITHIN_S
        while self.check_region is not None:
            self.check_region()
            if time.monotonic() >= deadline:
                return
            time.sleep(_FIRST_RETRY_S)

    def _place(self) -> str:
        return f"{self.label} at {self.address}:{self.port}{self._server.way.through}"

    def execute(self, command: Command) -> CommandResult:
        """Run the command in a channel of its own. Raises TimeoutError, ConnectionDropped, HostUnreachable."""
        from paramiko import SSHException

        channel = self._open_channel(command.line)
        try:
            return command.result(*_converse(channel, command.stdin, command.timeout_s))
        except TimeoutError:
            raise
        except (OSError, EOFError, SSHException) as error:
            self.drop()
            self._region_may_have_ended()
            why = "; ".join(filter(None, [error_text(error), proxy_failure(channel.get_transport().sock)]))
            raise ConnectionDropped(
                f"the connection to {self._place()} dropped while `{' '.join(command.argv)}` ran ({why}); "
                "it was not run again"
            ) from error
        finally:
            with contextlib.suppress(Exception):
                channel.close()

    def _open_channel(self, line: str) -> Channel:
        """Return a channel that runs the command; a dead connection is noticed here and replaced."""
        from paramiko import SSHException

        for again in (True, False):
            connection = self._connection()
            try:
                channel = connection.transport.open_session(timeout=CHANNEL_OPEN_S)
            except (OSError, EOFError, SSHException) as error:
                # Nothing was sent yet, so another attempt repeats no command.
                self.drop()
                if not again:
                    raise ConnectionDropped(
                        f"{self._place()} accepts connections but opens no channel: {error_text(error)}"
                    ) from error
                continue
            try:
                channel.settimeout(CHANNEL_OPEN_S)
                channel.exec_command(line)
            except (OSError, EOFError, SSHException) as error:
                self.drop()
                raise ConnectionDropped(
                    f"the connection to {self._place()} dropped while a command was sent: {error_text(error)}; "
                    "it was not run again"
                ) from error
            return channel
        raise AssertionError("unreachable")


def _converse(channel: Channel, stdin: bytes | None, timeout_s: float) -> tuple[int, bytes, bytes]:
    """Send `stdin`, return exit code and both outputs. Raises TimeoutError, or EOFError if the command was cut off."""
    deadline = time.monotonic() + timeout_s
    feeder: threading.Thread | None = None
    if stdin:
        # The command may write before it has read everything, so both directions run at once.
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
            raise EOFError("no exit code was received")
        exit_code = _KILLED_BY_SIGNAL
    return exit_code, b"".join(output), b"".join(errors)


def _drain(receive: Callable[[int], bytes], into: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while piece := receive(_READ_BYTES):
            into.append(piece)


def _feed(channel: Channel, data: bytes) -> None:
    with contextlib.suppress(OSError):
        channel.sendall(data)
    with contextlib.suppress(OSError):
        channel.shutdown_write()
