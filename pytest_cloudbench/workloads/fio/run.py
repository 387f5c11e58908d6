"""One run of a fio job on a target: checked, started exactly once, watched, and read into a measurement."""

from __future__ import annotations

import dataclasses
import math
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.hosts.host import Job
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.fio.errors import FioKilled, FioTimedOut
from pytest_cloudbench.workloads.fio.histogram_logs import HISTOGRAM_LOG, with_percentiles
from pytest_cloudbench.workloads.fio.job import RESULT_FILE, FioJob
from pytest_cloudbench.workloads.fio.options import HostFio, fio_of
from pytest_cloudbench.workloads.fio.output import FioResult, explained, parse_output
from pytest_cloudbench.workloads.fio.progress import Progress, ProgressReader
from pytest_cloudbench.workloads.fio.series_logs import LOGS, series_from_logs, with_series_means
from pytest_cloudbench.workloads.fio.space import (
    as_on_device,
    check_is_target,
    check_target,
    envelope_of,
    make_room,
)
from pytest_cloudbench.workloads.measurement import Measurement
from pytest_cloudbench.workloads.one_load import alone_on, check_started
from pytest_cloudbench.workloads.pace import (
    BURST_S,
    QUICK_DATA,
    QUICK_RAMP_S,
    Pace,
    compressed_seconds,
    compression_condition,
)
from pytest_cloudbench.workloads.target import (
    CountersSnapshot,
    FleetTarget,
    Gained,
    Target,
    gained_by_load,
    is_fleet,
    reads_nothing,
)
from pytest_cloudbench.workloads.tool_run import cleaned_up, side_by_side, text_of
from pytest_cloudbench.workloads.workload import Workload

COMPRESSED_SAMPLE_S = 0.2
"""The sample of a compressed run that looks for the end of a burst: short enough for many samples after it. It spans
two of the 0.1 s slices in which a kernel throttles disks, so that all samples contain equally many slices."""
SLOWEST_LAYOUT = 10 * 1024 * 1024
"""Laying out files counts as hanging if it writes fewer bytes per second than this."""
SPARE_S = 120.0
_LAYOUT_SEEN_S = 2.0
_FIRST_LINE_S = 3.0
_SHORT_RUN = 0.95
_SHELL_SIGNALS = 128
"""A shell adds this to the signal that ended a command (sh(1))."""
LARGEST_KEPT = 5_000_000
"""Larger histograms are not kept with the measurement, in bytes; their percentiles are in the series."""


def run_fio(
    target: Target | FleetTarget,
    job: FioJob,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[Progress], None] | None = None,
) -> Measurement:
    """Run `job` on `target` once and return what it measured.

    on_progress: called about once a second.

    Raises, before anything is started: BadFioJob, UnknownFioOption, TargetError, LoadRunning, WouldDestroy, FioRefused
    (a value that fio refuses), and the errors of target.prove_writable(). Afterwards: FioRefused, FioOutputError,
    FioTimedOut, and the host's errors if the host is lost or the job vanishes. Ctrl-C ends fio on the host.
    """
    check_is_target(target)
    if is_fleet(target):
        from pytest_cloudbench.workloads.fio.fleet import run_on_fleet

        return run_on_fleet(target, job, pace=pace, on_progress=on_progress)
    ready = prepare(target, job, pace)
    run = _Run(target, ready.job, on_progress)
    started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    running = target.host.start_job(alone_on(target, ready.argv), sudo=ready.as_root, name="fio")
    with cleaned_up(running):
        import msgspec.json  # noqa: F401  # needed for fio's output; imported while fio starts, so without delay

        exit_code = run.watch(running)
        check_started(exit_code, target)
        if exit_code != 0:
            running.kill()  # the workers of a killed fio continue without it
        check_not_killed(exit_code, running)
        counters = run.counters_gained()
        # As in `prepare`, the first queries the host, the second the provider.
        files, envelope = side_by_side(
            lambda: running.fetch([RESULT_FILE, "stderr", *LOGS, HISTOGRAM_LOG]),
            lambda: envelope_of(target, ready.job),
        )
    with explained(target):
        result = parse_output(files.get(RESULT_FILE), exit_code=exit_code, stderr=text_of(files, "stderr"))
    return measurement_of(
        ready, result, files=files, counters=counters, started_at=started_at, envelope=envelope
    )


