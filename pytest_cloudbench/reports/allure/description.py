"""The description of a test's result: its verdicts as a table, before the test's own words."""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.reports.verdict_tables import HEADS, overview

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

_MOST_ROWS = 40
"""More verdicts, as in a search, are only counted: nobody reads a table of a hundred rows."""
_COLOURS = {"held": "#1a7f37", "violated": "#cf222e", "inconclusive": "#9a6700"}
_CELL = "padding:4px 14px 4px 4px;text-align:left;vertical-align:top;border-bottom:1px solid #8884"
_QUOTED = f'"{_CELL}"'


def describe(result: Any, verdicts: Sequence[Verdict], conditions: Iterable[str]) -> None:
    """Put the verdicts of a test, and the conditions under which it measured, before its own description."""
    parts = [_table(verdicts)] if verdicts else []
    if noted := [html.escape(each) for each in dict.fromkeys(conditions)]:
        parts.append(f"<p>Conditions: {'; '.join(noted)}</p>")
    if parts and result.descriptionHtml:
        parts.append(result.descriptionHtml)
    elif parts and result.description:
        own = html.escape(inspect.cleandoc(result.description))
        parts.append(f'<p style="white-space:pre-wrap">{own}</p>')
    if parts:
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
