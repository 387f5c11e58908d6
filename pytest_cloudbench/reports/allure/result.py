"""Additions to the result of one attempt of a test, which allure-pytest holds until the test ends."""

from __future__ import annotations

import html
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.reports import tested_on
from pytest_cloudbench.reports.allure.console_links import console_links
from pytest_cloudbench.reports.allure.labels import (
    LABELS,
    default_labels,
    marked_labels,
    readable,
    uses_cloudbench,
)
from pytest_cloudbench.reports.allure.outcome import LABEL, TestOutcome, marked
from pytest_cloudbench.reports.comparisons import ComparedRuns
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.properties import COST_PROPERTY, texts_in
from pytest_cloudbench.reports.verdict_tables import HEADS, overview

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

_MOST_ROWS = 40
"""More verdicts, as in a search, are only counted: nobody reads a table of a hundred rows."""
_COLOURS = {"held": "#1a7f37", "violated": "#cf222e", "inconclusive": "#9a6700"}
_CELL = "padding:4px 14px 4px 4px;text-align:left;vertical-align:top;border-bottom:1px solid #8884"
_QUOTED = f'"{_CELL}"'

Pictures = Callable[[], Sequence[Picture]]
"""Draws the pictures of a measurement."""


@dataclass
class Attempt:
    """What is known of one attempt of a test so far.

    ``result`` is allure-pytest's own. ``began`` is in seconds since the epoch. ``instances`` have the endpoint and
    region of their provider. ``pictures`` draw those of each measurement. ``times_s`` are begin and end of this
    plugin's steps by their id(), more precise than the milliseconds of the result. ``shown`` is True when the result is
    complete except for its outcome.
    """

    result: Any
    began: float
    instances: list[tuple[Any, str, str]] = field(default_factory=list)
    measurements: list[Any] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    pictures: list[Pictures] = field(default_factory=list)
    curves: list[tuple[Any, Pictures]] = field(default_factory=list)
    comparisons: list[ComparedRuns] = field(default_factory=list)
    times_s: dict[int, tuple[float, float]] = field(default_factory=dict)
    outcome: TestOutcome | None = None
    shown: bool = False


def is_ours(item: pytest.Item, attempt: Attempt) -> bool:
    """Return whether the test concerns this plugin."""
    return bool(attempt.instances or attempt.measurements or attempt.verdicts) or uses_cloudbench(item)


def mark(attempt: Attempt, error: BaseException, outcome: TestOutcome | None) -> None:
    """Add the outcome of the test that ``error`` ended to its result.

    An error that is not an assertion makes the status "broken", also if it was shortened to a sentence for users.
    """
    from allure_commons.model2 import Label, Status, StatusDetails

    if outcome is None:
        return
    attempt.outcome = outcome
    details = attempt.result.statusDetails or StatusDetails()
    details.trace = marked(details.trace, outcome)
    attempt.result.statusDetails = details
    attempt.result.labels.append(Label(LABEL, outcome.word))
    if attempt.result.status == Status.FAILED and not isinstance(
        error, AssertionError | pytest.fail.Exception
    ):
        attempt.result.status = Status.BROKEN


def add_labels(item: pytest.Item, attempt: Attempt) -> None:
    """Add labels that the test does not set itself by Allure's decorators or calls."""
    from allure_commons.model2 import Label
    from allure_pytest.utils import allure_labels  # type: ignore[import-untyped]

    theirs = {name for name, _ in allure_labels(item)} | {label.name for label in attempt.result.labels}
    instances = [instance for instance, _, _ in attempt.instances]
    said = {**default_labels(item, instances, judged=bool(attempt.verdicts)), **marked_labels(item)}
    attempt.result.labels.extend(
        Label(name, said[name]) for name in LABELS if name in said and name not in theirs
    )


