"""Tables of a measurement: its figures for people and its one-second series (CSV); the frame of an HTML page."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from pytest_cloudbench.reports.named_figures import Row, name_of, rows_of, value_of

_ELSEWHERE = frozenset({"series", "streams", "directions", "parts", "raw_files", "asked"})
"""What a table of figures leaves out, or lists at its end."""


def figures(measurement: Any) -> list[Row]:
    """Return every known figure of a measurement, in words and with its unit; arguments, ceilings, conditions last."""
    values = measurement.to_dict()
    rows = rows_of(values, but=_ELSEWHERE)
    rows += [
        (f"asked: {name_of(name)}", value_of(name, value))
        for name, value in (values.get("asked") or {}).items()
        if value not in (None, "", [], {}, ())
    ]
    rows += [("ceiling", str(line)) for line in values.get("envelope") or ()]
    rows += [("condition", str(line)) for line in values.get("conditions") or ()]
    return rows


def markdown_cell(text: str) -> str:
    """Escape a text so that it stays in its cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def html_page(title: str, body: str, head: str = "") -> str:
    """Return a page without scripts, and without pictures or fonts from elsewhere; ``head`` is added to its head."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>{head}</head><body>{body}</body></html>\n"
    )


_STYLE = (
    "body{font:14px/1.4 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:1em}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse}svg{max-width:100%;height:auto}"
    "th,td{text-align:left;vertical-align:top;padding:.2em .8em;border-bottom:1px solid #ddd}"
    "th{font-weight:500;color:#555}td{font-variant-numeric:tabular-nums;white-space:pre-wrap}"
)


def series_csv(measurement: Any) -> str | None:
    """Return the series with a row for each sample and units in the column heads; None without a series."""
    series = measurement.to_dict().get("series") or {}
    columns = dict(_columns(series, ""))
    if not columns:
        return None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip_longest(*columns.values()):
        writer.writerow(f"{value:.7g}" if isinstance(value, float) else value for value in row)
    return out.getvalue()


def _columns(series: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Sequence[Any]]]:
    for name, value in series.items():
        if isinstance(value, Mapping):
            yield from _columns(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple) and len(value):
            yield f"{prefix}{name}", value
