"""The lock of a raw device, on a file in its place."""

import subprocess
from dataclasses import dataclass, field

import pytest

from pytest_cloudbench.workloads import one_load
from pytest_cloudbench.workloads.errors import StorageLost
from pytest_cloudbench.workloads.one_load import BUSY, LoadRunning, alone_on, check_started


@dataclass
class Host:
    label: str = "a host"


@dataclass
class Disk:
    paths: tuple[str, ...]
    kind: str = "block"
    host: Host = field(default_factory=Host)


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.touch()
    return Disk((str(path),))


def held(disk, how, seconds):
    """Hold the lock as another process; return once it is held."""
    script = f"echo held; exec sleep {seconds}"
    process = subprocess.Popen(
        ["flock", "--no-fork", how, *disk.paths, "sh", "-c", script], stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_load_waits_until_udev_has_looked_at_the_disk(disk):
    with held(disk, "--shared", 0.5):
        assert subprocess.run(alone_on(disk, ["true"]), check=False).returncode == 0


def test_another_load_is_told_from_that(disk, monkeypatch):
    monkeypatch.setattr(one_load, "_WAIT_S", 0.2)
    with held(disk, "--exclusive", 60) as other:
        ended = subprocess.run(alone_on(disk, ["true"]), check=False).returncode
        other.kill()
    assert ended == BUSY
    with pytest.raises(LoadRunning, match="concurrent=True"):
        check_started(ended, disk)


@pytest.mark.fault("disks", "a volume is lost between its check and fio's start")
def test_a_device_that_has_gone_is_lost_and_nothing_is_made_in_its_place(disk, tmp_path):
    gone = Disk((*disk.paths, str(tmp_path / "gone")))
    ended = subprocess.run(alone_on(gone, ["true"]), check=False, capture_output=True).returncode
    with pytest.raises(StorageLost, match=r"lost before its load began: .*gone on a host.*no figure"):
        check_started(ended, gone)
    assert [each.name for each in tmp_path.iterdir()] == ["disk"]


def test_a_load_holds_the_locks_of_all_its_devices(tmp_path):
    disks = Disk(tuple(str(tmp_path / f"disk{number}") for number in range(12)))
    for path in disks.paths:
        open(path, "w").close()
    is_free = 'for each; do flock --nonblock "$each" true && echo "$each"; done; exit 0'
    load = alone_on(disks, ["sh", "-c", is_free, "sh", *disks.paths])
    assert subprocess.run(load, check=True, capture_output=True).stdout == b""
