"""Latency over load in a picture: one curve or several, with ceilings as vertical lines, and the knee."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_cloudbench.reports.plots.drawing import WIDTH_IN
from pytest_cloudbench.reports.plots.picture import Picture, check_can_draw
from pytest_cloudbench.reports.plots.rate_over_time import CeilingLine, ceiling_lines, told_below
from pytest_cloudbench.reports.plots.rate_scale import IOPS, MIB_PER_S, RateScale, scale_of
from pytest_cloudbench.reports.plots.sheet import COLOURS, GREY, LIMIT, QUIET, STYLES, Panel, Sheet
from pytest_cloudbench.verdicts.wording import duration

MOST_CURVES = 6
"""More curves than this cannot be distinguished."""
MARKERS = ("o", "s", "^", "D", "v", "P")

_HEIGHT_IN = 3.7
_LEFT_IN, _RIGHT_IN = 0.78, 2.75
_ACROSS_IN = WIDTH_IN - _LEFT_IN - _RIGHT_IN
_LABEL_IN = 0.17
_CHARACTER_IN = 0.072
"""Average width of the letters of a ceiling's name, with a margin."""
_FEWEST_COLUMNS = 16
_LEFT_FROM = 0.45
"""A ceiling to the right of this share of the width has its name on the left."""
_STEEP = 1.5
"""A line that rises this much at once would cross the text above its start."""
_NAME_COLUMNS, _SAID_COLUMNS = 26, 30
_MS = 1000.0


def plot_curves(
    *curves: Any, to: str | Path, labels: Sequence[str] = (), title: str = ""
) -> tuple[Path, Path]:
    """Draw the curves of sweeps in one picture, and write it as SVG and PNG. Return both paths.

    ``to`` is a file name; its suffix is replaced. ``labels`` name the curves; the default is their mixes. Raises
    PlotsMissing, which names the extra, without matplotlib; ValueError for no curve or too many.
    """
    picture = curves_picture(curves, labels=labels, title=title)
    base = Path(to)
    base = base.with_suffix("") if base.suffix.lower() in (".svg", ".png") else base
    svg, png = base.with_name(f"{base.name}.svg"), base.with_name(f"{base.name}.png")
    svg.write_bytes(picture.svg)
    png.write_bytes(picture.png)
    return svg, png


def curves_picture(curves: Sequence[Any], *, labels: Sequence[str] = (), title: str = "") -> Picture:
    """Return the picture of `plot_curves`."""
    if not 1 <= len(curves) <= MOST_CURVES:
        raise ValueError(f"{len(curves)} curves are not drawn in one picture: from 1 to {MOST_CURVES} are")
    if labels and len(labels) != len(curves):
        raise ValueError(f"{len(curves)} curves and {len(labels)} labels: give one label for each")
    names = list(labels) or [curve.mix.name for curve in curves]
    check_can_draw()
    return _drawn(curves, names, title)


def _drawn(curves: Sequence[Any], names: Sequence[str], title: str) -> Picture:
    scale = _scale(curves)
    sheet = Sheet([_HEIGHT_IN], left_in=_LEFT_IN, right_in=_RIGHT_IN)
    panel = sheet.panels[0]
    targets = list(dict.fromkeys(curve.target for curve in curves))
    head = title or f"latency over load: {', '.join(dict.fromkeys(names))}"
    knees = list(dict.fromkeys(curve.knee.method for curve in curves if curve.knee is not None))
    marks = ["each mark a step, the open one the maximum by a closed loop"]
    marks += [f"the ring the knee ({', '.join(knees)})"] if knees else []
    sheet.title(head, f"{'; '.join(targets)}: {', '.join(marks)}")
    highest = max(scale.mean_of(run) for curve in curves for run in _runs(curve))
    walls, beyond = _walls(curves, names, scale, highest)
    right = max([highest, *(wall.value for wall in walls)]) * 1.06
    named = [_wall_name(wall, scale, right) for wall in walls]
    alone = len(curves) == 1
    latencies = [run.latency.mean_s * _MS for curve in curves for run in _runs(curve)]
    panel.across(0, right)
    shown = latencies + (
        [run.latency.p99_s * _MS for run in _runs(curves[0]) if run.latency.p99_s] if alone else []
    )
    bottom = min(latencies) / 2.2
    # Room above all marks for the names of the ceilings.
    rows = sum(map(len, named))
    taken = min(0.5, (rows * _LABEL_IN + 0.2) / _HEIGHT_IN)
    top = max(shown) * (max(shown) / bottom) ** (taken / (1 - taken))
    panel.upwards(bottom, top, logarithmic=True)
    panel.unit("mean latency, ms (logarithmic)")
    panel.below(scale.unit)
    row = 0
    for wall, name in zip(walls, named, strict=True):
        _wall(panel, wall, name, row=row)
        row += len(name)
    for number, curve in enumerate(curves):
        _curve(panel, curve, scale, number, alone=alone)
    _named(panel, curves, names, scale)
    sheet.note(told_below(beyond, scale))
    return sheet.picture(head)


def _scale(curves: Sequence[Any]) -> RateScale:
    """Return IOPS, unless a throughput binds all curves."""
    found = {scale_of(curve.maximum).unit for curve in curves}
    return MIB_PER_S if found == {MIB_PER_S.unit} else IOPS


def _runs(curve: Any) -> list[Any]:
    """Return the curve's runs that have a latency, the maximum last."""
    runs = [*(step.measurement for step in curve.steps), curve.maximum]
    return [run for run in runs if run.latency is not None]


