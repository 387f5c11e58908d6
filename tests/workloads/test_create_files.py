"""Real files, created over real SSH in the test's directories."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_targets import HostTarget
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.errors import JobVanished, NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import MachineDelay
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.workloads.create_files import run as run_room
from pytest_cloudbench.workloads.create_files.commands import job_argv, job_files
from pytest_cloudbench.workloads.create_files.creation import FileCreation, NotOnDevice
from pytest_cloudbench.workloads.create_files.errors import (
    BadFilesJob,
    CreationFailed,
    CreationTimedOut,
    FilesystemFull,
)
from pytest_cloudbench.workloads.create_files.host_facts import _usable_python, check_room, read_facts
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.record import parse_record
from pytest_cloudbench.workloads.create_files.run import Progress, run_create_files
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.pace import Pace

METHODS = ("python", "dd")
ENDLESS = {"count": 300_000, "size": 1}
"""More than is created during a test."""


class Folder(HostTarget):
    """Return the test's directory as a target."""

    conditions: tuple[str, ...] = ()


@pytest.fixture
def host(sshd: LocalSshd) -> Iterator[SshHost]:
    with sshd.connect() as connection:
        yield connection


@pytest.fixture
def folder(host: SshHost, tmp_path: Path) -> Folder:
    return Folder(host, "directory", (str(tmp_path),))


@pytest.fixture
def small(host: SshHost, tmp_path: Path) -> Iterator[Folder]:
    """A file system of 8 MiB and 200 inodes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    path = tmp_path / "small"
    path.mkdir()
    options = "size=8m,nr_inodes=200,mode=755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    said = subprocess.run(mount, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        pytest.skip(f"this machine mounts no tmpfs: {said.stderr.strip()}")
    try:
        yield Folder(host, "directory", (str(path),), label="small tmpfs")
    finally:
        busy = subprocess.run(["umount", str(path)], check=False).returncode != 0
        if busy:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
        assert not busy, "a process of the job still uses the file system"


def running(target: Folder) -> list[int]:
    """Return the processes of this test's own jobs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"create_files." in command and f"{target.path}/cloudbench-files-".encode() in command:
            found.append(int(entry.name))
    return found


def job_directories(target: Folder) -> list[Path]:
    """Return the job directories on the host whose command names this test's directory."""
    found = []
    for command in Path("/var/tmp").glob("cloudbench-*/*/command"):
        try:
            text = command.read_text()
        except OSError:
            continue
        if target.path in text:
            found.append(command.parent)
    return found


def nothing_remains(target: Folder) -> bool:
    return not running(target) and not job_directories(target) and not os.listdir(target.path)


