"""Compare a session with earlier ones: each measurement with those of the same workload in the same test.

A pytest plugin, registered with ``--cloudbench-baseline``. With ``--cloudbench-regression`` each measurement is judged
when its test has ended, without a change to the test.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.evidence.baseline import (
    DIRECTIONS,
    Baseline,
    NoBaseline,
    observed_in,
    parts_of,
    plain_nodeid,
)
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.places import evidence_at
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.setups import InstanceFacts, setup_of
from pytest_cloudbench.options import OF_A_TEST, options_in_force, parse_regression, path_option, setting
from pytest_cloudbench.reports.comparisons import is_same_run
from pytest_cloudbench.reports.hooks import call_hook
from pytest_cloudbench.reports.properties import REPEATED, add_condition, add_not_compared
from pytest_cloudbench.session.keeper import REQUESTED
from pytest_cloudbench.verdicts.not_worse_than import Earlier, not_worse_if_known
from pytest_cloudbench.verdicts.verdict import Inconclusive, Outcome, Verdict, judging

if TYPE_CHECKING:
    from pytest_cloudbench.resources.instance import Instance

_GATE: pytest.StashKey[Gate] = pytest.StashKey()
_MEASURED: pytest.StashKey[MeasuredByTest] = pytest.StashKey()
OF_A_TEST.append(_MEASURED)
_WORKER_KEY = "cloudbench_baseline"


class Regression(AssertionError):
    """A measurement is worse than those of earlier runs."""


class MeasuredByTest:
    """What a test has measured until now: each measurement with its request; the instances used."""

    def __init__(self) -> None:
        self.instances: list[InstanceFacts] = []
        self.region = ""
        self.runs: list[tuple[Any, dict[str, Any], int]] = []
        self.judged: set[tuple[int, str]] = set()

    def add(self, measurement: Any, asked: dict[str, Any]) -> None:
        """Add a measurement with its number, from 0, among equal requests of the test."""
        key = asked["name"], asked["arguments"]
        same = [each for _, each, _ in self.runs if (each["name"], each["arguments"]) == key]
        self.runs.append((measurement, asked, len(same)))


class Gate:
    """Compares a session with earlier runs; ``by`` is the allowed regression, None without an automatic gate."""

    def __init__(self, baseline: Baseline, by: float | None) -> None:
        self.baseline = baseline
        self.by = by

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin each attempt with nothing measured."""
        item.stash[_MEASURED] = MeasuredByTest()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Instance, cloud: Any) -> None:
        """Remember an instance as a condition of what the test measures."""
        image = instance.launched.image
        found = item.stash[_MEASURED]
        found.instances.append(
            InstanceFacts(
                str(instance.type),
                str(instance.zone),
                str(getattr(image, "name", "") or ""),
                bool(instance.launched.earlier_tests),
            )
        )
        found.region = f"{cloud.label} {cloud.region}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_measurement(self, item: pytest.Item, measurement: Any) -> None:
        """Remember a measurement and its request."""
        if (requested := item.stash.get(REQUESTED, None)) is not None:
            item.stash[_MEASURED].add(measurement, requested.plain())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge what a test has measured when it ends. A regression fails the test, even one about to be skipped."""
        try:
            result = yield
        except (Inconclusive, pytest.skip.Exception):
            _fail_if_worse(self._judge(item))
            raise
        except (Exception, pytest.fail.Exception):
            self._judge(item)
            raise
        verdicts = self._judge(item)
        if REPEATED not in item.stash:  # no single verdict fails a repeat: all repeats are judged together
            _fail_if_worse(verdicts)
        for verdict in verdicts:
            if not verdict:  # raises if it is inconclusive
                raise Regression(verdict.sentence)
        return result

    def earlier_than(self, item: pytest.Item, measurement: Any) -> Earlier:
        """Return the earlier runs of a measurement that this test made."""
        for run in item.stash[_MEASURED].runs:
            part = _part_of(run[0], measurement)
            if part is not None:
                item.stash[_MEASURED].judged.add((id(run[0]), part))
                return self._earlier(item, *run, parts=(part,))[part]
        return Earlier(missing="this measurement was not made by a fixture of this test")

    def _judge(self, item: pytest.Item) -> list[Verdict]:
        """Compare each measurement of a test with earlier ones and report the verdicts."""
        if self.by is None:
            return []
        measured, verdicts = item.stash[_MEASURED], []
        for measurement, asked, nth in measured.runs:
            try:
                observed = {
                    part: observed_in(measurement, part)
                    for part in parts_of(measurement)
                    if (id(measurement), part) not in measured.judged
                }
            except ValueError as error:  # created files that did not wait for their device
                add_not_compared(item, f"{measurement}: {error}")
                continue
            for part, earlier in self._earlier(item, measurement, asked, nth, parts=tuple(observed)).items():
                if not earlier.runs and not self.baseline.knows(item.nodeid):
                    add_not_compared(item, f"{measurement}: {earlier.missing}")
                    continue
                verdict = judging(not_worse_if_known)(observed[part], earlier, by=self.by)
                if not isinstance(verdict, str) and "latency_s" in verdict.details and REPEATED in item.stash:
                    # It decides in some repeats only, so repeats would combine verdicts on different measurements.
                    verdict = (
                        "repeats of a job that sets its own rate need a figure: run.latency.at_most(...)"
                    )
                if isinstance(verdict, str):
                    add_not_compared(item, f"{measurement}: {verdict}")
                    continue
                call_hook(item, "verdict", verdict=verdict, measurement=measurement)
                verdicts.append(verdict)
        return verdicts

    def _earlier(
        self, item: pytest.Item, measurement: Any, asked: dict[str, Any], nth: int, *, parts: Sequence[str]
    ) -> dict[str, Earlier]:
        measured = item.stash[_MEASURED]
        setup = setup_of(measurement, measured.instances, measured.region)
        earlier = self.baseline.earlier(item.nodeid, asked, setup, nth, parts=parts) if parts else {}
        for why in sorted(self.baseline.unread.get(plain_nodeid(item.nodeid), ())):
            add_condition(item, f"not compared with an earlier run: {why}")
        return earlier


class BaselineRuns:
    """The value of the ``baseline`` fixture: ``run.not_worse_than(baseline, by="5%")``."""

    __test__ = False

    def __init__(self, gate: Gate | None, item: pytest.Item) -> None:
        self._gate = gate
        self._item = item

    def earlier_than(self, measurement: Any) -> Earlier:
        """Return the earlier runs of a measurement of this test."""
        if self._gate is None:
            return Earlier(missing="no baseline was given: add --cloudbench-baseline=PATH")
        return self._gate.earlier_than(self._item, measurement)

    def __repr__(self) -> str:
        return f"<baseline: {self._gate.baseline if self._gate else 'none'}>"


def baseline_of(item: pytest.Item) -> BaselineRuns:
    """Return the baseline of a test."""
    return BaselineRuns(item.config.stash.get(_GATE, None), item)


def open_gate(config: pytest.Config) -> None:
    """Find the earlier runs and register the gate. Raises pytest.UsageError if none is comparable."""
    replayed = setting(config, "replay")
    try:
        sent = getattr(config, "workerinput", {}).get(_WORKER_KEY)
        if sent is None:

            def warn(text: str) -> None:
                config.issue_config_time_warning(
                    pytest.PytestWarning(f"--cloudbench-baseline: {text}"), stacklevel=2
                )

            folders = evidence_at(_places(config), warn, lambda each: path_option(config, "baseline", each))
        else:
            folders = [Path(each) for each in sent]
        but = str(Evidence(path_option(config, "replay")).run["run"]) if replayed else ""
        baseline = Baseline(folders, options_in_force(config), but=but)
    except EvidenceError as error:
        raise pytest.UsageError(f"--cloudbench-baseline: {error}") from None
    gate = config.stash[_GATE] = Gate(baseline, parse_regression(setting(config, "regression")))
    config.pluginmanager.register(gate, "cloudbench-gate")


def header_of(config: pytest.Config) -> str | None:
    """Return the header line that names the earlier runs; None without a gate."""
    gate = config.stash.get(_GATE, None)
    if gate is None:
        return None
    judged = "" if gate.by is None else f"; at most {gate.by * 100:g} % worse allowed"
    return f"cloudbench baseline: {gate.baseline}{judged}"


def send_to_worker(node: Any) -> None:
    """Send a worker of pytest-xdist the folders of the earlier runs, so that it need not look for them."""
    gate = node.config.stash.get(_GATE, None)
    if gate is not None:
        node.workerinput[_WORKER_KEY] = [str(run.root) for run in gate.baseline.runs]


def _places(config: pytest.Config) -> list[str]:
    given = [each.strip() for each in setting(config, "baseline").split(",")]
    if not all(given):
        raise NoBaseline(
            f"{setting(config, 'baseline')!r} names an empty path: separate paths by single commas"
        )
    return given


def _fail_if_worse(verdicts: list[Verdict]) -> None:
    worse = [verdict for verdict in verdicts if verdict.outcome is Outcome.VIOLATED]
    if worse and not all(worse):  # in a repeat every verdict is true: repeats are judged together
        raise Regression("\n".join(verdict.sentence for verdict in worse)) from None


def _part_of(whole: Any, judged: Any) -> str | None:
    """Return the part of ``whole`` that a test judges, "" for all of it; None if it judges another measurement."""
    if is_same_run(whole, judged):
        return ""
    if getattr(whole, "directions", ()):
        return next((part for part in DIRECTIONS if is_same_run(getattr(whole, part), judged)), None)
    return None
