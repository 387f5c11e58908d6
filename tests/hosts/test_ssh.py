from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.errors import (
    ConnectionDropped,
    HostKeyMismatch,
    HostUnreachable,
    LoginRefused,
)
from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.ssh import SshHost


@pytest.mark.fault("SSH", "a host never answers")
def test_a_host_that_never_answers_is_an_error_in_time() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    host = SshHost(
        HostLogin(
            "127.0.0.1",
            "nobody",
            private_key=_PRIVATE_KEY,
            host_public_key=_PUBLIC_KEY,
            port=port,
            label="instance i-0dead",
            connect_timeout_s=0.6,
        )
    )
    began = time.monotonic()
    with pytest.raises(HostUnreachable) as caught:
        host.connect()
    assert time.monotonic() - began < 30, "not the login's time for a new host"
    assert f"instance i-0dead at 127.0.0.1:{port} did not answer within 0.6 s: last error" in str(
        caught.value
    )
    assert "refused" in str(caught.value)


@pytest.mark.fault("SSH", "a host never answers")
def test_a_host_that_accepts_but_never_answers_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = SshHost(
            HostLogin(
                "127.0.0.1",
                "nobody",
                private_key=_PRIVATE_KEY,
                host_public_key=_PUBLIC_KEY,
                port=silent.getsockname()[1],
                connect_timeout_s=1.0,
            )
        )
        began = time.monotonic()
        with pytest.raises(HostUnreachable, match="did not answer within 1 s"):
            host.connect()
        assert time.monotonic() - began < 30, "not the login's time for a host that was away"


@pytest.fixture
def booting(tmp_path: Path) -> Iterator[LocalSshd]:
    server = LocalSshd.prepare(tmp_path)
    try:
        yield server
    finally:
        server.stop()


def test_connecting_waits_for_a_host_that_boots(booting: LocalSshd) -> None:
    later = threading.Timer(0.4, booting.start)
    later.start()
    with booting.connect() as host:
        assert host.run(["echo", "up"]).stdout == "up\n"
    later.join()


def test_connecting_waits_for_a_key_that_is_installed_late(booting: LocalSshd) -> None:
    authorised = booting.directory / "authorized_keys"
    kept = authorised.read_text()
    authorised.write_text("")
    booting.start()
    later = threading.Timer(0.5, authorised.write_text, [kept])
    later.start()
    with booting.connect(login_grace_s=10.0) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"
    later.join()


@pytest.mark.fault("SSH", "the key is refused")
def test_a_key_that_is_never_accepted_is_an_error_of_its_own(sshd: LocalSshd) -> None:
    with (
        sshd.connect(private_key=sshd.key("stranger_key"), login_grace_s=0.3) as host,
        pytest.raises(LoginRefused, match="does not accept our key for user"),
    ):
        host.connect()


@pytest.mark.fault("SSH", "another machine answers")
def test_another_host_key_is_refused_at_once(sshd: LocalSshd) -> None:
    began = time.monotonic()
    stranger = sshd.connect(host_public_key=sshd.key("other_host_key.pub"))
    with stranger as host, pytest.raises(HostKeyMismatch) as caught:
        host.run(["true"])
    assert time.monotonic() - began < 15, "not the 20 s in which a host may answer"
    assert "SHA256:" in str(caught.value)
    assert "another machine" in str(caught.value)


