"""A short document of tables, as text, Markdown or HTML, from one description."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.reports.measurement_tables import PAGE_STYLE, markdown_cell

FORMATS = ("text", "markdown", "html")
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Section:
    """One table with its title, sentences below it, and the figures of its picture, if it has one.

    ``marks`` are the places in the figures at which the level changed.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...] = ()
    figures: tuple[float, ...] = ()
    marks: tuple[int, ...] = ()


def page(title: str, sections: Sequence[Section], form: str) -> str:
    """Return the document in one of FORMATS."""
    return {"text": _text, "markdown": _markdown, "html": _html}[form](title, sections)


def sparkline(figures: Sequence[float]) -> str:
    """Return a picture of figures in one line of blocks; the lowest block is zero."""
    highest = max(figures, default=0) or 1
    return "".join(_BLOCKS[round(figure / highest * (len(_BLOCKS) - 1))] for figure in figures)


def _text(title: str, sections: Sequence[Section]) -> str:
    lines = [title, "=" * len(title)]
    for section in sections:
        lines += ["", section.title, "-" * len(section.title)]
        if section.figures:
            lines += [sparkline(section.figures), ""]
        columns = list(zip(section.heads, *section.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        rules = ["-" * width for width in widths]
        for row in (section.heads, rules, *section.rows):
            lines.append(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            )
        lines += [f"* {sentence}" for sentence in section.sentences]
    return "\n".join(lines) + "\n"


def _markdown(title: str, sections: Sequence[Section]) -> str:
    lines = [f"### {markdown_cell(title)}"]
    for section in sections:
        lines += ["", f"#### {markdown_cell(section.title)}", ""]
        if section.figures:
            lines += [f"`{sparkline(section.figures)}`", ""]
        lines += [f"| {' | '.join(section.heads)} |", f"|{'---|' * len(section.heads)}"]
        lines += [f"| {' | '.join(map(markdown_cell, row))} |" for row in section.rows]
        if section.sentences:
            lines += ["", *(f"- {markdown_cell(sentence)}" for sentence in section.sentences)]
    return "\n".join(lines) + "\n"


def _html(title: str, sections: Sequence[Section]) -> str:
    body = "".join(map(_html_section, sections))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{PAGE_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>\n"
    )


def _html_section(section: Section) -> str:
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in section.heads)
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows
    )
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in section.sentences)
    picture = svg(section.figures, section.marks, section.title) if section.figures else ""
    return (
        f"<h2>{html.escape(section.title)}</h2>{picture}<table><tr>{heads}</tr>{rows}</table>"
        f"{f'<ul>{said}</ul>' if said else ''}"
    )


def svg(figures: Sequence[float], marks: Sequence[int], title: str) -> str:
    """Return figures as points on a line from zero up, with a dashed line before each of ``marks``."""
    width, height, edge = 720, 160, 12
    step = (width - 2 * edge) / max(1, len(figures) - 1)
    highest = max(figures) or 1

    def at(place: float, figure: float) -> tuple[float, float]:
        return round(edge + place * step, 1), round(height - edge - figure / highest * (height - 2 * edge), 1)

    points = [at(place, figure) for place, figure in enumerate(figures)]
    lines = "".join(
        f'<line x1="{at(mark - 0.5, 0)[0]}" x2="{at(mark - 0.5, 0)[0]}" y1="{edge}" y2="{height - edge}" '
        'stroke="#c33" stroke-dasharray="4 3"/>'
        for mark in marks
    )
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="#236"/>' for x, y in points)
    path = " ".join(f"{x},{y}" for x, y in points)
    return (
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {width} {height}" width="{width}" '
        f'xmlns="http://www.w3.org/2000/svg"><line x1="{edge}" x2="{width - edge}" y1="{height - edge}" '
        f'y2="{height - edge}" stroke="#999"/>{lines}<polyline points="{path}" fill="none" stroke="#236"/>{dots}</svg>'
    )
