"""Hosts behind bastions and proxy commands: a second sshd is the bastion, a small program the proxy."""

from __future__ import annotations

import contextlib
import getpass
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_sshd import LocalSshd
from own_ssh import own_key, trust

from pytest_cloudbench.hosts.errors import (
    CommandTimedOut,
    ConnectionDropped,
    HostError,
    HostUnreachable,
    LoginRefused,
    UnknownHostKey,
)
from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.proxy_command import proxy_words
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.hosts.ways import parse_jump

_RELAY = """\
import os, select, socket, sys
to = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
ends = {0: to.fileno(), to.fileno(): 1}
while True:
    for each in select.select(list(ends), [], [])[0]:
        data = os.read(each, 65536)
        if not data:
            sys.exit("the relay's connection ended")
        os.write(ends[each], data)
"""


@pytest.fixture(scope="module")
def bastion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    with LocalSshd.running(tmp_path_factory.mktemp("bastion")) as server:
        yield server


@pytest.fixture
def jump(home: Path, bastion: LocalSshd) -> str:
    """The bastion, which the user can log in to."""
    trust(home, bastion)
    own_key(home, bastion)
    _until(lambda: not bastion.sessions(), "end of other tests' connections")
    return f"{getpass.getuser()}@127.0.0.1:{bastion.port}"


@pytest.fixture
def relay(tmp_path: Path) -> str:
    """A proxy command for the port of a host."""
    program = tmp_path / "relay.py"
    program.write_text(_RELAY)
    return f"{sys.executable} {program} %p"


# Bastions


