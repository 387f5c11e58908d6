"""The outcome of a test as one of four words, each an Allure category, and how the test's result carries it.

Allure finds the category of a result by status, message and trace. Messages and traces are written by users, so their
words prove nothing. Therefore this plugin writes the first line of the trace of every test that did not pass, and the
patterns match only its start. If the trace of another test starts like that, it is moved down by a line (`guarded`).
Allure 2 (Java, the whole trace must match) and Allure 3 (JavaScript, a part is enough) read the patterns alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cloudbench.errors import InfrastructureError, RequestError

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

MARK = "cloudbench outcome: "
"""Start of the first line of the trace."""
LABEL = "cloudbench.outcome"
"""Name of the label that carries the same word."""


class TestOutcome(Enum):
    """The outcome of a test that did not pass: the word, and the name of its category."""

    __test__ = False

    VIOLATED = ("violated", "Promise violated")
    INCONCLUSIVE = ("inconclusive", "Inconclusive")
    INFRASTRUCTURE = ("infrastructure", "Infrastructure trouble")
    BROKEN = ("broken", "Test broken")

    def __init__(self, word: str, category: str) -> None:
        self.word = word
        self.category = category


_DESCRIPTIONS = {
    TestOutcome.VIOLATED: "The measurement was made and does not show what was promised.",
    TestOutcome.INCONCLUSIVE: "The measurement was made and can decide neither for nor against the promise.",
    TestOutcome.INFRASTRUCTURE: "The measurement could not be made: the cloud, a host or a tool failed.",
    TestOutcome.BROKEN: "The test itself is wrong, or failed for a reason that is not about a promise.",
}

_FOREIGN = frozenset({"botocore", "boto3", "paramiko", "fabric", "urllib3"})


def outcome_of(error: BaseException, verdicts: Sequence[Verdict], *, measured: bool) -> TestOutcome | None:
    """Return the outcome of a phase of a test that ``error`` ended; None for a skip without an inconclusive verdict.

    A failed assertion is a violated promise if a verdict of the test was violated. A test's own assertion about what
    it measured is such a verdict too (`reports.asserted`). ``pytest.fail`` is a violated promise if the test measured
    something and has no verdict.
    """
    from pytest_cloudbench.verdicts.verdict import Inconclusive, Outcome

    if isinstance(error, pytest.skip.Exception):
        # The plugin turned an inconclusive verdict into a skip.
        return TestOutcome.INCONCLUSIVE if isinstance(error.__context__, Inconclusive) else None
    if isinstance(error, Inconclusive):
        return TestOutcome.INCONCLUSIVE
    if isinstance(error, AssertionError | pytest.fail.Exception):
        said = [verdict.outcome for verdict in verdicts]
        failed = measured and not said and isinstance(error, pytest.fail.Exception)
        if Outcome.VIOLATED in said or failed:
            return TestOutcome.VIOLATED
        return TestOutcome.BROKEN
    return TestOutcome.INFRASTRUCTURE if _blames_infrastructure(error) else TestOutcome.BROKEN


def _blames_infrastructure(error: BaseException) -> bool:
    if isinstance(error, RequestError | ValueError | TypeError | LookupError):
        return False
    foreign = type(error).__module__.partition(".")[0] in _FOREIGN
    return foreign or isinstance(error, InfrastructureError | ConnectionError | TimeoutError)


def marked(trace: str | None, outcome: TestOutcome) -> str:
    return f"{MARK}{outcome.word}\n{trace or ''}"


def guarded(trace: str | None) -> str | None:
    """Return the trace of a test that does not concern this plugin, changed if it starts with the mark."""
    return f"\n{trace}" if trace is not None and trace.startswith(MARK) else trace


def categories() -> list[dict[str, Any]]:
    """Return the content of categories.json."""
    return [
        {
            "name": outcome.category,
            "description": _DESCRIPTIONS[outcome],
            "traceRegex": f"^{MARK}{outcome.word}\n.*",
        }
        for outcome in TestOutcome
    ]
