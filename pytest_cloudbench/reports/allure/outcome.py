"""What became of a test, in the four words of Allure's categories, and how its result carries the word.

Allure tells categories apart by the status, the message and the trace of a result. Messages and traces hold what
users write, so no word in them says anything. Instead the first line of the trace of every test that did not pass
is one that this plugin writes, and only its very beginning is looked at; a trace of another test that begins like
that is moved down by a line (`guarded`). Allure 2 (Java, the whole trace must match) and Allure 3 (JavaScript, a
part is enough) read the patterns alike.
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
"""What the first line of the trace begins with."""
LABEL = "cloudbench.outcome"
"""Name of the label that carries the same word."""


class TestOutcome(Enum):
    """What became of a test that did not pass: the word, and the name of its category."""

    __test__ = False

    VIOLATED = ("violated", "Promise violated")
    INCONCLUSIVE = ("inconclusive", "Inconclusive")
    INFRASTRUCTURE = ("infrastructure", "Infrastructure trouble")
    BROKEN = ("broken", "Test broken")

    @property
    def word(self) -> str:
        """The word in the mark and the label."""
        return str(self.value[0])

    @property
    def category(self) -> str:
        """The category's name in the report."""
        return str(self.value[1])


_DESCRIPTIONS = {
    TestOutcome.VIOLATED: "The measurement was made and does not show what was promised.",
    TestOutcome.INCONCLUSIVE: "The measurement was made and can decide neither for nor against the promise.",
    TestOutcome.INFRASTRUCTURE: "The measurement could not be made: the cloud, a host or a tool failed.",
    TestOutcome.BROKEN: "The test itself is wrong, or failed for a reason that is not about a promise.",
}

_FOREIGN = frozenset({"botocore", "boto3", "paramiko", "fabric", "urllib3"})


def outcome_of(error: BaseException, verdicts: Sequence[Verdict], *, measured: bool) -> TestOutcome | None:
    """The outcome of a phase of a test that ``error`` ended; None where that was a skip for other reasons.

    A failed assertion is a violated promise when a verdict of the test said so, or when it judged the figures of
    a measurement itself, without any verdict.
    """
    from pytest_cloudbench.verdicts.verdict import Inconclusive, Outcome

    if isinstance(error, pytest.skip.Exception):
        # The plugin skips a test in the place of its inconclusive verdict.
        return TestOutcome.INCONCLUSIVE if isinstance(error.__context__, Inconclusive) else None
    if isinstance(error, Inconclusive):
        return TestOutcome.INCONCLUSIVE
    if isinstance(error, AssertionError | pytest.fail.Exception):
        said = [verdict.outcome for verdict in verdicts]
        if Outcome.VIOLATED in said or (measured and not said):
            return TestOutcome.VIOLATED
        return TestOutcome.BROKEN
    return TestOutcome.INFRASTRUCTURE if _blames_infrastructure(error) else TestOutcome.BROKEN


def _blames_infrastructure(error: BaseException) -> bool:
    if isinstance(error, RequestError | ValueError | TypeError | LookupError):
        return False
    foreign = type(error).__module__.partition(".")[0] in _FOREIGN
    return foreign or isinstance(error, InfrastructureError | ConnectionError | TimeoutError)


def marked(trace: str | None, outcome: TestOutcome) -> str:
    """The trace with the outcome as its first line."""
    return f"{MARK}{outcome.word}\n{trace or ''}"


def guarded(trace: str | None) -> str | None:
    """The trace of a test that this plugin has nothing to say of: never one that begins with the mark."""
    return f"\n{trace}" if trace is not None and trace.startswith(MARK) else trace


def categories() -> list[dict[str, Any]]:
    """The categories as categories.json holds them."""
    return [
        {
            "name": outcome.category,
            "description": _DESCRIPTIONS[outcome],
            "traceRegex": f"^{MARK}{outcome.word}\n.*",
        }
        for outcome in TestOutcome
    ]