@pytest.mark.fault("SSH", "the connection drops during a command")
def test_a_command_is_not_repeated_when_the_connection_drops(
    host: SshHost, sshd: LocalSshd, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    dropper = threading.Thread(target=_drop_once_there, args=(sshd, started))
    dropper.start()
    with pytest.raises(ConnectionDropped, match="it was not run again"):
        host.run(["sh", "-c", 'echo once >> "$1"; sleep 5', "sh", str(started)])
    dropper.join()
    assert host.run(["cat", str(started)]).stdout == "once\n"


@pytest.mark.fault("SSH", "the connection drops during a command")
def test_an_idempotent_command_is_repeated_once(host: SshHost, sshd: LocalSshd, tmp_path: Path) -> None:
    started = tmp_path / "started"
    dropper = threading.Thread(target=_drop_once_there, args=(sshd, started))
    dropper.start()
    script = '[ -e "$1" ] && exec echo again; echo once > "$1"; sleep 5'
    assert host.run(["sh", "-c", script, "sh", str(started)], idempotent=True).stdout == "again\n"
    dropper.join()


def test_a_connection_that_died_unused_is_replaced(host: SshHost, sshd: LocalSshd) -> None:
    host.run(["true"])
    assert sshd.drop_connections() >= 1
    assert host.run(["echo", "back"]).stdout == "back\n"


def _server_of(host: SshHost) -> str:
    """Return the process that serves this thread's connection."""
    return host.run(["sh", "-c", "ps -o ppid= -p $$"]).stdout.strip()


def test_threads_of_one_time_have_connections_of_their_own(host: SshHost) -> None:
    servers: list[str] = []
    together = threading.Barrier(3, timeout=60)

    def ask() -> None:
        servers.append(_server_of(host))
        together.wait()

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(servers)) == 3


def test_a_thread_takes_over_the_connection_of_one_that_has_ended(host: SshHost) -> None:
    servers: list[str] = []
    first = threading.Thread(target=lambda: servers.append(_server_of(host)))
    first.start()
    first.join()
    assert [_server_of(host)] == servers
    host.drop()
    assert [_server_of(host)] != servers


def test_a_closed_host_refuses_commands(sshd: LocalSshd) -> None:
    host = sshd.connect()
    host.run(["true"])
    host.close()
    with pytest.raises(HostUnreachable, match="was closed"):
        host.run(["true"])


def test_a_server_that_closes_at_once_starts_no_thread_that_logs(caplog: pytest.LogCaptureFixture) -> None:
    """As a booting host does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def close() -> None:
            server.accept()[0].close()

        closing = threading.Thread(target=close)
        closing.start()
        login = HostLogin("127.0.0.1", "nobody", _PRIVATE_KEY, _PUBLIC_KEY, port=port, connect_timeout_s=0.01)
        host = SshHost(login)
        with pytest.raises(HostUnreachable, match="closed the connection"):
            host.connect()
        closing.join()
    assert caplog.records == []


def _drop_once_there(sshd: LocalSshd, started: Path) -> None:
    deadline = time.monotonic() + 10
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    sshd.drop_connections()


_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKRH2Gg7Ml9U5ROtSPsKlb0fbjpiX8dqP0KxYyCQq0J test"
_PRIVATE_KEY = ""


@pytest.fixture(scope="module", autouse=True)
def _throwaway_key() -> None:
    """A private key for hosts that are never reached."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    global _PRIVATE_KEY  # noqa: PLW0603
    _PRIVATE_KEY = (
        Ed25519PrivateKey.generate()
        .private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        .decode()
    )


class Ended(Exception):
    """The error of a region that has ended."""


@pytest.mark.fault("SSH", "the region ends while a host is connected to")
def test_connecting_stops_when_the_region_has_ended(host: SshHost) -> None:
    looks: list[float] = []

    def check() -> None:
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise Ended

    host.run(["true"])
    host.drop()
    host.check_region = check
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        host.port = taken.getsockname()[1]
        with pytest.raises(Ended):
            host.run(["true"])
    assert len(looks) == 3


def test_a_command_cut_off_by_the_end_of_its_region_reports_that(host: SshHost) -> None:
    looks: list[float] = []

    def check() -> None:
        """Raise at the third call: the end of a region is seen a little later than that of its hosts."""
        looks.append(time.monotonic())
        if len(looks) == 3:
            raise Ended

    host.check_region = check
    with pytest.raises(Ended):
        host.run(["sh", "-c", "kill -9 $(ps -o ppid= -p $$)"])
