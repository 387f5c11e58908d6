"""Hooks to implement in a ``conftest.py`` or a plugin: for reports on what tests measure, and for providers.

The plugin's own reports (Allure, pytest-benchmark's table, the recorded evidence, the properties in JUnit XML) use
the same hooks. An implementation takes only the arguments that it names. With pytest-xdist a hook is called in the
worker that runs the test ``item``. An error in an implementation becomes the warning `ReportIncomplete`, never a
failed test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_cloudbench.reports.plots.picture import Picture
    from pytest_cloudbench.resources.instance import Instance
    from pytest_cloudbench.resources.provider import Provider
    from pytest_cloudbench.verdicts.verdict import Verdict


@pytest.hookspec
def pytest_cloudbench_instance(item: pytest.Item, instance: Instance, cloud: Any) -> None:
    """Called when an instance of the test is running and reachable.

    :param instance: the instance, with its type, zone and, later on, its volumes.
    :param cloud: the control plane it was launched in, with ``region`` and ``endpoint``.
    """


@pytest.hookspec
def pytest_cloudbench_step(
    item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
) -> None:
    """Called when a step of the test has ended, such as a launch or the run of a workload.

    Steps nest: an inner step ends, and is reported, before the outer one.

    :param name: what was done, such as "run fio randread 4 KiB".
    :param started_s: when it began, in seconds since the epoch.
    :param ended_s: when it ended, in seconds since the epoch.
    :param error: the exception that ended it early, or None.
    """


@pytest.hookspec
def pytest_cloudbench_partial_measurement(item: pytest.Item, measurement: Any) -> None:
    """Called when a part of a running workload is complete, such as one step of a sweep.

    :param measurement: what the part measured.
    """


@pytest.hookspec
def pytest_cloudbench_measurement(
    item: pytest.Item, measurement: Any, pictures: Callable[[], Sequence[Picture]]
) -> None:
    """Called when a workload has returned a measurement, before the test receives it.

    A workload that failed early reports what it measured until then. A sweep reports its maximum here and its curve
    to `pytest_cloudbench_curve`.

    :param measurement: a ``Measurement``, ``NetworkMeasurement``, ``FileCreation`` or a plugin's own kind.
    :param pictures: draws the pictures that the workload declares, each with ``name``, ``svg`` and ``png``. It raises
        ImportError without matplotlib.
    """


@pytest.hookspec
def pytest_cloudbench_curve(item: pytest.Item, curve: Any, pictures: Callable[[], Sequence[Picture]]) -> None:
    """Called when a sweep has returned its curve of latency over load.

    :param curve: the ``Curve``, with its steps.
    :param pictures: as for `pytest_cloudbench_measurement`.
    """


@pytest.hookspec
def pytest_cloudbench_verdict(item: pytest.Item, verdict: Verdict, measurement: Any) -> None:
    """Called for every verdict, also one that the test does not assert.

    :param verdict: the verdict: its outcome, sentence, figures and the limits that bind.
    :param measurement: what was judged: the object that `pytest_cloudbench_measurement` or
        `pytest_cloudbench_curve` was called with.
    """


@pytest.hookspec
def pytest_cloudbench_comparison(
    item: pytest.Item, runs: Sequence[Any], labels: Sequence[str], title: str
) -> None:
    """Called when a test compares measurements, or curves, with each other.

    :param runs: the measurements or curves, in the order of the comparison.
    :param labels: a name for each run, or empty.
    :param title: a title for the comparison, or "".
    """


@pytest.hookspec(firstresult=True)
def pytest_cloudbench_provider(config: pytest.Config, name: str) -> Callable[[], Provider] | None:
    """Return a callable that opens the provider of this name, or None if the plugin does not know the name.

    Called before anything is collected, if ``--cloudbench-cloud`` is neither "embedded" nor "aws". The first test that
    needs the cloud calls the callable without arguments: a class derived from ``Provider``, or a function. With
    pytest-xdist each worker opens its own. A ``conftest.py`` with this hook must lie in the root folder of the tests.

    :param name: the value of ``--cloudbench-cloud``.
    """


@pytest.hookspec
def pytest_cloudbench_provider_names(config: pytest.Config) -> Iterable[str]:  # type: ignore[empty-body]
    """Return the names that `pytest_cloudbench_provider` knows, for the message about an unknown one."""
