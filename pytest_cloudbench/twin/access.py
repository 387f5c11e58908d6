"""How a region tells the outside where it is and with which key: the ready line, and records in its slot.

``region.json`` in the slot's directory says which process serves the region; it holds no secret. ``access.json``
beside it exists for kept regions only, belongs to the user who asked for the region and holds the key.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from pytest_cloudbench.limits.latency_mode import EBS
from pytest_cloudbench.twin.slots import BASE, numbers_with_records

RECORD_NAME = "region.json"
ACCESS_NAME = "access.json"


@dataclass(frozen=True)
class Access:
    """Everything that a client of a region needs. ``ssh_from_cidr`` is where its logins come from.

    ``time_compression`` is how many times faster than the clock its burst credits go, ``latency`` how it models
    the latency of storage.
    """

    endpoint_url: str
    region: str
    access_key: str
    secret_key: str
    ssh_from_cidr: str
    pid: int
    slot: int
    version: str
    time_compression: float = 1.0
    latency: str = EBS


@dataclass(frozen=True)
class RegionRecord:
    """The process that serves a slot. ``started_at`` is in seconds since the epoch."""

    slot: int
    pid: int
    endpoint_url: str
    kept: bool
    started_at: float
    time_compression: float = 1.0
    latency: str = EBS

    @property
    def alive(self) -> bool:
        """Whether that process still runs and is a region's."""
        return _serves_a_region(self.pid)

    @property
    def uptime_s(self) -> float:
        """How long the region has been there."""
        return max(0.0, time.time() - self.started_at)

    def end(self, limit_s: float) -> bool:
        """Ask the process to end and wait for it; whether it did within the limit."""
        try:
            process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not _serves_a_region(
                self.pid
            ):  # looked at after the descriptor holds the pid: no mistaken identity
                return True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGTERM)
            return _ended(process, limit_s)
        finally:
            os.close(process)


def say(stream: TextIO, message: dict[str, Any]) -> None:
    """Write one line of JSON; a reader that has gone away is no error."""
    with contextlib.suppress(BrokenPipeError):
        stream.write(json.dumps(message) + "\n")
        stream.flush()


def write_record(directory: Path, record: RegionRecord) -> None:
    """Let others see which process serves the slot."""
    directory.chmod(0o711)  # its records can be opened by name; what else is there keeps its own modes
    _write(directory / RECORD_NAME, asdict(record), mode=0o644, owner=None)


def write_access(directory: Path, access: Access, owner: int) -> None:
    """Leave the key of a kept region to the user who asked for it."""
    _write(directory / ACCESS_NAME, asdict(access), mode=0o600, owner=owner)


def read_access(slot: int, base: Path = BASE) -> Access | None:
    """The access to a kept region; None where there is none or it belongs to somebody else."""
    content = _read(base / str(slot) / ACCESS_NAME)
    return Access(**content) if content else None


def known_regions(base: Path = BASE) -> list[RegionRecord]:
    """The regions of this machine that have a record, whether their process lives or not."""
    found = [_read(base / str(number) / RECORD_NAME) for number in numbers_with_records(base)]
    return [RegionRecord(**content) for content in found if content]


def _write(path: Path, content: dict[str, Any], *, mode: int, owner: int | None) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
        json.dump(content, file)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content


def _serves_a_region(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"serve" in words and any(word.startswith(b"pytest_cloudbench.twin") for word in words)


def _ended(process: int, limit_s: float) -> bool:
    import select

    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(limit_s * 1000))
