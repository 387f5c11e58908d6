"""The runs of one sweep: each starts fio on all devices together and returns a measurement."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.workloads.fio.job import RESULT_FILE
from pytest_cloudbench.workloads.fio.options import HostFio
from pytest_cloudbench.workloads.measurement import Measurement
from pytest_cloudbench.workloads.space import explained_shortage
from pytest_cloudbench.workloads.sweep.command import (
    Layout,
    SizedPath,
    divided,
    layout,
    punctual,
    step_options,
)
from pytest_cloudbench.workloads.sweep.mixes import Mix
from pytest_cloudbench.workloads.sweep.plan import StepTimes
from pytest_cloudbench.workloads.sweep.status import Totals, series_of
from pytest_cloudbench.workloads.sweep.watch import Watch, Watched
from pytest_cloudbench.workloads.target import CountersSnapshot, Target, counters_gained, reads_nothing

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
        running = self.target.host.start_job(punctual(argv), sudo=self.target.kind == "block", name="sweep")
        one_size = self.mix.block_size.bytes if len(self.mix.blocks) == 1 else None
        with explained_shortage(self.target):
            watched = Watch(load.times, on_second, one_size).until_end(running)
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
            asked=self._asked(load, shape),
            raw={RESULT_FILE: watched.document.encode(), MEASURED_FILE: last.to_fio()},
            time_compression=factor,
            modelled_latency=self.target.modelled_latency,
            kernel=self.fio.kernel,
        )
