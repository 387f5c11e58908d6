"""Convert the logs that fio's client writes for each host of a fleet into those of a local run.

Each job of each host has files of its own, such as "series_iops.2.log.198.18.0.5". Their times are milliseconds since
the epoch (log_unix_epoch).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_cloudbench.workloads.fio.errors import FioOutputError
from pytest_cloudbench.workloads.fio.histogram_logs import HISTOGRAM_LOG
from pytest_cloudbench.workloads.fio.job import LOG_PREFIX
from pytest_cloudbench.workloads.fio.series_logs import IOPS_LOG, LOGS

HOST_LOGS = tuple(f"{name.removesuffix('.log')}.*.log.*" for name in (*LOGS, HISTOGRAM_LOG))
"""Patterns of the files to read."""
_TIME_MS = re.compile(rb"\s*(\d{1,15})\s*,")
_LOG = re.compile(rf"({LOG_PREFIX}_\w+)\.(\d+)\.log\.(.+)")


def joined_logs(files: Mapping[str, bytes], address: str) -> dict[str, bytes]:
    """Return the logs of one host, each with its jobs one after the other, by the names that a local run uses."""
    found = sorted(
        (match[1], int(match[2]), content)
        for name, content in files.items()
        if (match := _LOG.fullmatch(name)) and match[3] == address
    )
    joined: dict[str, bytes] = {}
    for name, _, content in found:
        if (name := f"{name}.log") in (*LOGS, HISTOGRAM_LOG):
            joined[name] = joined.get(name, b"") + content
    return joined


def first_start_s(logs: Mapping[str, bytes], sample_s: float) -> float | None:
    """Return when a host began to measure, in seconds since the epoch: one sample before its first one ended.

    None if there are no samples. Raises FioOutputError for a line without a time.
    """
    ends = [_time_ms(line) for line in logs.get(IOPS_LOG, b"").splitlines() if b"," in line]
    return min(ends) / 1000 - sample_s if ends else None


def since(logs: Mapping[str, bytes], start_s: float) -> dict[str, bytes]:
    """Return logs with their times counted from `start_s`, as the logs of a local run are.

    Raises FioOutputError for a line without a time.
    """
    start_ms = round(start_s * 1000)

    def shifted(line: bytes) -> bytes:
        _, comma, rest = line.partition(b",")
        return b"%d%b%b" % (max(0, _time_ms(line) - start_ms), comma, rest)

    return {
        name: b"".join(shifted(line) for line in content.splitlines(keepends=True) if b"," in line)
        for name, content in logs.items()
    }


def _time_ms(line: bytes) -> int:
    if (match := _TIME_MS.match(line)) is None:
        raise FioOutputError(f"fio's log of a host has a line without a time: {line[:80]!r}")
    return int(match[1])
