"""The regions of this machine, seen from outside: which there are, and how a kept one is ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.limits.latency_mode import EBS
from pytest_cloudbench.limits.time_factor import factor_words
from pytest_cloudbench.twin.access import Access, RegionRecord, known_regions, read_access
from pytest_cloudbench.twin.slots import BASE

END_LIMIT_S = 30.0


@dataclass(frozen=True)
class RegionStatus:
    """One region. The counts are None where the region does not answer, or its key is not ours to read."""

    record: RegionRecord
    instances: int | None
    volumes: int | None

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        return {
            "slot": self.record.slot,
            "pid": self.record.pid,
            "alive": self.record.alive,
            "kept": self.record.kept,
            "uptime_s": round(self.record.uptime_s, 1),
            "time_compression": self.record.time_compression,
            "latency": self.record.latency,
            "endpoint_url": self.record.endpoint_url,
            "instances": self.instances,
            "volumes": self.volumes,
        }

    def __str__(self) -> str:
        record = self.record
        if not record.alive:
            return f"slot {record.slot}: its process {record.pid} is gone; the next start sweeps what it left"
        kind = "kept" if record.kept else "leased to a test run"
        uptime = time.strftime("%H:%M:%S", time.gmtime(record.uptime_s))
        what = (
            ""
            if record.time_compression == 1
            else f", time compressed {factor_words(record.time_compression)} times"
        )
        if record.latency != EBS:
            what += f", latency {record.latency}"
        if self.instances is not None:
            what += f", {self.instances} instances, {self.volumes} volumes"
        return f"slot {record.slot}: {kind}, pid {record.pid}, up {uptime}, {record.endpoint_url}{what}"


def region_statuses(base: Path = BASE) -> list[RegionStatus]:
    """Every region of this machine that has a record."""
    statuses = []
    for record in known_regions(base):
        access = read_access(record.slot, base) if record.alive else None
        statuses.append(RegionStatus(record, *(_counts(access) if access else (None, None))))
    return statuses


def end_kept_regions(slots: list[int] | None = None, base: Path = BASE) -> tuple[list[int], list[int]]:
    """End the kept regions (of these slots, or all); the slots that ended and those that did not in time."""
    ended: list[int] = []
    stuck: list[int] = []
    for record in known_regions(base):
        wanted = record.slot in slots if slots else record.kept
        if wanted and record.alive:
            (ended if record.end(END_LIMIT_S) else stuck).append(record.slot)
    return ended, stuck


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
            for reservation in client.describe_instances()["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        ]
        return len(instances), len(client.describe_volumes()["Volumes"])
    except (BotoCoreError, ClientError):
        return None, None