def _walls(
    curves: Sequence[Any], names: Sequence[str], scale: RateScale, highest: float
) -> tuple[list[CeilingLine], list[CeilingLine]]:
    """Return the ceilings of all curves, each once: those to draw, and those too far to the right.

    A throughput means a different number of I/Os for each mix, so a ceiling of some curves names them.
    """
    near: dict[CeilingLine, list[str]] = {}
    far: dict[CeilingLine, list[str]] = {}
    for curve, name in zip(curves, names, strict=True):
        for lines, found in zip(ceiling_lines(curve.envelope, scale, highest), (near, far), strict=True):
            for line in lines:
                found.setdefault(replace(line, value=round(line.value)), []).append(name)
    told = [
        replace(
            line,
            remark=", ".join(filter(None, [line.remark, *whose]))
            if len(whose) < len(curves)
            else line.remark,
        )
        for line, whose in near.items()
    ]
    beyond = [line for line in far if line not in near]
    return sorted(told, key=lambda line: line.value), sorted(beyond, key=lambda line: line.value)


def _wall_name(wall: CeilingLine, scale: RateScale, right: float) -> list[str]:
    """Return a ceiling's name as written beside its line, wrapped to stay within the picture."""
    remark = f" ({wall.remark})" if wall.remark else ""
    text = f"{' and '.join(wall.names)}, {scale.text(wall.value)}{remark}"
    share = wall.value / right
    columns = int((share if share > _LEFT_FROM else 1 - share) * _ACROSS_IN / _CHARACTER_IN)
    return textwrap.wrap(text, max(columns, _FEWEST_COLUMNS), break_on_hyphens=False)


def _wall(panel: Panel, wall: CeilingLine, name: Sequence[str], *, row: int) -> None:
    """Draw vertical lines with their names at the top, each on its own rows, so that close ones stay readable."""
    colour, style = (LIMIT, (6, 3)) if wall.promised else (GREY, (1, 2))
    panel.upright(wall.value, colour, style=style, width=1.1, z=1.5)
    share = panel.x.share(wall.value)
    to_the_left = share > _LEFT_FROM
    panel.drawing.text(
        panel.spot(share, 1 - (row * _LABEL_IN + 0.03) / _HEIGHT_IN),
        "\n".join(name),
        size_pt=9,
        colour=colour,
        align="right" if to_the_left else "left",
        vertical="top",
        shift_pt=(-4 if to_the_left else 4, 0),
        backed=True,
    )


def _curve(panel: Panel, curve: Any, scale: RateScale, number: int, *, alone: bool) -> None:
    colour, style, marker = COLOURS[number], STYLES[number], MARKERS[number]
    steps = [run for run in _runs(curve) if run is not curve.maximum]
    across = [scale.mean_of(run) for run in steps]
    means = [run.latency.mean_s * _MS for run in steps]
    mark = panel.drawing.mark
    panel.line(across, means, colour, style=style)
    for each in zip(across, means, strict=True):
        mark(panel.point(*each), colour, shape=marker, size_pt=5, z=3)
    if curve.maximum.latency is not None:
        peak = panel.point(scale.mean_of(curve.maximum), curve.maximum.latency.mean_s * _MS)
        mark(peak, colour, shape=marker, size_pt=9, fill="white")
    if curve.knee is not None:
        knee = panel.point(_knee_at(curve, scale), curve.knee.latency_s * _MS)
        mark(knee, colour, size_pt=15, fill="none", width_pt=1.3, z=3.6)
    p99 = [run.latency.p99_s for run in steps]
    if alone and steps and None not in p99:
        above = [each * _MS for each in p99]
        panel.line(across, above, QUIET, style=(1, 1.5), width=1.2, z=2.5)
        first = panel.point(across[0], above[0])
        rises = above[1:] and above[1] > above[0] * _STEEP
        panel.drawing.text(first, "p99", size_pt=9, colour=QUIET, shift_pt=(5, -9) if rises else (0, 5))


def _named(panel: Panel, curves: Sequence[Any], names: Sequence[str], scale: RateScale) -> None:
    """Draw the legend beside the picture: line and mark, name, peak and knee of each curve."""
    line = _LABEL_IN / _HEIGHT_IN
    top = 1.0
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        colour = COLOURS[number]
        ends = [panel.spot(1.03, top - line / 2), panel.spot(1.075, top - line / 2)]
        panel.drawing.line(ends, colour, width_pt=1.6, dashes=STYLES[number])
        for end in ends:
            panel.drawing.mark(end, colour, shape=MARKERS[number], size_pt=5)
        latency = curve.maximum.latency
        lines = textwrap.wrap(name, _NAME_COLUMNS)
        at = f", {duration(latency.mean_s)}" if latency is not None else ""
        said = _broken(f"maximum {scale.text(scale.mean_of(curve.maximum))}{at}")
        if curve.knee is not None:
            said += _broken(f"knee {scale.text(_knee_at(curve, scale))}, {duration(curve.knee.latency_s)}")
        for words, bold in ((lines, True), (said, False)):
            for text in words:
                place = panel.spot(1.09, top - line / 2)
                panel.drawing.text(place, text, size_pt=9, colour=colour, bold=bold, vertical="center")
                top -= line
        top -= line * 0.6


def _broken(said: str) -> list[str]:
    """Return one line if it fits beside the picture, else put the time below."""
    if len(said) <= _SAID_COLUMNS:
        return [said]
    rate, _, at = said.rpartition(", ")
    return [rate, f"at {at}"]


def _knee_at(curve: Any, scale: RateScale) -> float:
    nearest = min(_runs(curve), key=lambda run: abs(run.iops - curve.knee.iops.per_second))
    return scale.mean_of(nearest)
