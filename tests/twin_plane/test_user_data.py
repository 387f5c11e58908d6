"""User data: the supported parts, and that nothing is ignored silently."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.twin.hosts.user_data import parse_user_data

CLOUD_CONFIG = b"""#cloud-config
hostname: db-1
ssh_deletekeys: true
ssh_keys:
  ed25519_private: |
    -----BEGIN OPENSSH PRIVATE KEY-----
    abc
    -----END OPENSSH PRIVATE KEY-----
  ed25519_public: ssh-ed25519 AAAA host
write_files:
  - path: /etc/motd
    content: hello
    permissions: '0600'
    owner: ec2-user:ec2-user
  - {path: /etc/more, content: aGk=, encoding: b64, append: true}
bootcmd: [[touch, /run/early]]
runcmd:
  - echo one two
  - [echo, 3]
ssh_authorized_keys: [ssh-ed25519 BBBB a]
users:
  - default
  - {name: default, ssh_authorized_keys: [ssh-ed25519 CCCC b]}
"""


def test_all_supported_parts_of_a_cloud_config_are_read():
    first_boot = parse_user_data(CLOUD_CONFIG)
    assert first_boot.notes == []
    assert first_boot.hostname == "db-1"
    assert first_boot.host_key_private.endswith("-----END OPENSSH PRIVATE KEY-----\n")
    assert first_boot.host_key_public == "ssh-ed25519 AAAA host\n"
    motd, more = first_boot.files
    assert (motd["path"], motd["mode"], motd["append"]) == ("/etc/motd", 0o600, False)
    assert (more["path"], more["mode"], more["append"]) == ("/etc/more", 0o644, True)
    assert [base64.b64decode(file["content"]) for file in (motd, more)] == [b"hello", b"hi"]
    assert motd["owner"] == "ec2-user:ec2-user"
    assert first_boot.boot_commands == [["touch", "/run/early"]]
    assert first_boot.run_commands == ["echo one two", ["echo", "3"]]
    assert first_boot.authorized_keys == ["ssh-ed25519 BBBB a", "ssh-ed25519 CCCC b"]
    json.dumps(vars(first_boot))


def test_a_script_is_kept_byte_for_byte():
    script = b"#!/bin/bash\necho \xff\n"
    for data in (script, gzip.compress(script)):
        assert base64.b64decode(parse_user_data(data).script) == script


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"#cloud-config\npackages: [vim]\n", "'packages'"),
        (b"#cloud-config\n- a\n", "not a mapping"),
        (b"#cloud-config\n{", "not YAML"),
        (b"#cloud-config\nruncmd: 5\n", "'runcmd'"),
        (b"#cloud-config\nwrite_files: [{content: a}]\n", "'write_files'"),
        (b"#cloud-config\nusers: [bob]\n", "'bob'"),
        (b"#cloud-config\nssh_keys: {rsa_private: x}\n", "'rsa_private'"),
        (b"Content-Type: multipart/mixed\n", "Content-Type"),
        (b"\x1f\x8bno", "gzip"),
    ],
)
def test_unsupported_user_data_is_reported(data, word):
    notes = parse_user_data(data).notes
    assert len(notes) == 1
    assert word in notes[0]


@pytest.mark.parametrize("data", [b"", b"  \n", b"#cloud-config\n", b"#cloud-config\n# nothing\n"])
def test_empty_user_data_does_nothing(data):
    assert parse_user_data(data).notes == []


@given(st.binary(max_size=200))
def test_no_user_data_can_break_a_launch(data):
    json.dumps(vars(parse_user_data(data)))
    json.dumps(vars(parse_user_data(b"#cloud-config\n" + data)))
