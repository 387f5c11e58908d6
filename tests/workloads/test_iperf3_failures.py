"""Failures of real iperf3: one sentence each, the measured part is kept, nothing is left on the hosts."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from iperf3_processes import iperf3s, job_directory, wait_for_iperf3s
from local_sshd import LocalSshd
from network_paths import LocalPath

from pytest_cloudbench.hosts.errors import HostLost, JobVanished
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.workloads.iperf3 import run as run_module
from pytest_cloudbench.workloads.iperf3.errors import (
    Iperf3Interrupted,
    Iperf3OutputError,
    Iperf3Refused,
    Iperf3TimedOut,
    Iperf3TooOld,
    ServerNotUp,
)
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.iperf3.run import NetworkProgress, run_iperf3
from pytest_cloudbench.workloads.iperf3.tool import iperf3_of

_RATE = Bandwidth.from_mbit(50)
_JOB = Iperf3Job.of(streams=2, duration=20, bitrate=f"{_RATE}")


@pytest.fixture(scope="module")
def far_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    """Run a second sshd for the server, so that one host can be lost without the other."""
    with LocalSshd.running(tmp_path_factory.mktemp("far-sshd")) as server:
        yield server


@pytest.fixture
def path(sshd: LocalSshd, far_sshd: LocalSshd) -> Iterator[LocalPath]:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed on this machine")
    with (
        sshd.connect(label="instance i-0client", reconnect_timeout_s=1.0) as client,
        far_sshd.connect(label="instance i-0server", reconnect_timeout_s=1.0) as server,
    ):
        yield LocalPath(client, server)


def _after_some_seconds(
    what: Callable[[], None], client: LocalSshd, server: LocalSshd, *, seconds: float = 3.5
) -> threading.Thread:
    """Call a function once the client has sent for some seconds at the rate of `_JOB`."""

    def later() -> None:
        wait_for_iperf3s(server, 1)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # one that only tells its version may be the first
            if sum(map(_written, iperf3s(client))) >= seconds * _RATE.bytes_per_second:
                break
            time.sleep(0.01)
        what()

    thread = threading.Thread(target=later)
    thread.start()
    return thread


def _written(pid: int) -> int:
    """Return the bytes that a process has written, mainly to sockets; 0 if it is gone."""
    try:
        said = Path(f"/proc/{pid}/io").read_text()
    except OSError:
        return 0
    return int(said.split("wchar:")[1].split()[0])


def _kill(host: LocalSshd, number: int = signal.SIGKILL) -> None:
    for pid in iperf3s(host):
        os.kill(pid, number)


def _nothing_left(*hosts: LocalSshd) -> bool:
    return not any(iperf3s(host) for host in hosts)


@pytest.mark.fault("network", "iperf3 is killed")
def test_a_server_that_dies_during_the_run(path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd) -> None:
    killer = _after_some_seconds(lambda: _kill(far_sshd), sshd, far_sshd)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, _JOB)
    killer.join()
    kept = caught.value.measurement
    seconds = len(kept.series)
    assert 3 <= seconds <= 5
    assert str(caught.value).startswith(
        "the server's iperf3 on instance i-0server ended during the run (control socket has closed unexpectedly): "
        f"iperf3 was killed by signal 9; {seconds} s of 20 s were measured"
    )
    assert kept.throughput.mbit == pytest.approx(50, rel=0.05)
    assert kept.series.seconds == tuple(float(second) for second in range(1, seconds + 1))
    assert kept.received is None
    assert "the receiver's output is missing: the figures are what was sent" in kept.conditions
    assert f"iperf3 measured {seconds} s of 20 s" in kept.conditions
    assert _nothing_left(sshd, far_sshd)


@pytest.mark.fault("network", "iperf3 is killed")
def test_a_client_that_dies_during_the_run(path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd) -> None:
    killer = _after_some_seconds(lambda: _kill(sshd), sshd, far_sshd)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, _JOB)
    killer.join()
    kept = caught.value.measurement
    assert 3 <= len(kept.series) <= 5
    assert str(caught.value).startswith(
        "iperf3 on instance i-0client ended early: iperf3 was killed by signal 9; "
        f"{len(kept.series)} s of 20 s were measured"
    )
    assert kept.sent is None
    assert kept.throughput.mbit == pytest.approx(50, rel=0.05)
    assert _nothing_left(sshd, far_sshd)


def test_a_client_job_that_vanishes(path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd) -> None:
    directories: list[str] = []

    def kill_all() -> None:
        directories.append(job_directory(iperf3s(sshd)[0]))
        os.killpg(int((Path(directories[0]) / "pid").read_text().split()[0]), signal.SIGKILL)

    killer = _after_some_seconds(kill_all, sshd, far_sshd)
    with pytest.raises(
        Iperf3Interrupted,
        match=r"ended without an exit code: it was killed on its host, by a signal.* [345] s of 20 s",
    ) as caught:
        run_iperf3(path, _JOB)
    killer.join()
    assert isinstance(caught.value.__cause__, JobVanished)
    assert caught.value.measurement.throughput.mbit == pytest.approx(50, rel=0.05)
    assert _nothing_left(sshd, far_sshd)


@pytest.mark.fault("kill", "Ctrl-C while iperf3 runs", leak=True)
def test_an_interrupt_ends_both_ends_and_is_raised_again(
    path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd
) -> None:
    directories: list[str] = []

    def interrupt(_: NetworkProgress) -> None:
        directories.extend(job_directory(pid) for host in (sshd, far_sshd) for pid in iperf3s(host))
        raise KeyboardInterrupt

    long = Iperf3Job.of(streams=2, duration=300, bitrate=f"{_RATE}")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_iperf3(path, long, on_progress=interrupt)
    assert time.monotonic() - began < 60
    assert _nothing_left(sshd, far_sshd)
    assert len(directories) == 2
    assert not any(Path(each).exists() for each in directories)


def test_a_run_far_beyond_its_time_is_ended_and_its_part_kept(
    path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_SPARE_S", -17.0)
    with pytest.raises(Iperf3Interrupted) as caught:
        run_iperf3(path, _JOB)
    assert str(caught.value).startswith(
        "iperf3 on instance i-0client was still running long after its 20 s and was ended; instance i-0server may "
        "be unreachable; "
    )
    assert 1 <= len(caught.value.measurement.series) <= 4
    assert caught.value.measurement.throughput.mbit == pytest.approx(50, rel=0.05)
    assert _nothing_left(sshd, far_sshd)


def test_a_run_that_times_out_with_nothing_measured(
    path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_SPARE_S", -38.0)
    with pytest.raises(Iperf3TimedOut, match=r"still running long after its 40 s .*, with nothing measured"):
        run_iperf3(path, Iperf3Job.of(duration=30, omit=10, bitrate="10 Mbit/s"))
    assert _nothing_left(sshd, far_sshd)


@pytest.mark.fault("network", "the host of an end is lost")
def test_a_client_host_that_is_lost(path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd) -> None:
    left: list[int] = []
    directories: list[str] = []

    def lose() -> None:
        left.extend(iperf3s(sshd))
        directories.extend(job_directory(pid) for pid in left)
        sshd.stop()

    stopper = _after_some_seconds(lose, sshd, far_sshd)
    try:
        with pytest.raises(
            Iperf3Interrupted, match=r"can no longer be watched: .* s of 20 s were measured"
        ) as caught:
            run_iperf3(path, _JOB)
    finally:
        stopper.join()
        sshd.start()
    assert isinstance(caught.value.__cause__, HostLost)
    kept = caught.value.measurement
    assert kept.sent is None
    assert kept.throughput.mbit == pytest.approx(50, rel=0.05)
    assert _nothing_left(far_sshd)
    # What could not be reached ended by itself, since its server has gone.
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in left)
    shutil.rmtree(directories[0])


@pytest.mark.fault("network", "the host of an end is lost")
def test_a_server_host_that_is_lost_costs_no_measurement(
    path: LocalPath, sshd: LocalSshd, far_sshd: LocalSshd
) -> None:
    directories: list[str] = []

    def lose() -> None:
        directories.extend(job_directory(pid) for pid in iperf3s(far_sshd))
        far_sshd.stop()

    stopper = _after_some_seconds(lose, sshd, far_sshd, seconds=1.0)
    try:
        run = run_iperf3(path, Iperf3Job.of(duration=4, bitrate="50 Mbit/s"))
    finally:
        stopper.join()
        far_sshd.start()
    # The client was told at the end how much had arrived.
    assert run.throughput.mbit == pytest.approx(50, rel=0.05)
    assert len(run.series) == 4
    assert set(run.raw) == {"client-1.json"}
    shutil.rmtree(directories[0])


@pytest.fixture
def _server_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait 5 s for a server whose client never connected."""
    monkeypatch.setattr(run_module, "SERVER_ENDS_WITHIN_S", 0.5)


