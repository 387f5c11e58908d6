"""The cloud-config that an instance boots with: its SSH host key, its lease, and the commands of the first boot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Command

from .lease import DEFAULT_LEASE_S, timer_command

# EC2 refuses more (before base64).
LARGEST_BYTES = 16 * 1024


@dataclass(frozen=True)
class SshKey:
    """An SSH key made by this process. The private half of a host key goes to the instance in its user data."""

    private_openssh: str = field(repr=False)
    public_line: str


def new_ssh_key() -> SshKey:
    """Return a new ed25519 key in OpenSSH's formats."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return SshKey(private.decode("ascii"), public.decode("ascii"))


def cloud_config(host_key: SshKey, commands: Sequence[Command] = (), lease_s: float = DEFAULT_LEASE_S) -> str:
    """Return user data that sets `host_key` as the only host key and runs `commands` at the first boot.

    Every boot begins a lease of `lease_s` seconds; the instance shuts itself down when it ends. A command is a shell
    line, or a list of words without a shell. Raises CloudError if the result exceeds the 16 KiB that EC2 accepts. JSON
    is used because it is valid YAML and quotes everything exactly.
    """
    config: dict[str, Any] = {
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "ssh_keys": {
            "ed25519_private": host_key.private_openssh,
            "ed25519_public": host_key.public_line,
        },
        # Early in every boot, before anything else can fail.
        "bootcmd": [timer_command(lease_s)],
    }
    if isinstance(commands, str):
        raise CloudError("commands must be a list of commands, not one string")
    if commands:
        config["runcmd"] = [command if isinstance(command, str) else list(command) for command in commands]
    text = "#cloud-config\n" + json.dumps(config, indent=1) + "\n"
    size = len(text.encode())
    if size > LARGEST_BYTES:
        raise CloudError(
            f"the user data has {size:,} bytes, EC2 accepts {LARGEST_BYTES:,}: "
            "shorten the commands, or download the rest by one of them"
        )
    return text
