"""The list of a run's verdicts at its end: every sentence, then a table of all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_cloudbench.options import setting, where_and_pace
from pytest_cloudbench.reports.properties import (
    CONDITION_PROPERTY,
    COST_PROPERTY,
    MEASURED,
    NOT_COMPARED_PROPERTY,
    UNDECIDED_PROPERTY,
    VERDICT_PROPERTY,
    XFAILED,
    XFAILED_PROPERTY,
    judged_promises,
    phase_reports,
    texts_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_cloudbench.reports.properties import Property

_SHOWN = (VERDICT_PROPERTY, CONDITION_PROPERTY, NOT_COMPARED_PROPERTY)
_OF_ONE_REPEAT = (VERDICT_PROPERTY, NOT_COMPARED_PROPERTY, UNDECIDED_PROPERTY)
_REPEAT = re.compile(r"repeat \d+ of \d+\]\Z")
_COLOURS = {"held": "green", "violated": "red", "inconclusive": "yellow", XFAILED: "yellow"}


def write_verdicts(terminal: pytest.TerminalReporter) -> None:
    """Write each test's verdicts and the conditions of its measurements; with -q one line of totals, with -qq nothing.

    A sentence that a traceback above shows in full is left out. Conditions that all tests have are written once. A
    test that asserts plain figures has conditions without a verdict; they are shown too, but once for equal repeats.
    The table comes last, where users look first. The sentences above it say what its figures cannot.
    """
    reports = [
        report
        for report in phase_reports(terminal, "call")
        if any(name in _SHOWN for name, _ in report.user_properties)
    ]
    tests = [(report.nodeid, report.user_properties) for report in reports]
    if not tests or terminal.verbosity < -1:
        return
    if terminal.verbosity < 0:
        from pytest_cloudbench.reports.summary_table import totals

        everything = [judged for _, properties in tests for judged in judged_promises(properties)]
        if everything:
            terminal.write_line(
                f"cloudbench verdicts{_measured_where(terminal.config)}: {totals(everything)}"
            )
        return
    terminal.write_sep("=", f"cloudbench verdicts{_measured_where(terminal.config)}")
    conditions = [dict.fromkeys(texts_in(properties, CONDITION_PROPERTY)) for _, properties in tests]
    of_all = [text for text in conditions[0] if len(tests) > 1 and all(text in each for each in conditions)]
    above = _texts_above(terminal)
    shown = set()
    for report, own in zip(reports, conditions, strict=True):
        nodeid, properties = report.nodeid, report.user_properties
        if not any(name in _OF_ONE_REPEAT for name, _ in properties):
            same = _REPEAT.sub("", nodeid), tuple(own)
            if same in shown:
                continue
            shown.add(same)
        _write_test(terminal, report, above, of_all)
    if of_all:
        _write(terminal, f"in all tests: {'; '.join(of_all)}", indent="")
    _write_table(terminal, tests, costs_of(terminal))
    for line in shortcomings([properties for _, properties in tests]):
        _write(terminal, line, "yellow", indent="")


def _write_test(
    terminal: pytest.TerminalReporter,
    report: pytest.TestReport,
    above: str,
    of_all: Sequence[str],
) -> None:
    """Write a test's verdicts, except sentences in ``above``, and its conditions, except those ``of_all`` tests."""
    lines: list[tuple[str, str]] = []
    properties = report.user_properties
    for judged in judged_promises(properties):
        if judged.sentence not in above:
            lines.append(
                (f"{judged.subtest} {judged.sentence}".lstrip(), _COLOURS.get(judged.outcome, "white"))
            )
        if report.passed and (note := judged.note_if_passed()):
            lines.append((f"  {note}", "yellow"))
    for reason in texts_in(properties, XFAILED_PROPERTY):
        lines.append((f"xfailed, as expected{': ' * bool(reason)}{reason}", "yellow"))
    own = [text for text in dict.fromkeys(texts_in(properties, CONDITION_PROPERTY)) if text not in of_all]
    if own:
        lines.append((f"({'; '.join(own)})", ""))
    for why in texts_in(properties, NOT_COMPARED_PROPERTY):
        lines.append((f"not compared with earlier runs: {why}", "yellow"))
    for undecided in texts_in(properties, UNDECIDED_PROPERTY):
        lines.append((undecided, "yellow"))
    if lines:
        terminal.write_line(report.nodeid)
    for text, colour in lines:
        _write(terminal, text, colour)


