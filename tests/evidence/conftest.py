"""Sessions of pytest that record: fio is a stand-in, the evidence is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import recorded_runs

# Loaded here so that the sessions inside these tests do not load them again: classes would exist twice.
import pytest_cloudbench.session.recording
import pytest_cloudbench.session.replaying
import pytest_cloudbench.workloads.fio.run  # noqa: F401

QUIET = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:allure_pytest")

Session = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester) -> Session:
    """Run a test file in a session with a stand-in for fio: ``session(body, *options)``."""
    pytester.makeconftest(recorded_runs.STANDS_IN)

    def run(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=f"from conftest import ran, rates\n\n{body}")
        return pytester.runpytest_inprocess(*QUIET, *options, no_reraise_ctrlc=True)

    return run


@pytest.fixture
def recorded(session: Session, pytester: pytest.Pytester) -> Path:
    """Record two tests with three measurements and two verdicts. Return the evidence folder."""
    result = session(
        """
def test_it_reaches(volume, fio):
    run = fio(volume, rw="randread", iodepth=16, runtime=300)
    assert run.reaches("3,000 IOPS")
    assert run.reaches("2,900 IOPS")


def test_two_of_them(volume, fio):
    rates[:] = [3_000.0, 2_000.0, 1_000.0]
    assert [fio(volume, rw="randread").iops for _ in range(2)] == [2_000.0, 1_000.0]
""",
        "--cloudbench-evidence=evidence",
    )
    result.assert_outcomes(passed=2)
    return pytester.path / "evidence"
