"""The summary of a run as Markdown, for example for a comment on a pull request."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cloudbench.reports.cleaned_output import cleaner_of
from pytest_cloudbench.reports.properties import (
    CONDITION_PROPERTY,
    COST_PROPERTY,
    NOT_COMPARED_PROPERTY,
    XFAILED,
    JudgedPromise,
    Property,
    judged_promises,
    of_cloudbench,
    of_subtest,
    texts_in,
)
from pytest_cloudbench.reports.summary import shortcomings
from pytest_cloudbench.reports.summary_table import COST_HEAD, short_names, totals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARKERS = frozenset({"ec2_instance", "ec2_pair", "ebs_volume", "ebs_volumes"})
_SIGNS = {"held": "✅", "violated": "❌", "inconclusive": "❔", XFAILED: "⚪"}
_MOST_CHARACTERS = 60_000
"""GitHub accepts 65,536 in a comment."""


class SummaryRefused(ValueError):
    """The summary cannot be written to the given path."""


@dataclass(frozen=True)
class SummarisedTest:
    """The verdicts of one attempt of a test; ``error`` says why it has none, "" if nothing failed."""

    nodeid: str
    verdicts: tuple[JudgedPromise, ...]
    error: str = ""
    properties: tuple[Property, ...] = ()
    passed: bool = False


def check_path(path: Path) -> None:
    """Raise SummaryRefused if no file can be written there."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SummaryRefused(
            f"--cloudbench-summary={path}: the folder {folder} does not exist: create it first"
        )
    if path.is_dir():
        raise SummaryRefused(f"--cloudbench-summary={path}: that is a folder: give the name of a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise SummaryRefused(f"--cloudbench-summary={path}: this file cannot be written: give another path")


class SummaryFile:
    """Collects the reports of a session's tests and writes the file at its end."""

    def __init__(self, path: Path, *, about: str, cost_head: str = COST_HEAD) -> None:
        check_path(path)
        self._cost_head = cost_head
        self._path = path
        self._about = about
        self._tests: list[SummarisedTest] = []
        self._costs: dict[str, str] = {}
        self._trouble: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test that measured or judged, or failed before it could."""
        if of_subtest(report):
            return
        for cost in texts_in(report.user_properties, COST_PROPERTY):
            self._costs[report.nodeid] = cost
        found = summarised(report)
        if found is not None:
            self._tests.append(found)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, also if nothing was measured: a missing one would look like a failed job."""
        text = markdown(self._tests, about=self._about, costs=self._costs, cost_head=self._cost_head)
        try:
            self._path.write_text(cleaner_of(session.config).text(text), encoding="utf-8")
        except OSError as error:
            self._trouble = str(error)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report where the file is, or why it is missing."""
        if self._trouble is not None:
            terminalreporter.write_line(f"cloudbench summary could not be written: {self._trouble}", red=True)
        elif terminalreporter.verbosity >= 0:
            terminalreporter.write_line(f"cloudbench summary is in {self._path}")


def summarised(report: pytest.TestReport) -> SummarisedTest | None:
    """Return the part of the summary from one phase of a test; None if it has none."""
    properties = report.user_properties
    verdicts = tuple(judged_promises(properties))
    ours = of_cloudbench(properties) or not _MARKERS.isdisjoint(report.keywords)
    if report.when == "call" and (verdicts or texts_in(properties, NOT_COMPARED_PROPERTY)):
        return SummarisedTest(report.nodeid, verdicts, properties=tuple(properties), passed=report.passed)
    if ours and report.failed:
        return SummarisedTest(report.nodeid, (), error=_reason(report))
    return None


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line for line in text.strip().splitlines() if line.strip()] or [report.outcome]
    where = "" if report.when == "call" else f"{report.when}: "
    return where + (lines[0] if crash is not None else lines[-1])


def markdown(
    tests: Sequence[SummarisedTest],
    *,
    about: str,
    costs: Mapping[str, str] | None = None,
    cost_head: str = COST_HEAD,
) -> str:
    """Return the whole summary; ``costs`` by node id, if known."""
    paid = dict(costs or {})
    judged = [verdict for test in tests for verdict in test.verdicts]
    failed = [test for test in tests if test.error]
    heads = [part for part in (totals(judged), f"{len(failed)} not judged" if failed else "") if part]
    lines = [f"### cloudbench: {', '.join(heads) or 'nothing was measured'}", ""]
    lines += [
        line
        for text in shortcomings([test.properties for test in tests])
        for line in (f"❔ **{_cell(text)}**", "")
    ]
    named = list(zip(short_names([test.nodeid for test in tests]), tests, strict=True))
    if judged:
        lines += [
            f"| | test | promised | measured | verdict | {f'{cost_head} | ' if paid else ''}limited by |"
        ]
        lines += [f"|---|---|---|---|---|{'---|' if paid else ''}---|"]
        lines += [
            # In the first row of the test: its verdicts share the cost.
            _row(
                f"{name} {verdict.subtest}".rstrip(),
                verdict,
                (paid.get(test.nodeid, "") if number == 0 else "") if paid else None,
            )
            for name, test in named
            for number, verdict in enumerate(test.verdicts)
        ]
        lines.append("")
    if failed:
        lines += [
            "Not judged:",
            *(f"- {_code(name)}: {_cell(test.error)}" for name, test in named if test.error),
            "",
        ]
    if judged:
        lines += ["<details><summary>Every verdict in a sentence</summary>", ""]
        lines += _within(_sentences(named), _MOST_CHARACTERS - sum(len(line) + 1 for line in lines))
        lines += ["", "</details>", ""]
    lines.append(f"<sub>{_cell(about)}</sub>")
    return "\n".join(lines) + "\n"


def _row(name: str, verdict: JudgedPromise, cost: str | None) -> str:
    word = verdict.outcome if verdict.outcome == "held" else f"**{verdict.outcome}**"
    cells = (
        _SIGNS.get(verdict.outcome, ""),
        _code(name),
        _cell(verdict.promised),
        _cell(verdict.measured),
        word,
        *([] if cost is None else [_cell(cost)]),
        _cell(verdict.bound_by),
    )
    return f"| {' | '.join(cells)} |"


def _sentences(named: Sequence[tuple[str, SummarisedTest]]) -> list[str]:
    lines = []
    for name, test in named:
        if test.verdicts:
            lines.append(f"- {_code(name)}")
            for verdict in test.verdicts:
                lines.append(f"  - {_cell(f'{verdict.subtest} {verdict.sentence}'.lstrip())}")
                if test.passed and (note := verdict.note_if_passed()):
                    lines.append(f"    - {note}")
            conditions = dict.fromkeys(texts_in(test.properties, CONDITION_PROPERTY))
            lines += [f"  - _{_cell('; '.join(conditions))}_"] if conditions else []
            lines += [
                f"  - not compared with earlier runs: {_cell(why)}"
                for why in texts_in(test.properties, NOT_COMPARED_PROPERTY)
            ]
    return lines


def _within(lines: list[str], room: int) -> list[str]:
    """Return as many lines as fit, and a line with the number of the others."""
    kept: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return [*kept, f"- and {len(lines) - len(kept)} more lines: the evidence of the run has them"]
        kept.append(line)
    return kept


def _cell(text: str) -> str:
    """Escape a text so that it stays in its cell and shows every character."""
    text = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return text.replace("*", "\\*").replace("_", "\\_").replace("`", "\\`")


def _code(text: str) -> str:
    # A bar ends a table's cell even within code, unless it is escaped.
    return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|')}`"