def once_it_creates(target: Folder) -> Path:
    """Wait until a running job has created a file, and return its folder."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := list(Path(target.path).glob("cloudbench-files-*/file1")):
            return found[0].parent
        time.sleep(0.01)
    raise AssertionError("no file within 30 s")


def refused() -> None:
    raise NotOurs("nothing is mounted there")


@pytest.mark.parametrize("method", METHODS)
def test_files_are_created_measured_and_removed(folder: Folder, method: str) -> None:
    seen: list[Progress] = []
    before = time.time()
    run = run_create_files(folder, FilesJob.of(300, "8k", method=method), on_progress=seen.append)
    assert (run.files, run.size, run.complete, run.method) == (300, Size(8192), True, method)
    assert run.on_device_s is not None
    assert 0 < run.written_s <= run.on_device_s
    assert run.elapsed_s == run.on_device_s
    assert run.files_per_second == 300 / run.written_s
    assert run.files_per_second_on_device == 300 / run.on_device_s
    assert run.throughput is not None
    assert run.throughput.bytes_per_second == 300 * 8192 / run.on_device_s
    assert run.written_throughput_mib >= (run.throughput_mib or 0)
    assert run.start_marker is not None
    assert run.end_marker is not None
    assert before - 1 < run.start_marker.mtime_ns / 1e9 < time.time() + 1
    # Between the markers lies the creation of the files; their clock ticks every 4 or 10 ms.
    assert run.markers_s is not None
    assert -0.05 < run.markers_s - run.written_s < 2
    assert run.generator is not None
    assert run.generator.cpus == os.cpu_count()
    assert run.tool_version.startswith("Python 3." if method == "python" else "dd ")
    assert run.command.split()[0].endswith("python3" if method == "python" else "sh")
    assert run.conditions == ()
    assert seen
    assert seen[-1].all_created
    assert repr(run).startswith("300 files of 8 KiB on test target: written after ")
    assert nothing_remains(folder)

    plain = json.loads(json.dumps(run.to_dict()))
    assert plain["files_per_s"] == run.files_per_second
    assert plain["asked"]["count"] == 300
    assert plain["raw_files"] == sorted(run.raw)
    length = 0.0
    total = 0.0
    for rate, end in zip(run.series.files_per_second, run.series.seconds, strict=True):
        total += rate * (end - length)
        length = end
    assert total == pytest.approx(300)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("content", "size"), [("random", 5000), ("zero", (1 << 20) + 7), ("random", 1 << 21)]
)
def test_kept_files_match_the_job(folder: Folder, method: str, content: str, size: int) -> None:
    run = run_create_files(folder, FilesJob.of(5, size, method=method, content=content, keep=True))
    assert run.folder is not None
    made = Path(run.folder)
    assert {path.name for path in made.iterdir()} == {"start", "end", *(f"file{n}" for n in range(1, 6))}
    for number in range(1, 6):
        data = (made / f"file{number}").read_bytes()
        assert len(data) == size
        # A byte of random data is as often as any other; of zeros there is one kind.
        assert len(set(data[:4096])) > 200 if content == "random" else not any(data)
    assert run.start_marker is not None
    assert run.start_marker.path == f"{run.folder}/start"
    assert os.stat(run.start_marker.path).st_mtime_ns == run.start_marker.mtime_ns
    assert job_directories(folder) == []


@pytest.mark.parametrize(("method", "workers"), [("python", 1), ("python", 3), ("dd", 1)])
def test_files_are_spread_over_folders(folder: Folder, method: str, workers: int) -> None:
    job = FilesJob.of(25, 10, method=method, workers=workers, per_folder=7, keep=True)
    run = run_create_files(folder, job)
    assert run.folder is not None
    made = Path(run.folder)
    for number in range(1, 26):
        assert (made / f"folder{(number - 1) // 7 + 1}" / f"file{number}").stat().st_size == 10
    assert sum(1 for path in made.rglob("*") if path.is_file()) == 27


@pytest.mark.parametrize("method", METHODS)
def test_each_file_can_be_synced(folder: Folder, method: str) -> None:
    run = run_create_files(folder, FilesJob.of(20, "4k", method=method, sync="each"))
    assert run.on_device_s is not None
    assert ("conv=fsync" in run.command) == (method == "dd")
    assert run.device_side.outstanding_asked == 1
    assert "raise workers" in str(run.reaches("1,000 GiB/s"))
    # All but what the file system notes at the end is there already.
    assert run.on_device_s - run.written_s < run.written_s + 1


@pytest.mark.parametrize("method", METHODS)
def test_without_a_sync_only_the_page_cache_is_timed(folder: Folder, method: str) -> None:
    run = run_create_files(folder, FilesJob.of(50, "4k", method=method, sync="none"))
    assert (run.on_device_s, run.throughput, run.files_per_second_on_device) == (None, None, None)
    assert run.elapsed_s == run.written_s
    assert run.conditions == ("sync='none': only the page cache was timed, not the device",)
    with pytest.raises(NotOnDevice, match="use sync='end'"):
        run.reaches("125 MiB/s")
    assert run.faster_than(run).outcome is Outcome.INCONCLUSIVE


def test_the_devices_own_counters_are_read(folder: Folder) -> None:
    stats = read_facts(folder).stats
    run = run_create_files(folder, FilesJob.of(64, "256k"))
    if not stats:
        assert (run.device_writes, run.left_in_page_cache, run.series.device) == (None, None, None)
        pytest.skip("the temporary directory lies on no block device")
    assert run.device_writes is not None
    assert run.device_when_written is not None
    assert run.left_in_page_cache is not None
    assert run.device_writes.size >= run.data
    assert run.device_when_written.size <= run.device_writes.size
    assert run.series.device is not None
    assert run.block_size.bytes % 4096 == 0


def test_verdicts_are_reported_and_throttle_counters_kept(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Snapshot:
        def since(self, earlier: Snapshot) -> ThrottleDelta:
            return ThrottleDelta(1e6, 1.0)

        def machine_delay(self, earlier: Snapshot) -> MachineDelay:
            return MachineDelay(1_000, 0.0006, 0.0001)

    monkeypatch.setattr(Folder, "counters", lambda self: Snapshot())
    told: list[Any] = []
    measured = run_create_files(folder, FilesJob.of(10, "4k"))
    assert measured.machine_delay == measured.device_side.machine_delay == MachineDelay(1_000, 0.0006, 0.0001)
    assert measured.to_dict()["machine_delay"]["modelled_s"] == 0.0006
    first = dataclasses.replace(measured, machine_delay=None)
    run = dataclasses.replace(first, on_verdict=told.append)
    assert run.counters is not None
    assert run.counters.volume_iops_exceeded_s == 1.0
    assert run.counters.elapsed_s == run.on_device_s
    assert run.reaches("0.001 MiB/s")
    assert run.faster_than(dataclasses.replace(first, on_device_s=1e4), by=1.3)
    assert [str(verdict).partition(":")[0] for verdict in told] == ["held", "held"]


def test_quick_pace_is_noted_in_the_result(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.create_files.job.QUICK_DATA", Size(1 << 20))
    run = run_create_files(folder, FilesJob.of(size="64k"), pace=Pace.QUICK)
    assert (run.files, run.complete) == (16, True)
    assert run.conditions == ("quick pace: 100,000 files -> 16",)
    assert "quick pace" in repr(run)


def test_the_targets_conditions_are_noted(folder: Folder) -> None:
    folder.conditions = ("striped by btrfs",)
    folder.time_compression = 60.0  # type: ignore[attr-defined]
    run = run_create_files(folder, FilesJob.of(1, 1))
    assert run.conditions[0] == "striped by btrfs"
    assert run.conditions[1].startswith("time compressed 60 times: ")


@pytest.fixture
def without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        run_room, "read_facts", lambda target: dataclasses.replace(read_facts(target), python=None)
    )


@pytest.mark.usefixtures("without_python")
def test_a_host_without_python_uses_dd_and_notes_it(folder: Folder) -> None:
    run = run_create_files(folder, FilesJob.of(20, "4k"))
    assert run.method == "dd"
    assert run.conditions == (
        "no Python 3.7 or later on instance i-0test: files created by dd, one process per file",
    )
    with pytest.raises(TargetError, match=r"no Python 3\.7 or later, and dd runs in one loop"):
        run_create_files(folder, FilesJob.of(20, "4k", workers=2))
    with pytest.raises(TargetError, match="install python3 there, or use method='dd'"):
        run_create_files(folder, FilesJob.of(20, "4k", method="python"))


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("/usr/bin/python3 3 11", "/usr/bin/python3"),
        ("/odd path/python3 3 7", "/odd path/python3"),
        ("/usr/bin/python3 3 6", None),
        ("-", None),
    ],
)
def test_an_old_python_is_not_used(words: str, path: str | None) -> None:
    assert _usable_python(words) == path


def test_a_dropped_connection_starts_nothing_twice(folder: Folder, sshd: LocalSshd) -> None:
    started: set[Path] = set()

    def drop() -> None:
        once_it_creates(folder)
        for _ in range(3):
            started.update(job_directories(folder))
            sshd.drop_connections()

    dropper = threading.Thread(target=drop)
    dropper.start()
    run = run_create_files(folder, FilesJob.of(500, 1, method="dd"))
    dropper.join()
    assert run.files == 500
    assert len(started) == 1
    assert nothing_remains(folder)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_ends_the_job_and_removes_the_files(folder: Folder, method: str) -> None:
    def interrupt(_: Progress) -> None:
        assert running(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_create_files(folder, FilesJob.of(**ENDLESS, method=method), on_progress=interrupt)  # type: ignore[arg-type]
    assert nothing_remains(folder)


def test_a_killed_jobs_writers_end_with_it(folder: Folder) -> None:
    def kill() -> None:
        once_it_creates(folder)
        for directory in job_directories(folder):
            runner = int((directory / "pid").read_text().split()[0])
            parent = min(running(folder))
            os.kill(runner, 9)
            os.kill(parent, 9)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(JobVanished):
        run_create_files(folder, FilesJob.of(**ENDLESS, workers=2))  # type: ignore[arg-type]
    killer.join()
    assert not running(folder)
    assert os.listdir(folder.path) == []
    for directory in job_directories(folder):
        subprocess.run(["rm", "-r", str(directory)], check=True)


def test_a_run_far_beyond_its_time_is_ended(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_room, "_longest_s", lambda target, job: 1.0)
    with pytest.raises(CreationTimedOut, match="ended because it took over 1 s"):
        run_create_files(folder, FilesJob.of(**ENDLESS))  # type: ignore[arg-type]
    assert nothing_remains(folder)


def test_a_device_is_refused(folder: Folder) -> None:
    folder.kind = "block"
    with pytest.raises(BadFilesJob, match=r"needs a mounted volume.*test target is a device"):
        run_create_files(folder, FilesJob.of())
    folder.kind = "file"
    with pytest.raises(BadFilesJob, match=r"needs a mounted volume.*test target is one file"):
        run_create_files(folder, FilesJob.of())
    with pytest.raises(BadFilesJob, match=r"needs a mounted volume.*not '/data'"):
        run_create_files("/data", FilesJob.of())  # type: ignore[arg-type]


def test_a_missing_directory_and_a_file_are_named(folder: Folder, tmp_path: Path) -> None:
    folder.paths = (str(tmp_path / "gone"),)
    with pytest.raises(
        TargetError, match=r"gone does not exist on instance i-0test: use a mounted directory"
    ):
        run_create_files(folder, FilesJob.of())
    (tmp_path / "file").touch()
    folder.paths = (str(tmp_path / "file"),)
    with pytest.raises(TargetError, match="is a regular empty file, not a directory"):
        run_create_files(folder, FilesJob.of())


def test_another_users_directory_is_refused(folder: Folder, tmp_path: Path) -> None:
    folder.paths = ("/var",)
    if os.geteuid() == 0:
        os.chown(tmp_path, 1, -1)
        folder.paths = (str(tmp_path),)
    with pytest.raises(TargetError, match=r"belongs to \w+, but \w+ creates the files: mount it"):
        run_create_files(folder, FilesJob.of(1, 1))


def test_a_directory_without_proven_ownership_is_not_written_to(folder: Folder) -> None:
    folder.prove = refused
    with pytest.raises(NotOurs):
        run_create_files(folder, FilesJob.of(1, 1))
    assert os.listdir(folder.path) == []


@pytest.mark.parametrize("left", ["/var", "/nonexistent"])
def test_a_stopped_target_is_reported_before_its_empty_mount_point(folder: Folder, left: str) -> None:
    """After a stop the mount point is an empty directory of root, or missing, which explains nothing."""
    folder.paths = (left,)
    folder.prove = refused
    with pytest.raises(NotOurs):
        run_create_files(folder, FilesJob.of(1, 1))


def test_too_little_space_is_refused_with_figures_before_anything_is_written(folder: Folder) -> None:
    with pytest.raises(
        TargetError,
        match=r"1,000,000 files of 1,024 GiB need .* in blocks of 4 KiB, but .* has .* free: lower count= or size=",
    ):
        run_create_files(folder, FilesJob.of(10**6, "1t"))
    folder.has_room_for = Size.from_mib(100)
    with pytest.raises(TargetError, match=r"need 100.* MiB on test target.*has room for 100 MiB"):
        run_create_files(folder, FilesJob.of(100, "1m"))
    assert os.listdir(folder.path) == []


def test_small_files_take_whole_blocks(small: Folder) -> None:
    facts = read_facts(small)
    assert facts.block == Size(4096)
    with pytest.raises(TargetError, match=r"10,000 files of 1 B need .* in blocks of 4 KiB.*has 8 MiB free"):
        check_room(small, FilesJob.of(10_000, 1), facts)


def test_too_few_inodes_are_refused_with_figures(small: Folder) -> None:
    with pytest.raises(
        TargetError, match=r"300 files of 1 B need 303 inodes, but .* has 199 free \(df -i\): lower count="
    ):
        run_create_files(small, FilesJob.of(300, 1))
    assert os.listdir(small.path) == []


@pytest.fixture
def room_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate that another process fills the file system after the check."""
    monkeypatch.setattr(run_room, "check_room", lambda target, job, facts: None)


