"""What a recorder hears of tests: from pytest, and of their steps. Nothing before the first one is recorded."""

from __future__ import annotations

import pytest

from pytest_cloudbench.evidence.recorder import Recorder
from pytest_cloudbench.reports.listeners import Listener


class RecorderHooks:
    """Tells a recorder how tests and their phases begin and end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Another attempt of a test has a record of its own."""
        self._recorder.begin_setup(item)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a phase ended."""
        self._recorder.phase(report)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Close the test's record: what other plugins had to attach is there."""
        self._recorder.end_attempt(nodeid)


class RecordedSteps(Listener):
    """Has the steps of tests recorded, as the reports are told of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def step(
        self, item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
    ) -> None:
        """Record it, with what ended it early."""
        self._recorder.step(item, name, started_s, ended_s, error)
