"""Latency over load as a picture: one curve or several, the ceilings as walls, the knee marked."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.plots.ceiling_lines import CeilingLine, ceiling_lines, told_below
from pytest_cloudbench.evidence.plots.picture import Picture, drawing
from pytest_cloudbench.evidence.plots.rate_scale import IOPS, MIB_PER_S, RateScale, scale_of
from pytest_cloudbench.evidence.plots.sheet import COLOURS, GREY, LIMIT, QUIET, STYLES, Sheet
from pytest_cloudbench.verdicts.wording import duration

MOST_CURVES = 6
"""More than this cannot be told apart."""
MARKERS = ("o", "s", "^", "D", "v", "P")

_HEIGHT_IN = 3.7
_LABEL_IN = 0.17
_MS = 1000.0


def plot_curves(
    *curves: Any, to: str | Path, labels: Sequence[str] = (), title: str = ""
) -> tuple[Path, Path]:
    """Draw what sweeps returned as one picture, and write it as SVG and, beside it, as PNG; both paths.

    ``to`` is a file name; its ending does not matter. ``labels`` name the curves where their mixes alone would not
    tell them apart. Raises PlotsMissing, naming the extra, without matplotlib; ValueError for no curve or too many.
    """
    picture = curves_picture(curves, labels=labels, title=title)
    base = Path(to)
    base = base.with_suffix("") if base.suffix.lower() in (".svg", ".png") else base
    svg, png = base.with_name(f"{base.name}.svg"), base.with_name(f"{base.name}.png")
    svg.write_bytes(picture.svg)
    png.write_bytes(picture.png)
    return svg, png


def curves_picture(curves: Sequence[Any], *, labels: Sequence[str] = (), title: str = "") -> Picture:
    """As `plot_curves`, the picture itself."""
    if not 1 <= len(curves) <= MOST_CURVES:
        raise ValueError(f"{len(curves)} curves are not drawn in one picture: from 1 to {MOST_CURVES} are")
    if labels and len(labels) != len(curves):
        raise ValueError(f"{len(curves)} curves and {len(labels)} labels: give one label for each")
    names = list(labels) or [curve.mix.name for curve in curves]
    with drawing():
        return _drawn(curves, names, title)


def _drawn(curves: Sequence[Any], names: Sequence[str], title: str) -> Picture:
    scale = _scale(curves)
    sheet = Sheet([_HEIGHT_IN], right_in=2.75)
    panel = sheet.panels[0]
    axes: Any = panel.axes
    targets = list(dict.fromkeys(curve.target for curve in curves))
    head = title or f"latency over load: {', '.join(dict.fromkeys(names))}"
    knees = list(dict.fromkeys(curve.knee.method for curve in curves if curve.knee is not None))
    marks = ["each mark a step, the open one the maximum by a closed loop"]
    marks += [f"the ring the knee ({', '.join(knees)})"] if knees else []
    sheet.title(head, f"{'; '.join(targets)}: {', '.join(marks)}")
    highest = max(scale.of(_rate(run, scale)) for curve in curves for run in _runs(curve))
    walls, beyond = _walls(curves, names, scale, highest)
    right = max([highest, *(wall.value for wall in walls)]) * 1.06
    alone = len(curves) == 1
    latencies = [run.latency.mean_s * _MS for curve in curves for run in _runs(curve)]
    axes.set_yscale("log")
    axes.set_xlim(0, right)
    shown = latencies + (
        [run.latency.p99_s * _MS for run in _runs(curves[0]) if run.latency.p99_s] if alone else []
    )
    bottom = min(latencies) / 2.2
    # As much room above all marks as the names of the ceilings take.
    taken = min(0.5, (len(walls) * _LABEL_IN + 0.2) / _HEIGHT_IN)
    axes.set_ylim(bottom, max(shown) * (max(shown) / bottom) ** (taken / (1 - taken)))
    axes.grid(axis="y", which="major")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    panel.unit("mean latency, ms (logarithmic)")
    axes.annotate(
        scale.unit, (1, 0), xycoords="axes fraction", xytext=(0, -23), textcoords="offset points", ha="right",
        va="top", color=QUIET,
    )  # fmt: skip
    for number, wall in enumerate(walls):
        _wall(axes, wall, scale, right, row=number)
    for number, curve in enumerate(curves):
        _curve(axes, curve, scale, number, alone=alone)
    _named(axes, curves, names, scale)
    sheet.note(told_below(beyond, scale))
    return sheet.picture(head)


def _scale(curves: Sequence[Any]) -> RateScale:
    """IOPS, unless what binds all of them is throughput."""
    found = {scale_of(curve.maximum).unit for curve in curves}
    return MIB_PER_S if found == {MIB_PER_S.unit} else IOPS


def _rate(run: Any, scale: RateScale) -> Any:
    from pytest_cloudbench.verdicts.observation import measured_rate

    return measured_rate(run, scale.like)


def _runs(curve: Any) -> list[Any]:
    """Its runs that have a latency, the maximum last."""
    runs = [*(step.measurement for step in curve.steps), curve.maximum]
    return [run for run in runs if run.latency is not None]


def _walls(
    curves: Sequence[Any], names: Sequence[str], scale: RateScale, highest: float
) -> tuple[list[CeilingLine], list[CeilingLine]]:
    """The ceilings of all curves, each once: those to be drawn, and those that lie too far to the right.

    A throughput is another number of I/Os for each mix: what does not hold for all of them says for which it does.
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


