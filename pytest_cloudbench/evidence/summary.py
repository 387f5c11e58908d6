"""The verdicts of a run, listed at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VERDICT_PROPERTY = "cloudbench.verdict"
"""Name of the user property under which a test keeps each verdict's sentence (also in JUnit XML)."""

CONDITION_PROPERTY = "cloudbench.condition"
"""Name of the user property for what was done otherwise than the test says, such as a shortened run."""

_COLOURS = {"held": "green", "violated": "red", "inconclusive": "yellow"}


def write_verdicts(terminal: pytest.TerminalReporter) -> None:
    """Write each test's verdicts and the conditions of its measurements; nothing when there are none or with -q.

    A test that asserts plain figures has conditions without a verdict: they are shown all the same.
    """
    if terminal.verbosity < 0:
        return
    rows = [
        (report.nodeid, report.user_properties)
        for reports in terminal.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        and any(name in (VERDICT_PROPERTY, CONDITION_PROPERTY) for name, _ in report.user_properties)
    ]
    if not rows:
        return
    terminal.write_sep("=", "cloudbench verdicts")
    for nodeid, properties in rows:
        terminal.write_line(nodeid)
        for sentence in (value for name, value in properties if name == VERDICT_PROPERTY):
            outcome = str(sentence).partition(":")[0]
            terminal.write_line(f"  {sentence}", **{_COLOURS.get(outcome, "white"): True})
        conditions = dict.fromkeys(str(value) for name, value in properties if name == CONDITION_PROPERTY)
        if conditions:
            terminal.write_line(f"  ({'; '.join(conditions)})")
