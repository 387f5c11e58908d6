from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko import Ed25519Key, RSAKey

from pytest_cloudbench.hosts.errors import HostKeyMismatch, UnknownHostKey
from pytest_cloudbench.hosts.host_keys import (
    HostKey,
    TrustedKeys,
    find_known,
    matches,
    parse_host_keys,
    parse_known_hosts,
)

_LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKRH2Gg7Ml9U5ROtSPsKlb0fbjpiX8dqP0KxYyCQq0J"
_OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGKRH2Gg7Ml9U5ROtSPsKlb0fbjpiX8dqP0KxYyCQq0K"


def _key(line: str) -> Ed25519Key:
    return Ed25519Key(data=base64.b64decode(line.split()[1]))


@pytest.mark.parametrize(
    "text",
    ["", "ssh-rsa AAAA", "ssh-ed25519", "ssh-ed25519 !!!!", "ssh-ed25519 AAAA", "SHA256:short", f"{_LINE},"],
)
def test_a_damaged_host_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host key"):
        parse_host_keys(text)


def test_a_line_with_the_type_of_another_key_is_refused() -> None:
    with pytest.raises(ValueError, match="ssh-ed25519"):
        parse_host_keys(_LINE.replace("ssh-ed25519", "ssh-rsa"))


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(file)], check=True)
    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(file)], check=True, capture_output=True, text=True)
    [key] = parse_host_keys(file.with_suffix(".pub").read_text())
    assert key.fingerprint == shown.stdout.split()[1]
    assert parse_host_keys(f"{_LINE}, {key.fingerprint}")[1] == HostKey(key.fingerprint)


def test_a_pinned_key_is_the_only_one_accepted() -> None:
    for pinned in (_LINE, parse_host_keys(_LINE)[0].fingerprint):
        trusted = TrustedKeys(parse_host_keys(pinned))
        trusted.check(_key(_LINE), "host h")
        with pytest.raises(HostKeyMismatch, match=r"host h.*SHA256:.*expected SHA256:"):
            trusted.check(_key(_OTHER), "host h")


def test_the_algorithms_of_trusted_keys_come_first() -> None:
    offered = ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"]
    rsa = HostKey.of(RSAKey.generate(2048).asbytes())
    assert TrustedKeys((rsa,)).order(offered) == [*offered[2:], *offered[:2]]
    assert TrustedKeys((HostKey(rsa.fingerprint),)).order(offered) == offered


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def test_known_hosts_have_plain_hashed_and_general_names(known_hosts: Path) -> None:
    known_hosts.write_text(
        f"# comment\n\nplain,[10.0.0.1]:2222 {_LINE} me@here\n*.lab,!bad.lab {_LINE}\nhidden {_LINE}\n"
    )
    hashed = known_hosts.with_name("hashed")
    hashed.write_text(f"hidden {_LINE}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hashed)], check=True, capture_output=True)
    assert "hidden" not in hashed.read_text()
    for name, file, found in [
        ("plain", known_hosts, True),
        ("PLAIN", known_hosts, True),
        ("[10.0.0.1]:2222", known_hosts, True),
        ("10.0.0.1", known_hosts, False),
        ("db.lab", known_hosts, True),
        ("bad.lab", known_hosts, False),
        ("hidden", hashed, True),
        ("other", hashed, False),
    ]:
        assert bool(find_known(name, name, [str(file)]).keys) == found, name


def test_an_unknown_and_a_changed_key_differ(known_hosts: Path) -> None:
    known_hosts.write_text(f"[db]:2222 {_LINE}\nother {_LINE}\n")
    with pytest.raises(HostKeyMismatch, match=r"SHA256:.*expected"):
        find_known("[db]:2222", "db", [str(known_hosts)]).check(_key(_OTHER), "host db:2222")
    with pytest.raises(UnknownHostKey, match=r"SHA256:.*\[new\]:2222.*--cloudbench-host-key=SHA256:"):
        find_known("[new]:2222", "new", [str(known_hosts)]).check(_key(_OTHER), "host new:2222")
    beside = find_known("[other]:2222", "other", [str(known_hosts)])
    beside.check(_key(_LINE), "host other:2222")
    with pytest.raises(UnknownHostKey):  # the key of another port's server may differ
        beside.check(_key(_OTHER), "host other:2222")


def test_a_key_without_a_port_stands_in_only_if_the_port_has_none(known_hosts: Path) -> None:
    known_hosts.write_text(f"[db]:2222 {_LINE}\ndb {_OTHER}\n")
    trusted = find_known("[db]:2222", "db", [str(known_hosts)])
    trusted.check(_key(_LINE), "host db:2222")
    with pytest.raises(HostKeyMismatch):
        trusted.check(_key(_OTHER), "host db:2222")


def test_a_revoked_key_is_refused_and_an_authority_is_no_host_key(known_hosts: Path) -> None:
    known_hosts.write_text(f"db {_LINE}\n@revoked * {_LINE}\n@cert-authority * {_OTHER}\n")
    with pytest.raises(HostKeyMismatch, match="revoked"):
        find_known("db", "db", [str(known_hosts)]).check(_key(_LINE), "host db")
    with pytest.raises(UnknownHostKey):
        find_known("other", "other", [str(known_hosts)]).check(_key(_OTHER), "host other")


def test_missing_files_know_no_host(tmp_path: Path) -> None:
    assert find_known("db", "db", [str(tmp_path / "none")]).keys == ()


@given(st.text())
def test_any_text_is_read_as_known_hosts(text: str) -> None:
    for marker, names, key in parse_known_hosts(text):
        assert marker in ("", "@revoked", "@cert-authority")
        assert names
        assert key.type


_NAMES = st.from_regex(r"[a-z0-9.\-]{1,20}", fullmatch=True)


@given(_NAMES, st.lists(_NAMES))
def test_plain_names_match_themselves_and_nothing_else(name: str, others: list[str]) -> None:
    assert matches(name, [*others, name])
    assert matches(name, others) == (name in others)
    assert not matches(name, [name, f"!{name}"])
    assert matches(f"[{name}]:2222", [f"[{name}]:2222"])