@pytest.mark.usefixtures("room_unchecked")
@pytest.mark.parametrize(("method", "workers"), [("python", 1), ("python", 2), ("dd", 1)])
def test_a_file_system_that_runs_out_of_space(small: Folder, method: str, workers: int) -> None:
    with pytest.raises(FilesystemFull) as caught:
        run_create_files(small, FilesJob.of(100, "192k", method=method, workers=workers))
    partial = caught.value.partial
    assert isinstance(partial, FileCreation)
    assert 38 <= partial.files <= 42
    assert f"small tmpfs was full after {partial.files} of 100 files of 192 KiB" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert not partial.complete
    assert partial.on_device_s is not None
    assert partial.conditions[-1].startswith(f"the file system was full after {partial.files} of 100 files")
    assert (partial.start_marker is None, partial.end_marker is None) == (False, True)
    assert partial.faster_than(partial).outcome is Outcome.INCONCLUSIVE
    assert nothing_remains(small)


@pytest.mark.usefixtures("room_unchecked")
@pytest.mark.parametrize("method", METHODS)
def test_a_file_system_that_runs_out_of_inodes(small: Folder, method: str) -> None:
    with pytest.raises(FilesystemFull, match=r"was full after 197 of 300 files of 1 B") as caught:
        run_create_files(small, FilesJob.of(300, 1, method=method))
    assert caught.value.partial is not None
    assert caught.value.partial.files == 197
    assert nothing_remains(small)


