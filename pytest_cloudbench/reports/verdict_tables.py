"""Verdicts as tables for people: one row each, and the figures behind each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_cloudbench.reports.named_figures import rows_of, side_by_side
from pytest_cloudbench.reports.pages import Section
from pytest_cloudbench.reports.properties import judged_promises, verdict_properties

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

HEADS = ("verdict", "promised", "measured", "limited by")


def overview(verdicts: Iterable[Verdict]) -> list[tuple[str, ...]]:
    """Return a row for each verdict, in the order of HEADS."""
    judged = (judged_promises(verdict_properties(verdict))[0] for verdict in verdicts)
    return [(each.outcome, each.promised, each.measured, each.bound_by) for each in judged]


def explained(verdict: Verdict) -> list[Section]:
    """Return the sentence of a verdict with the figures that it is based on, those of two runs side by side."""
    rows = [("promise", verdict.promise)]
    rows += [("asked", str(verdict.asked))] if verdict.asked is not None else []
    rows += [("measured", verdict.figure)] if verdict.figure else []
    rows += [("limited by", str(ceiling)) for ceiling in verdict.bound_by]
    rows += [("ceiling", str(line)) for line in verdict.details.get("envelope") or ()]
    heads, columns = side_by_side(verdict.details)
    compared = {name for name, each in verdict.details.items() if heads and isinstance(each, dict)}
    rows += rows_of(verdict.details, but=frozenset({"asked", "measured", *compared}))
    sections = [Section(verdict.sentence, ("figure", "value"), tuple(rows))]
    if heads:
        sections.append(Section("The runs side by side", ("figure", *heads), tuple(columns)))
    return sections
