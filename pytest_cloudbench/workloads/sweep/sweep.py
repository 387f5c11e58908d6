"""Run a sweep: check it, find the maximum by a closed loop, then run open-loop steps at shares of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, Size, figure
from pytest_cloudbench.reports.plots.kinds import curve_plots
from pytest_cloudbench.verdicts.wording import duration
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.options import fio_of
from pytest_cloudbench.workloads.fio.space import check_is_target, check_target
from pytest_cloudbench.workloads.measurement import Measurement
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.sweep.command import SizedPath, check_kernel_room
from pytest_cloudbench.workloads.sweep.curve import Curve, Step
from pytest_cloudbench.workloads.sweep.errors import BadSweep, SweepBroken, SweepInterrupted
from pytest_cloudbench.workloads.sweep.plan import START_STOP_S, SweepPlan, within_room
from pytest_cloudbench.workloads.sweep.runs import Load, Runs
from pytest_cloudbench.workloads.sweep.status import Totals
from pytest_cloudbench.workloads.target import Target
from pytest_cloudbench.workloads.workload import Workload

_FACTS_SCRIPT = """\
cat /proc/sys/fs/aio-max-nr /proc/sys/fs/aio-nr
for each; do
    if [ -b "$each" ]; then blockdev --getsize64 "$each"; else stat -L -c %s -- "$each"; fi
done
"""


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep: run ``number`` of ``of``, its requested rate, the last second, the longest time left.

    ``percent`` and ``asked`` are None during the run for the maximum.
    """

    number: int
    of: int
    percent: float | None
    asked: Iops | None
    iops: float
    latency_s: float | None
    left_s: float

    def __str__(self) -> str:
        what = "maximum" if self.asked is None else f"{figure(self.percent or 0)} % = {self.asked}"
        at = f" at {duration(self.latency_s)}" if self.latency_s is not None else ""
        return f"{self.number} of {self.of}, {what}: {self.iops:,.0f} IOPS{at}, {self.left_s:.0f} s left"


def run_sweep(
    target: Target,
    plan: SweepPlan,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[SweepProgress], None] | None = None,
    on_run: Callable[[Measurement], None] | None = None,
) -> Curve:
    """Run ``plan`` on ``target`` and return its curve.

    on_progress: called about once a second. on_run: called with the measurement of each run, the maximum first.

    Raises BadSweep, TargetError or the errors of target.prove_writable() before anything starts; the errors of fio and
    of the host during the run for the maximum; SweepBroken with the measured steps after it. Ctrl-C raises
    SweepInterrupted with the measured steps.
    """
    plan, changed = plan.paced(pace)
    runs, conditions = _prepared(target, plan, changed)
    clock = _Clock(plan, on_progress)
    curve: Curve | None = None
    try:
        maximum, _ = runs.run(Load(plan.times_of(None)), clock.begin(None, None))
        if on_run is not None:
            on_run(maximum)
        curve = Curve(plan.mix, plan.threads, len(runs.paths), maximum, (), conditions)
        for percent in plan.steps:
            asked = Iops(maximum.iops * percent / 100)
            load = Load(plan.times_of(percent), percent, asked)
            step = Step(percent, asked, *runs.run(load, clock.begin(percent, asked)))
            curve = dataclasses.replace(curve, steps=(*curve.steps, step))
            if on_run is not None:
                on_run(step.measurement)
            if (late := _past_limit(plan, step)) is not None:
                return dataclasses.replace(curve, conditions=(*conditions, late))
    except KeyboardInterrupt:
        raise SweepInterrupted(curve) from None
    except Exception as error:
        if curve is None:
            raise
        raise SweepBroken(f"the sweep failed at {percent:g} %: {error}", curve) from error
    return curve


def _prepared(target: Target, plan: SweepPlan, changed: tuple[str, ...]) -> tuple[Runs, tuple[str, ...]]:
    """Check the target, read its facts once, and return the runs and the conditions of every measurement."""
    check_is_target(target)
    if target.kind == "directory":
        raise BadSweep(
            f"a sweep runs on devices or one prefilled file, not on the directory {target.label}: use the volume "
            "itself, or the result of prefilled('20g')"
        )
    check_target(
        target,
        FioJob(
            rw=plan.mix.pattern, bs=plan.mix.largest_block, iodepth=plan.threads, overwrite=plan.overwrite
        ),
    )
    fio = fio_of(target.host)
    result = target.host.run(
        ["sh", "-c", _FACTS_SCRIPT, "sh", *target.paths], sudo=target.kind == "block", idempotent=True
    )
    most, used, *sizes = (int(line) for line in result.stdout.split())
    check_kernel_room(plan.threads * len(target.paths), most, used)
    sets = [plan.working_set.on(Size(size), plan.mix, plan.threads) for size in sizes]
    conditions = (*target.conditions, *changed)
    room = (
        target.room() if plan.mix.writes and target.kind == "block" else None
    )  # a prefilled file is already allocated
    cut = within_room(sets, room, plan.mix, plan.threads)
    if cut is not None:
        conditions += (
            f"working set of {plan.working_set} of each device reduced to {cut}: the machine behind the devices stores "
            "written data",
        )
        sets = [min(each, cut) for each in sets]
    factor = target.time_compression
    if factor != 1:
        conditions += (f"time compressed {factor:g} times: each second of a step stands for {factor:g}",)
    paths: tuple[SizedPath, ...] = tuple(zip(target.paths, sets, strict=True))
    return Runs(target, plan.mix, plan.threads, paths, fio, conditions), conditions


def _past_limit(plan: SweepPlan, step: Step) -> str | None:
    latency = step.latency
    if plan.latency_limit_s is None or latency is None or latency.mean_s <= plan.latency_limit_s:
        return None
    return (
        f"stopped after {step.percent:g} %: mean latency {duration(latency.mean_s)} exceeds the limit of "
        f"{duration(plan.latency_limit_s)}"
    )


class _Clock:
    """Reports the progress of the sweep and the longest time left, once a second."""

    def __init__(self, plan: SweepPlan, on_progress: Callable[[SweepProgress], None] | None) -> None:
        self._plan = plan
        self._on_progress = on_progress
        self._number = 0

    def begin(self, percent: float | None, asked: Iops | None) -> Callable[[Totals], None] | None:
        """Begin the next run; return the function that takes its totals once a second."""
        self._number += 1
        on_progress = self._on_progress
        if on_progress is None:
            return None
        plan, number, began = self._plan, self._number, time.monotonic()
        length_s = plan.times_of(percent).length_s + START_STOP_S
        after_s = plan.length_s(number)

        def second(lately: Totals) -> None:
            both = lately.both
            left_s = max(0.0, length_s - (time.monotonic() - began)) + after_s
            on_progress(
                SweepProgress(
                    number,
                    1 + len(plan.steps),
                    percent,
                    asked,
                    both.ios / max(lately.seconds, 1e-3),
                    both.mean_s,
                    left_s,
                )
            )

        return second


SWEEP = Workload(
    "sweep",
    parse=SweepPlan.of,
    run=run_sweep,
    describe=lambda plan: plan.mix.name,
    plots=curve_plots,
    writes=None,
)
