"""Tables of a measurement: its figures for people (Markdown, HTML) and its one-second series (CSV)."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

Row = tuple[str, str]

_LONG = frozenset({"series", "streams", "directions", "raw_files", "asked", "envelope", "conditions", "raw"})


def figures(measurement: Any) -> list[Row]:
    """Return every known figure of a measurement by its name; names of nested ones are joined by a dot."""
    values = measurement.to_dict()
    rows = list(_flat(values, ""))
    rows += [(f"asked {name}", str(value)) for name, value in (values.get("asked") or {}).items()]
    rows += [("ceiling", str(line)) for line in values.get("envelope") or ()]
    rows += [("condition", str(line)) for line in values.get("conditions") or ()]
    return rows


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[Row]:
    for name, value in values.items():
        if (not prefix and name in _LONG) or value is None:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            if value and all(isinstance(each, str | int | float) for each in value):
                yield f"{prefix}{name}", "; ".join(str(each) for each in value)
        else:
            yield f"{prefix}{name}", _said(name, value)


def _said(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if name.endswith("_s") and 0 < abs(value) < 1:
            return f"{value:.6g}"
        return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def markdown(rows: Sequence[Row], *, title: str) -> str:
    lines = [f"### {title}", "", "| figure | value |", "|---|---|"]
    lines += [f"| {markdown_cell(name)} | {markdown_cell(value)} |" for name, value in rows]
    return "\n".join(lines) + "\n"


def markdown_cell(text: str) -> str:
    """Escape a text so that it stays in its cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def html_table(rows: Sequence[Row], *, title: str) -> str:
    """Return the figures as one page."""
    body = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows
    )
    return html_page(title, f"<h1>{html.escape(title)}</h1><table>{body}</table>")


def html_page(title: str, body: str) -> str:
    """Return a page without scripts, pictures, or fonts from elsewhere."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
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
