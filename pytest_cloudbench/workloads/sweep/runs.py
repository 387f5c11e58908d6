"""The runs of one sweep: each starts fio on all devices together, watches it, and returns a measurement.

A run collects fio's totals, ends fio when it is steady, and waits for its end.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from pytest_cloudbench.hosts.host import Job
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.workloads.errors import StorageLost
from pytest_cloudbench.workloads.fio.errors import FioOutputError, FioRefused, FioTimedOut
from pytest_cloudbench.workloads.fio.job import RESULT_FILE
from pytest_cloudbench.workloads.fio.options import HostFio, fio_words
from pytest_cloudbench.workloads.fio.output import LOST_STORAGE, explained, lost_at
from pytest_cloudbench.workloads.fio.run import check_not_killed
from pytest_cloudbench.workloads.measurement import Measurement
from pytest_cloudbench.workloads.one_load import alone_on, check_started
from pytest_cloudbench.workloads.sweep.command import (
    Layout,
    SizedPath,
    divided,
    layout,
    punctual,
    step_options,
)
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.plan import TICK_S, StepTimes
from pytest_cloudbench.workloads.sweep.status import NOTHING, StatusReader, Totals, series_of
from pytest_cloudbench.workloads.target import CountersSnapshot, Target, counters_gained, reads_nothing
from pytest_cloudbench.workloads.tool_run import cleaned_up, text_of

STEADY_RATE = 0.05
STEADY_LATENCY = 0.10
"""A run is steady if its two halves differ by at most this share."""
TIME_UP = "its time was up"
_SPARE_S = 60.0
_AFTER_INTERRUPT_S = 30.0


@dataclass(frozen=True)
class Watched:
    """The output of a run.

    ``totals`` begin with the end of the ramp. ``document`` is fio's last JSON. ``ended`` is the reason for the end.
    ``condition`` is a sentence if the run could not be measured as intended.
    """

    totals: tuple[Totals, ...]
    document: str
    ended: str
    condition: str | None = None

    @property
    def measured(self) -> Totals:
        """The totals between the end of the ramp and the last totals of the run."""
        return self.totals[-1].since(self.totals[0])


class _IsSteady(Exception):
    """Raised inside the wait to end it: the run is steady."""


class Watch:
    """Waits for the end of a run, and ends it early once it is steady."""

    def __init__(
        self,
        times: StepTimes,
        on_second: Callable[[Totals], None] | None = None,
        block_bytes: int | None = None,
    ) -> None:
        """on_second: called about once a second with the change of the totals. block_bytes: see `StatusReader`."""
        self._times = times
        self._on_second = on_second
        self._reader = StatusReader(block_bytes)
        self._totals: list[Totals] = []
        self._document = ""

    def until_end(self, running: Job, target: Target) -> Watched:
        """Wait for the end of the run on `target`. After an error nothing is left running.

        Raises FioRefused with fio's message, FioOutputError, FioTimedOut, and the host's errors.
        """
        with cleaned_up(running):
            exit_code, ended = self._wait(running)
            check_started(exit_code, target)
            notes = list(self._reader.notes)
            if exit_code != 0 or not self._document:
                running.kill()  # the workers of a killed fio keep running
                notes += text_of(running.fetch(["stderr"]), "stderr").splitlines()
            check_not_killed(exit_code, running)
        if lost := next(
            (os.strerror(each) for each in LOST_STORAGE if os.strerror(each) in "".join(notes)), ""
        ):
            raise StorageLost(lost_at(self._totals[-1].seconds if self._totals else 0, lost))
        if exit_code != 0:
            raise FioRefused(f"fio ended with exit code {exit_code}: {fio_words(chr(10).join(notes))}")
        if not self._totals or not self._totals[-1].both.ios or not self._totals[-1].seconds:
            raise FioOutputError(f"fio did no I/O: {fio_words(chr(10).join(notes))}")
        return self._result(ended)

    def _wait(self, running: Job) -> tuple[int, str]:
        try:
            state = running.wait(self._times.length_s * 1.2 + _SPARE_S, on_output=self._take)
        except _IsSteady:
            seconds = self._measured()[-1].seconds
            running.kill()
            running.wait(_AFTER_INTERRUPT_S, on_output=self._take_end)
            return 0, f"steady after {seconds:.0f} s"
        except TimeoutError as error:
            raise FioTimedOut(
                f"fio on {running.host_label} was still running long after its {self._times.length_s} s and was ended"
            ) from error
        return state.exit_code or 0, TIME_UP

    def _take(self, output: str) -> None:
        for totals, document in self._reader.feed(output):
            self._document = document
            if self._on_second is not None:
                latest = totals.since(self._totals[-1] if self._totals else NOTHING)
                # The last totals may follow the previous ones by a few milliseconds, too short for a rate.
                if latest.seconds >= TICK_S / 2:
                    self._on_second(latest)
            self._totals.append(totals)
        if self._times.steady_after_s is not None and self._is_steady(self._times.steady_after_s):
            raise _IsSteady

    def _take_end(self, output: str) -> None:
        """Keep the result of an interrupted fio, but not its totals: the load has already ended."""
        for _, document in self._reader.feed(output):
            self._document = document

    def _measured(self) -> list[Totals]:
        """Return the totals from the end of the ramp while the load ran; empty if there are none yet."""
        begin_s = self._times.ramp_s - TICK_S / 2
        found = [NOTHING] if self._times.ramp_s == 0 else []
        return [*found, *(each for each in self._totals if begin_s <= each.seconds < self._times.length_s)]

    def _result(self, ended: str) -> Watched:
        measured = self._measured()
        if len(measured) > 1 and measured[-1].both.ios > measured[0].both.ios:
            return Watched(tuple(measured), self._document, ended)
        # On a very busy host fio printed totals too rarely, so the figures must include the ramp.
        whole = (NOTHING, self._totals[-1])
        return Watched(
            whole,
            self._document,
            ended,
            "fio printed its totals only at its end: the figures include the ramp",
        )

    def _is_steady(self, after_s: int) -> bool:
        measured = self._measured()
        if len(measured) < 2 or measured[-1].seconds - measured[0].seconds < after_s:
            return False
        rates, latencies = [], []
        for before, now in pairwise(measured):
            between = now.since(before)
            if between.both.ios > 0:
                rates.append(between.both.ios / between.seconds)
                latencies.append(between.both.sum_ns / between.both.ios)
        steady_rate = steadiness(rates, STEADY_RATE).steady
        return bool(steady_rate and steadiness(latencies, STEADY_LATENCY).steady)


MEASURED_FILE = "measured.json"
"""The histograms of the measured time. fio's own result also covers the ramp and the collection of the last I/Os."""