def _wall(axes: Any, wall: CeilingLine, scale: RateScale, right: float, *, row: int) -> None:
    """A vertical line with its name at the top, each on a row of its own so that close ones stay readable."""
    colour, style = (LIMIT, (0, (6, 3))) if wall.promised else (GREY, (0, (1, 2)))
    axes.axvline(wall.value, color=colour, linewidth=1.1, linestyle=style, zorder=1.5)
    remark = f" ({wall.remark})" if wall.remark else ""
    to_the_left = wall.value > right * 0.45
    axes.annotate(
        f"{' and '.join(wall.names)}, {scale.text(wall.value)}{remark}",
        (wall.value, 1 - (row * _LABEL_IN + 0.03) / _HEIGHT_IN),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if to_the_left else 4, 0),
        textcoords="offset points",
        ha="right" if to_the_left else "left",
        va="top",
        fontsize=9,
        color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.88, "pad": 1.0},
    )


def _curve(axes: Any, curve: Any, scale: RateScale, number: int, *, alone: bool) -> None:
    colour, style, marker = COLOURS[number], STYLES[number], MARKERS[number]
    steps = [run for run in _runs(curve) if run is not curve.maximum]
    across = [scale.of(_rate(run, scale)) for run in steps]
    means = [run.latency.mean_s * _MS for run in steps]
    axes.plot(
        across, means, color=colour, linestyle=style, marker=marker, markersize=5, linewidth=1.6, zorder=3
    )
    if curve.maximum.latency is not None:
        peak = [scale.of(_rate(curve.maximum, scale))], [curve.maximum.latency.mean_s * _MS]
        axes.plot(*peak, marker=marker, markersize=9, markerfacecolor="white", color=colour, zorder=3.5)
    if curve.knee is not None:
        knee = [_knee_at(curve, scale)], [curve.knee.latency_s * _MS]
        ring = {"marker": "o", "markersize": 15, "markerfacecolor": "none", "markeredgewidth": 1.3}
        axes.plot(*knee, color=colour, zorder=3.6, **ring)
    p99 = [run.latency.p99_s for run in steps]
    if alone and steps and None not in p99:
        above = [each * _MS for each in p99]
        axes.plot(across, above, color=QUIET, linestyle=(0, (1, 1.5)), linewidth=1.2, zorder=2.5)
        axes.annotate(
            "p99", (across[0], above[0]), xytext=(0, 5), textcoords="offset points", fontsize=9, color=QUIET
        )


def _named(axes: Any, curves: Sequence[Any], names: Sequence[str], scale: RateScale) -> None:
    """Beside the picture, each curve's line and mark, its name, its peak and its knee."""
    line = _LABEL_IN / _HEIGHT_IN
    top = 1.0
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        colour = COLOURS[number]
        axes.plot(
            [1.03, 1.075],
            [top - line / 2] * 2,
            transform=axes.transAxes,
            clip_on=False,
            color=colour,
            linestyle=STYLES[number],
            marker=MARKERS[number],
            markersize=5,
            linewidth=1.6,
        )
        latency = curve.maximum.latency
        lines = textwrap.wrap(name, 26)
        at = f", {duration(latency.mean_s)}" if latency is not None else ""
        said = [f"maximum {scale.text(scale.of(_rate(curve.maximum, scale)))}{at}"]
        if curve.knee is not None:
            said.append(f"knee {scale.text(_knee_at(curve, scale))}, {duration(curve.knee.latency_s)}")
        for words, bold in ((lines, True), (said, False)):
            for text in words:
                axes.text(
                    1.09,
                    top - line / 2,
                    text,
                    transform=axes.transAxes,
                    ha="left",
                    va="center",
                    fontsize=9,
                    color=colour,
                    fontweight="bold" if bold else "normal",
                )
                top -= line
        top -= line * 0.6


def _knee_at(curve: Any, scale: RateScale) -> float:
    nearest = min(_runs(curve), key=lambda run: abs(run.iops - curve.knee.iops.per_second))
    return scale.of(_rate(nearest, scale))
