from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_agent import each_way
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.errors import HostError, HostLost, JobTimedOut, JobVanished
from pytest_cloudbench.hosts.host import Command, CommandResult
from pytest_cloudbench.hosts.jobs import DetachedJob
from pytest_cloudbench.hosts.shell_host import ShellHost

StartJob = Callable[..., DetachedJob]


@pytest.fixture
def start(host: ShellHost) -> Iterator[StartJob]:
    """A function that starts jobs; after the test they are ended and removed."""
    jobs: list[DetachedJob] = []

    def start_one(argv: list[str], **options: object) -> DetachedJob:
        job = host.start_job(argv, **options)  # type: ignore[arg-type]
        jobs.append(job)
        return job

    yield start_one
    for job in jobs:
        job.kill()
        job.cleanup()
        assert host.run(["ls", job.directory], check=False).exit_code != 0


@each_way
def test_a_job_runs_to_its_end_and_its_files_are_fetched(start: StartJob) -> None:
    data = bytes(range(256)) * 5000
    job = start(["sh", "-c", "cat input > output; echo done; exit 7"], files={"input": data})
    pieces: list[str] = []
    state = job.wait(10, on_output=pieces.append)
    assert (state.running, state.exit_code) == (False, 7)
    assert "".join(pieces) == "done\n"
    assert job.fetch(["out*", "missing", "inp?t"]) == {"output": data, "input": data}


@each_way
def test_files_of_any_content_are_fetched_while_the_job_runs_and_after_it(start: StartJob) -> None:
    files = {"a": b"\n\n1 b\n", "b": b"", "c": b"no newline", "d": bytes(range(256))}
    job = start(["sh", "-c", "until [ -e go ]; do sleep 0.02; done"], files=files)
    assert job.fetch([*files]) == files
    job._host.run(["touch", f"{job.directory}/go"])
    job.wait(10)
    assert job.fetch([*files]) == files
    assert job.fetch(["none"]) == {}