def _with_script(path: LocalPath, script: Path, end: str, text: str) -> None:
    """Make one end run a script instead of iperf3."""
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    iperf3_of(getattr(path, f"{end}_host")).path = str(script)


@pytest.mark.fault("parsers", "iperf3's output is damaged")
@pytest.mark.usefixtures("_server_ends_soon")
def test_damaged_output(path: LocalPath, tmp_path: Path, far_sshd: LocalSshd) -> None:
    _with_script(path, tmp_path / "iperf3", "client", """echo '{"start": {"connected": ['""")
    with pytest.raises(
        Iperf3OutputError, match="the output of iperf3 on instance i-0client cannot be used: iperf3's "
    ):
        run_iperf3(path, _JOB)
    assert _nothing_left(far_sshd)


@pytest.mark.usefixtures("_server_ends_soon")
def test_a_client_that_refuses(path: LocalPath, tmp_path: Path, far_sshd: LocalSshd) -> None:
    text = "echo 'iperf3: parameter error - some option is refused' >&2; exit 1"
    _with_script(path, tmp_path / "iperf3", "client", text)
    with pytest.raises(Iperf3Refused) as caught:
        run_iperf3(path, _JOB)
    assert str(caught.value).startswith("iperf3 on instance i-0client ended early: ")
    assert str(caught.value).endswith("exit code 1 and without a result: some option is refused")
    assert _nothing_left(far_sshd)


