"""The result of one attempt of a test as allure-pytest keeps it until it ends, and what is added to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.reports import tested_on
from pytest_cloudbench.reports.allure.console_links import console_host, instance_link, volume_link
from pytest_cloudbench.reports.allure.labels import (
    LABELS,
    default_labels,
    marked_labels,
    readable,
    uses_cloudbench,
)
from pytest_cloudbench.reports.allure.outcome import LABEL, TestOutcome, marked
from pytest_cloudbench.reports.comparisons import ComparedRuns

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict


@dataclass
class Attempt:
    """What one attempt of a test has told so far.

    result: allure-pytest's own. began: seconds since the epoch. instances: each with the endpoint and the region
    of its control plane. times_s: begin and end of this plugin's steps by their identity, finer than the milliseconds
    of the result. shown: whether the result is complete but for its outcome.
    """

    result: Any
    began: float
    instances: list[tuple[Any, str, str]] = field(default_factory=list)
    measurements: list[Any] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    curves: list[Any] = field(default_factory=list)
    comparisons: list[ComparedRuns] = field(default_factory=list)
    times_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    outcome: TestOutcome | None = None
    shown: bool = False


def is_ours(item: pytest.Item, told: Attempt) -> bool:
    """Whether the test has anything to do with this plugin."""
    return bool(told.instances or told.measurements or told.verdicts) or uses_cloudbench(item)


def mark(told: Attempt, error: BaseException, outcome: TestOutcome | None) -> None:
    """Say in the result what became of the test that ``error`` ended.

    What is no assertion of the test's is "broken", also where it was shortened to a sentence for people.
    """
    from allure_commons.model2 import Label, Status, StatusDetails

    if outcome is None:
        return
    told.outcome = outcome
    details = told.result.statusDetails or StatusDetails()
    details.trace = marked(details.trace, outcome)
    told.result.statusDetails = details
    told.result.labels.append(Label(LABEL, outcome.word))
    if told.result.status == Status.FAILED and not isinstance(error, AssertionError | pytest.fail.Exception):
        told.result.status = Status.BROKEN


def add_labels(item: pytest.Item, told: Attempt) -> None:
    """File it, where the test does not file itself by allure's own decorators or calls."""
    from allure_commons.model2 import Label
    from allure_pytest.utils import allure_labels  # type: ignore[import-untyped]

    theirs = {name for name, _ in allure_labels(item)} | {label.name for label in told.result.labels}
    instances = [instance for instance, _, _ in told.instances]
    said = {**default_labels(item, instances, judged=bool(told.verdicts)), **marked_labels(item)}
    told.result.labels.extend(
        Label(name, said[name]) for name in LABELS if name in said and name not in theirs
    )


def make_readable(item: pytest.Item, told: Attempt) -> None:
    """Write the test's parameters as people say them, and add on what it ran."""
    from allure_commons.model2 import Parameter
    from allure_commons.utils import represent

    callspec = getattr(item, "callspec", None)
    params: Mapping[str, Any] = callspec.params if callspec is not None else {}
    for parameter in told.result.parameters:
        value = params.get(parameter.name)
        if parameter.name in params and parameter.value == represent(value):  # type: ignore[no-untyped-call]
            parameter.value = readable(value)
    present = {parameter.name for parameter in told.result.parameters}
    ran_on = tested_on.parameters([each for each, _, _ in told.instances])
    for name, values in ran_on.items():
        if values and name not in present:
            # Excluded: they say on what it ran, and a test keeps its history when that changes.
            told.result.parameters.append(Parameter(name=name, value=", ".join(values), excluded=True))


def add_links(told: Attempt) -> None:
    """Link the CloudWatch console, where there is one behind the endpoint."""
    from allure_commons.model2 import Link
    from allure_commons.types import LinkType

    now = time.time()
    networked = any(hasattr(measurement, "streams") for measurement in told.measurements)
    for instance, endpoint, region in told.instances:
        host = console_host(endpoint, region)
        if host is None:
            continue
        urls = {
            f"CloudWatch: {instance.type} {instance.id}": instance_link(
                host, region, instance.id, told.began, now, network=networked
            )
        }
        for volume in instance.volumes:
            urls[f"CloudWatch: {volume.label}"] = volume_link(host, region, volume.id, told.began, now)
        told.result.links.extend(Link(LinkType.LINK, url, name) for name, url in urls.items())


def add_step(
    reporter: Any,
    told: Attempt,
    name: str,
    times_s: tuple[float, float],
    *,
    status: str,
    said: str | None,
) -> None:
    """Add a step that has ended, into the step of the test's own that is open, if any.

    times_s: begin and end in seconds since the epoch. A step is told when it ends: what began and ended within it
    was told before, and is moved into it.
    """
    from allure_commons.model2 import StatusDetails, TestStepResult

    step = TestStepResult(
        name=name,
        status=status,
        statusDetails=StatusDetails(message=said) if said is not None else None,
        start=round(times_s[0] * 1000),
        stop=round(times_s[1] * 1000),
    )
    inside = reporter.get_last_item(TestStepResult)
    steps = (inside if inside is not None else told.result).steps
    if step.stop > step.start:
        within = [each for each in steps if _lies_within(each, step, told.times_s.get(id(each)), times_s)]
        for each in within:
            steps.remove(each)
            step.steps.append(each)
    steps.append(step)
    told.times_s[id(step)] = times_s


def _lies_within(
    each: Any, step: Any, its_s: tuple[float, float] | None, times_s: tuple[float, float]
) -> bool:
    """Whether a step was part of another. One of the test's own is known to the millisecond only, and one that began
    in the same as the other may as well have ended before it."""
    if its_s is not None:
        return its_s[0] >= times_s[0] and its_s[1] <= times_s[1]
    return bool(each.start > step.start and each.stop and each.stop <= step.stop)
