"""What a test's report carries of its measurements and verdicts: properties, plain texts in pairs.

They go into JUnit XML as they are, and through pytest-xdist to whoever sums the run up. Each verdict begins with its
sentence; what follows it up to the next one belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PREFIX = "cloudbench."

VERDICT_PROPERTY = "cloudbench.verdict"
"""Name of the user property under which a test keeps each verdict's sentence."""

CONDITION_PROPERTY = "cloudbench.condition"
"""Name of the user property for what was done otherwise than the test says, such as a shortened run."""

MEASUREMENT_PROPERTY = "cloudbench.measurement"
"""Name of the user property for each measurement, in one line."""

CLOUD_PROPERTY = "cloudbench.cloud"
"""Name of the user property that every test has which asks for an instance: where it measures."""

COST_PROPERTY = "cloudbench.cost"
"""Name of the user property for what a test cost, where prices are known; it comes with the teardown's report."""

OUTCOME, PROMISE, ASKED, MEASURED, BOUND_BY = (
    f"{_PREFIX}{name}" for name in ("outcome", "promise", "asked", "measured", "bound_by")
)

Property = tuple[str, Any]


def verdict_properties(verdict: Any) -> list[tuple[str, str]]:
    """The properties of a verdict, its sentence first; what it does not have is left out."""
    outcome = getattr(verdict, "outcome", None)
    parts: dict[str, Any] = {
        OUTCOME: getattr(outcome, "value", None),
        PROMISE: getattr(verdict, "promise", None),
        ASKED: getattr(verdict, "asked", None),
        MEASURED: getattr(verdict, "figure", None),
        BOUND_BY: "; ".join(str(ceiling) for ceiling in getattr(verdict, "bound_by", ())),
    }
    known = [(name, str(value)) for name, value in parts.items() if value not in (None, "")]
    return [(VERDICT_PROPERTY, str(verdict)), *known]


def of_cloudbench(properties: Sequence[Property]) -> bool:
    """Whether a test has measured or judged anything."""
    return any(str(name).startswith(_PREFIX) for name, _ in properties)


def forget_earlier_attempt(properties: list[Property]) -> None:
    """Take out what an earlier attempt of the same test has left, before it is run again."""
    properties[:] = [each for each in properties if not str(each[0]).startswith(_PREFIX)]
