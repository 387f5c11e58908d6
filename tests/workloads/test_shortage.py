"""A machine that runs out of space during a run is named in the error, beside the words of fio or the system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_targets import HostTarget

from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.errors import FilesystemFull
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.run import run_create_files
from pytest_cloudbench.workloads.fio.errors import FioRefused
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.output import explained
from pytest_cloudbench.workloads.fio.run import run_fio
from pytest_cloudbench.workloads.space import shortage

MIB = 1 << 20
OUT_OF_ROOM = (
    r"the machine behind test target is out of room for volumes' data \(1 MiB are left\).*twin-backing=DIR"
)


class _Shrinking(HostTarget):
    """A target whose machine has space at the first check and none afterwards."""

    asked = 0

    def room(self) -> Size | None:
        self.asked += 1
        return Size((1 << 40) if self.asked == 1 else MIB)


@pytest.fixture
def too_small(host: SshHost, tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB in memory."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", str(path)]
    said = subprocess.run(mount, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        pytest.skip(f"this machine mounts no tmpfs: {said.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


@pytest.mark.fault("disks", "the machine behind a volume has no room")
@pytest.mark.embedded
def test_an_error_of_a_device_names_the_machine_s_shortage(host: SshHost, too_small: Path) -> None:
    backing = too_small / "backing"
    backing.touch()
    os.truncate(backing, 64 * MIB)
    said = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        pytest.skip(f"this machine makes no loop device: {said.stderr.strip()}")
    loop = said.stdout.strip()
    try:
        with pytest.raises(FioRefused, match=rf"(Input/output error|No space left).*; {OUT_OF_ROOM}"):
            run_fio(_Shrinking(host, "block", (loop,)), FioJob.of("write", "1m", runtime=5))
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


def test_an_error_of_created_files_names_the_machine_s_shortage(
    host: SshHost, too_small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(  # as where somebody else takes the room meanwhile
        "pytest_cloudbench.workloads.create_files.run.check_room", lambda target, _job, _facts: target.room()
    )
    with pytest.raises(FilesystemFull, match=rf"was full after .*; {OUT_OF_ROOM}") as caught:
        run_create_files(_Shrinking(host, "directory", (str(too_small),)), FilesJob.of(100, "1m"))
    assert caught.value.partial is not None
    assert os.listdir(too_small) == []


@pytest.mark.parametrize("words", ["Input/output error", "fio: No space left on device: write offset=0"])
def test_only_a_machine_without_space_is_named_as_the_cause(host: SshHost, words: str) -> None:
    target = HostTarget(host, "block", ("/dev/null",))
    for room in (None, Size(128 * MIB)):
        target.has_room_for = room
        assert shortage(target, words) == ""
        with pytest.raises(FioRefused, match=f"^{words}$"), explained(target):
            raise FioRefused(words)
    target.has_room_for = Size(MIB)
    assert shortage(target, words).startswith("the machine behind test target is out of room")
    assert shortage(target, "Invalid argument") == ""
