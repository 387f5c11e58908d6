"""Add measurements to pytest-benchmark's table and JSON. Imported only if pytest-benchmark is active.

They are added when the session ends, before pytest-benchmark saves, compares and judges. This also works with
pytest-xdist, which disables pytest-benchmark's own timing: a load on other hosts is not disturbed by tests on this
machine. Only a test's last attempt counts. With ``--benchmark-disable`` and ``--benchmark-skip`` nothing is added.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cloudbench.options import cloud_in_use
from pytest_cloudbench.reports.allure.labels import readable, uses_cloudbench
from pytest_cloudbench.reports.benchmark.rounds import rounds_of
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.tested_on import Facts, add, of_instance

MACHINE = "cloudbench"
"""Key of the instances and region in machine_info."""
_WORKER_ROWS = "cloudbench_benchmarks"
_LONG = frozenset({"series", "streams", "directions", "raw_files"})

Row = dict[str, Any]


def join_benchmark(config: pytest.Config) -> None:
    """Add the session's measurements to pytest-benchmark's."""
    config.pluginmanager.register(BenchmarkTable(config), "cloudbench-benchmark")


class BenchmarkTable:
    """Collects rows and hands them to pytest-benchmark. `join_benchmark` registers it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._machine: Facts = {}
        self._rows: dict[str, list[Row]] = {}
        self._compared: list[Mapping[str, Any]] = []

    # Hooks of this plugin ---------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Any, cloud: Any) -> None:
        """Remember the instance for machine_info."""
        add(self._machine, of_instance(instance, cloud))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_measurement(self, item: pytest.Item, measurement: Any) -> None:
        if self._wanted():
            with unharmed(f"the benchmark row of {item.nodeid}"):
                self._add_row(item, measurement)

    # Hooks of pytest --------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget the rows of an earlier attempt."""
        self._rows.pop(item.nodeid, None)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """With ``--benchmark-only``, keep tests that use this plugin's fixtures."""
        before = {id(item): list(item.own_markers) for item in items if uses_cloudbench(item)}
        yield
        if not self._option("benchmark_only"):
            return
        for item in items:
            if id(item) in before:
                item.own_markers[:] = [
                    mark
                    for mark in item.own_markers
                    if mark in before[id(item)]
                    or "--benchmark-only" not in str(mark.kwargs.get("reason", ""))
                ]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the rows of a worker of pytest-xdist that has ended."""
        output = getattr(node, "workeroutput", {}).get(_WORKER_ROWS)
        if output:
            add(self._machine, output["machine"])
            self._rows.update(output["rows"])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """Pass the rows on before pytest-benchmark saves and compares."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_WORKER_ROWS] = {"rows": self._rows, "machine": self._machine}
        elif self._rows and self._wanted():
            session = self._session()
            session.benchmarks.extend(_metadata(row) for rows in self._rows.values() for row in rows)
            self._say_other_machines(session)
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the instances and region; the rest of machine_info describes the machine that runs the tests."""
        if self._machine:
            machine_info[MACHINE] = self._described()

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_compare_machine_info(
        self, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
    ) -> Generator[None, Any, Any]:
        """Remember where saved results were measured. They are loaded before the launch, and compared at the end."""
        saved = compared_benchmark["machine_info"].get(MACHINE)
        if saved is None:
            return (yield)
        self._compared.append(saved)
        present = machine_info.get(MACHINE)
        machine_info[MACHINE] = saved
        try:
            return (yield)
        finally:
            if present is None:
                machine_info.pop(MACHINE)
            else:
                machine_info[MACHINE] = present

    # pytest-benchmark -------------------------------------------------------------------------------

    def _add_row(self, item: pytest.Item, measurement: Any) -> None:
        rounds = rounds_of(measurement)
        if rounds is None:
            return
        workload = str(getattr(measurement, "workload", "create_files"))
        rows = self._rows.setdefault(item.nodeid, [])
        before = sum(row["workload"] == workload for row in rows)
        suffix = f" {workload}" + (f" #{before + 1}" if before else "")
        callspec = getattr(item, "callspec", None)
        rows.append(
            {
                "workload": workload,
                "name": f"{item.name}{suffix}",
                "fullname": f"{item.nodeid}{suffix}",
                "group": _group(item, rounds.operation),
                "param": callspec.id if callspec is not None else None,
                "params": {name: readable(value) for name, value in callspec.params.items()}
                if callspec is not None
                else None,
                "seconds": list(rounds.seconds),
                "iterations": rounds.operations,
                "extra_info": {"seconds_per": rounds.operation, **_extra(measurement)},
            }
        )

    def _described(self) -> dict[str, str]:
        cloud = "AWS" if cloud_in_use(self._config) == "aws" else "embedded region"
        return {"cloud": cloud, **{name: ", ".join(values) for name, values in self._machine.items()}}

    def _session(self) -> Any:
        return getattr(self._config, "_benchmarksession", None)

    def _option(self, name: str) -> bool:
        return bool(self._config.getoption(name, False))

    def _wanted(self) -> bool:
        disabled = self._option("benchmark_disable") and not self._option("benchmark_enable")
        skipped = self._option("benchmark_skip") and not self._option("benchmark_only")
        return not disabled and not skipped and self._session() is not None

    def _say_other_machines(self, session: Any) -> None:
        now = self._described()
        for saved in self._compared:
            other = [
                f"{name} {saved[name]} then, {now[name]} now"
                for name in now
                if name in saved and saved[name] != now[name] and name != "machine"
            ]
            if other:
                session.logger.warning(f"Compared with a measurement made elsewhere: {'; '.join(other)}.")


def _group(item: pytest.Item, operation: str) -> str:
    marker = item.get_closest_marker("benchmark")
    named = marker.kwargs.get("group") if marker is not None else None
    return str(named) if named else f"seconds per {operation}"


def _extra(measurement: Any) -> dict[str, Any]:
    """Return the other fields of a measurement, without those that would make a saved run megabytes large."""
    return {name: value for name, value in measurement.to_dict().items() if name not in _LONG}


def _metadata(row: Row) -> Any:
    from pytest_benchmark.stats import Metadata

    fixture = SimpleNamespace(**row, cprofile_stats=None, has_error=False, skipped=False)
    made: Any = Metadata(fixture, iterations=row["iterations"], options={})  # type: ignore[no-untyped-call]
    for seconds in row["seconds"]:
        made.stats.update(seconds)
    return made