@dataclass(frozen=True)
class Load:
    """The requested load of one run: the maximum, or a rate that is ``percent`` of it."""

    times: StepTimes
    percent: float | None = None
    rate: Iops | None = None


@dataclass
class Known:
    """Facts that a run read and the next one reuses: throttle counters and ceilings."""

    counters: CountersSnapshot | None = None
    envelope: Envelope | None = None


@dataclass(frozen=True)
class Runs:
    """The common parts of a sweep's runs."""

    target: Target
    mix: Mix
    threads: int
    paths: tuple[SizedPath, ...]
    fio: HostFio
    conditions: tuple[str, ...]
    known: Known = field(default_factory=Known)

    def run(self, load: Load, on_second: Callable[[Totals], None] | None = None) -> tuple[Measurement, str]:
        """Run fio once; return its measurement and the reason for its end. Raises as `Watch.until_end` does."""
        devices = len(self.paths)
        rate = load.rate.per_second if load.rate is not None else 0.0
        shape = layout(self.mix, threads=self.threads, devices=devices, cpus=self.fio.host_cpus, rate=rate)
        arrivals = (
            divided(rate, shape.jobs * devices, self.mix.read_percent) if load.rate is not None else None
        )
        argv = (self.fio.path, *step_options(self.mix, shape, self.paths, load.times, arrivals))
        before = self.known.counters or self.target.counters()
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        running = self.target.host.start_job(
            alone_on(self.target, punctual(argv)), sudo=self.target.kind == "block", name="sweep"
        )
        one_size = self.mix.block_size.bytes if len(self.mix.blocks) == 1 else None
        with explained(self.target):
            watched = Watch(load.times, on_second, one_size).until_end(running, self.target)
        # The devices are idle between runs, so the counters after one run are those before the next.
        self.known.counters = self.target.counters() if before is not None else None
        counters = counters_gained(before, self.known.counters).within(load.times.length_s)
        if self.target.kind != "block":
            counters = counters.on_files()
        measurement = dataclasses.replace(
            self._measurement(load, shape, watched),
            command=shlex.join(argv),
            started_at=started_at,
            counters=counters.throttled,
            machine_delay=counters.machine_delay,
        )
        return measurement, watched.ended

    def envelope(self) -> Envelope | None:
        """Return the ceilings of this mix on this target. Call it after the first run.

        Only then is the limit of the machine under an embedded region known well.
        """
        if self.known.envelope is None:
            found = self.target.envelope(self.mix.block_size, sequential=self.mix.sequential)
            self.known.envelope = None if found is None else found.of_mix(self.mix.read_percent / 100)
        return self.known.envelope

    def _asked(self, load: Load, shape: Layout) -> dict[str, Any]:
        return {
            "mix": self.mix.to_dict(),
            "percent_of_maximum": load.percent,
            "rate_iops_total": load.rate.per_second if load.rate is not None else None,
            "arrivals": "poisson" if load.rate is not None else "closed loop",
            "threads_per_device": self.threads,
            "devices": len(self.paths),
            "jobs_per_device": shape.jobs,
            "iodepth": shape.depth,
            "ramp_time_s": load.times.ramp_s,
            "runtime_s": load.times.runtime_s,
            "working_set_bytes": [size.bytes for _, size in self.paths],
            "direct": True,
        }

    def _measurement(self, load: Load, shape: Layout, watched: Watched) -> Measurement:
        """Return the measurement without its command, start and counters."""
        last = watched.measured
        jobs = shape.jobs * len(self.paths)
        factor = self.target.time_compression
        read, write = last.read.direction(last.seconds), last.write.direction(last.seconds)
        ways = [way for way in (read, write) if way is not None]
        series = series_of(watched.totals)
        unread, served_as_written = reads_nothing(self.target, reads=self.mix.read_percent > 0)
        return Measurement(
            workload=f"sweep {self.mix.name}",
            iops=sum(way.iops for way in ways),
            throughput_mib=sum(way.throughput_mib for way in ways),
            read=read,
            write=write,
            latency=last.both.latency(),
            series=dataclasses.replace(series, seconds=tuple(at * factor for at in series.seconds)),
            block_size=self.mix.block_size,
            sequential=self.mix.sequential,
            outstanding_asked=self.threads * len(self.paths),
            runtime_s=last.seconds * factor,
            command="",
            tool_version=last.version,
            host=self.target.host.label,
            target=self.target.label,
            started_at="",
            envelope=self.envelope(),
            generator=GeneratorLoad(
                cpu_percent_busiest=last.cpu_percent,
                cpu_percent_total=last.cpu_percent * jobs,
                cpus=self.fio.host_cpus,
            ),
            rate_asked=load.rate,
            conditions=(
                *self.conditions,
                *served_as_written,
                *([watched.condition] if watched.condition else []),
            ),
            reads_nothing=unread,
            credits_unsure=str(getattr(self.target, "credits_unsure", "")),
            asked=self._asked(load, shape),
            raw={RESULT_FILE: watched.document.encode(), MEASURED_FILE: last.to_fio()},
            time_compression=factor,
            modelled_latency=self.target.modelled_latency,
            kernel=self.fio.kernel,
        )
