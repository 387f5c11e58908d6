"""The verdicts of a test as they are read back out of its report's properties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pytest_cloudbench.reports.verdict_properties import (
    ASKED,
    BOUND_BY,
    CONDITION_PROPERTY,
    COST_PROPERTY,
    MEASURED,
    OUTCOME,
    PROMISE,
    VERDICT_PROPERTY,
    Property,
)

_CLAIMS = ("reaches", "capped by", "drops to")
"""How a promise begins that is wholly said by its figure."""


@dataclass
class JudgedPromise:
    """A verdict as texts: what is not known is empty."""

    sentence: str
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The outcome's word."""
        return self.parts.get(OUTCOME) or self.sentence.partition(":")[0]

    @property
    def promised(self) -> str:
        """The promise in few words: "80,000 IOPS", "capped by 2,264.98 MiB/s", "steady within 5 %"."""
        promise, asked = self.parts.get(PROMISE, ""), self.parts.get(ASKED, "")
        claim = next((claim for claim in _CLAIMS if promise.startswith(f"{claim} ")), None)
        if claim is None or not asked:
            return promise or asked
        share = promise.rpartition(" for ")[2] if promise.endswith(" of the time") else ""
        words = [*([claim] if claim != _CLAIMS[0] else []), asked, *([f"for {share}"] if share else [])]
        return " ".join(words)

    @property
    def measured(self) -> str:
        """The figure that was judged."""
        return self.parts.get(MEASURED, "")

    @property
    def bound_by(self) -> str:
        """The ceilings that held the load back."""
        return self.parts.get(BOUND_BY, "")


def judged_promises(properties: Iterable[Property]) -> list[JudgedPromise]:
    """The verdicts in a test's properties, in their order."""
    found: list[JudgedPromise] = []
    for name, value in properties:
        if name == VERDICT_PROPERTY:
            found.append(JudgedPromise(str(value)))
        elif found and name in (OUTCOME, PROMISE, ASKED, MEASURED, BOUND_BY):
            found[-1].parts[name] = str(value)
    return found


def conditions_in(properties: Iterable[Property]) -> list[str]:
    """The conditions of a test's measurements, each once."""
    return list(dict.fromkeys(str(value) for name, value in properties if name == CONDITION_PROPERTY))


def cost_in(properties: Iterable[Property]) -> str:
    """What the test cost, "" where that is not known."""
    return next((str(value) for name, value in properties if name == COST_PROPERTY), "")
