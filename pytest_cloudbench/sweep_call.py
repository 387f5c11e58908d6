"""The value of the ``sweep`` fixture: a call sweeps the load on a target and returns the curve."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.evidence.listeners import tell_comparison, tell_curve
from pytest_cloudbench.workload_calls import _WorkloadCall

if TYPE_CHECKING:
    from pytest_cloudbench.promises.quantities import Size
    from pytest_cloudbench.workloads.sweep.curve import Curve
    from pytest_cloudbench.workloads.sweep.mixes import Mix
    from pytest_cloudbench.workloads.target import Target


class SweepCall(_WorkloadCall):
    """The ``sweep`` fixture's value: a call runs a load sweep and returns its curve."""

    def __call__(
        self,
        target: Target,
        mix: str | Mix = "4k-random-read",
        *,
        threads: int = 32,
        steps: Iterable[float] = range(10, 130, 10),
        latency_limit: str | None = None,
        working_set: str | Size = "12%",
        **times: int,
    ) -> Curve:
        """Find the maximum of ``mix`` on ``target``, then put open-loop steps at shares of it on the target.

        ``mix`` is a name (of ours, or of the project's cloudbench-mixes.toml) or a Mix. ``threads`` I/Os are kept in
        flight on each device. ``steps`` are per cent of the maximum, 1 to 200. ``latency_limit`` ("20ms") ends the
        sweep after the first step whose mean latency is past it. ``working_set`` is how much of each device is gone
        over. Times in seconds: step_time and maximum_time (60 each, at most: a run ends once it is steady) and
        ramp_time (5), which is not measured.

        A mix that writes destroys what is on the target. Raises BadSweep for what cannot be asked, before anything is
        started; SweepBroken and SweepInterrupted carry the steps done as ``curve``.
        """
        from pytest_cloudbench.workloads.sweep.errors import BadSweep, SweepBroken, SweepInterrupted
        from pytest_cloudbench.workloads.sweep.mix_file import FILE_NAME, read_mixes
        from pytest_cloudbench.workloads.sweep.named_mixes import find_mix
        from pytest_cloudbench.workloads.sweep.plan import TIMES, SweepPlan
        from pytest_cloudbench.workloads.sweep.sweep import run_sweep

        if unknown := [name for name in times if name not in TIMES]:
            raise BadSweep(f"sweep has no {unknown[0]}=: its times are {', '.join(TIMES)}")
        found = find_mix(mix, read_mixes(self._beside_settings() / FILE_NAME))
        steps = tuple(steps) if isinstance(steps, Iterable) else steps
        asked: dict[str, Any] = {
            "threads": threads,
            "steps": steps,
            "latency_limit": latency_limit,
            "working_set": working_set,
            **times,
        }
        plan = SweepPlan.of(found, **asked)
        try:
            with self._live_line(f"sweep {found.name}", on=target) as show:
                curve = self._measured(
                    "sweep",
                    target,
                    {"mix": found.name, **asked},
                    lambda: run_sweep(target, plan, pace=self._pace(), on_progress=show, on_run=self._part),
                )
        except (SweepBroken, SweepInterrupted) as ended:
            if ended.curve is not None:
                ended.curve = self._kept_curve(ended.curve)
            if isinstance(ended, SweepInterrupted):
                self._show(str(ended))
            raise
        return self._kept_curve(curve)

    def plot(
        self, *curves: Curve, to: str | Path, labels: Sequence[str] = (), title: str = ""
    ) -> tuple[Path, Path]:
        """Draw one curve or several, with their ceilings and knees, as SVG and PNG; both paths.

        ``to`` is a file name, whose ending does not matter. Raises PlotsMissing, naming the extra, without matplotlib.
        """
        from pytest_cloudbench.evidence.curve_plot import plot_curves

        return plot_curves(*curves, to=to, labels=labels, title=title)

    def _kept_curve(self, curve: Curve) -> Curve:
        """The curve, its peak reported as a measurement; conditions and all verdicts are kept with the test."""
        maximum = self._kept(dataclasses.replace(curve.maximum, conditions=curve.conditions))
        told: dict[str, Any] = {
            "on_verdict": functools.partial(self._keep_verdict, of=self._keeper.measured_as(self._item)),
            "on_comparison": functools.partial(tell_comparison, self._item),
        }
        steps = tuple(
            dataclasses.replace(step, measurement=dataclasses.replace(step.measurement, **told))
            for step in curve.steps
        )
        curve = dataclasses.replace(curve, maximum=maximum, steps=steps, **told)
        tell_curve(self._item, curve)
        return curve

    def _beside_settings(self) -> Path:
        """Where pytest's ini file lies, else its root directory."""
        inipath = self._config.inipath
        return inipath.parent if inipath is not None else self._config.rootpath

    def _show(self, text: str) -> None:
        """Write lines of its own on the terminal: an interrupted test has no report that could carry them."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            for line in text.splitlines():
                reporter.write_line(line)
