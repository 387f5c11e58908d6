"""Find the iperf3 processes that a test's own sshd started."""

from __future__ import annotations

import os
import time
from pathlib import Path

from local_sshd import LocalSshd


def iperf3s(sshd: LocalSshd, *, server: bool | None = None) -> list[int]:
    """Return the ids of this test's iperf3 processes: all, or only servers or only clients."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if not words[0].endswith(b"iperf3") or not _came_by(sshd, environment):
            continue
        if server is None or server == (b"-s" in words):
            found.append(int(entry.name))
    return found


def _came_by(sshd: LocalSshd, environment: bytes) -> bool:
    """True if a process was started over a connection to that sshd, by its environment."""
    for variable in environment.split(b"\0"):
        if variable.startswith(b"SSH_CONNECTION="):
            return variable.endswith(f" {sshd.port}".encode())
    return False


def wait_for_iperf3s(sshd: LocalSshd, count: int, *, server: bool | None = None) -> list[int]:
    """Wait until so many run, and return their process ids."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len(found := iperf3s(sshd, server=server)) >= count:
            return found
        time.sleep(0.01)
    raise AssertionError(f"no {count} iperf3 within 20 s")


def job_directory(pid: int) -> str:
    """Return the directory of a process's job."""
    return os.readlink(f"/proc/{pid}/cwd")
