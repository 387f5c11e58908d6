"""IOPS or throughput second by second, with the ceilings of the run and the moments at which its burst ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.ceilings import MACHINE
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.reports.plots.drawing import Dashes
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_scale import RateScale, scale_of, time_scale
from pytest_cloudbench.reports.plots.sheet import COLOURS, GREY, LIMIT, SERIES, STYLES, Panel, Sheet
from pytest_cloudbench.verdicts.run import run_of
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.wording import moment

BURST = "burst"
"""The remark of a level that holds only until the credits of a burst are spent."""
ROOM_ABOVE = 1.6
"""A ceiling up to this multiple of the highest visible value is drawn; a note below lists the others."""

_MOST_TOLD = 6
"""More ceilings than this are counted in a note, not named."""
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
    """Return the lines to draw and those that are too high, lowest first. ``highest`` is the maximum of the series."""
    if envelope is None:
        return [], []
    found = []
    for ceiling in envelope.ceilings:
        name = f"the region's {ceiling.quantity}" if ceiling.scope == MACHINE else ceiling.label
        for level in envelope.levels_of(ceiling):
            if _NOT_MERGED not in level.how:
                value = scale.of(level.like(scale.like))
                remark = level.how or (BURST if ceiling.base is not None else "")
                found.append(CeilingLine(value, (name,), remark, ceiling.promised))
    lines = _joined(sorted(found, key=lambda line: line.value))
    always = [line.value for line in lines if line.remark in ("", BURST)]
    room = ROOM_ABOVE * max([highest, *always[:1]])
    return [line for line in lines if line.value <= room], [line for line in lines if line.value > room]


def _joined(lines: Sequence[CeilingLine]) -> list[CeilingLine]:
    """Join lines at nearly the same value into one with all their names."""
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
    """Return a sentence about the ceilings that are not drawn; "" if there are none."""
    if not lines:
        return ""
    words = [f"{' and '.join(line.names)} {scale.text(line.value)}" for line in lines[:_MOST_TOLD]]
    more = f" and {len(lines) - _MOST_TOLD} more" if len(lines) > _MOST_TOLD else ""
    return f"Higher than shown: {'; '.join(words)}{more}"


PANEL_IN = 2.75
_STEPS_UP_TO = 120


def rate_over_time(measurement: Any) -> Picture | None:
    """Draw the rate over time; None if the run is too short to have a series."""
    scale = scale_of(measurement)
    line = run_of(measurement).timeline(scale.like)
    if len(line.seconds) < 2:
        return None
    sheet = Sheet([PANEL_IN])
    where = getattr(measurement, "path", None) or measurement.target
    mean = scale.text(scale.mean_of(measurement))
    noted = "; ".join(measurement.conditions)
    sheet.title(
        f"{measurement.workload} on {where}",
        f"mean {mean} over {moment(measurement.runtime_s)}" + (f"; {noted}" if noted else ""),
    )
    panel = sheet.panels[0]
    unit, per_s = time_scale(line.seconds[-1])
    beyond = draw_rates(panel, line, scale, measurement.envelope, per_s=per_s, name="measured")
    _draw_directions(panel, measurement, scale, line, per_s)
    _draw_parts(panel, measurement, scale, per_s)
    sheet.note(told_below(beyond, scale))
    sheet.time_axis(unit, line.time_compression)
    return sheet.picture(f"{scale.noun} over time")


def draw_rates(
    panel: Panel,
    line: Timeline,
    scale: RateScale,
    envelope: Envelope | None,
    *,
    per_s: float,
    name: str,
    falls: bool = True,
    whole_s: tuple[float, float] | None = None,
) -> list[CeilingLine]:
    """Draw a series with its ceilings and falls on a panel. Return the ceilings that are too high to draw.

    ``whole_s`` is the range of the time axis, if it is not that of the series.
    """
    values = [value * scale.factor for value in line.values]
    shown, beyond = ceiling_lines(envelope, scale, max(values))
    top = max([max(values), *(each.value for each in shown)])
    begin_s, end_s = whole_s or (line.seconds[0] - line.interval_s, line.seconds[-1])
    panel.upwards(0, top * 1.12 or 1)
    panel.across(begin_s * per_s, end_s * per_s)
    panel.unit(scale.unit)
    draw_series(panel, line.seconds, values, line.interval_s, per_s)
    tail = values[-max(1, len(values) // 20) :]
    panel.label(sum(tail) / len(tail), name, colour=SERIES, bold=True)
    for each in shown:
        _draw_ceiling(panel, each, scale)
    if falls:
        _draw_falls(panel, line, scale, per_s)
    return beyond


def draw_series(
    panel: Panel,
    seconds: Sequence[float],
    values: Sequence[float],
    interval_s: float,
    per_s: float,
    *,
    colour: str = SERIES,
    style: Dashes = (),
    width: float = 1.6,
) -> None:
    """Draw samples, each the mean of the interval before it, as steps unless they are too many."""
    begin = seconds[0] - interval_s
    times = [begin * per_s, *(each * per_s for each in seconds)]
    few = len(values) <= _STEPS_UP_TO
    panel.line(
        times, [values[0], *values], colour, style=style, width=width if few else width * 0.75, steps=few
    )


def _draw_ceiling(panel: Panel, line: CeilingLine, scale: RateScale) -> None:
    lines = [*line.names, scale.text(line.value) + (f" ({line.remark})" if line.remark else "")]
    style: Dashes = (1, 2) if not line.promised else (5, 2, 1, 2) if line.remark else (6, 3)
    panel.limit(line.value, *lines, style=style, colour=LIMIT if line.promised else GREY)


def _draw_falls(panel: Panel, line: Timeline, scale: RateScale, per_s: float) -> None:
    for number, fall in enumerate(line.falls.lasting):
        before, after = fall.before * scale.factor, fall.after * scale.factor
        panel.moment(
            fall.at_s * per_s,
            f"fell after {moment(fall.at_s)}\nfrom {scale.number(before)} to {scale.text(after)}",
            height=0.62 - 0.2 * (number % 3),
        )


def _draw_directions(panel: Panel, measurement: Any, scale: RateScale, line: Timeline, per_s: float) -> None:
    """Draw reads and writes separately, if the run has both."""
    series = measurement.series
    both: list[tuple[str, Any]] = [
        (name, getattr(series, key, None)) for name, key in (("reads", "read"), ("writes", "write"))
    ]
    if any(each is None for _, each in both):
        return
    for (name, each), colour, style in zip(both, COLOURS[2:], STYLES[1:], strict=False):
        rates = each.iops if scale.noun == "IOPS" else each.throughput
        values = [scale.of(rate) for rate in rates][: len(line.seconds)]
        if len(values) != len(line.seconds) or not all(map(math.isfinite, values)):
            continue
        draw_series(
            panel, line.seconds, values, line.interval_s, per_s, colour=colour, style=style, width=1.2
        )
        panel.label(values[-1], name, colour=colour)


def _draw_parts(panel: Panel, measurement: Any, scale: RateScale, per_s: float) -> None:
    """If a run used several hosts or pairs, draw each as a thin line, with their number beside the lines."""
    last = []
    for part in getattr(measurement, "parts", ()):
        line = run_of(part).timeline(scale.like)
        if len(line.seconds) >= 2:
            values = [value * scale.factor for value in line.values]
            draw_series(panel, line.seconds, values, line.interval_s, per_s, colour=GREY, width=0.6)
            last.append(values[-1])
    if last:
        what = "hosts" if getattr(measurement, "hosts", None) else "pairs"
        panel.label(sum(last) / len(last), f"each of {len(last)} {what}", colour=GREY)
