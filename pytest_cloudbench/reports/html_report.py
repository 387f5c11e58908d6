"""The verdicts of each test in the report of pytest-html: a column, and every sentence. A plugin of pytest."""

from __future__ import annotations

from html import escape

import pytest

from pytest_cloudbench.reports.properties import judged_promises
from pytest_cloudbench.reports.summary_table import totals

_COLUMN = 2
"""After the columns of the result and the test."""


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_header(cells: list[str]) -> None:
    """Add the head of the column."""
    cells.insert(_COLUMN, "<th>Verdicts</th>")


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_row(report: pytest.TestReport, cells: list[str]) -> None:
    """Add how many of the test's verdicts held."""
    cells.insert(_COLUMN, f"<td>{escape(totals(judged_promises(report.user_properties)))}</td>")


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_html(report: pytest.TestReport, data: list[str]) -> None:
    """Put what was promised and measured before the output of the test."""
    judged = judged_promises(report.user_properties)
    if not judged:
        return
    rows = [[each.promised, each.measured, each.outcome, each.bound_by, each.sentence] for each in judged]
    heads = "".join(
        f"<th>{head}</th>" for head in ("promised", "measured", "verdict", "limited by", "in a sentence")
    )
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    data.insert(0, f'<table class="cloudbench-verdicts"><tr>{heads}</tr>{lines}</table>')