def _texts_above(terminal: pytest.TerminalReporter) -> str:
    """Return all that the terminal shows of failures."""
    if terminal.config.getoption("tbstyle", "auto") == "no":
        return ""
    return "\n".join(report.longreprtext for report in terminal.stats.get("failed", ()))


def _measured_where(config: pytest.Config) -> str:
    """Return where and how fast the tests ran; nothing in a replay, whose header says it."""
    return "" if setting(config, "replay") else f" ({where_and_pace(config)})"


def shortcomings(tests: Sequence[Sequence[Property]]) -> list[str]:
    """Return lines with the numbers of tests skipped as inconclusive, and of measurements without an earlier run.

    A run without failures does not show either. Each test is given by its properties.
    """
    undecided = [properties for properties in tests if texts_in(properties, UNDECIDED_PROPERTY)]
    lines = []
    if undecided:
        held = sum(judged.outcome == "held" for each in undecided for judged in judged_promises(each))
        which, whose = (
            ("1 test was", "its") if len(undecided) == 1 else (f"{len(undecided)} tests were", "their")
        )
        although = f", although {held} of {whose} promises held" if held else ""
        lines.append(
            f"{which} skipped as inconclusive{although}: --cloudbench-inconclusive=fail fails such tests"
        )
    if missing := sum(len(texts_in(properties, NOT_COMPARED_PROPERTY)) for properties in tests):
        which = "1 measurement was" if missing == 1 else f"{missing} measurements were"
        lines.append(f"{which} not compared with earlier runs")
    return lines


def costs_of(terminal: pytest.TerminalReporter) -> dict[str, str]:
    """Return the cost of each test by node id, if known. The report of a test's teardown has it."""
    return {
        report.nodeid: cost
        for report in phase_reports(terminal, "teardown")
        for cost in texts_in(report.user_properties, COST_PROPERTY)
    }


def _write_table(
    terminal: pytest.TerminalReporter,
    tests: list[tuple[str, list[tuple[str, object]]]],
    costs: dict[str, str],
) -> None:
    """Write the table of the tests whose verdicts have more than a sentence."""
    from pytest_cloudbench.reports.summary_table import COST_HEAD, WOULD_HEAD, rows_of, table_lines, totals

    found = [(nodeid, judged_promises(properties)) for nodeid, properties in tests]
    found = [(nodeid, judged) for nodeid, judged in found if any(MEASURED in each.parts for each in judged)]
    if not found:
        return
    writer = terminal.config.get_terminal_writer()
    everything = [each for _, judged in found for each in judged]
    terminal.write_sep("-", f"promised and measured: {totals(everything)}")

    def coloured(text: str, outcome: str) -> str:
        return writer.markup(text, **{_COLOURS.get(outcome, "white"): True})

    head = WOULD_HEAD if setting(terminal.config, "cloud") == "embedded" else COST_HEAD
    for line in table_lines(rows_of(found, costs), writer.fullwidth - 1, coloured, cost_head=head):
        terminal.write_line(line)


def _write(terminal: pytest.TerminalReporter, sentence: str, colour: str = "", indent: str = "  ") -> None:
    """Write a sentence, indented; wrapped on a terminal, on one line in a file, where it can be searched for."""
    import textwrap

    lines = [indent + sentence]
    if terminal.isatty:
        width = terminal.config.get_terminal_writer().fullwidth
        lines = textwrap.wrap(
            sentence,
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    for line in lines:
        terminal.write_line(line, **({colour: True} if colour else {}))
