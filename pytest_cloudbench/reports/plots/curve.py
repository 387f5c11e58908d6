"""Latency over load in a picture: one curve or several, with ceilings as vertical lines, and the knee."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_cloudbench.reports.plots.drawing import WIDTH_IN
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_over_time import CeilingLine, ceiling_lines, told_below
from pytest_cloudbench.reports.plots.rate_scale import IOPS, MIB_PER_S, RateScale, scale_of
from pytest_cloudbench.reports.plots.sheet import COLOURS, GREY, LIMIT, QUIET, STYLES, Panel, Sheet
from pytest_cloudbench.verdicts.wording import duration, without_ids

MOST_CURVES = 6
"""More curves than this cannot be distinguished."""
MARKERS = ("o", "s", "^", "D", "v", "P")

_HEIGHT_IN = 3.7
_LEFT_IN, _RIGHT_IN = 0.92, 2.75
_ACROSS_IN = WIDTH_IN - _LEFT_IN - _RIGHT_IN
_LABEL_IN = 0.17
_CHARACTER_IN = 0.072
"""Average width of the letters of a ceiling's name, with a margin."""
_FEWEST_COLUMNS, _MOST_COLUMNS = 16, 44
_MOST_IN_TITLE = 4
"""The title names up to this number of curves; the legend names all."""
_MOST_TRIED = 5
"""With more ceilings, only one order of their names is tried."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_P99_DASHES = (1.0, 1.5)
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
        raise ValueError(f"{len(curves)} curves were given for one picture: give 1 to {MOST_CURVES}")
    if labels and len(labels) != len(curves):
        raise ValueError(f"{len(curves)} curves and {len(labels)} labels: give one label for each")
    return _drawn(curves, list(labels) or _names(curves), title)


def _names(curves: Sequence[Any]) -> list[str]:
    """Return the mixes of the curves, or their differences if two curves have the same mix."""
    names = [str(curve.mix.name) for curve in curves]
    if len(set(names)) == len(names):
        return names
    from pytest_cloudbench.reports.comparisons import names_of

    return names_of(curves)


def _drawn(curves: Sequence[Any], names: Sequence[str], title: str) -> Picture:
    scale = _scale(curves)
    sheet = Sheet([_HEIGHT_IN], left_in=_LEFT_IN, right_in=_RIGHT_IN)
    panel = sheet.panels[0]
    targets = list(dict.fromkeys(without_ids(curve.target) for curve in curves))
    mixes = list(dict.fromkeys(str(curve.mix.name) for curve in curves))
    compared = " against ".join(names) if len(curves) > 1 else mixes[0]
    head = (
        title
        or f"latency over load: {compared if len(curves) <= _MOST_IN_TITLE else f'{len(curves)} curves'}"
    )
    knees = list(dict.fromkeys(curve.knee.method for curve in curves if curve.knee is not None))
    marks = ["each mark a step, the open one the maximum by a closed loop"]
    marks += [f"the ring the knee ({', '.join(knees)})"] if knees else []
    about = [each for each in (*mixes, *targets) if each not in head]
    sheet.title(head, "; ".join([*about, ", ".join(marks)]))
    highest = max(scale.mean_of(run) for curve in curves for run in _runs(curve))
    walls, beyond = _walls(curves, names, scale, highest)
    right = max([highest, *(wall.value for wall in walls)]) * 1.06
    alone = len(curves) == 1
    latencies = [run.latency.mean_s * _MS for curve in curves for run in _runs(curve)]
    panel.across(0, right)
    shown = latencies + (
        [run.latency.p99_s * _MS for run in _runs(curves[0]) if run.latency.p99_s] if alone else []
    )
    bottom = min(latencies) / 2.2
    named = _placed([_wall_names(wall, scale, right) for wall in walls])
    # Room above all marks for the names of the ceilings.
    rows = sum(len(name.lines) for name in named)
    taken = min(0.5, (rows * _LABEL_IN + 0.2) / _HEIGHT_IN)
    top = max(shown) * (max(shown) / bottom) ** (taken / (1 - taken))
    panel.upwards(bottom, top, logarithmic=True)
    panel.unit("mean latency, ms (logarithmic)")
    panel.below(scale.unit)
    for wall, name in zip(walls, named, strict=True):
        _wall(panel, wall, name)
    for number, curve in enumerate(curves):
        _curve(panel, curve, scale, number, alone=alone)
    sheet.reach(_named(panel, curves, names, scale))
    sheet.note(told_below(beyond, scale))
    return sheet.picture(head)


def _scale(curves: Sequence[Any]) -> RateScale:
    """Return MiB/s if that is every curve's scale (`scale_of`), else IOPS."""
    found = {scale_of(curve.maximum).unit for curve in curves}
    return MIB_PER_S if found == {MIB_PER_S.unit} else IOPS


def _runs(curve: Any) -> list[Any]:
    """Return the curve's runs that have a latency, the maximum last."""
    runs = [*(step.measurement for step in curve.steps), curve.maximum]
    return [run for run in runs if run.latency is not None]


def _walls(
    curves: Sequence[Any], names: Sequence[str], scale: RateScale, highest: float
) -> tuple[list[CeilingLine], list[CeilingLine]]:
    """Return the ceilings of all curves, each value once: those to draw, and those too far to the right.

    A throughput means a different number of I/Os for each mix, so a ceiling of only some curves names them.
    """
    near: dict[tuple[float, str, bool], dict[str, list[str]]] = {}
    far: dict[tuple[float, str, bool], dict[str, list[str]]] = {}
    for curve, name in zip(curves, names, strict=True):
        for lines, found in zip(ceiling_lines(curve.envelope, scale, highest), (near, far), strict=True):
            for line in lines:
                same = found.setdefault((round(line.value), line.remark, line.promised), {})
                for label in line.names:
                    same.setdefault(without_ids(label), []).append(name)

    def joined(found: dict[tuple[float, str, bool], dict[str, list[str]]]) -> list[CeilingLine]:
        lines = []
        for (value, remark, promised), labels in sorted(found.items()):
            whose = list(dict.fromkeys(name for each in labels.values() for name in each))
            only = whose if len(whose) < len(curves) else []
            lines.append(
                CeilingLine(value, tuple(labels), ", ".join(filter(None, [remark, *only])), promised)
            )
        return lines

    return joined(near), joined({key: each for key, each in far.items() if key not in near})


