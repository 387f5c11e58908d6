"""The regions of this machine: their records, how to end a kept one, and how to sweep what killed ones left.

``region.json`` in a slot's directory names the process that serves the region; it holds no secret. ``access.json``
exists for kept regions only. It holds the key, and belongs to the user who requested the region.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pytest_cloudbench.limits.region_settings import EBS, factor_words
from pytest_cloudbench.twin.hosts.instance_memory import remove_groups
from pytest_cloudbench.twin.slots import BASE, Slot, numbers_with_records, try_lock
from pytest_cloudbench.twin.volumes.volume_process import end_leftovers

RECORD_NAME = "region.json"
ACCESS_NAME = "access.json"
END_LIMIT_S = 30.0


@dataclass(frozen=True)
class RegionRecord:
    """The process that serves a slot. ``started_at`` is in seconds since the epoch.

    Burst credits drain and refill ``time_compression`` times faster than the clock. ``latency`` is the region's mode
    of storage latency, ``weather`` the text of its weather (`limits.weather`). ``outbound`` has the hosts that its
    instances reach besides this machine's package mirrors; None if outbound traffic is blocked.
    """

    slot: int
    pid: int
    endpoint_url: str
    kept: bool = False
    started_at: float = 0.0
    time_compression: float = 1.0
    latency: str = EBS
    weather: str = ""
    outbound: str | None = None

    @property
    def alive(self) -> bool:
        """True if that process still runs and serves a region."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"serve" in words and any(word.startswith(b"pytest_cloudbench.twin") for word in words)

    @property
    def uptime_s(self) -> float:
        return max(0.0, time.time() - self.started_at)

    def end(self, limit_s: float) -> bool:
        """Ask the process to end; return True if it did within ``limit_s`` seconds."""
        try:
            process = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.alive:  # checked while the descriptor holds the pid, so it is the same process
                return True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGTERM)
            poll = select.poll()
            poll.register(process, select.POLLIN)
            return bool(poll.poll(limit_s * 1000))
        finally:
            os.close(process)


@dataclass(frozen=True, kw_only=True)
class Access(RegionRecord):
    """Everything that a client of a region needs. ``ssh_from_cidr`` is the network from which SSH comes.

    ``package_digest`` is `limits.region_settings.package_digest`; empty if no other session can use the region.
    """

    region: str
    access_key: str
    secret_key: str
    ssh_from_cidr: str
    package_digest: str


R = TypeVar("R", bound=RegionRecord)


def write_record(directory: Path, record: RegionRecord) -> None:
    """Publish which process serves the slot, without the key of an `Access`."""
    directory.chmod(0o711)  # records can be opened by name; other files keep their own modes
    public = {field.name: getattr(record, field.name) for field in fields(RegionRecord)}
    _write(directory / RECORD_NAME, public, mode=0o644, owner=None)


def write_access(directory: Path, access: Access, owner: int) -> None:
    """Write the key of a kept region for the user who requested it."""
    _write(directory / ACCESS_NAME, asdict(access), mode=0o600, owner=owner)


def read_access(slot: int, base: Path = BASE) -> Access | None:
    """Return the access to a kept region; None if there is none or it belongs to another user."""
    return _read(base / str(slot) / ACCESS_NAME, Access)


def known_regions(base: Path = BASE) -> list[RegionRecord]:
    """Return all regions of this machine with a record, also those whose process has ended."""
    found = (_read(base / str(number) / RECORD_NAME, RegionRecord) for number in numbers_with_records(base))
    return [record for record in found if record is not None]


def _write(path: Path, content: dict[str, Any], *, mode: int, owner: int | None) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
        json.dump(content, file)


def _read(path: Path, kind: type[R]) -> R | None:
    """Return a record, without fields that only another version of this package has; None if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return kind(**{field.name: content[field.name] for field in fields(kind) if field.name in content})
    except (OSError, ValueError, TypeError):
        return None


# --- status and end --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegionStatus:
    """One region. The counts are None if it does not answer or its key belongs to another user."""

    record: RegionRecord
    instances: int | None
    volumes: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the data that `status --json` prints."""
        return {
            **asdict(self.record),
            "alive": self.record.alive,
            "uptime_s": round(self.record.uptime_s, 1),
            "instances": self.instances,
            "volumes": self.volumes,
        }

    def __str__(self) -> str:
        record = self.record
        if not record.alive:
            return (
                f"slot {record.slot}: its process {record.pid} has ended; the next start sweeps what it left"
            )
        kind = "kept" if record.kept else "leased to a test run"
        uptime = time.strftime("%H:%M:%S", time.gmtime(record.uptime_s))
        facts = [f"slot {record.slot}: {kind}", f"pid {record.pid}", f"up {uptime}", record.endpoint_url]
        if record.time_compression != 1:
            facts.append(f"time compressed {factor_words(record.time_compression)} times")
        if record.latency != EBS:
            facts.append(f"latency {record.latency}")
        if record.outbound is not None:
            facts.append("outbound")
        if record.weather:
            facts.append(f"weather {record.weather}")
        if self.instances is not None:
            facts.append(f"{self.instances} instances, {self.volumes} volumes")
        return ", ".join(facts)


def region_statuses(base: Path = BASE) -> list[RegionStatus]:
    """Return the status of every region with a record."""
    statuses = []
    for record in known_regions(base):
        access = read_access(record.slot, base) if record.alive else None
        statuses.append(RegionStatus(record, *(_counts(access) if access else (None, None))))
    return statuses


def _counts(access: Access) -> tuple[int | None, int | None]:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "ec2",
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
        config=Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 0}),
    )
    try:
        instances = [
            instance
            for page in client.get_paginator("describe_instances").paginate()
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        ]
        volumes = client.get_paginator("describe_volumes").paginate()
        return len(instances), sum(len(page["Volumes"]) for page in volumes)
    except (BotoCoreError, ClientError):
        return None, None


def end_regions(slots: Collection[int], base: Path = BASE) -> tuple[list[int], list[int]]:
    """End the regions that own these slots; return the slots that ended and those that did not in time."""
    ended: list[int] = []
    stuck: list[int] = []
    for record in known_regions(base):
        if record.slot in slots and record.alive:
            (ended if record.end(END_LIMIT_S) else stuck).append(record.slot)
    return ended, stuck


# --- what killed regions left, most of which the kernel has removed already ------------------------------


def sweep_slot(number: int, base: Path = BASE) -> bool:
    """Remove everything left of a slot whose lock the caller holds; return True if there was anything."""
    slot = Slot(number, base)
    end_leftovers(slot.directory)
    if base == BASE:
        remove_groups(slot.name)
    # With another base the lock does not protect the machine's interfaces.
    has_link = base == BASE and (Path("/sys/class/net") / slot.interface).exists()
    was_there = slot.directory.exists() or has_link
    if has_link:
        subprocess.run(["ip", "link", "delete", slot.interface], capture_output=True, timeout=20, check=False)
    shutil.rmtree(slot.directory, ignore_errors=True)
    return was_there


def sweep(base: Path = BASE) -> list[int]:
    """Sweep every slot that no process owns; return the numbers of those that had something left."""
    swept = []
    for number in numbers_with_records(base):
        lock = try_lock(number, base)
        if lock is None:
            continue
        try:
            if sweep_slot(number, base):
                swept.append(number)
            with contextlib.suppress(FileNotFoundError):
                (base / f"{number}.lock").unlink()
        finally:
            os.close(lock)
    return swept