@pytest.mark.parametrize("content", [b"", b"12345", b"1234567"])
def test_files_that_are_not_as_long_as_listed_are_no_result(
    start: StartJob, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    job = start(["true"])
    changed = CommandResult((), "", "", 0, 0.0, b"2 a\n4 b\n\n" + content)
    with monkeypatch.context() as patched:
        patched.setattr(job._host, "run", lambda *_, **more: changed)
        with pytest.raises(HostError, match=f"listed with 6 bytes and came with {len(content)}"):
            job.fetch(["a", "b"])


@each_way
def test_output_comes_in_pieces_and_only_once(start: StartJob) -> None:
    job = start(["sh", "-c", "echo one; until [ -e go ]; do sleep 0.02; done; printf 'zwei ü'"])
    seen = _poll_until(job, lambda text: text == "one\n")
    job._host.run(["touch", f"{job.directory}/go"])
    seen += _poll_until(job, lambda text: text.endswith("ü"))
    assert seen == "one\nzwei ü"


@each_way
def test_the_same_job_id_never_starts_twice(start: StartJob, tmp_path: Path) -> None:
    count = tmp_path / "count"
    job_id = f"once-{uuid.uuid4().hex[:8]}"
    argv = ["sh", "-c", f"echo run >> {count}; sleep 0.3; echo ended"]
    jobs = [start(argv, job_id=job_id) for _ in range(3)]
    for job in jobs:
        assert job.wait(10).exit_code == 0
    assert count.read_text() == "run\n"
    assert start(argv, job_id=job_id).wait(10).exit_code == 0
    assert count.read_text() == "run\n"


def test_starts_at_the_same_moment_start_once(sshd: LocalSshd, start: StartJob, tmp_path: Path) -> None:
    count = tmp_path / "count"
    job_id = f"race-{uuid.uuid4().hex[:8]}"
    argv = ["sh", "-c", f"echo run >> {count}"]
    threads = [threading.Thread(target=start, args=(argv,), kwargs={"job_id": job_id}) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    start(argv, job_id=job_id).wait(10)
    assert count.read_text() == "run\n"


@pytest.mark.fault("SSH", "the connection drops while a job runs")
def test_a_job_survives_a_dropped_connection_and_is_not_started_again(
    host: ShellHost, sshd: LocalSshd, start: StartJob, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    job = start(["sh", "-c", f"echo run >> {count}; sleep 1; echo survived"])
    pieces: list[str] = []
    stop = threading.Event()
    dropped: list[int] = []

    def drop_often() -> None:
        # Not for ever: a slow machine needs longer than that for a connection.
        while len(dropped) < 3 and not stop.wait(0.2):
            if sessions := sshd.drop_connections():
                dropped.append(sessions)

    dropper = threading.Thread(target=drop_often)
    dropper.start()
    try:
        state = job.wait(15, on_output=pieces.append)
    finally:
        stop.set()
        dropper.join()
    assert sum(dropped) >= 1
    assert state.exit_code == 0
    assert "".join(pieces) == "survived\n"
    assert count.read_text() == "run\n"


@pytest.mark.fault("SSH", "the host of a job is lost")
def test_the_error_of_a_lost_host_says_where_the_results_are(tmp_path: Path) -> None:
    server = LocalSshd.prepare(tmp_path)
    server.start()
    with server.connect(reconnect_timeout_s=0.5) as host:
        job = host.start_job(["sleep", "30"], name="lost")
        server.stop()
        try:
            with pytest.raises(HostLost) as caught:
                job.wait(20)
            for again in (job.kill, job.cleanup, lambda: job.fetch(["stdout"])):
                with pytest.raises(HostLost, match="its host was lost"):
                    again()
        finally:
            server.start()
            try:
                with server.connect() as back:
                    again = back.start_job(["sleep", "30"], job_id=job.job_id)
                    again.kill()
                    again.cleanup()
            finally:
                server.stop()
    assert "was not started again" in str(caught.value)
    assert job.directory in str(caught.value)


@each_way
def test_the_host_itself_waits_for_the_end_of_a_job(
    host: ShellHost, start: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look waits there for the end; without that, many would look for it."""
    looks: list[str] = []
    run = host.run_unrecorded

    def counted(command: Command) -> CommandResult:
        looks.append(command.line)
        return run(command)

    job = start(["sleep", "0.6"])
    monkeypatch.setattr(host, "run_unrecorded", counted)
    assert job.wait(10).exit_code == 0
    assert len(looks) <= 3


@each_way
def test_a_look_ends_with_the_job_although_its_children_go_on(host: ShellHost, start: StartJob) -> None:
    job = start(["sh", "-c", "setsid sleep 20 & sleep 0.4"])
    began = time.monotonic()
    state = job._poll(15)
    assert (state.running, state.exit_code) == (False, 0)
    assert time.monotonic() - began < 12


@each_way
def test_a_job_that_was_killed_has_vanished(host: ShellHost, start: StartJob) -> None:
    job = start(["sleep", "30"])
    _poll_until(job, lambda _: (Path(job.directory) / "pid").exists())
    pid = (Path(job.directory) / "pid").read_text().split()[0]
    host.run(["kill", "-KILL", "--", f"-{pid}"])
    with pytest.raises(JobVanished, match="without an exit code: it was killed on its host, by a signal"):
        job.wait(10)


def test_a_job_whose_exit_code_could_not_be_written_has_vanished(host: ShellHost, start: StartJob) -> None:
    """As on a full disk, where the file of the exit code stays empty."""
    job = start(["true"])
    job.wait(10)
    (Path(job.directory) / "exit_code").write_text("")
    with pytest.raises(JobVanished, match="without an exit code"):
        job.poll()


def test_a_job_from_before_a_restart_says_so(host: ShellHost, start: StartJob) -> None:
    job = start(["sleep", "30"])
    _poll_until(job, lambda _: (Path(job.directory) / "boot").exists())
    (Path(job.directory) / "boot").write_text("another-boot 1\n")
    assert job.why_ended() == "its host was restarted"


@each_way
def test_a_process_that_reuses_the_number_is_not_the_job(host: ShellHost, start: StartJob) -> None:
    job = start(["sleep", "30"])
    _poll_until(job, lambda _: (Path(job.directory) / "pid").exists())
    pid = Path(job.directory) / "pid"
    number = pid.read_text().split()[0]
    pid.write_text(f"{number} 1\n")
    with pytest.raises(JobVanished):
        job.poll()


@each_way
def test_a_job_continues_after_the_time_of_its_waiter(start: StartJob) -> None:
    job = start(["sleep", "30"])
    with pytest.raises(JobTimedOut, match=r"still ran after 0.3 s"):
        job.wait(0.3)
    assert job.poll().running


@each_way
def test_kill_interrupts_first_so_that_results_are_written(start: StartJob) -> None:
    script = "trap 'echo saved > result; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    job = start(["sh", "-c", script])
    _poll_until(job, lambda text: "ready" in text)
    job.kill()
    assert job.wait(60).exit_code == 5
    assert job.fetch(["result"]) == {"result": b"saved\n"}


@pytest.mark.fault("kill", "a job ignores signals", leak=True)
@each_way
def test_kill_ends_processes_that_ignore_signals_and_their_children(
    start: StartJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.hosts.jobs._INTERRUPT_PATIENCE_S", 0.2)
    script = "trap '' INT TERM; setsid sleep 60 & echo $!; wait; sleep 60"
    job = start(["sh", "-c", script])
    child = _poll_until(job, lambda text: text.endswith("\n")).strip()
    job.kill()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


@each_way
def test_kill_returns_once_the_runner_has_ended_too(host: ShellHost, start: StartJob) -> None:
    """A runner that is still about to write the exit code would keep the directory from being removed."""
    job = start(["sleep", "30"])
    _poll_until(job, lambda _: (Path(job.directory) / "pid").exists())
    runner = int((Path(job.directory) / "pid").read_text().split()[0])
    os.kill(runner, signal.SIGSTOP)
    goes_on = threading.Timer(0.8, os.kill, (runner, signal.SIGCONT))
    goes_on.start()
    job.kill()
    left = job.poll().running
    goes_on.join()
    assert not left


@pytest.mark.fault("kill", "Ctrl-C while a job starts", leak=True)
@each_way
@pytest.mark.parametrize("slow_s", [0, 1])
def test_an_interrupt_while_starting_leaves_nothing_running(
    host: ShellHost, monkeypatch: pytest.MonkeyPatch, slow_s: int
) -> None:
    """Also if the host is so slow that it has not started the job yet."""
    run = host.run
    starts: list[threading.Thread] = []

    def run_and_interrupt(argv, *, stdin, **options):  # type: ignore[no-untyped-def]
        script = f"sleep {slow_s}\n".encode() + stdin
        starts.append(threading.Thread(target=run, args=(argv,), kwargs={"stdin": script, **options}))
        starts[0].start()
        if not slow_s:
            starts[0].join()
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "run", run_and_interrupt)
    job_id = f"interrupted-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KeyboardInterrupt):
        host.start_job(["sleep", "40"], job_id=job_id)
    starts[0].join()
    assert list(Path("/var/tmp").glob(f"cloudbench-*/*{job_id}*")) == []
    assert list(Path("/var/tmp").glob(f"cloudbench-*/.{job_id}*")) == []
    running = host.run(["sh", "-c", f"grep -lsz CLOUDBENCH_JOB={job_id} /proc/[0-9]*/environ"], check=False)
    assert running.stdout == ""


@each_way
def test_a_job_without_a_directory_is_not_started(
    host: ShellHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("pytest_cloudbench.hosts.job_scripts.BASE_DIRECTORY", f"{tmp_path}/file/x")
    with pytest.raises(HostError, match="could not be started"):
        host.start_job(["true"])


@pytest.mark.parametrize("bad", ["../x", "a b", ".hidden", "x" * 200])
def test_invalid_job_ids_are_refused(host: ShellHost, bad: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        host.start_job(["true"], job_id=bad)


def test_files_with_reserved_names_are_refused(host: ShellHost) -> None:
    with pytest.raises(ValueError, match="exit_code"):
        host.start_job(["true"], files={"exit_code": b"0"})


def _poll_until(job: DetachedJob, enough: Callable[[str], bool]) -> str:
    seen = ""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        seen += job.poll().new_output
        if enough(seen):
            return seen
        time.sleep(0.02)
    raise AssertionError(f"not within 10 s; the output so far: {seen!r}")