def test_a_host_behind_a_bastion_is_as_any_other(jump: str, sshd: LocalSshd, bastion: LocalSshd) -> None:
    data = bytes(range(256)) * 5_000
    with sshd.connect(jump=jump) as host:
        assert host.run(["cat"], stdin=data).stdout_bytes == data
        said: list[str] = []
        threads = [
            threading.Thread(target=lambda: said.append(host.run(["echo", "in"]).stdout)) for _ in range(3)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert said == ["in\n"] * 3
        assert bastion.sessions()
        with pytest.raises(CommandTimedOut):
            host.run(["sleep", "30"], timeout_s=0.3)
        assert host.run(["echo", "still"]).stdout == "still\n"
    _until(lambda: not bastion.sessions() and not sshd.sessions(), "closed connections")


def test_several_threads_share_the_connection_to_a_bastion(
    jump: str, sshd: LocalSshd, bastion: LocalSshd
) -> None:
    with sshd.connect(jump=jump) as host:
        host.connect()
        one = len(bastion.sessions())
        other = threading.Thread(target=host.connect)
        other.start()
        other.join()
        host.reconnect()
        assert len(bastion.sessions()) == one


def test_a_chain_of_bastions(home: Path, jump: str, sshd: LocalSshd, bastion: LocalSshd) -> None:
    with LocalSshd.running(home) as second:
        (second.directory / "authorized_keys").write_text(bastion.key("login_key.pub"))
        trust(home, bastion, second)
        chain = f"{jump},{getpass.getuser()}@127.0.0.1:{second.port}"
        with sshd.connect(jump=chain) as host:
            assert host.run(["echo", "in"]).stdout == "in\n"
            assert second.sessions()
            assert bastion.sessions()


def test_bastions_of_the_configuration(home: Path, jump: str, sshd: LocalSshd, bastion: LocalSshd) -> None:
    """A pattern that also fits the bastion does not send it through itself."""
    (sshd.directory / "authorized_keys").write_text(sshd.key("login_key.pub") + bastion.key("login_key.pub"))
    trust(home, bastion, sshd)
    (home / "config").write_text(
        f"Host lab\n HostName 127.0.0.1\n Port {sshd.port}\n"
        f"Host gate\n HostName 127.0.0.1\n Port {bastion.port}\n"
        f"Host *\n ProxyJump gate\n"
    )
    with SshHost(HostLogin("lab", "")) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"
        assert bastion.sessions()


def test_bastions_that_lead_through_each_other_are_an_error(home: Path) -> None:
    (home / "config").write_text("Host a\n ProxyJump b\nHost b\n ProxyJump c\nHost c\n ProxyJump a\n")
    with pytest.raises(HostError, match="bastions"):
        SshHost(HostLogin("a", ""))


def test_connecting_waits_for_a_host_that_boots_behind_a_bastion(jump: str, tmp_path: Path) -> None:
    folder = tmp_path / "booting"
    folder.mkdir()
    booting = LocalSshd.prepare(folder)
    later = threading.Timer(0.5, booting.start)
    later.start()
    try:
        with booting.connect(jump=jump) as host:
            assert host.run(["echo", "up"]).stdout == "up\n"
            booting.stop()
            host.expect_reboot()
            booting.start()
            assert host.run(["echo", "again"]).stdout == "again\n"
    finally:
        later.join()
        booting.stop()


def test_a_bastion_that_drops_is_named_and_replaced(
    jump: str, sshd: LocalSshd, bastion: LocalSshd, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    with sshd.connect(jump=jump) as host:
        dropper = threading.Thread(
            target=lambda: (_until(started.exists, "start"), bastion.drop_connections())
        )
        dropper.start()
        with pytest.raises(ConnectionDropped, match=rf"through bastion {jump}.*it was not run again"):
            host.run(["sh", "-c", 'echo once >> "$1"; sleep 5', "sh", str(started)])
        dropper.join()
        assert host.run(["cat", str(started)]).stdout == "once\n"


def test_a_job_outlives_the_connection_of_a_bastion(jump: str, sshd: LocalSshd, bastion: LocalSshd) -> None:
    with sshd.connect(jump=jump) as host:
        job = host.start_job(["sh", "-c", "echo started; sleep 1; echo ended"])
        said: list[str] = []

        def on_output(text: str) -> None:
            said.append(text)
            if len(said) == 1:
                assert bastion.drop_connections()

        assert job.wait(20, on_output=on_output).exit_code == 0
        assert "".join(said) == "started\nended\n"
        job.cleanup()


def test_a_bastion_that_is_gone_is_named(home: Path, jump: str, sshd: LocalSshd, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with LocalSshd.running(folder) as gone:
        (folder / "authorized_keys").write_text(_public(home))
        trust(home, gone)
        through = f"{getpass.getuser()}@127.0.0.1:{gone.port}"
        with sshd.connect(jump=through, reconnect_timeout_s=0.5) as host:
            host.connect()
            gone.stop()
            with pytest.raises(
                HostUnreachable, match=rf"last error bastion {through} did not answer: .*refused"
            ):
                host.reconnect()


def test_a_bastion_is_never_logged_in_to_unknown(home: Path, jump: str, sshd: LocalSshd) -> None:
    (home / "known_hosts").unlink()
    with sshd.connect(jump=jump) as host, pytest.raises(UnknownHostKey, match=f"^bastion {jump} "):
        host.connect()


def test_a_bastion_that_refuses_the_login_is_an_error_at_once(home: Path, jump: str, sshd: LocalSshd) -> None:
    (home / "id_ed25519").unlink()
    with (
        sshd.connect(jump=jump) as host,
        pytest.raises(LoginRefused, match=f"^bastion {jump} refuses the login"),
    ):
        host.connect()


def test_a_bastion_that_does_not_forward_is_an_error_at_once(
    home: Path, sshd: LocalSshd, tmp_path: Path
) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    closed = LocalSshd.prepare(folder)
    config = folder / "config"
    config.write_text(config.read_text() + "AllowTcpForwarding no\n")
    closed.start()
    try:
        trust(home, closed)
        own_key(home, closed)
        jump = f"{getpass.getuser()}@127.0.0.1:{closed.port}"
        with sshd.connect(jump=jump) as host, pytest.raises(HostUnreachable, match="AllowTcpForwarding"):
            host.connect()
    finally:
        closed.stop()


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("bastion", [("", "bastion", None)]),
        ("ada@10.0.0.1", [("ada", "10.0.0.1", None)]),
        ("ada@10.0.0.1:23, eve@b", [("ada", "10.0.0.1", 23), ("eve", "b", None)]),
        ("ssh://ada@b:23/", [("ada", "b", 23)]),
        ("ada@[fd00::1]:23", [("ada", "fd00::1", 23)]),
        ("fd00::1", [("", "fd00::1", None)]),
    ],
)
def test_bastions_are_written_as_for_ssh(text: str, hops: list[tuple[str, str, int | None]]) -> None:
    assert parse_jump(text) == hops


@pytest.mark.parametrize(
    "text", ["", "a,", "a@", "@b", "b:port", "b:0", "b:70000", "-oProxyCommand=x", "a b", "a;b", "[", "[b"]
)
def test_a_bastion_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bastion|name of a host"):
        parse_jump(text)


@given(st.text())
def test_any_text_is_bastions_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(host and not host.startswith("-") for _, host, _ in parse_jump(text))


# Proxy commands


def test_a_proxy_command_leads_to_the_host(sshd: LocalSshd, relay: str) -> None:
    before = _children()
    data = bytes(range(256)) * 5_000
    with sshd.connect(proxy_command=relay) as host:
        assert host.run(["cat"], stdin=data).stdout_bytes == data
        assert _children() - before
    _until(lambda: _children() <= before, "ended proxy commands")


def test_what_a_failing_proxy_command_says_is_in_the_error(sshd: LocalSshd) -> None:
    failing = "sh -c 'echo no tunnel to %h for %r >&2; exit 4'"
    with (
        sshd.connect(proxy_command=failing, connect_timeout_s=0.5) as host,
        pytest.raises(
            HostUnreachable,
            match=rf"ended with exit code 4 and wrote 'no tunnel to 127.0.0.1 for {getpass.getuser()}'",
        ),
    ):
        host.connect()


def test_a_proxy_command_that_is_missing_is_an_error_at_once(sshd: LocalSshd) -> None:
    with (
        sshd.connect(proxy_command="/no/such/program %h") as host,
        pytest.raises(HostUnreachable, match=r"/no/such/program 127.0.0.1.*No such file"),
    ):
        host.connect()


def test_a_proxy_command_that_never_answers_is_ended(sshd: LocalSshd) -> None:
    before = _children()
    with (
        sshd.connect(proxy_command="sleep 600", connect_timeout_s=0.5) as host,
        pytest.raises(HostUnreachable, match=r"through `sleep 600` did not answer within 0.5 s"),
    ):
        host.connect()
    _until(lambda: _children() <= before, "ended proxy commands")


def test_a_proxy_command_that_ends_drops_the_connection(sshd: LocalSshd, relay: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with sshd.connect(proxy_command=relay) as host:
        dropper = threading.Thread(target=lambda: (_until(started.exists, "start"), sshd.drop_connections()))
        dropper.start()
        with pytest.raises(ConnectionDropped, match="the relay's connection ended"):
            host.run(["sh", "-c", 'echo once >> "$1"; sleep 5', "sh", str(started)])
        dropper.join()
        assert host.run(["cat", str(started)]).stdout == "once\n"


def test_a_proxy_command_of_the_configuration_is_run_by_a_shell_as_ssh_does(
    home: Path, sshd: LocalSshd, relay: str
) -> None:
    own_key(home, sshd)
    trust(home, sshd)
    (home / "config").write_text(f"Host 127.*\n Port {sshd.port}\n ProxyCommand {relay} 2>/dev/null\n")
    with SshHost(HostLogin("127.0.0.1", "")) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


def test_a_bastion_and_a_proxy_command_exclude_each_other(sshd: LocalSshd) -> None:
    with pytest.raises(ValueError, match="one of them"):
        sshd.connect(jump="bastion", proxy_command="nc %h %p")


def test_the_words_of_a_proxy_command_are_no_shell_s() -> None:
    words = proxy_words(
        "aws tunnel --instance-id %i --to '%h port' 100%% $HOME;x",
        host="10.0.0.1",
        port=22,
        user="ada",
        instance="i-0a",
    )
    assert words == ("aws", "tunnel", "--instance-id", "i-0a", "--to", "10.0.0.1 port", "100%", "$HOME;x")


@pytest.mark.parametrize("command", ["", "nc %x", "nc %", "nc 'open", "tunnel %i"])
def test_a_proxy_command_that_cannot_be_read_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="proxy command"):
        proxy_words(command, host="10.0.0.1", port=22, user="ada")


@given(st.text(), st.text())
def test_any_proxy_command_is_split_or_refused(command: str, host: str) -> None:
    with contextlib.suppress(ValueError):
        assert proxy_words(command, host=host, port=22, user="ada", instance="i-0a")


def _public(home: Path) -> str:
    made = ["ssh-keygen", "-y", "-f", str(home / "id_ed25519")]
    return subprocess.run(made, check=True, capture_output=True, text=True).stdout


def _children() -> set[int]:
    """Return the processes that this one started."""
    found: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(each) for each in (task / "children").read_text().split()}
    return found


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.01)
