"""A command whose standard input and output lead to a host's SSH port, like ssh's ProxyCommand."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Any

from pytest_cloudbench.hosts.errors import HostUnreachable
from pytest_cloudbench.hosts.ssh_config import check_word

_ENDS_S = 0.5
_TAIL_CHARS = 1000
_TOKEN = re.compile(r"%(.?)")


def proxy_words(command: str, *, host: str, port: int, user: str, instance: str = "") -> tuple[str, ...]:
    """Return the words of a proxy command, split as a shell does, with %h, %p, %r, %i and %% replaced.

    No shell interprets them. Raises ValueError for an unknown token, an open quote, or %i without an instance.
    """
    values = {"h": host, "p": str(port), "r": user, "n": host, "i": instance, "%": "%"}
    for word in (host, user, instance):
        check_word(word)

    def value(token: re.Match[str]) -> str:
        if token[1] not in values:
            raise ValueError(f"the proxy command has {token[0]!r}: use %h, %p, %r, %i or %%")
        if token[1] == "i" and not instance:
            raise ValueError(f"the proxy command has %i, the id of an EC2 instance, and {host} is none")
        return values[token[1]]

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"the proxy command {command!r} cannot be read: {error}") from None
    if not words:
        raise ValueError("the proxy command is empty")
    return tuple(_TOKEN.sub(value, word) for word in words)


class ThroughCommand:
    """The standard input and output of a command, one process for each connection."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.through = f" through `{' '.join(words)}`"

    def open(self, host: str, port: int, timeout_s: float) -> ProxySocket:
        return ProxySocket.start(self.words)

    def close(self) -> None:
        return


class ProxySocket(socket.socket):
    """A socket to a command; closing it ends the command."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]
    _ended_here = False

    @classmethod
    def start(cls, words: Sequence[str]) -> ProxySocket:
        """Start a command. Raises HostUnreachable if it cannot be started."""
        ours, theirs = socket.socketpair()
        # A pipe would block a command that writes much; the file closes with the socket object.
        said = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with theirs:
                # Ctrl-C in the terminal must not end it: the tests need their connections to clean up.
                process = subprocess.Popen(
                    words, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=said, start_new_session=True
                )
        except OSError as error:
            ours.close()
            said.close()
            raise HostUnreachable(
                f"the proxy command `{shlex.join(words)}` cannot be started: {error.strerror}"
            ) from None
        opened = cls(fileno=ours.detach())
        opened.process, opened.said = process, said
        return opened

    def failure(self) -> str:
        """Return how the command ended by itself and what it wrote to stderr, for a message; "" if neither is known."""
        code = self._end_within(_ENDS_S)
        ended = f"ended with exit code {code}" if code is not None and not self._ended_here else ""
        size = os.fstat(self.said.fileno()).st_size
        tail = os.pread(self.said.fileno(), _TAIL_CHARS, max(0, size - _TAIL_CHARS))
        said = " ".join(tail.decode("utf-8", "replace").split())
        told = " and ".join([*([ended] if ended else []), *([f"wrote {said!r}"] if said else [])])
        return f"the proxy command {told}" if told else ""

    def close(self) -> None:
        super().close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._end_within(_ENDS_S) is not None:
                return
            self._ended_here = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
        self.process.wait()

    def _end_within(self, timeout_s: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(timeout_s)
        return None


def proxy_failure(opened: Any) -> str:
    """Return why the command behind a socket failed, for a message; "" for any other socket."""
    return opened.failure() if isinstance(opened, ProxySocket) else ""
