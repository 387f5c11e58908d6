"""User data: the instructions for an instance's first boot.

Shell scripts (``#!``) and the part of ``#cloud-config`` that tests need are supported. Everything else is listed in
``notes``, which the instance writes to its cloud-init-output.log, so nothing is ignored silently.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_ALWAYS_TRUE = {"ssh_deletekeys", "ssh_genkeytypes", "disable_root", "ssh_pwauth", "preserve_hostname"}


@dataclass
class FirstBoot:
    """Parsed user data, as plain data for the instance's init.

    A command is a list of arguments or one line for the shell. The script and the contents of files are in base64.
    """

    script: str | None = None
    hostname: str | None = None
    host_key_private: str | None = None
    host_key_public: str | None = None
    authorized_keys: list[str] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    boot_commands: list[str | list[str]] = field(default_factory=list)
    run_commands: list[str | list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def parse_user_data(data: bytes) -> FirstBoot:
    """Parse user data that was decoded from base64. Never raises: errors become notes."""
    first_boot = FirstBoot()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            first_boot.notes.append(f"user data looks like gzip but cannot be decompressed: {error}")
            return first_boot
    if not data.strip():
        return first_boot
    if data.startswith(b"#!"):
        first_boot.script = base64.b64encode(data).decode()
    elif data.startswith(b"#cloud-config"):
        _read_cloud_config(data, first_boot)
    else:
        start = data.splitlines()[0][:60].decode(errors="replace")
        first_boot.notes.append(
            f"user data begins with {start!r}; only '#!' scripts and '#cloud-config' are supported here"
        )
    return first_boot


def _read_cloud_config(data: bytes, first_boot: FirstBoot) -> None:
    import yaml

    try:
        config = yaml.safe_load(data)
    except yaml.YAMLError as error:
        first_boot.notes.append(f"the cloud-config is not YAML: {error}")
        return
    if config is None:
        return
    if not isinstance(config, dict):
        first_boot.notes.append(f"the cloud-config is a {type(config).__name__}, not a mapping")
        return
    for key, value in config.items():
        reader = _READERS.get(key)
        try:
            if reader is not None:
                reader(value, first_boot)
            elif key not in _ALWAYS_TRUE:
                first_boot.notes.append(f"cloud-config key {key!r} is not supported here and was ignored")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            first_boot.notes.append(f"cloud-config key {key!r} could not be used: {error!r}")


def _read_ssh_keys(value: dict[str, str], first_boot: FirstBoot) -> None:
    for name, key in value.items():
        if name == "ed25519_private":
            first_boot.host_key_private = key.rstrip("\n") + "\n"
        elif name == "ed25519_public":
            first_boot.host_key_public = key.strip() + "\n"
        else:
            first_boot.notes.append(f"ssh_keys: {name!r} was ignored, only ed25519 host keys are used here")


def _read_hostname(value: str, first_boot: FirstBoot) -> None:
    first_boot.hostname = str(value)


def _read_authorized_keys(value: list[str], first_boot: FirstBoot) -> None:
    first_boot.authorized_keys.extend(str(line) for line in value)


def _read_users(value: list[Any], first_boot: FirstBoot) -> None:
    for user in value:
        if user == "default":
            continue
        if isinstance(user, dict) and user.get("name") == "default":
            _read_authorized_keys(user.get("ssh_authorized_keys", []), first_boot)
        else:
            name = user.get("name") if isinstance(user, dict) else user
            first_boot.notes.append(
                f"users: {name!r} was not created: only the image's own user is supported here"
            )


def _read_write_files(value: list[dict[str, Any]], first_boot: FirstBoot) -> None:
    for entry in value:
        encoding = str(entry.get("encoding", "text/plain")).lower()
        content = entry.get("content", "")
        raw = content if isinstance(content, bytes) else str(content).encode()
        if encoding in {"b64", "base64", "gz+b64", "gzip+b64", "gz+base64", "gzip+base64"}:
            raw = base64.b64decode(raw)
        if encoding.startswith("gz"):
            raw = gzip.decompress(raw)
        mode = entry.get("permissions", 0o644)
        file = {
            "path": str(entry["path"]),
            "content": base64.b64encode(raw).decode(),
            "mode": int(mode, 8) if isinstance(mode, str) else int(mode),
            "owner": str(entry.get("owner", "root:root")),
            "append": bool(entry.get("append", False)),
        }
        first_boot.files.append(file)


def _commands(value: list[Any]) -> list[str | list[str]]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of commands, got {type(value).__name__}")
    return [[str(word) for word in line] if isinstance(line, list) else str(line) for line in value]


def _read_bootcmd(value: list[Any], first_boot: FirstBoot) -> None:
    first_boot.boot_commands.extend(_commands(value))


def _read_runcmd(value: list[Any], first_boot: FirstBoot) -> None:
    first_boot.run_commands.extend(_commands(value))


_READERS: dict[str, Callable[[Any, FirstBoot], None]] = {
    "ssh_keys": _read_ssh_keys,
    "hostname": _read_hostname,
    "fqdn": _read_hostname,
    "ssh_authorized_keys": _read_authorized_keys,
    "users": _read_users,
    "write_files": _read_write_files,
    "bootcmd": _read_bootcmd,
    "runcmd": _read_runcmd,
}
