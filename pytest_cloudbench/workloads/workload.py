"""A workload: how a test's call becomes a job, and how the job becomes a measurement.

fio, iperf3, create_files and sweep are declared this way, each at the end of its ``run`` module; a project declares
its own with `pytest_cloudbench.workload_fixture`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pytest_cloudbench.reports.plots.kinds import Plots, storage_plots
from pytest_cloudbench.workloads.errors import WorkloadRefused
from pytest_cloudbench.workloads.one_load import one_load
from pytest_cloudbench.workloads.target import prove_writable

M = TypeVar("M")
OnProgress = Callable[[Any], None]
"""Shows the progress on the live line, as its ``str()``."""


@dataclass(frozen=True)
class Workload(Generic[M]):
    """A kind of load that a test can put on a target.

    name: the word for it in reports and evidence; an identifier, such as "sysbench".
    parse: makes the job from the keyword arguments of the call, such as a dataclass. It raises `WorkloadRefused` or
    ValueError for a job that cannot be run; nothing has been started then.
    run: ``run(target, job, pace=pace, on_progress=show)`` puts the load on the target and returns the measurement, a
    dataclass with the fields ``conditions``, ``on_verdict`` and ``on_comparison``, such as `Measurement`. ``show`` is
    None if no progress is displayed. It raises `WorkloadFailed` if the measurement could not be made, with what was
    measured until then as ``measurement``.
    describe: the job in a few words, for the live line and the report.
    plots: the pictures of a measurement in reports, such as ``storage_plots``, which is the default, or
    ``lambda run: [*storage_plots(run), line_plot(...)]``.
    tools: programs that the target's host needs; a missing one is installed by the host's package manager.
    records: the workload's own dataclasses, enums and exceptions that evidence must restore. Records name them
    ``NAME.Class``, so keep these names.
    writes: whether a job writes to its target, so that a raw device is proven ours and empty first; by default every
    job does. None if ``run`` calls ``prove_writable`` of ``workloads.target`` itself.
    """

    name: str
    parse: Callable[..., Any]
    run: Callable[..., M]
    describe: Callable[[Any], str] = str
    plots: Plots = storage_plots
    tools: tuple[str, ...] = ()
    records: tuple[type[Any], ...] = ()
    writes: Callable[[Any], bool] | None = lambda job: True

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                f'invalid name of a workload {self.name!r}: use an identifier, such as "sysbench"'
            )

    def job(self, options: dict[str, Any]) -> Any:
        """Return the job of these options. Raises WorkloadRefused for an option that the workload does not have."""
        try:
            return self.parse(**options)
        except TypeError as error:
            raise WorkloadRefused(f"{self.name}: {error}") from error

    def measure(
        self,
        target: Any,
        job: Any,
        pace: Any,
        on_progress: OnProgress | None,
        *,
        overwrite: bool = False,
        concurrent: bool = False,
    ) -> M:
        """Run the job on the target, whose host gets the tools first, and return the measurement.

        Raises LoadRunning if another load uses the target, unless both are ``concurrent``. Raises WouldDestroy if the
        job would write to a raw device with content, unless ``overwrite``.
        """
        with one_load(target, concurrent=concurrent):
            if self.writes is not None and getattr(target, "kind", None) == "block" and self.writes(job):
                prove_writable(target, overwrite=overwrite)
            for tool in self.tools:
                target.host.ensure_tool(tool)
            return self.run(target, job, pace=pace, on_progress=on_progress)
