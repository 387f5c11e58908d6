"""A real OpenSSH server on loopback, with its own configuration, host key and one authorised key."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.ssh import SshHost

_CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {directory}/host_key
PidFile {directory}/sshd.pid
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment no
MaxStartups 100
# bash run by sshd reads the user's start-up files only at the first level; this user's may be slow.
SetEnv SHLVL=2
Subsystem sftp internal-sftp
"""


def find_sshd() -> str:
    """Return the path of sshd; skip the test if there is none."""
    path = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if path is None:
        pytest.skip("OpenSSH's sshd is not installed on this machine")
    return path


@dataclass
class LocalSshd:
    """One sshd; `connect()` returns a host behind it."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def prepare(cls, directory: Path) -> LocalSshd:
        """Write keys and configuration into `directory`; `start` starts the server."""
        for name in ("host_key", "other_host_key", "login_key", "stranger_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(directory / name)],
                check=True,
            )
        shutil.copy(directory / "login_key.pub", directory / "authorized_keys")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (directory / "config").write_text(_CONFIG.format(port=port, directory=directory))
        return cls(directory, port)

    @classmethod
    @contextlib.contextmanager
    def running(cls, directory: Path) -> Iterator[LocalSshd]:
        """Run a server while the block lasts; skip the test if there is no sshd."""
        find_sshd()
        server = cls.prepare(directory)
        server.start()
        try:
            yield server
        finally:
            server.stop()

    def start(self) -> None:
        """Start the server; the connection waits until it answers."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = subprocess.Popen(
            [find_sshd(), "-D", "-e", "-f", str(self.directory / "config")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.directory / "log").open("ab"),
        )

    def stop(self) -> None:
        """Stop the server and the sessions it serves."""
        if self.process is None:
            return
        sessions = self.sessions()
        self.process.kill()
        self.process.wait()
        for pid in sessions:
            _kill(pid)
        self.process = None

    def sessions(self) -> list[int]:
        """Return the ids of the sshd processes that serve connections.

        Two a connection for a plain user, one that watches and one that serves; commands are not among them.
        """
        assert self.process is not None
        found: list[int] = []
        parents = [self.process.pid]
        while parents:
            children = [pid for pid in _children(parents.pop()) if _name(pid).startswith("sshd")]
            found += children
            parents += children
        return found

    def drop_connections(self) -> int:
        """Break all connections by killing the processes that serve them, and return their number."""
        found = self.sessions()
        for pid in found:
            _kill(pid)
        deadline = time.monotonic() + 5
        while set(found) & set(self.sessions()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(found)

    def key(self, name: str) -> str:
        """Return the text of one of the prepared keys."""
        return (self.directory / name).read_text()

    def connect(self, **changes: object) -> SshHost:
        """Return a host with the login of the current user; keywords replace fields of `HostLogin`."""
        login: dict[str, Any] = {
            "address": "127.0.0.1",
            "user": getpass.getuser(),
            "private_key": self.key("login_key"),
            "host_public_key": self.key("host_key.pub"),
            "port": self.port,
            "label": "instance i-0test",
            "connect_timeout_s": 20.0,
            "reconnect_timeout_s": 10.0,
        }
        return SshHost(HostLogin(**(login | changes)))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
