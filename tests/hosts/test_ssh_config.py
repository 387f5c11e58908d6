from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from pytest_cloudbench.hosts import ssh_config
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.identities import DEFAULT_FILES
from pytest_cloudbench.hosts.ssh_config import find_own_server


@pytest.fixture
def ssh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ~/.ssh of a user without any other configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ssh_config, "_FILES", ("~/.ssh/config", str(tmp_path / "etc_ssh_config")))
    folder = tmp_path / ".ssh"
    folder.mkdir()
    return folder


def test_without_a_configuration_it_is_the_present_user_at_port_22(ssh_folder: Path) -> None:
    found = find_own_server("10.0.0.7")
    assert (found.host, found.port, found.user) == ("10.0.0.7", 22, getpass.getuser())
    assert (found.identities.files, found.jump, found.proxy_command) == (DEFAULT_FILES, "", "")
    assert found.trusted.known_as == "10.0.0.7"


def test_a_name_of_the_configuration_says_how_to_log_in(ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text(
        "Host db\n  HostName 10.0.0.7\n  Port 2222\n  User ada\n  IdentityFile ~/.ssh/lab\n  IdentitiesOnly yes\n"
        "  ProxyJump eve@bastion:23\n  UserKnownHostsFile ~/.ssh/lab_hosts ~/.ssh/more\n"
        "Host aliased\n  HostKeyAlias db-key\n  Port 2222\n  IdentityAgent none\n  ProxyCommand nc -X 5 %h %p %r\n"
        "Host *\n  User other\n  ProxyCommand none\n"
    )
    db = find_own_server("db")
    assert (db.host, db.port, db.user, db.jump) == ("10.0.0.7", 2222, "ada", "eve@bastion:23")
    assert db.identities.files == (str(ssh_folder / "lab"),)
    assert db.identities.only
    assert db.trusted.known_as == "[10.0.0.7]:2222"
    assert db.trusted.files[:2] == (str(ssh_folder / "lab_hosts"), str(ssh_folder / "more"))
    aliased = find_own_server("aliased", user="root")
    assert (aliased.user, aliased.trusted.known_as, aliased.identities.agent) == ("root", "db-key", "none")
    assert aliased.proxy_command == "nc -X 5 aliased 2222 root"
    assert find_own_server("elsewhere").proxy_command == ""


def test_what_the_caller_names_takes_precedence(ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  User other\n  Port 2222\n  IdentityFile ~/.ssh/lab\n")
    found = find_own_server("db", user="ada", port=23, identity_file="/keys/own")
    assert (found.user, found.port) == ("ada", 23)
    assert found.identities.files == ("/keys/own", str(ssh_folder / "lab"))


def test_included_files_are_read_where_they_are_included(ssh_folder: Path) -> None:
    (ssh_folder / "config.d").mkdir()
    (ssh_folder / "config.d" / "a.conf").write_text("Host db\n  User ada\n")
    (ssh_folder / "config.d" / "b.conf").write_text("Host *.lab\n  User eve\n")
    (ssh_folder / "config").write_text("Include config.d/*.conf\nPort 2222\nHost *\n  User other\n")
    assert find_own_server("db").user == "ada"
    assert find_own_server("x.lab").user == "eve"
    assert find_own_server("z").user == "other"
    assert find_own_server("z").port == 2222, "what follows an Include is outside its blocks"


def test_the_user_s_configuration_precedes_the_machine_s(ssh_folder: Path) -> None:
    (ssh_folder.parent / "etc_ssh_config").write_text("Host *\n  User machine\n  Port 2222\n")
    (ssh_folder / "config").write_text("User own\n")
    found = find_own_server("db")
    assert (found.user, found.port) == ("own", 2222)


@pytest.mark.parametrize(
    "text",
    [
        "Port nonsense\n",
        "Include config\n",
        "Host db\n  Include other\n",
        "=\n",
    ],
)
def test_a_configuration_that_cannot_be_read_is_an_error_that_names_it(ssh_folder: Path, text: str) -> None:
    (ssh_folder / "other").write_text("Host inner\n  User ada\n")
    (ssh_folder / "config").write_text(text)
    with pytest.raises(HostError, match=r"\.ssh/config"):
        find_own_server("db")


@pytest.mark.parametrize("word", ["-oProxyCommand=x", "a b", "a;b", "$(x)", "`x`", "a\nb", "a'b"])
def test_a_name_that_a_shell_would_interpret_is_refused(ssh_folder: Path, word: str) -> None:
    with pytest.raises(ValueError, match="not a name of a host or user"):
        find_own_server(word)
    with pytest.raises(ValueError, match="not a name of a host or user"):
        find_own_server("db", user=word)
