"""Add a test's measurements to the results of allure-pytest. Imported only with ``--alluredir``.

A test's result gets labels, parameters, links and attachments when its teardown begins, while its instances exist,
and its outcome when it has ended. Each attempt of a test has its own result, which allure-pytest writes in the process
that ran it. The process that runs the session writes the files beside the results; with pytest-xdist this is the
controller, which receives the facts from its workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.reports import tested_on
from pytest_cloudbench.reports.allure import files as allure_files
from pytest_cloudbench.reports.allure.attachments import attach_all
from pytest_cloudbench.reports.allure.clean_results import clean_results
from pytest_cloudbench.reports.allure.labels import marked_labels, uses_cloudbench
from pytest_cloudbench.reports.allure.outcome import guarded, outcome_of
from pytest_cloudbench.reports.allure.result import (
    Attempt,
    Pictures,
    add_labels,
    add_links,
    add_step,
    describe,
    is_ours,
    make_readable,
    mark,
)
from pytest_cloudbench.reports.cleaned_output import cleaner_of, cleans_output
from pytest_cloudbench.reports.comparisons import ComparedRuns
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.plots.picture import PlotsMissing, check_can_draw
from pytest_cloudbench.reports.properties import of_cloudbench
from pytest_cloudbench.verdicts.verdict import judging_since

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

_WORKER_FACTS = "cloudbench_tested_on"


def join_allure(config: pytest.Config, run: Callable[[], dict[str, str]]) -> None:
    """Complete allure-pytest's results of this session, if it writes any; ``run`` returns the arguments of `of_run`."""
    if config.pluginmanager.hasplugin("allure_pytest") and config.getoption("allure_report_dir", None):
        config.pluginmanager.register(AllureReport(config, run), "cloudbench-allure")
        clean_results(lambda: cleaner_of(config) if cleans_output(config) else None)


