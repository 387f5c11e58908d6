"""How to reach a host and log in: address, user and keys. Only `open_host` makes a host of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.host import Host

if TYPE_CHECKING:
    from paramiko import PKey


@dataclass(frozen=True)
class HostLogin:
    """The address of a host, and how to log in to it.

    private_key: the PEM text; it stays in memory and out of messages. "" means the user's own login: the SSH agent, key
    files and ~/.ssh/config, which may also name address, port and user.
    host_public_key: the host's public key line ("ssh-ed25519 AAAA...") or fingerprint ("SHA256:..."), or several
    separated by commas; a host with another key is refused. "" means known_hosts, which is never changed.
    label: the host's name in messages, e.g. "instance i-0abc".
    port: None means the port of ~/.ssh/config, or 22.
    connect_timeout_s: how long a new host may take to answer.
    login_grace_s: how long a refused login is retried, because a booting host installs its keys late.
    reconnect_timeout_s: how long a host that has answered before may be unreachable.
    boot_s: how long the rest of a boot may take after the first answer; None if it is not waited for.
    when_booted: called with the host after the first connection of each boot, once that boot has ended.
    check_region: called when the host does not answer; raises if the region with all its hosts has ended.
    identity_file: a key file that is tried first, for the user's own login, as with ssh -i.
    jump: bastions on the way, as in ssh -J: "user@bastion[:port]", several separated by commas. Logins to
    them are always the user's own, with ~/.ssh/config and known_hosts.
    proxy_command: a command whose standard input and output lead to the host's port, without a shell; %h is the
    address, %p the port, %r the user and %i `instance_id`.
    installs_tools: whether missing tools are installed on the host.
    """

    address: str
    user: str
    private_key: str = field(default="", repr=False)
    host_public_key: str = ""
    label: str = ""
    port: int | None = None
    connect_timeout_s: float = 180.0
    login_grace_s: float = 60.0
    reconnect_timeout_s: float = 60.0
    boot_s: float | None = None
    when_booted: Callable[[Host], None] | None = field(default=None, repr=False)
    check_region: Callable[[], None] | None = field(default=None, repr=False)
    identity_file: str = ""
    jump: str = ""
    proxy_command: str = ""
    instance_id: str = ""
    installs_tools: bool = True


class EncryptedKey(ValueError):
    """A private key that has a passphrase."""


def open_host(login: HostLogin) -> Host:
    """Return the host of this login. Its first command, or `connect()`, connects.

    Raises ValueError for bad keys, bastions and proxy commands, HostError if ~/.ssh/config cannot be read.
    """
    # Imported before paramiko, which it imports itself: another thread may be importing fabric, and two threads cannot
    # import paramiko if they begin in different modules of it.
    import fabric  # noqa: F401

    from pytest_cloudbench.hosts.ssh import SshHost

    return SshHost(login)


def read_private_key(pem: str) -> PKey:
    """Return the private key: RSA, Ed25519 or ECDSA, in PKCS#1, PKCS#8 or OpenSSH form, as EC2 returns them.

    Raises ValueError, without the text in its message, if the text is none of these, and EncryptedKey if it has a
    passphrase.
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
    except TypeError:
        raise EncryptedKey("the private key cannot be read: it has a passphrase") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the private key cannot be read: {type(error).__name__}") from None
    for kind in (Ed25519Key, RSAKey, ECDSAKey):
        try:
            return kind.from_private_key(io.StringIO(text))
        except SSHException:
            continue
    raise ValueError("the private key has an unsupported type: use Ed25519, RSA or ECDSA")
