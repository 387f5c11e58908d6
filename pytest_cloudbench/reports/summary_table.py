"""The table at the end of a run: test, promised, measured, verdict, cost if known, limited by."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_cloudbench.reports.properties import XFAILED, JudgedPromise

OUTCOMES = ("held", "violated", "inconclusive", XFAILED)
WIDE = 100
"""From this width in columns on, the ceilings have a column; on narrower terminals they have lines of their own."""

_VERDICT = max(map(len, OUTCOMES))
_GAP = 2
_NARROW_LAST = 24
COST_HEAD = "cost"
WOULD_HEAD = "would have cost"
"""The head of the cost column in the embedded region, which bills nothing."""
_HEADS = ("test", "promised", "measured", "verdict", COST_HEAD, "limited by")
_MAY_BREAK = re.compile(r"(?<=[\s_/:\[])|(?<=-)(?![0-9a-f]{8,})")
"""Where a line may end; not within the id of a volume or an instance."""

Mark = Callable[[str, str], str]


@dataclass(frozen=True)
class Row:
    """One verdict of one test; ``test`` and ``cost`` are empty if the row above is of the same test.

    A row names its subtest if the row above has a different one; in a test's first row, after the test's name.
    """

    test: str
    judged: JudgedPromise
    cost: str = ""


def rows_of(
    tests: Sequence[tuple[str, Sequence[JudgedPromise]]], costs: Mapping[str, str] | None = None
) -> list[Row]:
    """Return the rows of tests, each a node id with its verdicts; ``costs`` by node id, if known."""
    names = short_names([nodeid for nodeid, _ in tests])
    rows = []
    for name, (nodeid, verdicts) in zip(names, tests, strict=True):
        last = ""
        for number, judged in enumerate(verdicts):
            words = [name] if number == 0 else []
            if judged.subtest != last:
                words.append(judged.subtest or name)
            last = judged.subtest
            rows.append(Row(" ".join(words), judged, (costs or {}).get(nodeid, "") if number == 0 else ""))
    return rows


def short_names(nodeids: Sequence[str]) -> list[str]:
    """Return node ids without the path to their file, and without its name if all tests are in one file."""
    parts = [nodeid.partition("::") for nodeid in nodeids]
    if len({file for file, _, _ in parts}) == 1:
        return [name or file for file, _, name in parts]
    return [f"{file.rpartition('/')[2]}::{name}" for file, _, name in parts]


def totals(judged: Sequence[JudgedPromise]) -> str:
    """Return the number of verdicts of each outcome: "3 held, 1 violated"."""
    words = [each.outcome for each in judged]
    return ", ".join(f"{words.count(word)} {word}" for word in OUTCOMES if word in words)


def table_lines(
    rows: Sequence[Row], width: int, mark: Mark = lambda text, outcome: text, *, cost_head: str = COST_HEAD
) -> list[str]:
    """Return the table in lines of at most ``width`` columns; ``mark`` colours a verdict's cell by its outcome."""
    cells = [(row.test, row.judged.promised, row.judged.measured, row.judged.outcome) for row in rows]
    wide = width >= WIDE
    bound = [row.judged.bound_by for row in rows] if wide else [""] * len(rows)
    natural = [max(len(text) for text in column) for column in zip(_HEADS[:4], *cells, strict=True)]
    last = max([len(_HEADS[5]), *(len(text) for text in bound)]) if wide and any(bound) else 0
    costs = [row.cost for row in rows] if wide else [""] * len(rows)
    cost = max([len(cost_head), *(len(text) for text in costs)]) if any(costs) else 0
    *first, bounds = _widths([*natural, last], width - (cost + _GAP if cost else 0))
    columns = [*first, cost, bounds]
    widths = [each for each in columns if each]
    heads = [head for head, each in zip((*_HEADS[:4], cost_head, _HEADS[5]), columns, strict=True) if each]
    lines = [_line(heads, widths), _line(["-" * each for each in widths], widths)]
    for row, texts, paid, ceiling in zip(rows, cells, costs, bound, strict=True):
        whole = zip([*texts, paid, ceiling], columns, strict=True)
        wrapped = [broken(text, each) for text, each in whole if each]
        for number in range(max(len(parts) for parts in wrapped)):
            line = [parts[number] if number < len(parts) else "" for parts in wrapped]
            lines.append(_line(line, widths, mark=mark, outcome=row.judged.outcome))
        if not wide and row.judged.bound_by:
            lines += [f"  {part}" for part in broken(f"limited by {row.judged.bound_by}", width - 2)]
        if not wide and row.cost:
            lines.append(f"  {cost_head} {row.cost}")
    return lines


def _widths(natural: Sequence[int], width: int) -> list[int]:
    """Return the widths of the columns: figures get what they need, and names share the rest."""
    test, promised, measured, _, last = natural
    promised = min(promised, max(16, width // 4))
    measured = min(measured, max(14, width // 6))
    gaps = _GAP * (4 if last else 3)
    left = width - promised - measured - _VERDICT - gaps
    if not last:
        return [min(test, left), promised, measured, _VERDICT, 0]
    last = min(last, max(_NARROW_LAST, left - test))
    return [min(test, left - last), promised, measured, _VERDICT, last]


def _line(cells: Sequence[str], widths: Sequence[int], *, mark: Mark | None = None, outcome: str = "") -> str:
    padded = [text.ljust(each) for text, each in zip(cells, widths, strict=False)]
    bare = (" " * _GAP).join(padded).rstrip()
    if mark is None or not cells[3]:
        return bare
    before = (" " * _GAP).join(padded[:3]) + " " * _GAP
    return before + mark(cells[3], outcome) + bare[len(before) + len(cells[3]) :]


def broken(text: str, width: int) -> list[str]:
    """Wrap a text to lines of at most ``width``, between words, else after "_", "/", ":", "-" and "["."""
    lines = [""]
    for piece in _MAY_BREAK.split(text):
        rest = piece
        if lines[-1] and len(lines[-1]) + len(rest.rstrip()) > width:
            lines.append("")
        while len(rest.rstrip()) > width:
            lines[-1], rest = rest[:width], rest[width:]
            lines.append("")
        lines[-1] += rest
    return [line.rstrip() for line in lines if line.strip()] or [""]
