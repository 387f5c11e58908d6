"""What allure-pytest's results say of a test's measurements. Only imported while ``--alluredir`` is given.

A test's result is completed when its teardown begins, while its instances are still there, and once more when it has
ended: labels, parameters, links, and the attachments, verdicts before everything else. Each attempt of a test has
a result of its own, which allure-pytest writes in the process that ran it; the files beside the results are
written by the one process that runs the session (under pytest-xdist the controller, told by its workers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.reports import tested_on
from pytest_cloudbench.reports.allure import files as allure_files
from pytest_cloudbench.reports.allure.attachments import attach_all
from pytest_cloudbench.reports.allure.labels import marked_labels
from pytest_cloudbench.reports.allure.outcome import guarded, outcome_of
from pytest_cloudbench.reports.allure.result import (
    Attempt,
    add_labels,
    add_links,
    add_step,
    is_ours,
    make_readable,
    mark,
)
from pytest_cloudbench.reports.comparisons import ComparedRuns
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.plots.picture import PlotsMissing, check_can_draw
from pytest_cloudbench.reports.properties import of_cloudbench
from pytest_cloudbench.verdicts.verdict import judging_since

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

_WORKER_FACTS = "cloudbench_tested_on"


_WORKER = "workerinput"
"""What pytest-xdist gives a worker's configuration, and only a worker's."""


def join_allure(config: pytest.Config, run: Callable[[], dict[str, str]]) -> None:
    """Complete allure-pytest's results in this session, where it writes any; ``run`` is asked for `of_run`'s facts."""
    if config.pluginmanager.hasplugin("allure_pytest") and config.getoption("allure_report_dir", None):
        config.pluginmanager.register(AllureReport(config, run), "cloudbench-allure")


class AllureReport:
    """Completes allure-pytest's results. `join_allure` registers it."""

    def __init__(self, config: pytest.Config, run: Callable[[], dict[str, str]]) -> None:
        self._config = config
        self._run = run
        self._folder = Path(config.getoption("allure_report_dir")).absolute()
        self._attempt: tuple[pytest.Item, Attempt] | None = None
        self._facts: dict[str, list[str]] = {}
        self._files_written = False

    # What a test tells ------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Any, cloud: Any) -> None:
        """Note it for labels, links and the environment."""
        endpoint, region = (getattr(cloud, name, None) for name in ("endpoint", "region"))
        told = self._of(item)
        if told is not None:
            told.instances.append((instance, _text(endpoint), _text(region)))
        tested_on.add(self._facts, tested_on.of_instance(instance, cloud))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_measurement(self, item: pytest.Item, measurement: Any) -> None:
        """Keep it until the test's end, when its verdicts are known."""
        told = self._of(item)
        if told is not None:
            told.measurements.append(measurement)
        tested_on.add(self._facts, tested_on.of_measurement(measurement))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_curve(self, item: pytest.Item, curve: Any) -> None:
        """Keep it beside its peak."""
        if (told := self._of(item)) is not None:
            told.curves.append(curve)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_comparison(
        self, item: pytest.Item, runs: Sequence[Any], labels: Sequence[str], title: str
    ) -> None:
        """Keep what is to be seen in one picture."""
        if (told := self._of(item)) is not None:
            told.comparisons.append(ComparedRuns(tuple(runs), tuple(labels), title))

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_verdict(self, item: pytest.Item, verdict: Verdict) -> None:
        """Keep it, and show judging as a step, for as long as it took."""
        told = self._of(item)
        if told is None:
            return
        told.verdicts.append(verdict)
        now = time.time()
        began = judging_since() or now
        status = {"held": "passed", "violated": "failed"}.get(verdict.outcome.value, "skipped")
        add_step(
            self._reporter(),
            told,
            f"judge: {verdict.promise or 'promise'}",
            (began, now),
            status=status,
            said=verdict.sentence,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_step(
        self, item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
    ) -> None:
        """Show it with its times."""
        told = self._of(item)
        if told is not None:
            said = None if error is None else f"{type(error).__name__}: {error}"
            add_step(
                self._reporter(),
                told,
                name,
                (started_s, ended_s),
                status="passed" if error is None else "broken",
                said=said,
            )

    # What pytest tells ------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Let pytest's own word that a fixture has ended be no step of its teardown.

        allure-pytest makes steps of all finalizers, but with this one, the first registered and the last to run, it
        writes the result: such a step is shown without an end, as of unknown outcome.
        """
        finalizers = getattr(fixturedef, "_finalizers", [])
        first = finalizers[0] if finalizers else None
        try:
            return (yield)
        finally:
            if getattr(first, "__name__", "") == "<lambda>":
                finalizers[0] = first

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Another attempt begins; allure-pytest has begun its result."""
        reporter = self._reporter()
        result = reporter.get_test(None) if reporter is not None else None
        self._attempt = (item, Attempt(result, time.time())) if result is not None else None
        try:
            marked_labels(item)
        except ValueError as wrong:  # said before anything is launched
            pytest.fail(str(wrong), pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Everything is measured and the instances are still there."""
        told = self._of(item)
        if told is not None and is_ours(item, told):
            with unharmed(f"the Allure result of {item.nodeid}"):
                self._complete(item, told)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say in the result what became of the test, once allure-pytest has said how it ended."""
        error = call.excinfo.value if call.excinfo is not None else None  # before it is shortened for people
        report = yield
        told = self._of(item)
        if told is None:
            return report
        details = told.result.statusDetails
        if not is_ours(item, told):
            if details is not None:
                details.trace = guarded(details.trace)
        elif (
            error is not None
            and not report.passed
            and not hasattr(report, "wasxfail")
            and told.outcome is None
        ):
            mark(told, error, outcome_of(error, told.verdicts, measured=bool(told.measurements)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the files beside the results as soon as there is a result: a killed run has them too."""
        properties = getattr(report, "user_properties", ())
        ours = of_cloudbench(properties) or bool(self._facts)
        if ours and not self._files_written and not hasattr(self._config, _WORKER):
            self._write_files()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of pytest-xdist has ended: take over what it tested on."""
        told = getattr(node, "workeroutput", {}).get(_WORKER_FACTS)
        if told:
            tested_on.add(self._facts, told)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Write, or tell the controller, what the session was tested on."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_WORKER_FACTS] = self._facts
        elif self._facts or self._files_written:
            self._write_files()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say once what the report lacks and how to have it."""
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
        """Where allure-pytest keeps what it has not written yet; None while it is not set up."""
        listener = self._config.pluginmanager.get_plugin("allure_listener")
        return getattr(listener, "allure_logger", None)

    def _complete(self, item: pytest.Item, told: Attempt) -> None:
        if told.shown:
            return
        told.shown = True
        add_labels(item, told)
        make_readable(item, told)
        add_links(told)
        attach_all(self._reporter(), told, self._cleaner())

    def _cleaner(self) -> Any:
        """What removes secrets, as from the evidence: this run's own where it is recorded."""
        from pytest_cloudbench.evidence.cleaner import Cleaner
        from pytest_cloudbench.evidence.recorder import recorder_of

        recorder = recorder_of(self._config)
        return recorder.cleaner if recorder is not None else Cleaner()

    def _write_files(self) -> None:
        self._files_written = True
        with unharmed(f"the files beside the results in {self._folder}"):
            allure_files.write_categories(self._folder)
            allure_files.write_executor(self._folder)
            facts = {**tested_on.of_run(**self._run()), **self._facts}
            allure_files.write_environment(self._folder, facts)


def _text(value: object) -> str:
    """A text, and "" for whatever a control plane that only answers from a record gives in its place."""
    return value if isinstance(value, str) else ""