def make_readable(item: pytest.Item, attempt: Attempt) -> None:
    """Make the test's parameters readable, and add its instances and volumes."""
    from allure_commons.model2 import Parameter
    from allure_commons.utils import represent

    callspec = getattr(item, "callspec", None)
    params: Mapping[str, Any] = callspec.params if callspec is not None else {}
    for parameter in attempt.result.parameters:
        value = params.get(parameter.name)
        if parameter.name in params and parameter.value == represent(value):  # type: ignore[no-untyped-call]
            parameter.value = readable(value)
    present = {parameter.name for parameter in attempt.result.parameters}
    ran_on = tested_on.parameters([each for each, _, _ in attempt.instances])
    ran_on["cost"] = texts_in(item.user_properties, COST_PROPERTY)
    for name, values in ran_on.items():
        if values and name not in present:
            # Excluded from the test's identity, so that its history continues on other hardware.
            attempt.result.parameters.append(Parameter(name=name, value=", ".join(values), excluded=True))


def describe(attempt: Attempt) -> None:
    """Put the verdicts of a test, and the conditions under which it measured, before its own description."""
    result = attempt.result
    parts = [_table(attempt.verdicts)] if attempt.verdicts else []
    conditions = [line for each in attempt.measurements for line in getattr(each, "conditions", ())]
    if noted := [html.escape(each) for each in dict.fromkeys(conditions)]:
        parts.append(f"<p>Conditions: {'; '.join(noted)}</p>")
    if not parts:
        return
    if result.descriptionHtml:
        parts.append(result.descriptionHtml)
    elif result.description:
        own = html.escape(inspect.cleandoc(result.description))
        parts.append(f'<p style="white-space:pre-wrap">{own}</p>')
    result.descriptionHtml = "".join(parts)


def _table(verdicts: Sequence[Verdict]) -> str:
    head = "".join(f'<th style="{_CELL}">{name}</th>' for name in HEADS)
    rows = "".join(map(_row, overview(verdicts[:_MOST_ROWS])))
    more = len(verdicts) - _MOST_ROWS
    rest = f"<p>and {more} more verdicts: see the figures behind the verdicts</p>" if more > 0 else ""
    return f'<table style="border-collapse:collapse"><tr>{head}</tr>{rows}</table>{rest}'


def _row(cells: Sequence[str]) -> str:
    word, *others = map(html.escape, cells)
    outcome = f'<b style="color:{_COLOURS.get(word, "inherit")}">{word}</b>'
    return f"<tr>{''.join(f'<td style={_QUOTED}>{cell}</td>' for cell in (outcome, *others))}</tr>"


def add_links(attempt: Attempt) -> None:
    """Link the CloudWatch console, if the endpoint has one."""
    from allure_commons.model2 import Link
    from allure_commons.types import LinkType

    times_s = attempt.began, time.time()
    networked = any(hasattr(measurement, "streams") for measurement in attempt.measurements)
    for instance, endpoint, region in attempt.instances:
        links = console_links(instance, endpoint, region, times_s, network=networked)
        attempt.result.links.extend(Link(LinkType.LINK, url, name) for name, url in links.items())


def add_step(
    reporter: Any,
    attempt: Attempt,
    name: str,
    times_s: tuple[float, float],
    *,
    status: str,
    said: str | None,
) -> None:
    """Add a finished step to the test's own open step, or to the result if none is open.

    ``times_s`` are begin and end in seconds since the epoch. Steps are reported at their end, so steps within this one
    were added earlier, and are moved into it.
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
    steps = (inside if inside is not None else attempt.result).steps
    if step.stop > step.start:
        within = [each for each in steps if _lies_within(each, step, attempt.times_s.get(id(each)), times_s)]
        for each in within:
            steps.remove(each)
            step.steps.append(each)
    steps.append(step)
    attempt.times_s[id(step)] = times_s


def _lies_within(
    each: Any, step: Any, its_s: tuple[float, float] | None, times_s: tuple[float, float]
) -> bool:
    """Return True if the step ``each`` was part of ``step``.

    The times of a test's own steps are known only to the millisecond. If both began in the same millisecond, ``each``
    may have ended before ``step`` began, so it does not count.
    """
    if its_s is not None:
        return its_s[0] >= times_s[0] and its_s[1] <= times_s[1]
    return bool(each.start > step.start and each.stop and each.stop <= step.stop)