def check_not_killed(exit_code: int, running: Job) -> None:
    """Raise FioKilled with the cause if SIGKILL ended fio: this package does not send it to a fio that responds."""
    if exit_code == _SHELL_SIGNALS + signal.SIGKILL:
        raise FioKilled(f"fio on {running.host_label} gave no result: {running.why_ended()}")


@dataclass(frozen=True)
class Ready:
    """A job that can start on a target: checked and paced, with room for its data."""

    target: Target
    job: FioJob
    fio: HostFio
    argv: tuple[str, ...]
    conditions: tuple[str, ...]
    unread: str

    @property
    def as_root(self) -> bool:
        """True for raw devices, which belong to root; a mounted directory belongs to the login user."""
        return self.target.kind == "block"

    @property
    def devices(self) -> int:
        """The number of devices that have jobs of their own."""
        return len(self.target.paths) if self.target.kind == "block" else 1


def prepare(target: Target, job: FioJob, pace: Pace, *, sharing: int = 1) -> Ready:
    """Check a job and its target, and return the job ready to start. Nothing is started.

    ``sharing``: how many such jobs share the room of the machine behind the target.
    """
    job, sized = as_on_device(target, job)
    lays_out_files = target.kind == "directory"
    job, changed = paced(job, pace, lays_out_files=lays_out_files, factor=target.time_compression)
    unread, served_as_written = reads_nothing(target, reads=job.reads)
    conditions = (*target.conditions, *sized, *changed, *served_as_written)
    # The first queries the host, the second the provider.
    to_lay_out, room = side_by_side(lambda: check_target(target, job), target.room)
    fio = fio_of(target.host)
    ready = Ready(target, job, fio, job.to_argv(target.kind, target.paths, fio=fio.path), conditions, unread)
    fio.check(job, ready.argv, sudo=ready.as_root)
    share = None if room is None else Size(room.bytes // sharing)
    return dataclasses.replace(ready, conditions=conditions + make_room(target, job, to_lay_out, share))


def paced(
    job: FioJob, pace: Pace, *, lays_out_files: bool, factor: float = 1.0
) -> tuple[FioJob, tuple[str, ...]]:
    """Return the job as this pace runs it, in real seconds, and a sentence for each change.

    lays_out_files: the target is a directory, so fio first writes ``size`` for every job. factor: how many seconds of
    the test one real second represents.
    """
    changes: dict[str, Any] = {}
    conditions: list[str] = []
    real_s = math.ceil(compressed_seconds(job.runtime, factor))
    ramp_s = math.ceil(job.ramp_time / factor)
    most_s = pace.most_seconds(job.runtime)
    if real_s > most_s:
        real_s = int(most_s)
        conditions.append(f"quick pace: runtime {job.runtime:,g} s -> {real_s * factor:,g} s")
    if pace is Pace.QUICK and ramp_s > QUICK_RAMP_S:
        ramp_s = QUICK_RAMP_S
        conditions.append(f"quick pace: ramp {job.ramp_time:,g} s -> {ramp_s * factor:,g} s")
    if factor != 1:
        conditions.append(compression_condition(job.runtime, real_s, factor))
        if job.runtime >= BURST_S:
            changes["sample_s"] = min(job.sample_s, COMPRESSED_SAMPLE_S)
    if real_s != job.runtime:
        changes["runtime"] = real_s
    if ramp_s != job.ramp_time:
        changes["ramp_time"] = ramp_s
    if (
        pace is Pace.QUICK
        and lays_out_files
        and job.size is not None
        and job.size.bytes * job.numjobs > QUICK_DATA.bytes
    ):
        size = max(job.bs, Size(QUICK_DATA.bytes // job.numjobs // job.bs.bytes * job.bs.bytes))
        if size < job.size:
            changes["size"] = size
            conditions.append(f"quick pace: size per job {job.size} -> {size}")
    if not changes:
        return job, ()
    return dataclasses.replace(job, **changes), tuple(conditions)


class _Run:
    """A running fio: its progress, its expected end, its counters."""

    def __init__(self, target: Target, job: FioJob, on_progress: Callable[[Progress], None] | None) -> None:
        self._target = target
        self._length_s = job.runtime + job.ramp_time
        laid_out = job.size.bytes * job.numjobs if job.size and target.kind == "directory" else 0
        self._limit_s = self._length_s * 1.2 + laid_out / SLOWEST_LAYOUT + SPARE_S
        self._on_progress = on_progress
        self._reader = ProgressReader()
        self._before: CountersSnapshot | None = target.counters()
        self._began = time.monotonic()
        # On a device the load begins at once, on a file system after the files are laid out.
        self._awaits_load = laid_out > 0 and self._before is not None

    def watch(self, running: Job) -> int:
        """Wait for the end and return the exit code. Raises FioTimedOut if the run takes far too long."""
        try:
            state = running.wait(self._limit_s, on_output=self._take)
        except TimeoutError as error:
            raise FioTimedOut(
                f"fio on {running.host_label} was still running after {self._limit_s:.0f} s, "
                f"with a run time of {self._length_s:g} s, and was ended"
            ) from error
        return state.exit_code or 0

    def counters_gained(self) -> Gained:
        """Return the increase of the counters since the load began."""
        return gained_by_load(self._target, self._before, self._length_s)

    def _take(self, output: str) -> None:
        for progress in self._reader.feed(output):
            if self._awaits_load:
                self._awaits_load = False
                self._leave_out_layout(progress)
            if self._on_progress is not None:
                self._on_progress(progress)

    def _leave_out_layout(self, progress: Progress) -> None:
        """Read the counters again if the layout took long: throttling during it is not part of the measurement."""
        # The first line arrives some seconds after the load began; eta tells how many.
        left_s = progress.eta_s if progress.eta_s is not None else self._length_s
        into_s = max(0.0, min(_FIRST_LINE_S, self._length_s - left_s))
        if time.monotonic() - into_s - self._began > _LAYOUT_SEEN_S:
            self._before = self._target.counters()


def _short(job: FioJob, result: FioResult) -> tuple[str, ...]:
    if result.runtime_s >= job.runtime * _SHORT_RUN:
        return ()
    return (f"fio ran {result.runtime_s:.1f} s of {job.runtime:g} s",)


def measurement_of(
    ready: Ready,
    result: FioResult,
    *,
    files: dict[str, bytes],
    counters: Gained,
    started_at: str,
    envelope: Envelope | None,
) -> Measurement:
    """Return the measurement of a run that has ended, from fio's result and logs."""
    target, job, fio, devices = ready.target, ready.job, ready.fio, ready.devices
    series = series_from_logs(
        files, runtime_s=result.runtime_s, sample_s=job.sample_s, compression=target.time_compression
    )
    result = with_series_means(result, series, sample_s=job.sample_s)
    return Measurement(
        workload=f"fio {job.rw} {_short_size(job.bs)}",
        iops=result.iops,
        throughput_mib=result.throughput_mib,
        read=result.read,
        write=result.write,
        latency=result.latency,
        series=with_percentiles(
            series,
            files.get(HISTOGRAM_LOG),
            sample_s=job.sample_s,
            samples=job.histogram_samples(devices),
            submission_share=result.submission_share,
        ),
        block_size=job.bs,
        sequential=job.sequential,
        outstanding_asked=job.outstanding(devices),
        runtime_s=result.runtime_s * target.time_compression,
        command=shlex.join(ready.argv),
        tool_version=result.version,
        host=target.host.label,
        target=target.label,
        started_at=started_at,
        envelope=envelope,
        counters=counters.throttled,
        machine_delay=counters.machine_delay,
        generator=GeneratorLoad(
            result.cpu_percent, result.cpu_percent * job.numjobs * devices, fio.host_cpus
        ),
        rate_asked=job.rate_iops or job.rate,
        time_compression=target.time_compression,
        modelled_latency=target.modelled_latency,
        kernel=fio.kernel,
        reads_nothing=ready.unread,
        conditions=(*ready.conditions, *_short(job, result)),
        asked=job.asked(),
        raw={
            name: content
            for name, content in files.items()
            if name != HISTOGRAM_LOG or len(content) <= LARGEST_KEPT
        },
    )


def _short_size(size: Size) -> str:
    for unit, letter in ((1 << 20, "m"), (1 << 10, "k")):
        if size.bytes % unit == 0:
            return f"{size.bytes // unit}{letter}"
    return str(size.bytes)


FIO = Workload("fio", parse=FioJob.of, run=run_fio, describe=lambda job: f"{job.rw} {job.bs}", writes=None)
