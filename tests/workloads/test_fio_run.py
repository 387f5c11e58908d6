"""Real fio over real SSH, on files of the test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from host_targets import HostTarget
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.errors import JobVanished, NotOurs
from pytest_cloudbench.hosts.ssh import SshHost
from pytest_cloudbench.limits.quantities import Iops, Size
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import MachineDelay, Observation
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import (
    BadFioJob,
    FioKilled,
    FioRefused,
    FioTimedOut,
    UnknownFioOption,
)
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.progress import Progress
from pytest_cloudbench.workloads.fio.run import run_fio
from pytest_cloudbench.workloads.pace import Pace

pytestmark = pytest.mark.timed


def _fios(target: HostTarget) -> list[int]:
    """Return the ids of the fio processes that work in this test's own directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"fio") and f"--directory={target.path}".encode() in words:
            found.append(int(entry.name))
    return found


def _wait_for_fio(target: HostTarget) -> list[int]:
    """Return the processes of a running fio; --parse-only ends quickly and has no job directory."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if found := [pid for pid in _fios(target) if _in_a_job(pid)]:
            return found
        time.sleep(0.01)
    raise AssertionError("no fio within 15 s")


def _in_a_job(pid: int) -> bool:
    try:
        return "/cloudbench-" in os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False


def test_a_run_returns_a_measurement(directory: HostTarget) -> None:
    job = FioJob.of(
        "randrw", "4k", size="4m", numjobs=3, iodepth=4, runtime=4, ramp_time=1, rate_iops=300, rwmixread=70
    )
    seen: list[Progress] = []
    measurement = run_fio(directory, job, on_progress=seen.append)

    assert measurement.iops == pytest.approx(300, rel=0.03)
    assert measurement.read is not None
    assert measurement.write is not None
    assert measurement.read.iops == pytest.approx(210, rel=0.04)
    assert measurement.write.iops == pytest.approx(90, rel=0.04)
    # An I/O that is in flight when the ramp ends is counted by its bytes alone: at most one of every job.
    one_each = 3 * 4096 / 2**20 / 4
    assert measurement.throughput_mib == pytest.approx(measurement.iops * 4096 / 2**20, abs=1.01 * one_each)
    assert measurement.runtime_s == pytest.approx(4.0, abs=0.1)
    assert measurement.latency is not None
    assert 0 < measurement.latency.min_s < measurement.latency.mean_s < measurement.latency.max_s
    assert (measurement.outstanding_asked, measurement.rate_asked) == (12, Iops(300.0))
    assert measurement.generator is not None
    assert measurement.generator.cpus == os.cpu_count()
    assert measurement.conditions == ()
    assert measurement.tool_version.startswith("fio-")
    assert measurement.host == "instance i-0test"
    assert seen
    # fio's own guess, in which a slow machine takes longer to start than it takes.
    assert 25 < seen[-1].percent <= 100
    assert repr(measurement).startswith("fio randrw 4k on test target: ")

    assert len(measurement.series) >= 1
    mean = sum(value.per_second for value in measurement.series.iops) / len(measurement.series)
    assert mean == pytest.approx(300, rel=0.03)

    plain = json.loads(json.dumps(measurement.to_dict()))
    assert plain["asked"]["rate_iops_total"] == 300
    assert plain["raw_files"] == sorted(measurement.raw)
    observation: Observation = measurement
    assert observation.latency_mean_s == measurement.latency.mean_s


def test_the_series_agrees_with_fios_totals(directory: HostTarget) -> None:
    job = FioJob.of("randread", "4k", size="4m", numjobs=4, iodepth=1, runtime=4, rate_iops=400)
    measurement = run_fio(directory, job)
    series = measurement.series
    assert len(series) >= 3
    mean_iops = sum(value.per_second for value in series.iops) / len(series)
    mean_mib = sum(value.mib for value in series.throughput) / len(series)
    assert mean_iops == pytest.approx(measurement.iops, rel=0.01)
    assert mean_mib == pytest.approx(measurement.throughput_mib, rel=0.01)
    assert measurement.latency is not None
    known = [value for value in series.latency_s if value is not None]
    # The total counts I/Os of the last part of a second too, in which a busy machine may have been slow.
    assert 0.5 < sum(known) / len(known) / measurement.latency.mean_s < 2


def test_every_sample_has_percentiles_and_a_slow_phase_shows_in_them(directory: HostTarget) -> None:
    slow_s = 0.1
    stopped = threading.Event()

    def stop_its_jobs(progress: Progress) -> None:
        if progress.iops == 0 or stopped.is_set():
            return
        stopped.set()
        (job,) = [pid for pid in _fios(directory) if _children(pid) == []]
        for _ in range(15):
            os.kill(job, signal.SIGSTOP)
            time.sleep(slow_s)  # the I/O that it is in the middle of takes so long
            os.kill(job, signal.SIGCONT)
            time.sleep(slow_s / 10)

    job = FioJob.of("randread", "256k", ioengine="psync", size="16m", runtime=8)
    measurement = run_fio(directory, job, on_progress=stop_its_jobs)

    assert stopped.is_set()
    series = measurement.series
    found = series.percentiles_s
    assert list(found) == ["p50", "p95", "p99", "p999"]
    assert {len(values) for values in found.values()} == {len(series)}
    known = [values for values in zip(*found.values(), strict=True) if None not in values]
    assert len(known) >= len(series) - 1 >= 5, "only the last, unfinished interval has none"
    for values in known:
        assert list(values) == sorted(values)
    slowest = [values[-1] for values in known]
    assert max(slowest) >= slow_s * 0.9
    assert min(p50 for p50, *_ in known) < slow_s / 10
    assert "series_clat_hist.log" in measurement.raw


def test_large_histograms_are_read_but_not_kept(
    directory: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.run.LARGEST_KEPT", 1000)
    measurement = run_fio(directory, FioJob.of("randread", "4k", ioengine="psync", size="1m", runtime=3))
    assert "series_clat_hist.log" not in measurement.raw
    assert {"result.json", "series_iops.log"} <= set(measurement.raw)
    assert measurement.series.percentiles_s["p99"][0] is not None


def test_the_kept_command_typed_by_hand_gives_the_same_figure(directory: HostTarget, tmp_path: Path) -> None:
    job = FioJob.of("randread", "4k", size="4m", numjobs=2, runtime=6, rate_iops=200)
    measurement = run_fio(directory, job)
    by_hand = tmp_path / "by-hand"
    by_hand.mkdir()
    subprocess.run(measurement.command, shell=True, cwd=by_hand, check=True, stdout=subprocess.DEVNULL)
    document = json.loads((by_hand / "result.json").read_text())
    assert measurement.iops == pytest.approx(document["jobs"][0]["read"]["iops"], rel=0.005)


def test_nothing_remains_on_the_host(directory: HostTarget, host: SshHost) -> None:
    run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=1))
    assert _fios(directory) == []
    jobs = host.run(["sh", "-c", f"grep -l {directory.path} /var/tmp/cloudbench-*/*/command"], check=False)
    assert jobs.stdout == ""


def test_the_result_states_the_quick_pace(directory: HostTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.run.QUICK_DATA", Size(1 << 20))
    job = FioJob.of("read", "64k", size="2g", runtime=1)
    measurement = run_fio(directory, job, pace=Pace.QUICK)
    assert measurement.conditions == ("quick pace: size per job 2 GiB -> 1 MiB",)
    assert "quick pace" in repr(measurement)


def test_counters_are_read_before_and_after_the_run(
    directory: HostTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Snapshot:
        def __init__(self) -> None:
            self.taken_s = time.monotonic()

        def since(self, earlier: Snapshot) -> ThrottleDelta:
            return ThrottleDelta(self.taken_s - earlier.taken_s, 1.0)

        def machine_delay(self, earlier: Snapshot) -> MachineDelay:
            return MachineDelay(1_000, 0.0006, 0.0001)

    monkeypatch.setattr(HostTarget, "counters", lambda self: Snapshot())
    measurement = run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=1))
    assert measurement.counters is not None
    assert measurement.counters.volume_iops_exceeded_s == 1.0
    assert measurement.counters.elapsed_s == 1.0
    assert measurement.machine_delay == MachineDelay(1_000, 0.0006, 0.0001)
    assert measurement.to_dict()["machine_delay"]["late_s"] == 0.0001


@pytest.mark.fault("SSH", "the connection drops while a job runs")
def test_a_dropped_connection_starts_nothing_twice_and_the_result_arrives(
    directory: HostTarget, sshd: LocalSshd
) -> None:
    started: set[int] = set()

    def drop_while_it_runs() -> None:
        _wait_for_fio(directory)
        for _ in range(3):
            sshd.drop_connections()
            started.update(_job_directories(directory))
            time.sleep(0.3)

    dropper = threading.Thread(target=drop_while_it_runs)
    dropper.start()
    measurement = run_fio(directory, FioJob.of("randread", "4k", size="1m", runtime=2, rate_iops=100))
    dropper.join()
    assert measurement.iops == pytest.approx(100, rel=0.05)
    assert len(started) == 1


def _job_directories(target: HostTarget) -> set[str]:
    """Return the job directories of the fio processes, one for each started job."""
    found = set()
    for pid in _fios(target):
        try:
            found.add(os.readlink(f"/proc/{pid}/cwd"))
        except OSError:
            continue
    return found


@pytest.mark.fault("kill", "fio is killed")
def test_a_killed_job_raises_job_vanished(directory: HostTarget) -> None:
    killed: list[str] = []

    def kill_all() -> None:
        pid = _wait_for_fio(directory)[0]
        killed.append(os.readlink(f"/proc/{pid}/cwd"))
        os.killpg(int((Path(killed[0]) / "pid").read_text().split()[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill_all)
    killer.start()
    with pytest.raises(JobVanished, match="it was killed on its host, by a signal"):
        run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=20))
    killer.join()
    assert _fios(directory) == []
    shutil.rmtree(killed[0])


@pytest.mark.fault("kill", "fio is killed", leak=True)
def test_a_killed_fio_leaves_no_workers_behind(directory: HostTarget) -> None:
    def kill_main() -> None:
        pid = _wait_for_fio(directory)[0]
        runner = (Path(os.readlink(f"/proc/{pid}/cwd")) / "pid").read_text().split()[0]
        # Between fork and setsid a worker still belongs to fio's own session.
        deadline = time.monotonic() + 15
        while not any(os.getsid(worker) != int(runner) for worker in _children(pid)):
            assert time.monotonic() < deadline, "no worker of fio left its session within 15 s"
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_main)
    killer.start()
    with pytest.raises(FioKilled, match="gave no result: it was killed on its host, by a signal"):
        run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=20))
    killer.join()
    assert _fios(directory) == []


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.fault("kill", "Ctrl-C while fio runs", leak=True)
def test_an_interrupt_ends_fio_on_the_host_and_is_raised_again(directory: HostTarget) -> None:
    jobs: list[str] = []

    def interrupt(_: Progress) -> None:
        jobs.append(os.readlink(f"/proc/{_wait_for_fio(directory)[0]}/cwd"))
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=120), on_progress=interrupt)
    assert time.monotonic() - began < 48
    assert _fios(directory) == []
    assert len(jobs) == 1
    assert not Path(jobs[0]).exists()


def test_a_failure_of_fio_in_the_middle_is_reported_in_its_words(directory: HostTarget) -> None:
    # An offset that is not a multiple of a sector cannot be read with direct I/O.
    with pytest.raises(FioRefused) as caught:
        run_fio(directory, FioJob.of("randread", "4k", size="64k", offset=100, runtime=1))
    assert "Invalid argument" in str(caught.value)


def test_a_job_on_a_file_system_needs_a_size(directory: HostTarget) -> None:
    with pytest.raises(BadFioJob, match="size= is needed on a file system"):
        run_fio(directory, FioJob.of("read"))


def test_a_directory_no_longer_ours_is_not_written(directory: HostTarget) -> None:
    def refuse() -> None:
        raise NotOurs("nothing is mounted there")

    directory.prove = refuse
    with pytest.raises(NotOurs):
        run_fio(directory, FioJob.of("read", size="1m", runtime=1))
    assert list(Path(directory.path).iterdir()) == []


@pytest.mark.fault("kill", "fio hangs")
def test_a_run_far_beyond_its_time_is_ended(directory: HostTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.fio.run.SPARE_S", -4.0)
    with pytest.raises(FioTimedOut, match=r"after 1 s.*run time of 4 s"):
        run_fio(directory, FioJob.of("read", "64k", size="1m", runtime=4))
    assert _fios(directory) == []


@pytest.mark.fault("disks", "the file system is too small for the load")
def test_too_little_space_is_reported_before_anything_is_written(directory: HostTarget) -> None:
    with pytest.raises(
        TargetError, match=r"64 jobs of 1 TiB need 64 TiB|64 jobs of .* need .* free: lower size="
    ):
        run_fio(directory, FioJob.of("write", size="1t", numjobs=64))
    assert list(Path(directory.path).iterdir()) == []


def test_an_unknown_option_stops_before_anything_is_started(directory: HostTarget) -> None:
    with pytest.raises(UnknownFioOption, match="norandommap"):
        run_fio(directory, FioJob.of("read", size="1m", norandomap=1))
    assert list(Path(directory.path).iterdir()) == []


@pytest.mark.fault("disks", "a device does not exist")
@pytest.mark.parametrize("rw", ["read", "randwrite"])
def test_a_mistyped_device_does_not_become_a_file(host: SshHost, tmp_path: Path, rw: str) -> None:
    path = tmp_path / "nvme9n1"
    target = HostTarget(host, "block", (str(path),))
    with pytest.raises(TargetError, match=r"nvme9n1 does not exist on instance i-0test: a block device"):
        run_fio(target, FioJob.of(rw, runtime=1))
    assert not path.exists()


def test_a_file_is_not_accepted_as_a_block_device(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(TargetError, match=r"is a regular file, not a block device"):
        run_fio(HostTarget(host, "block", (str(tmp_path / "file"),)), FioJob.of("randwrite", runtime=1))
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_missing_directory_is_named(host: SshHost, tmp_path: Path) -> None:
    target = HostTarget(host, "directory", (str(tmp_path / "mnt"),))
    with pytest.raises(TargetError, match="does not exist"):
        run_fio(target, FioJob.of("read", size="1m"))
