"""The user's own login: agent, key files, ~/.ssh/config and known_hosts, against a real sshd and a real ssh-agent."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from local_sshd import LocalSshd
from own_ssh import add_to_agent, own_key, trust

from pytest_cloudbench.hosts.errors import HostKeyMismatch, HostUnreachable, LoginRefused, UnknownHostKey
from pytest_cloudbench.hosts.login import HostLogin
from pytest_cloudbench.hosts.ssh import SshHost


def _own(sshd: LocalSshd, **changes: object) -> SshHost:
    login = {"port": sshd.port, "connect_timeout_s": 20.0}
    return SshHost(HostLogin("127.0.0.1", getpass.getuser(), **(login | changes)))


def test_a_default_key_file_and_known_hosts_are_enough(home: Path, sshd: LocalSshd) -> None:
    trust(home, sshd)
    own_key(home, sshd)
    before = {path: path.read_bytes() for path in home.iterdir()}
    with _own(sshd) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"
    assert {path: path.read_bytes() for path in home.iterdir()} == before


def test_a_key_of_the_agent_logs_in(home: Path, ssh_agent: Path, sshd: LocalSshd) -> None:
    trust(home, sshd)
    add_to_agent(sshd, "stranger_key")
    add_to_agent(sshd)
    with _own(sshd) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


def test_an_encrypted_key_file_refers_to_the_agent(home: Path, sshd: LocalSshd) -> None:
    trust(home, sshd)
    path = own_key(home, sshd, passphrase="12345")
    with _own(sshd) as host, pytest.raises(LoginRefused, match=rf"{path} is encrypted.*ssh-add {path}"):
        host.connect()


def test_only_the_configured_keys_of_the_agent_are_tried(
    home: Path, ssh_agent: Path, sshd: LocalSshd
) -> None:
    """An encrypted file without a public half beside it still names its key of the agent."""
    trust(home, sshd)
    add_to_agent(sshd)
    own = own_key(home, sshd, passphrase="12345", name="lab")
    shutil.copy(sshd.directory / "stranger_key", home / "other")
    config = home / "config"
    config.write_text(f"Host *\n IdentitiesOnly yes\n IdentityFile {home / 'other'}\n")
    with _own(sshd) as host, pytest.raises(LoginRefused, match=f"none of your keys .{home / 'other'}."):
        host.connect()
    config.write_text(f"Host *\n IdentitiesOnly yes\n IdentityFile {own}\n")
    with _own(sshd) as host:
        host.connect()


def test_a_login_without_any_key_says_so_at_once(home: Path, sshd: LocalSshd) -> None:
    trust(home, sshd)
    with (
        _own(sshd) as host,
        pytest.raises(LoginRefused, match=r"no key to log in with.*SSH agent.*id_ed25519"),
    ):
        host.connect()


def test_a_name_of_the_configuration_is_an_address(home: Path, sshd: LocalSshd) -> None:
    key = own_key(home, sshd, name="lab")
    kind, blob, _ = sshd.key("host_key.pub").split()
    (home / "lab_hosts").write_text(f"lab-key {kind} {blob}\n")
    (home / "config").write_text(
        f"Host lab\n HostName 127.0.0.1\n Port {sshd.port}\n User {getpass.getuser()}\n IdentityFile {key}\n"
        " HostKeyAlias lab-key\n UserKnownHostsFile ~/.ssh/lab_hosts\n"
    )
    with SshHost(HostLogin("lab", "")) as host:
        assert (host.address, host.user, host.port) == ("127.0.0.1", getpass.getuser(), sshd.port)
        assert host.run(["echo", "in"]).stdout == "in\n"


def test_an_unknown_host_is_refused_with_its_fingerprint(home: Path, sshd: LocalSshd) -> None:
    own_key(home, sshd)
    with _own(sshd) as host, pytest.raises(UnknownHostKey) as caught:
        host.connect()
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(sshd.directory / "host_key.pub")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()[1]
    assert f"--cloudbench-host-key={shown}" in str(caught.value)
    assert not (home / "known_hosts").exists()
    with _own(sshd, host_public_key=shown) as host:
        host.connect()


def test_a_changed_host_key_is_refused(home: Path, sshd: LocalSshd) -> None:
    own_key(home, sshd)
    trust(home, sshd, key="other_host_key.pub")
    with _own(sshd) as host, pytest.raises(HostKeyMismatch, match=r"SHA256:.*known_hosts"):
        host.connect()


def test_the_known_key_of_several_is_asked_for(home: Path, tmp_path: Path) -> None:
    """The server has an Ed25519 and an RSA key, and known_hosts has the RSA key."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = LocalSshd.prepare(folder)
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(folder / "rsa_key")], check=True)
    config = folder / "config"
    config.write_text(f"{config.read_text()}HostKey {folder}/rsa_key\n")
    server.start()
    try:
        trust(home, server, key="rsa_key.pub")
        own_key(home, server)
        with _own(server) as host:
            host.connect()
    finally:
        server.stop()


def test_a_certificate_beside_the_key_is_presented(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    server = LocalSshd.prepare(folder)
    authority, user = folder / "stranger_key", getpass.getuser()
    (folder / "authorized_keys").write_text("")
    config = folder / "config"
    config.write_text(f"{config.read_text()}TrustedUserCAKeys {authority}.pub\n")
    trust(home, server)
    own_key(home, server)
    (home / "id_ed25519.pub").write_text(server.key("login_key.pub"))
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n", user, str(home / "id_ed25519.pub")]
    server.start()
    try:
        with _own(server) as host, pytest.raises(LoginRefused, match="none of your keys"):
            host.connect()
        subprocess.run(sign, check=True)
        with _own(server) as host:
            host.connect()
    finally:
        server.stop()


@pytest.mark.parametrize("content", ["", "ssh-ed25519-cert-v01@openssh.com AAAA!\n", "nonsense of\n"])
def test_a_damaged_certificate_is_left_out(home: Path, sshd: LocalSshd, content: str) -> None:
    trust(home, sshd)
    own_key(home, sshd)
    (home / "id_ed25519-cert.pub").write_text(content)
    with _own(sshd) as host:
        host.connect()


def test_a_launched_host_s_login_reads_nothing_of_the_user_s(
    home: Path, sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config").write_text("this is not a configuration\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "none"))
    with sshd.connect() as host:
        host.connect()


def test_a_name_without_an_address_is_an_error_at_once(home: Path) -> None:
    with (
        SshHost(HostLogin("no-such-host.invalid", "ada")) as host,
        pytest.raises(HostUnreachable, match="no-such-host"),
    ):
        host.connect()


def test_the_agent_of_the_configuration_replaces_that_of_the_environment(
    home: Path, ssh_agent: Path, sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(home, sshd)
    add_to_agent(sshd)
    (home / "config").write_text("Host *\n IdentityAgent none\n")
    with _own(sshd) as host, pytest.raises(LoginRefused, match="no key"):
        host.connect()
    monkeypatch.delenv("SSH_AUTH_SOCK")
    (home / "config").write_text(f"Host *\n IdentityAgent {ssh_agent}\n")
    with _own(sshd) as host:
        host.connect()
    assert "SSH_AUTH_SOCK" not in os.environ
