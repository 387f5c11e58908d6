"""The ~/.ssh of a user for a test, in place of that of the user who runs the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from local_sshd import LocalSshd


def trust(home: Path, *servers: LocalSshd, key: str = "host_key.pub") -> None:
    """Write the host keys of these servers into known_hosts."""
    lines = [f"[127.0.0.1]:{server.port} {' '.join(server.key(key).split()[:2])}\n" for server in servers]
    (home / "known_hosts").write_text("".join(lines))


def own_key(home: Path, server: LocalSshd, *, passphrase: str = "", name: str = "id_ed25519") -> Path:
    """Make the key that the server accepts one of the user's, without its public half beside it."""
    path = home / name
    shutil.copy(server.directory / "login_key", path)
    if passphrase:
        change = ["ssh-keygen", "-q", "-p", "-N", passphrase, "-f", str(path)]
        subprocess.run(change, check=True, capture_output=True)
    return path


def add_to_agent(server: LocalSshd, name: str = "login_key") -> None:
    """Give the SSH agent of the environment one of the server's keys."""
    subprocess.run(["ssh-add", "-q", str(server.directory / name)], check=True, stdin=subprocess.DEVNULL)
