"""The time, latency and weather of a region in `cloudbench twin status`, read from its record."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cloudbench.launcher import RegionRecord as RecordOutside
from pytest_cloudbench.twin.regions import (
    Access,
    RegionRecord,
    read_access,
    region_statuses,
    write_access,
    write_record,
)


@pytest.fixture
def region_pid() -> Iterator[int]:
    """A process that looks like a region's."""
    waits = [sys.executable, "-c", "print(flush=True); input()", "pytest_cloudbench.twin", "serve"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # its command line is not there yet while it begins
        yield process.pid
        process.communicate(b"\n")


def recorded(base: Path, pid: int, **more: Any) -> Path:
    directory = base / "5"
    directory.mkdir()
    write_record(directory, RegionRecord(5, pid, "http://127.0.0.1:1", True, time.time(), **more))
    return directory


@pytest.mark.parametrize(("factor", "said"), [(60.0, "60"), (1.5, "1.5")])
def test_compressed_time_is_shown(tmp_path: Path, region_pid: int, factor: float, said: str) -> None:
    recorded(tmp_path, region_pid, time_compression=factor)
    [status] = region_statuses(tmp_path)
    assert str(status).endswith(f"http://127.0.0.1:1, time compressed {said} times")
    assert status.to_json()["time_compression"] == factor


def test_uncompressed_time_is_not_shown(tmp_path: Path, region_pid: int) -> None:
    recorded(tmp_path, region_pid)
    [status] = region_statuses(tmp_path)
    assert "compressed" not in str(status)
    assert status.to_json()["time_compression"] == 1


def test_a_latency_that_is_not_the_default_is_shown(tmp_path: Path, region_pid: int) -> None:
    recorded(tmp_path, region_pid, latency="none")
    [status] = region_statuses(tmp_path)
    assert str(status).endswith("http://127.0.0.1:1, latency none")
    assert status.to_json()["latency"] == "none"


def test_the_default_latency_is_not_shown(tmp_path: Path, region_pid: int) -> None:
    recorded(tmp_path, region_pid)
    [status] = region_statuses(tmp_path)
    assert "latency" not in str(status)
    assert status.to_json()["latency"] == "ebs"


def test_weather_is_shown_if_there_is_any(tmp_path: Path, region_pid: int) -> None:
    recorded(tmp_path, region_pid, weather="aws,seed=3")
    [status] = region_statuses(tmp_path)
    assert str(status).endswith("http://127.0.0.1:1, weather aws,seed=3")


def test_clear_weather_is_not_shown(tmp_path: Path, region_pid: int) -> None:
    recorded(tmp_path, region_pid)
    [status] = region_statuses(tmp_path)
    assert "weather" not in str(status)


def test_the_access_file_of_a_kept_region_has_factor_and_latency(tmp_path: Path, region_pid: int) -> None:
    directory = recorded(tmp_path, region_pid, time_compression=60.0)
    access = Access(
        5, region_pid, "http://127.0.0.1:1", True, 0.0, 60.0, "none",
        region="us-east-1", access_key="A", secret_key="S", ssh_from_cidr="198.18.0.1/32", package_digest="",
    )  # fmt: skip
    write_access(directory, access, directory.stat().st_uid)
    assert read_access(5, tmp_path) == access
    outside = RecordOutside.from_json(json.loads((directory / "access.json").read_text()))
    assert (outside.time_compression, outside.latency) == (60.0, "none")


def test_a_record_of_a_later_version_is_shown_without_its_further_fields(
    tmp_path: Path, region_pid: int
) -> None:
    path = recorded(tmp_path, region_pid, weather="aws") / "region.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_a_later_version": 1}))
    [status] = region_statuses(tmp_path)
    assert status.to_json()["weather"] == "aws"
