"""The ceilings of a run as lines of its picture: which lie within it, which too high to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import MACHINE
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.reports.plots.rate_scale import RateScale

ROOM_ABOVE = 1.6
"""A ceiling up to so many times the highest of what must be seen is drawn; the others are told below."""

_NOTE_COLUMNS = 135
"""Letters that fit on a note's line."""
_NOT_MERGED = "not merged"


@dataclass(frozen=True)
class CeilingLine:
    """One level of one or more ceilings, in the picture's unit. ``remark`` says when it holds, "" for always."""

    value: float
    names: tuple[str, ...]
    remark: str = ""
    promised: bool = True


def ceiling_lines(
    envelope: Envelope | None, scale: RateScale, highest: float
) -> tuple[list[CeilingLine], list[CeilingLine]]:
    """Lines to draw and lines that lie too high for it, lowest first. ``highest`` is the series' own maximum."""
    if envelope is None:
        return [], []
    found = []
    for ceiling in envelope.ceilings:
        name = "machine under the region" if ceiling.scope == MACHINE else ceiling.label
        for level in envelope.levels_of(ceiling):
            if _NOT_MERGED not in level.how:
                value = scale.of(level.like(scale.like))
                found.append(CeilingLine(value, (name,), level.how, ceiling.promised))
    lines = _joined(sorted(found, key=lambda line: line.value))
    always = [line.value for line in lines if not line.remark]
    room = ROOM_ABOVE * max([highest, *always[:1]])
    return [line for line in lines if line.value <= room], [line for line in lines if line.value > room]


def _joined(lines: Sequence[CeilingLine]) -> list[CeilingLine]:
    """Lines that cannot be told apart as one with all their names."""
    joined: list[CeilingLine] = []
    for line in lines:
        last = joined[-1] if joined else None
        alike = last is not None and (line.remark, line.promised) == (last.remark, last.promised)
        if last is not None and alike and line.value <= last.value * (1 + TIE):
            names = tuple(dict.fromkeys([*last.names, *line.names]))
            joined[-1] = CeilingLine(last.value, names, last.remark, last.promised)
        else:
            joined.append(line)
    return joined


def told_below(lines: Sequence[CeilingLine], scale: RateScale) -> str:
    """Ceilings that are not drawn, in a sentence; "" where there are none."""
    if not lines:
        return ""
    for told in range(min(3, len(lines)), 0, -1):
        words = [f"{' and '.join(line.names)} {scale.text(line.value)}" for line in lines[:told]]
        more = f" and {len(lines) - told} more" if len(lines) > told else ""
        sentence = f"Higher than shown: {'; '.join(words)}{more}"
        if len(sentence) <= _NOTE_COLUMNS:
            break
    return sentence