class AllureReport:
    """Completes allure-pytest's results. `join_allure` registers it."""

    def __init__(self, config: pytest.Config, run: Callable[[], dict[str, str]]) -> None:
        self._config = config
        self._run = run
        self._folder = Path(config.getoption("allure_report_dir")).absolute()
        self._attempt: tuple[pytest.Item, Attempt] | None = None
        self._facts: dict[str, list[str]] = {}
        self._files_written = False
        self._hidden: set[str] = set()
        _remove_setups(config, self._hidden)

    # Hooks of this plugin ---------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Any, cloud: Any) -> None:
        """Remember the instance for labels, links and the environment."""
        endpoint, region = (getattr(cloud, name, None) for name in ("endpoint", "region"))
        attempt = self._of(item)
        if attempt is not None:
            attempt.instances.append((instance, _text(endpoint), _text(region)))
        tested_on.add(self._facts, tested_on.of_instance(instance, cloud))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_measurement(self, item: pytest.Item, measurement: Any, pictures: Pictures) -> None:
        """Remember the measurement until the test's end, when its verdicts are known."""
        attempt = self._of(item)
        if attempt is not None:
            attempt.measurements.append(measurement)
            attempt.pictures.append(pictures)
        tested_on.add(self._facts, tested_on.of_measurement(measurement))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_curve(self, item: pytest.Item, curve: Any, pictures: Pictures) -> None:
        if (attempt := self._of(item)) is not None:
            attempt.curves.append((curve, pictures))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_comparison(
        self, item: pytest.Item, runs: Sequence[Any], labels: Sequence[str], title: str
    ) -> None:
        """Remember runs that one picture will show."""
        if (attempt := self._of(item)) is not None:
            attempt.comparisons.append(ComparedRuns(tuple(runs), tuple(labels), title))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_verdict(self, item: pytest.Item, verdict: Verdict) -> None:
        """Remember the verdict, and add a step for the time that judging took."""
        attempt = self._of(item)
        if attempt is None:
            return
        attempt.verdicts.append(verdict)
        now = time.time()
        began = judging_since() or now
        status = {"held": "passed", "violated": "failed"}.get(verdict.outcome.value, "skipped")
        add_step(
            self._reporter(),
            attempt,
            f"judge: {verdict.promise or 'promise'}",
            (began, now),
            status=status,
            said=verdict.sentence,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_step(
        self, item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
    ) -> None:
        attempt = self._of(item)
        if attempt is not None:
            said = None if error is None else f"{type(error).__name__}: {error}"
            add_step(
                self._reporter(),
                attempt,
                name,
                (started_s, ended_s),
                status="passed" if error is None else "broken",
                said=said,
            )

    # Hooks of pytest --------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Keep pytest's own finalizer of a fixture out of the report, and hide fixtures that do not interest readers.

        allure-pytest turns all finalizers into steps. This one is registered first and runs last, when allure-pytest
        writes the result, so its step would have no end and an unknown outcome.
        """
        finalizers = getattr(fixturedef, "_finalizers", [])
        first = finalizers[0] if finalizers else None
        try:
            return (yield)
        finally:
            if getattr(first, "__name__", "") == "<lambda>":
                finalizers[0] = first
            of_ours = self._attempt is not None and uses_cloudbench(self._attempt[0])
            if of_ours and not _tells_readers(fixturedef, self._config.rootpath):
                self._hidden.add(fixturedef.argname)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt; allure-pytest has begun its result."""
        reporter = self._reporter()
        result = reporter.get_test(None) if reporter is not None else None
        self._attempt = (item, Attempt(result, time.time())) if result is not None else None
        try:
            marked_labels(item)
        except ValueError as wrong:  # before anything is launched
            pytest.fail(str(wrong), pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Complete the result: everything is measured, and the instances still exist."""
        attempt = self._of(item)
        if attempt is not None and is_ours(item, attempt):
            with unharmed(f"the Allure result of {item.nodeid}"):
                self._complete(item, attempt)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the outcome to the result after allure-pytest has set its status."""
        error = call.excinfo.value if call.excinfo is not None else None  # before it is shortened for people
        report = yield
        attempt = self._of(item)
        if attempt is None:
            return report
        details = attempt.result.statusDetails
        if not is_ours(item, attempt):
            if details is not None:
                details.trace = guarded(details.trace)
        elif (
            error is not None
            and not report.passed
            and not hasattr(report, "wasxfail")
            and attempt.outcome is None
        ):
            mark(attempt, error, outcome_of(error, attempt.verdicts, measured=bool(attempt.measurements)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the files beside the results with the first result, so that a killed run has them too."""
        properties = getattr(report, "user_properties", ())
        ours = of_cloudbench(properties) or bool(self._facts)
        if ours and not self._files_written and not hasattr(self._config, "workerinput"):
            self._write_files()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the facts of a worker of pytest-xdist that has ended."""
        facts = getattr(node, "workeroutput", {}).get(_WORKER_FACTS)
        if facts:
            tested_on.add(self._facts, facts)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Write the facts of the session, or send them to the controller."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_WORKER_FACTS] = self._facts
        elif self._facts or self._files_written:
            self._write_files()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report once that pictures are missing, and how to get them."""
        if not self._facts:
            return
        try:
            check_can_draw()
        except PlotsMissing as missing:
            terminalreporter.write_line(f"cloudbench: no pictures in {self._folder}: {missing}", yellow=True)

    def _of(self, item: pytest.Item) -> Attempt | None:
        if self._attempt is None or self._attempt[0] is not item:
            return None
        return self._attempt[1]

    def _reporter(self) -> Any:
        """Return the object in which allure-pytest holds unwritten results; None before it is set up."""
        listener = self._config.pluginmanager.get_plugin("allure_listener")
        return getattr(listener, "allure_logger", None)

    def _complete(self, item: pytest.Item, attempt: Attempt) -> None:
        if attempt.shown:
            return
        attempt.shown = True
        add_labels(item, attempt)
        make_readable(item, attempt)
        add_links(attempt)
        describe(attempt)
        attach_all(self._reporter(), attempt, cleaner_of(self._config))

    def _write_files(self) -> None:
        self._files_written = True
        with unharmed(f"the files beside the results in {self._folder}"):
            allure_files.write_categories(self._folder)
            allure_files.write_executor(self._folder)
            facts = {**tested_on.of_run(**self._run()), **self._facts}
            allure_files.write_environment(self._folder, facts)


def _remove_setups(config: pytest.Config, hidden: Collection[str]) -> None:
    """Remove setup and teardown of the fixtures ``hidden`` from allure's containers before they are written."""
    import allure_commons

    class Remover:
        @allure_commons.hookimpl(tryfirst=True)
        def report_container(self, container: Any) -> None:
            for rows in (container.befores, container.afters):
                rows[:] = [row for row in rows if row.name.partition("::")[0] not in hidden]

    remover = Remover()
    allure_commons.plugin_manager.register(remover)
    config.add_cleanup(lambda: allure_commons.plugin_manager.unregister(remover))


def _tells_readers(fixturedef: pytest.FixtureDef[Any], root: Path) -> bool:
    """Return False for private fixtures, and those of pytest and other plugins."""
    if fixturedef.argname.startswith("_"):
        return False
    if fixturedef.func.__module__.startswith("pytest_cloudbench."):
        return True
    code = getattr(fixturedef.func, "__code__", None)
    path = Path(code.co_filename) if code is not None else root
    return path.is_relative_to(root) and "site-packages" not in path.parts


def _text(value: object) -> str:
    """Return a text; "" for anything else, which a replayed provider may return."""
    return value if isinstance(value, str) else ""
