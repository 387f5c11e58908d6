"""Keys: our private one, read from PEM text in memory, and the host's public one, pinned."""

from __future__ import annotations

import base64
import binascii
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko import PKey


def read_private_key(pem: str) -> PKey:
    """The private key in any form that EC2 hands out: PKCS#1, PKCS#8 or OpenSSH, RSA, Ed25519 or ECDSA.

    Raises ValueError when the text is none of these or is encrypted; the text is never in the message.
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
    """The host key in a line as of ssh_host_ed25519_key.pub: "ssh-ed25519 AAAA... comment".

    Raises ValueError for anything but an Ed25519 key: that is the kind instances are given.
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
    """SHA256 fingerprint as ssh-keygen -l shows it."""
    import hashlib

    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