def test_a_server_that_does_not_listen(
    path: LocalPath, tmp_path: Path, sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.workloads.iperf3.ends.LISTENS_WITHIN_S", 1)
    marker = tmp_path / "pid"
    _with_script(path, tmp_path / "iperf3", "server", f"echo $$ > {marker}; exec sleep 100")
    with pytest.raises(
        ServerNotUp, match=r"iperf3 on instance i-0server did not listen on port \d+ within 1 s"
    ):
        run_iperf3(path, _JOB)
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()
    assert _nothing_left(sshd)


def test_a_server_that_ends_at_once(path: LocalPath, tmp_path: Path) -> None:
    _with_script(path, tmp_path / "iperf3", "server", "echo 'iperf3: error - out of sockets' >&2; exit 1")
    with pytest.raises(
        ServerNotUp, match="iperf3 on instance i-0server ended before it listened: out of sockets"
    ):
        run_iperf3(path, _JOB)


def test_too_old_a_version_starts_nothing(path: LocalPath) -> None:
    iperf3_of(path.server_host).version = (3, 1, 3)
    with pytest.raises(
        Iperf3TooOld, match=r"iperf3 3\.1\.3 on instance i-0server is too old: bidirectional=True"
    ):
        run_iperf3(path, Iperf3Job.of(bidirectional=True))


def test_a_server_whose_client_never_connects_ends_itself(
    path: LocalPath, far_sshd: LocalSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_cloudbench.workloads.iperf3.load_script import SCRIPT_FILE, load_script

    monkeypatch.setattr("pytest_cloudbench.workloads.iperf3.load_script._GUARDED_EVERY_S", 1)
    host = path.server_host
    command = (iperf3_of(host).path, "-s", "-1", "-p", "31999", "--json")
    script = load_script([command], limit_s=1)
    job = host.start_job(["sh", SCRIPT_FILE], files={SCRIPT_FILE: script}, name="iperf3-server")
    assert job.wait(15).exit_code == 0
    assert _nothing_left(far_sshd)
    job.cleanup()