@pytest.mark.usefixtures("room_unchecked")
def test_kept_files_stay_on_a_full_file_system(small: Folder) -> None:
    with pytest.raises(FilesystemFull) as caught:
        run_create_files(small, FilesJob.of(100, "192k", keep=True))
    partial = caught.value.partial
    assert partial is not None
    assert partial.folder is not None
    made = {path.name: path.stat().st_size for path in Path(partial.folder).iterdir()}
    assert made.pop("start") == 0
    assert made == {f"file{number}": 192 << 10 for number in range(1, partial.files + 1)}


@pytest.mark.parametrize("method", METHODS)
def test_the_record_is_complete_if_the_job_is_on_the_full_file_system(small: Folder, method: str) -> None:
    subprocess.run(["mount", "-o", "remount,size=600k,nr_inodes=1000", small.path], check=True)
    job = Path(small.path) / "job"
    job.mkdir()
    for name, data in job_files(method).items():
        (job / name).write_bytes(data)
    wanted = FilesJob.of(500, "4k", content="zero")
    argv = job_argv(wanted, method, f"{small.path}/made", python=sys.executable, stats=())
    with (job / "stdout").open("wb") as stdout:
        # Its block has room for what is said before the first file, and files of one block leave no other.
        stdout.write(b"tool " + b"x" * (4096 - 48 - 6) + b"\n")
        stdout.flush()
        subprocess.run(argv, cwd=job, stdout=stdout, stderr=subprocess.DEVNULL, check=False)
    record = parse_record((job / "stdout").read_text())
    assert record.done
    assert record.failed is not None
    assert record.written is not None
    assert 100 < record.written.files < 150
    assert len(list(Path(small.path, "made").glob("file*"))) == record.written.files


def test_other_failures_are_reported_in_the_systems_words(small: Folder) -> None:
    def gone_read_only() -> None:
        subprocess.run(["mount", "-o", "remount,ro", small.path], check=True)

    small.prove = gone_read_only
    with pytest.raises(
        CreationFailed, match=r"failed after 0 of 5 files of 1 B: Read-only file system"
    ) as caught:
        run_create_files(small, FilesJob.of(5, 1))
    assert caught.value.partial is None
