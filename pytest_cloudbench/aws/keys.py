"""Ed25519 key pairs: the host key that an instance is given and that SSH is pinned to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HostKey:
    """An SSH host key: the private half goes to the instance in its user data, the public one is pinned."""

    private_openssh: str = field(repr=False)
    public_line: str


def new_host_key(comment: str = "") -> HostKey:
    """A fresh ed25519 host key in OpenSSH's formats."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    line = public.decode("ascii")
    return HostKey(
        private_openssh=private.decode("ascii"), public_line=f"{line} {comment}" if comment else line
    )
