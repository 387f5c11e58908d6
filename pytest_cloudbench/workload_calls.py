"""The values of the ``fio`` and ``iperf3`` fixtures: a call runs one workload and returns its measurement."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cloudbench.evidence.listeners import (
    step,
    tell_comparison,
    tell_instance,
    tell_measurement,
    tell_verdict,
)
from pytest_cloudbench.evidence.live_line import live_line, wanted
from pytest_cloudbench.evidence.verdict_properties import (
    CONDITION_PROPERTY,
    MEASUREMENT_PROPERTY,
    verdict_properties,
)
from pytest_cloudbench.settings import pace, setting

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.keeping.keeper import Keeper
    from pytest_cloudbench.workloads.create_files.creation import FileCreation
    from pytest_cloudbench.workloads.fio.progress import Progress
    from pytest_cloudbench.workloads.measurement import Measurement
    from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement
    from pytest_cloudbench.workloads.pace import Pace
    from pytest_cloudbench.workloads.path import NetworkPath
    from pytest_cloudbench.workloads.target import Target


_M = TypeVar("_M", "Measurement", "NetworkMeasurement", "FileCreation")
_T = TypeVar("_T")

CHECK_REGION: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
"""Raises once the session's embedded region has ended; absent on AWS and in a replay."""


class _WorkloadCall:
    """What every workload does with its test: its pace, its live line, and what it leaves in the report."""

    _doing = "run "
    """How the name of its step begins."""

    def __init__(self, config: pytest.Config, item: pytest.Item) -> None:
        self._config = config
        self._item = item

    def __repr__(self) -> str:
        return f"<{type(self).__name__.removesuffix('Call').lower()} for {self._item.name}>"

    def _pace(self) -> Pace:
        from pytest_cloudbench.workloads.pace import Pace

        return Pace.named(pace(self._config))

    @contextlib.contextmanager
    def _live_line(
        self, name: str, words: Callable[[Any], str] = str, *, on: object = None
    ) -> Iterator[Callable[[Any], None] | None]:
        """Yield what shows a progress on the live line, behind the workload's name; None where none is wanted.

        ``on`` is where it runs, told last: a narrow terminal cuts that off first.
        """
        where = f" on {label}" if (label := getattr(on, "label", None)) else ""
        choice = setting(self._config, "progress")
        shown = wanted(self._config, choice)
        line = live_line(self._config, shown=shown, at_once=choice == "on", test=self._item.name)
        with step(self._item, f"{self._doing}{name}"), line as show:
            yield (lambda progress: show(f"{name}: {words(progress)}{where}")) if shown else None

    @property
    def _keeper(self) -> Keeper:
        from pytest_cloudbench.keeping.keeper import keeper_of

        return keeper_of(self._config)

    def _measured(self, name: str, target: object, arguments: Mapping[str, Any], run: Callable[[], _T]) -> _T:
        """What ``run`` measures, recorded with the arguments as the test gave them; in a replay what it measured."""
        return self._keeper.workload(self._item, name, target, arguments, run)

    def _part(self, measurement: Any) -> None:
        """Have a part of a workload that goes on recorded at once: a kill must not cost it."""
        self._keeper.part_measured(self._item, measurement)

    def _kept(self, measurement: _M) -> _M:
        """The measurement, its conditions kept with the test as its verdicts will be."""
        of = self._keeper.measured_as(self._item)
        self._item.user_properties.append((MEASUREMENT_PROPERTY, str(measurement)))
        for condition in measurement.conditions:
            self._item.user_properties.append((CONDITION_PROPERTY, condition))
        tell_measurement(self._item, measurement)
        return dataclasses.replace(
            measurement,
            on_verdict=functools.partial(self._keep_verdict, of=of),
            on_comparison=functools.partial(tell_comparison, self._item),
        )

    def _keep_verdict(self, verdict: Any, *, of: str | None = None) -> None:
        self._item.user_properties.extend(verdict_properties(verdict))
        tell_verdict(self._item, verdict)
        self._keeper.verdict(self._item, verdict, of)


