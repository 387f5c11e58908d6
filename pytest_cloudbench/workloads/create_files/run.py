"""Create files on a target: check, start the job exactly once, watch it, build the measurement, remove the files."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from pytest_cloudbench.hosts.host import Job
from pytest_cloudbench.reports.plots.kinds import creation_plots
from pytest_cloudbench.workloads.create_files.commands import job_argv, job_files
from pytest_cloudbench.workloads.create_files.creation import FileCreation
from pytest_cloudbench.workloads.create_files.errors import CreationFailed, CreationTimedOut
from pytest_cloudbench.workloads.create_files.host_facts import (
    check_is_target,
    check_room,
    choose_method,
    read_facts,
)
from pytest_cloudbench.workloads.create_files.job import FilesJob, paced_files
from pytest_cloudbench.workloads.create_files.outcome import Origin, creation_of
from pytest_cloudbench.workloads.create_files.record import Sample, parse_sample
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.space import shortage
from pytest_cloudbench.workloads.target import Gained, Target, counters_gained
from pytest_cloudbench.workloads.tool_run import cleaned_up
from pytest_cloudbench.workloads.workload import Workload

_MIB = 2.0**20
_SLOWEST = 1 << 20
"""A target without known ceilings counts as hanging below this rate in bytes/s; others below a third of theirs."""
_SLOWEST_FILES = 50
"""A job that creates fewer files per second counts as hanging."""
_SPARE_S = 120.0
_REMOVED_FILES = 200
"""The least expected rate of removal, in files per second."""
_REMOVE = """\
case "$2" in "$1"/cloudbench-files-*) ;; *) echo "$2 is not ours" >&2; exit 1 ;; esac
rm -rf -- "$2" && sync -f -- "$1"
"""


@dataclass(frozen=True)
class Progress:
    """The progress of a running job, with the rates of the last second.

    While files are created, `percent` is the created part and `eta_s` the seconds left to create the rest. Then
    (`all_created`) `percent` is the part of the data on the device, `mib_s` the device's rate, and `eta_s` the time
    until all data is there. If the device's counters are unknown or zero, these are None, 0 and None.
    """

    percent: float | None
    files: int
    files_s: float
    mib_s: float
    all_created: bool = False
    eta_s: float | None = None

    def __str__(self) -> str:
        left = f", {self.eta_s:.0f} s left" if self.eta_s is not None else ""
        if self.all_created:
            reached = "" if self.percent is None else f", {self.percent:.0f} % on the device"
            return f"all {self.files:,} files created{reached} {self.mib_s:,.1f} MiB/s{left}"
        return f"{self.percent:.0f} % {self.files_s:,.0f} files/s {self.mib_s:,.1f} MiB/s{left}"


class ProgressReader:
    """Parses the job's standard output into progress, in pieces as they arrive."""

    def __init__(self, job: FilesJob) -> None:
        self._job = job
        self._rest = ""
        self._before = Sample(0.0, 0, 0, 0, 0)

    def feed(self, text: str) -> list[Progress]:
        """Return the progress for every line that `text` completes. Never raises."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [self._progress(sample) for line in lines if (sample := parse_sample(line)) is not None]

    def _progress(self, now: Sample) -> Progress:
        before, self._before = self._before, now
        past_s = now.seconds - before.seconds
        files_s = _rate(now.files - before.files, past_s)
        if now.files < self._job.count:
            written_s = _rate(now.bytes - before.bytes, past_s)
            part = now.bytes / self._job.data.bytes
            left_s = now.seconds * (1.0 / part - 1.0) if part > 0 else None
            return Progress(100.0 * part, now.files, files_s, written_s / _MIB, eta_s=left_s)
        if now.device_bytes is None or now.device_bytes <= 0:
            return Progress(None, now.files, files_s, 0.0, all_created=True)
        arriving_s = _rate(now.device_bytes - (before.device_bytes or 0), past_s)
        left = max(0, self._job.data.bytes - now.device_bytes)
        return Progress(
            100.0 * (1.0 - left / self._job.data.bytes),
            now.files,
            files_s,
            arriving_s / _MIB,
            all_created=True,
            eta_s=left / arriving_s if arriving_s > 0 else None,
        )


def _rate(gained: int, past_s: float) -> float:
    return max(0.0, gained / past_s) if past_s > 0 else 0.0


def run_create_files(
    target: Target,
    job: FilesJob,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[Progress], None] | None = None,
) -> FileCreation:
    """Create the job's files on `target` once, in a new folder, and return the measurement.

    on_progress: called about once a second during the run.
    The folder is removed afterwards unless the job keeps it; the removal is not measured.

    Raises BadFilesJob, TargetError or the errors of target.prove_writable() before anything starts. Later raises
    FilesystemFull or CreationFailed with the measured part, RecordError, CreationTimedOut, or the host's errors for a
    lost host or a vanished job. On Ctrl-C it ends the job on the host, removes the files and raises the interrupt.
    """
    check_is_target(target)
    host = target.host.label  # raises for a stopped instance, before any other access
    # Checked first: if its file system is gone, the remaining directory belongs to another one.
    target.prove_writable()
    facts = read_facts(target)
    method, conditions = choose_method(job, facts, host)
    shortened, changes = paced_files(job, pace, method=method)
    check_room(target, shortened, facts)
    folder = f"{target.path.rstrip('/')}/cloudbench-files-{uuid.uuid4().hex[:12]}"
    argv = job_argv(shortened, method, folder, python=facts.python, stats=facts.stats)
    origin = Origin(
        target=target,
        job=shortened,
        method=method,
        cpus=facts.cpus,
        folder=folder,
        argv=argv,
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        conditions=(*conditions, *changes),
    )
    return _Run(origin, on_progress).measured()


class _Run:
    """One run: starts and watches the job, and removes its folder in every case."""

    def __init__(self, origin: Origin, on_progress: Callable[[Progress], None] | None) -> None:
        self._origin = origin
        self._target = origin.target
        self._job = origin.job
        self._on_progress = on_progress
        self._reader = ProgressReader(origin.job)
        self._all_created = False
        self._limit_s = _longest_s(origin.target, origin.job)

    def measured(self) -> FileCreation:
        """Run the job and return its measurement. Raises the first error if several occur."""
        try:
            files, exit_code, counters = self._ran()
            creation = creation_of(self._origin, files, exit_code=exit_code, counters=counters)
        except CreationFailed as error:
            why = shortage(self._target, str(error))  # read before the files are removed
            self._remove()
            if why:
                raise type(error)(f"{error}; {why}", error.partial) from error
            raise
        except BaseException:
            self._remove()
            raise
        return dataclasses.replace(creation, conditions=(*creation.conditions, *self._remove()))

    def _ran(self) -> tuple[dict[str, bytes], int, Gained]:
        """Run the job; return its files, its exit code and the increase of the counters."""
        sent = job_files(self._origin.method)
        before = self._target.counters()
        running = self._target.host.start_job(self._origin.argv, files=sent, name="files")
        with cleaned_up(running):
            exit_code = self._watch(running)
            counters = counters_gained(before, self._target.counters() if before is not None else None)
            return {**running.fetch(["stdout", "stderr"]), **sent}, exit_code, counters

    def _watch(self, running: Job) -> int:
        try:
            state = running.wait(self._limit_s, on_output=self._take)
        except BaseException as error:
            if self._all_created:
                # A sync cannot be interrupted, but it ends once the files are removed.
                self._remove()
            if isinstance(error, TimeoutError):
                raise CreationTimedOut(
                    f"creating {self._job} on {self._target.label} was ended because it took over "
                    f"{self._limit_s:,.0f} s"
                ) from error
            raise
        return state.exit_code or 0

    def _take(self, output: str) -> None:
        for progress in self._reader.feed(output):
            self._all_created = progress.all_created
            if self._on_progress is not None:
                self._on_progress(progress)

    def _remove(self) -> tuple[str, ...]:
        """Remove the files and sync the removal; return a condition if that failed."""
        if self._job.keep:
            return ()
        try:
            self._target.host.run(
                ["sh", "-c", _REMOVE, "sh", self._target.path.rstrip("/"), self._origin.folder],
                timeout_s=self._limit_s + self._job.count / _REMOVED_FILES,
                idempotent=True,
            )
        except Exception as error:
            return (f"the files could not be removed from {self._origin.folder}: {error}",)
        return ()


def _longest_s(target: Target, job: FilesJob) -> float:
    envelope = target.envelope(job.size, sequential=True)
    levels: list[float] = []
    if envelope is not None:
        for ceiling in envelope.of_mix(0.0).ceilings:
            levels += [level.throughput.bytes_per_second for level in envelope.levels_of(ceiling)]
    slowest = min(levels, default=3.0 * _SLOWEST) / 3.0
    return job.data.bytes / max(slowest, 1.0) + job.count / _SLOWEST_FILES + _SPARE_S


CREATE_FILES = Workload(
    "create_files", parse=FilesJob.of, run=run_create_files, plots=creation_plots, writes=None
)