@dataclass(frozen=True)
class _Name:
    """A ceiling's name beside its line, at ``share`` of the width, from ``row`` on; ``left`` of the line or right."""

    share: float
    lines: tuple[str, ...]
    left: bool
    row: int = 0

    @property
    def span(self) -> tuple[float, float]:
        """The left and right end of the name, as shares of the width."""
        width = (max(map(len, self.lines)) + 1) * _CHARACTER_IN / _ACROSS_IN
        return (self.share - width, self.share) if self.left else (self.share, self.share + width)

    def crossed_by(self, other: _Name) -> bool:
        """Return True if the line of another ceiling, which ends at its own name, goes through this name."""
        low, high = self.span
        return low < other.share < high and other.row < self.row + len(self.lines)


def _wall_names(wall: CeilingLine, scale: RateScale, right: float) -> list[_Name]:
    """Return a ceiling's name on either side of its line, wrapped to stay within the picture."""
    remark = f" ({wall.remark})" if wall.remark else ""
    # A figure stays on the line of its unit.
    text = f"{' and '.join(wall.names)}, {scale.text(wall.value).replace(' ', _NO_BREAK)}{remark}"
    share = wall.value / right
    found = []
    for left, room in ((False, 1 - share), (True, share)):
        columns = int(room * _ACROSS_IN / _CHARACTER_IN) - 1
        if columns >= _FEWEST_COLUMNS:
            found.append(_Name(share, _wrapped(text, min(columns, _MOST_COLUMNS)), left))
    return found or [_Name(share, _wrapped(text, _FEWEST_COLUMNS), share > 0.5)]


def _wrapped(text: str, columns: int) -> tuple[str, ...]:
    lines = textwrap.wrap(text, columns, break_on_hyphens=False)
    return tuple(line.replace(_NO_BREAK, " ") for line in lines)


def _placed(names: Sequence[Sequence[_Name]]) -> list[_Name]:
    """Return each name on one of its sides and on rows of its own, so that the fewest lines cross a name."""
    if len(names) > _MOST_TRIED:
        orders: Iterable[tuple[int, ...]] = [tuple(range(len(names)))]
    else:
        orders = itertools.permutations(range(len(names)))
    best: list[_Name] = []
    fewest: tuple[int, int] | None = None
    sides = list(itertools.product(*names))
    for order in orders:
        for chosen in sides:
            rows, placed = 0, list(chosen)
            for index in order:
                placed[index] = replace(chosen[index], row=rows)
                rows += len(chosen[index].lines)
            crossed = sum(one.crossed_by(other) for one in placed for other in placed if one is not other)
            if fewest is None or (crossed, rows) < fewest:
                best, fewest = placed, (crossed, rows)
    return best


def _wall(panel: Panel, wall: CeilingLine, name: _Name) -> None:
    """Draw a vertical line up to its name, which is on rows of its own."""
    colour, style = (LIMIT, (6, 3)) if wall.promised else (GREY, (1, 2))
    top = 1 - (name.row * _LABEL_IN) / _HEIGHT_IN
    ends = [panel.spot(name.share, 0), panel.spot(name.share, top)]
    panel.drawing.line(ends, colour, width_pt=1.1, dashes=style, z=1.5, snap=True)
    panel.drawing.text(
        panel.spot(name.share, top - 0.03 / _HEIGHT_IN),
        "\n".join(name.lines),
        size_pt=9,
        colour=colour,
        align="right" if name.left else "left",
        vertical="top",
        shift_pt=(-4 if name.left else 4, 0),
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
    if alone and (above := _p99_of(curve)):
        panel.line(across, above, QUIET, style=_P99_DASHES, width=1.2, z=2.5)


def _p99_of(curve: Any) -> list[float]:
    """Return the p99 of each step in ms; nothing if one of them has none."""
    found = [run.latency.p99_s for run in _runs(curve) if run is not curve.maximum]
    return [] if None in found else [each * _MS for each in found]


def _named(panel: Panel, curves: Sequence[Any], names: Sequence[str], scale: RateScale) -> float:
    """Draw the legend beside the picture: line and mark, name, peak and knee of each curve. Return its lower edge."""
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
    if len(curves) == 1 and all(
        step.measurement.latency and step.measurement.latency.p99_s for step in curves[0].steps
    ):
        ends = [panel.spot(1.03, top - line / 2), panel.spot(1.075, top - line / 2)]
        panel.drawing.line(ends, QUIET, width_pt=1.2, dashes=_P99_DASHES)
        panel.drawing.text(
            panel.spot(1.09, top - line / 2), "p99 of the steps", size_pt=9, colour=QUIET, vertical="center"
        )
        top -= line
    return panel.spot(0, top)[1]


def _broken(said: str) -> list[str]:
    """Return one line if it fits beside the picture, else put the time below."""
    if len(said) <= _SAID_COLUMNS:
        return [said]
    rate, _, at = said.rpartition(", ")
    return [rate, f"at {at}"]


def _knee_at(curve: Any, scale: RateScale) -> float:
    nearest = min(_runs(curve), key=lambda run: abs(run.iops - curve.knee.iops.per_second))
    return scale.mean_of(nearest)