class Preparing(_WorkloadCall):
    """How the volumes of a test are initialised and files laid out: at the run's pace, with its live line."""

    _doing = ""

    @property
    def pace(self) -> Pace:
        """The run's pace."""
        return self._pace()

    def live(self, name: str) -> AbstractContextManager[Callable[[Any], None] | None]:
        """Show on the live line, behind that name, how far fio is; nothing where no live line is wanted."""
        return self._live_line(name, _with_time_left)

    def host(self, address: str, **how: Any) -> HostConnection:
        """A host by SSH, with HostConnection's arguments; what happens on it is recorded, or replayed."""
        host = self._keeper.host(self._item, address, **how)
        host.check_region = self._config.stash.get(CHECK_REGION, None)
        return host

    def done(self, name: str, target: Any, run: Callable[[], _T]) -> _T:
        """Have a target prepared by ``run`` and return what that gives; recorded, or replayed."""
        return self._keeper.prepared(self._item, name, target, run)

    def step(self, name: str) -> AbstractContextManager[None]:
        """A step of the test, for its report."""
        return step(self._item, name)

    def launched(self, instance: Any, cloud: Any) -> None:
        """The test's new instance, for its report."""
        tell_instance(self._item, instance, cloud)


class FioCall(_WorkloadCall):
    """The ``fio`` fixture's value: a call runs one fio job and returns its measurement."""

    def __call__(self, target: Target, *, rw: str, bs: str | int = "4k", **options: Any) -> Measurement:
        """Run fio on ``target`` and return what it measured.

        Options are FioJob's (iodepth, numjobs, runtime and ramp_time in seconds, size, rwmixread, rate_iops
        and rate as totals ...) and any other of fio's own, checked before the run. Raises BadFioJob for what
        cannot be asked, FioRefused with fio's words for what it would not do.
        """
        from pytest_cloudbench.workloads.fio.job import FioJob
        from pytest_cloudbench.workloads.fio.run import run_fio

        job = FioJob.of(rw, bs, **options)
        with self._live_line(f"fio {job.rw} {job.bs}", _with_time_left, on=target) as show:
            measurement = self._measured(
                "fio",
                target,
                {"rw": rw, "bs": bs, **options},
                lambda: run_fio(target, job, pace=self._pace(), on_progress=show),
            )
        return self._kept(measurement)


def _with_time_left(progress: Progress) -> str:
    left = f", {progress.eta_s:.0f} s left" if progress.eta_s is not None else ""
    return f"{progress}{left}"


class Iperf3Call(_WorkloadCall):
    """The ``iperf3`` fixture's value: a call runs iperf3 between two instances and returns its measurement."""

    def __call__(self, path: NetworkPath, *unnamed: object, **options: Any) -> NetworkMeasurement:
        """Run iperf3 from the client to the server of ``path`` and return what it measured.

        Options are Iperf3Job's (streams, duration and omit in seconds, reverse, bidirectional, udp, bitrate,
        mss, window ...), checked before the run. Raises BadIperf3Job for what cannot be asked; an error about a
        run that broke off carries what was measured until then.
        """
        from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job, Iperf3Interrupted
        from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
        from pytest_cloudbench.workloads.iperf3.run import run_iperf3

        if unnamed:
            given = ", ".join(repr(value) for value in unnamed)
            raise BadIperf3Job(
                f"iperf3({path!r}, {given}): options are given by name, such as streams=5, duration=30 or "
                "bitrate='1 Gbit/s'"
            )
        job = Iperf3Job.of(**options)
        try:
            with self._live_line(f"iperf3 {job}", on=path) as show:
                measurement = self._measured(
                    "iperf3",
                    path,
                    options,
                    lambda: run_iperf3(path, job, pace=self._pace(), on_progress=show),
                )
        except Iperf3Interrupted as broken_off:
            broken_off.measurement = self._kept(broken_off.measurement)
            raise
        return self._kept(measurement)
