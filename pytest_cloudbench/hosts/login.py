"""How to reach a host and log in: address, user and keys. `open_host` is the one place that makes a host of it."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko import PKey

    from pytest_cloudbench.hosts.host import Host


@dataclass(frozen=True)
class HostLogin:
    """Where a host is and as whom to log in.

    private_key: the PEM text; it stays in memory and out of messages.
    host_public_key: the host's public key line ("ssh-ed25519 AAAA..."); a host with another key is refused.
    label: the host's name in messages, e.g. "instance i-0abc".
    connect_timeout_s: how long a new host may take to answer.
    login_grace_s: how long a refused login is repeated, because a booting host installs its keys late.
    reconnect_timeout_s: how long a host that has answered before may be away.
    boot_s: how long the rest of a boot may take after the first answer; None if it is not waited for.
    when_booted: called with the host after the first connection of each boot, once that boot has ended.
    check_region: called when the host does not answer; raises if the region with all its hosts has ended.
    """

    address: str
    user: str
    private_key: str = field(repr=False)
    host_public_key: str
    label: str = ""
    port: int = 22
    connect_timeout_s: float = 180.0
    login_grace_s: float = 60.0
    reconnect_timeout_s: float = 60.0
    boot_s: float | None = None
    when_booted: Callable[[Host], None] | None = field(default=None, repr=False)
    check_region: Callable[[], None] | None = field(default=None, repr=False)


def open_host(login: HostLogin) -> Host:
    """Return the host of this login. Its first command, or `connect()`, connects. Raises ValueError for bad keys."""
    from pytest_cloudbench.hosts.ssh import SshHost

    return SshHost(login)


def read_private_key(pem: str) -> PKey:
    """Return the private key: RSA, Ed25519 or ECDSA, in PKCS#1, PKCS#8 or OpenSSH form, as EC2 returns them.

    Raises ValueError, without the text in its message, if the text is none of these or is encrypted.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from paramiko import ECDSAKey, Ed25519Key, RSAKey, SSHException

    data = pem.strip().encode() + b"\n"
    try:
        openssh = b"OPENSSH PRIVATE KEY" in data
        load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
        key = load(data, password=None)
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the private key cannot be read: {type(error).__name__}") from None
    for kind in (Ed25519Key, RSAKey, ECDSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except SSHException:
            continue
    raise ValueError("the private key is of a kind that SSH does not use")


def read_host_key(line: str) -> PKey:
    """Return the host key of a line as in ssh_host_ed25519_key.pub: "ssh-ed25519 AAAA... comment".

    Raises ValueError for any other kind of key: the instances' keys are Ed25519.
    """
    from paramiko import Ed25519Key, SSHException

    words = line.split()
    if len(words) < 2 or words[0] != "ssh-ed25519":
        raise ValueError(f"the host key must be a line 'ssh-ed25519 AAAA...', not {line[:40]!r}")
    try:
        return Ed25519Key(data=base64.b64decode(words[1], validate=True))
    except (binascii.Error, SSHException, ValueError):
        raise ValueError("the host key's base64 part is damaged") from None


def fingerprint(key: PKey) -> str:
    """Return the SHA256 fingerprint in the form of ssh-keygen -l."""
    import hashlib

    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
