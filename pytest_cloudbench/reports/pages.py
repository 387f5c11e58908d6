"""A short document of tables, as text, Markdown or HTML, from one description."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.reports.plots.sheet import AxisScale, tick_text
from pytest_cloudbench.reports.summary_table import broken

FORMATS = ("text", "markdown", "html")
_BLOCKS = "▁▂▃▄▅▆▇█"
_MAY_BREAK = re.compile(r"(?<=[_\[=])|(?<=/)(?!s\b)|(?<=::)")
"""Where a long name may be broken: names of tests and folders have no spaces."""


@dataclass(frozen=True)
class Levels:
    """What each run measured, in ``unit``, with the run's name: the picture of a section.

    ``changes`` are the places in ``values`` at which the level changed.
    """

    values: tuple[float, ...]
    unit: str
    names: tuple[str, ...]
    changes: tuple[int, ...] = ()

    def figure(self, value: float) -> str:
        """Return a value without its unit, with as many decimals as the other values."""
        highest = max(self.values)
        return figure(value, 0 if highest >= 1_000 else 1 if highest >= 100 else 2)


@dataclass(frozen=True)
class Section:
    """One table with its title, a picture of levels above it, if it has one, and sentences below it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...] = ()
    levels: Levels | None = None


def page(title: str, sections: Sequence[Section], form: str, width: int | None = None) -> str:
    """Return the document in one of FORMATS. ``width`` is that of a terminal in columns, None for a file."""
    if form == "text":
        return _text(title, sections, width or sys.maxsize)
    return {"markdown": _markdown, "html": _html}[form](title, sections)


def sparkline(figures: Sequence[float]) -> str:
    """Return a picture of figures in one line of blocks; the lowest block is zero."""
    highest = max(figures, default=0) or 1
    return "".join(_BLOCKS[round(figure / highest * (len(_BLOCKS) - 1))] for figure in figures)


def _in_one_line(levels: Levels, quote: str = "") -> str:
    low, high = (levels.figure(each(levels.values)) for each in (min, max))
    return f"{quote}{sparkline(levels.values)}{quote} {low} to {high} {levels.unit}"


def _text(title: str, sections: Sequence[Section], width: int) -> str:
    lines = _heading(title, "=", width)
    for section in sections:
        lines += ["", *_heading(section.title, "-", width)]
        if section.levels:
            lines += [_in_one_line(section.levels), ""]
        lines += _table(section, width)
        lines += [f"* {sentence}" for sentence in section.sentences]
    return "\n".join(lines) + "\n"


def _heading(title: str, rule: str, width: int) -> list[str]:
    lines = broken(title, width)
    return [*lines, rule * max(map(len, lines))]


def _table(section: Section, width: int) -> list[str]:
    """Return a table; one that is wider than the terminal has a line for each field instead of a column."""
    columns = list(zip(section.heads, *section.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        rules = ["-" * each for each in widths]
        return [
            "  ".join(cell.ljust(each) for cell, each in zip(row, widths, strict=True)).rstrip()
            for row in (section.heads, rules, *section.rows)
        ]
    names = max(map(len, section.heads))
    lines = []
    for row in section.rows:
        for head, cell in zip(section.heads, row, strict=True):
            parts = broken(cell, max(1, width - names - 2)) if cell else []
            first = [head, *[""] * len(parts)]
            lines += [f"{name:{names}}  {part}" for name, part in zip(first, parts, strict=False)]
        lines.append("")
    return lines


def _markdown_cell(text: str) -> str:
    """Escape a text so that it stays in its cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


def _markdown(title: str, sections: Sequence[Section]) -> str:
    lines = [f"### {_markdown_cell(title)}"]
    for section in sections:
        lines += ["", f"#### {_markdown_cell(section.title)}", ""]
        if section.levels:
            lines += [_in_one_line(section.levels, "`"), ""]
        lines += [f"| {' | '.join(section.heads)} |", f"|{'---|' * len(section.heads)}"]
        lines += [f"| {' | '.join(map(_markdown_cell, row))} |" for row in section.rows]
        if section.sentences:
            lines += ["", *(f"- {_markdown_cell(sentence)}" for sentence in section.sentences)]
    return "\n".join(lines) + "\n"


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


def _html(title: str, sections: Sequence[Section]) -> str:
    body = "".join(map(_html_section, sections))
    return html_page(title, f"<h1>{_breakable(title)}</h1>{body}")


def _html_section(section: Section) -> str:
    said = "".join(f"<li>{_breakable(sentence)}</li>" for sentence in section.sentences)
    table = html_table(section.heads, section.rows) if section.rows else ""
    return (
        f"<h2>{_breakable(section.title)}</h2>{svg(section.levels, section.title) if section.levels else ''}"
        f"{table}{f'<ul>{said}</ul>' if said else ''}"
    )


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with all its texts escaped; without ``heads`` it has no row of them."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_breakable(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _breakable(text: str) -> str:
    return "<wbr>".join(map(html.escape, _MAY_BREAK.split(text)))


_WIDTH, _HEIGHT = 860, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 28, 40
_ROOM = 90
"""Horizontal space for a name or a figure, in pixels."""
_BOLD = ' font-weight="bold" stroke="#fff" stroke-width="3" paint-order="stroke"'


def svg(levels: Levels, title: str) -> str:
    """Return levels as points with their figures, from zero up, and a dashed line at each change."""
    values, count = levels.values, len(levels.values)
    highest = max(values) * 1.1
    scale = AxisScale(0, highest if highest > 1e-300 else 1)  # less cannot be divided into ticks
    step = (_WIDTH - _LEFT - _RIGHT - _ROOM) / max(1, count - 1)
    across = [round(_LEFT + _ROOM / 2 + place * step, 1) for place in range(count)]

    def up(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - scale.share(value) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def text(x: float, y: float, words: str, anchor: str, style: str = "") -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{style}>{html.escape(words)}</text>'

    parts = [text(_LEFT, 12, levels.unit, "end")]
    for tick in scale.ticks(4):
        parts.append(f'<path d="M{_LEFT} {up(tick)}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(text(_LEFT - 6, up(tick) + 4, tick_text(tick), "end"))
    for change in levels.changes:
        middle = (across[change - 1] + across[change]) / 2
        parts.append(f'<path d="M{middle} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#c33" stroke-dasharray="4 3"/>')
    points = list(zip(across, map(up, values), strict=True))
    parts.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y in points)}" fill="none" stroke="#236"/>')
    labelled: list[int] = []
    for place in (*levels.changes, count - 1, *range(count)):
        if all(abs(place - other) * step >= _ROOM for other in labelled):
            labelled.append(place)
    for place, ((x, y), value, name) in enumerate(zip(points, values, levels.names, strict=True)):
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="3.5" fill="#236"><title>{html.escape(name)}</title></circle>'
        )
        if place in labelled:
            day, _, rest = name.partition(" ")
            parts.append(text(x, y - 8, levels.figure(value), "middle", _BOLD))
            parts += [text(x, _HEIGHT - 22, day, "middle"), text(x, _HEIGHT - 8, rest[:5], "middle")]
    return (
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-size="12" fill="#333" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
