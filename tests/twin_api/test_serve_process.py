"""The region's process: ready line, lease, signals, kept regions, and that it leaves nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from region_calls import until

from pytest_cloudbench.twin import plane as plane_module
from pytest_cloudbench.twin import serve as serve_module
from pytest_cloudbench.twin.__main__ import main
from pytest_cloudbench.twin.regions import (
    RegionRecord,
    end_regions,
    region_statuses,
    sweep,
    write_record,
)
from pytest_cloudbench.twin.slots import Slot, take_slot, try_lock

BASE = Path("/run/cloudbench")
pytestmark = pytest.mark.embedded
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="these tests start the region's process as root themselves"
)


def twin(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest_cloudbench.twin", *arguments]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(twin(*arguments), capture_output=True, text=True, timeout=60, check=False)


Serve = Callable[..., tuple["subprocess.Popen[str]", dict[str, Any]]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a region and read its ready line. The region is ended after the test in any case."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        process = subprocess.Popen(
            twin("serve", *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        line: dict[str, Any] = json.loads(process.stdout.readline())
        return process, line

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.wait(30)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
    subprocess.run(twin("sweep"), capture_output=True, timeout=60, check=False)


def nothing_remains(slot: int) -> bool:
    """Check that the slot has no directory, interface or loop device, unless another region owns it now."""
    lock = try_lock(slot)
    if lock is None:
        return True
    try:
        return not (
            (BASE / str(slot)).exists()
            or (Path("/sys/class/net") / Slot(slot).interface).exists()
            or any(
                f"cloudbench-{slot}/" in path.read_text(errors="replace")
                for path in Path("/sys/block").glob("loop*/loop/backing_file")
            )
        )
    finally:
        (BASE / f"{slot}.lock").unlink(missing_ok=True)
        os.close(lock)


def client(access: dict[str, Any]) -> Any:
    return boto3.client(
        "ec2",
        endpoint_url=access["endpoint_url"],
        region_name=access["region"],
        aws_access_key_id=access["access_key"],
        aws_secret_access_key=access["secret_key"],
    )


@as_root
def test_region_lives_as_long_as_its_lease(serve: Serve) -> None:
    process, access = serve()
    assert set(access) == {
        "endpoint_url", "region", "access_key", "secret_key", "ssh_from_cidr", "pid", "slot", "package_digest",
        "time_compression", "latency", "weather", "kept", "started_at", "outbound",
    }  # fmt: skip
    assert access["pid"] == process.pid
    assert access["ssh_from_cidr"].endswith("/32")
    ec2 = client(access)
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")["VolumeId"]
    assert ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"] == "available"
    directory = BASE / str(access["slot"])
    assert not (directory / "access.json").exists()
    assert stat.S_IMODE((directory / "log").stat().st_mode) == 0o600
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0
    assert nothing_remains(access["slot"])


@as_root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_region_ends_on_a_signal_and_a_second_one_does_not_break_it(
    serve: Serve, number: signal.Signals
) -> None:
    process, access = serve()
    client(access).create_volume(AvailabilityZone="us-east-1a", Size=1)
    process.send_signal(number)
    process.send_signal(number)
    assert process.wait(30) == 0
    assert nothing_remains(access["slot"])


@as_root
def test_killed_region_is_swept(serve: Serve) -> None:
    process, access = serve()
    client(access).create_volume(AvailabilityZone="us-east-1a", Size=1)
    process.kill()
    process.wait(30)
    assert run("sweep").returncode == 0
    until(lambda: nothing_remains(access["slot"]), "nothing remains of the killed region")


@as_root
def test_lease_that_ended_before_the_region_was_up() -> None:
    done = subprocess.run(
        twin("serve"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert nothing_remains(json.loads(done.stdout)["slot"])


@as_root
def test_kept_regions_are_listed_and_ended(serve: Serve) -> None:
    process, access = serve("--keep", "--owner", "1234")
    assert process.stdin is not None
    process.stdin.close()
    slot = access["slot"]
    record = BASE / str(slot) / "access.json"
    assert json.loads(record.read_text()) == access
    assert (record.stat().st_uid, stat.S_IMODE(record.stat().st_mode)) == (1234, 0o600)
    client(access).create_volume(AvailabilityZone="us-east-1a", Size=1)
    time.sleep(0.3)  # long enough for a lease to have ended it
    [status] = [one for one in json.loads(run("status", "--json").stdout) if one["slot"] == slot]
    assert (status["pid"], status["alive"], status["kept"], status["volumes"], status["instances"]) == (
        process.pid, True, True, 1, 0,
    )  # fmt: skip
    assert f"slot {slot}: kept, pid {process.pid}" in run("status").stdout
    ended = run("down", str(slot))
    assert (ended.returncode, ended.stdout) == (0, f"slot {slot}: ended\n")
    assert process.wait(10) == 0
    assert nothing_remains(slot)


@as_root
def test_two_regions_side_by_side(serve: Serve) -> None:
    _, one = serve()
    _, other = serve()
    assert one["slot"] != other["slot"]
    assert one["access_key"] != other["access_key"]
    client(one).create_volume(AvailabilityZone="us-east-1a", Size=1)
    assert client(other).describe_volumes()["Volumes"] == []


def test_without_root_there_is_one_sentence_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["serve"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert "needs root" in answer["error"]
    assert "sudo" in answer["remedy"]
    assert main(["down"]) == 1
    assert main(["sweep"]) == 1


def test_without_moto_there_is_one_sentence_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["serve"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert "moto" in answer["error"]
    assert "pytest-cloudbench[twin]" in answer["remedy"]


def test_plane_that_fails_to_start_is_reported_and_undone(
    moto_left_alone: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The caller gets the plane's message, and the slot is released."""
    closed: list[str] = []
    slot = Slot(7, tmp_path)
    slot.directory.mkdir()
    monkeypatch.setattr(slot, "release", lambda: closed.append("slot"), raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(serve_module, "_ended_by_signals", lambda keep: threading.Event())
    monkeypatch.setattr(serve_module, "_watch_lease", lambda end: None)
    monkeypatch.setattr(serve_module, "_log_to", lambda path: None)
    monkeypatch.setattr(serve_module, "_take_slot", lambda: slot)

    def no_plane(_slot: Slot, **_options: object) -> None:
        raise RuntimeError("there is no /dev/fuse")

    monkeypatch.setattr(plane_module, "Plane", no_plane)
    assert main(["serve"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert "there is no /dev/fuse" in answer["error"]
    assert "doctor" in answer["remedy"]
    assert closed == ["slot"]


def test_records_are_kept_for_the_sweep_when_the_plane_could_not_remove_everything(tmp_path: Path) -> None:
    class Stuck:
        def close(self) -> None:
            raise RuntimeError("a process stays")

    slot = take_slot(base=tmp_path)
    with pytest.raises(RuntimeError, match="a process stays"):
        serve_module._close_plane(Stuck(), slot)
    slot.release()
    assert slot.directory.is_dir()
    assert sweep(tmp_path) == [slot.number]


def test_down_does_not_end_processes_of_other_programs(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            directory = tmp_path / "5"
            directory.mkdir()
            write_record(directory, RegionRecord(5, stranger.pid, "http://127.0.0.1:1", True, time.time()))
            assert end_regions([5], tmp_path) == ([], [])
            assert stranger.poll() is None
            assert "has ended" in str(region_statuses(tmp_path)[0])
        finally:
            stranger.kill()


def test_doctor_answers(capsys: pytest.CaptureFixture[str]) -> None:
    done = run("doctor", "--json")
    assert done.stdout, (done.returncode, done.stderr)
    checks = json.loads(done.stdout)
    assert {"name", "state", "finding"} <= set(checks[0])
    assert done.returncode in (0, 1)
    assert run("doctor").stdout.strip()


def test_the_doctor_finds_programs_outside_the_path_of_a_login_user() -> None:
    """After `su`, or for a user of Debian, the path lacks /sbin, which has modinfo and mkfs."""
    path = os.pathsep.join(["/usr/bin", "/bin"])
    if shutil.which("mkfs.ext4", path=path) is not None:
        pytest.skip("this machine keeps programs of root where everybody looks")
    done = subprocess.run(
        twin("doctor", "--json"), capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.stdout, done.stderr
    found = {check["name"]: check["state"] for check in json.loads(done.stdout)}
    assert found["mkfs.ext4"] == "ok"
    assert found["overlay"] == "ok"
