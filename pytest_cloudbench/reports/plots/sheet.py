"""A sheet with one or more panels above each other: titles, axes with units, lines with names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.reports.plots.drawing import FONT_PT, INK, WIDTH_IN, Dashes, Drawing, Point, broken
from pytest_cloudbench.reports.plots.picture import Picture


def spread(
    wanted: Sequence[float], heights: Sequence[float], *, low: float = 0.0, high: float = 1.0
) -> list[float]:
    """Return the centres of labels of these heights, as near as possible to ``wanted``, without overlaps.

    They stay between ``low`` and ``high`` if all of them fit; else they start at ``low``.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    bottoms: dict[int, float] = {}
    edge = low
    for index in order:
        bottoms[index] = edge = max(edge, wanted[index] - heights[index] / 2)
        edge += heights[index]
    edge = max(high, low + sum(heights))
    for index in reversed(order):
        bottoms[index] = edge = min(bottoms[index], edge - heights[index])
    return [bottoms[index] + heights[index] / 2 for index in range(len(wanted))]


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SLACK = 1e-9


@dataclass(frozen=True)
class AxisScale:
    """A range of values. A logarithmic one must be above zero."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        lowest = math.log(self.low)
        return (math.log(max(value, self.low * _SLACK)) - lowest) / (math.log(self.high) - lowest)

    def ticks(self, most: int = 9) -> list[float]:
        """Return at most ``most`` round values in the range; on a logarithmic axis 1, 2 and 5 of each decade."""
        return self._powers() if self.logarithmic else self._rounds(most)

    def _rounds(self, most: int) -> list[float]:
        smallest = (self.high - self.low) / max(most, 1)
        ten = 10.0 ** math.floor(math.log10(smallest))
        step = next(ten * each for each in (*_STEPS, 20.0) if ten * each >= smallest * (1 - _SLACK))
        first, last = math.ceil(self.low / step - _SLACK), math.floor(self.high / step + _SLACK)
        return [number * step for number in range(first, last + 1)]

    def _powers(self) -> list[float]:
        ratio = self.high / self.low
        multiples: Sequence[float] = (1, 2, 5) if ratio < 200 else (1, 3) if ratio < 5_000 else (1,)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [each * 10.0**power for power in powers for each in multiples]
        return [value for value in values if self.low <= value <= self.high]


def tick_text(value: float) -> str:
    """Return a value as written beside an axis: "80,000", "0.25"."""
    return f"{value:,.10g}"


SERIES = "#14406b"
LIMIT = "#a63a00"
GREY = "#666666"
QUIET = "#555555"

STYLES: tuple[Dashes, ...] = ((), (6, 2), (1, 1.3), (7, 2, 1.5, 2), (3, 1.5), (9, 2, 1, 2, 1, 2))
"""Line styles that differ without colour."""
COLOURS = ("#14406b", "#a63a00", "#2d6a2e", "#6a3d8a", "#222222", "#8a6d00")

_GRID, _FRAME, _TICKS = "#dddddd", "#555555", "#333333"
_LEFT_IN = 0.92
"""Room for the labels of ticks, such as "10,000,000"."""
_MARGIN_IN = 0.15
_TITLE_PT, _TITLE_IN = 11.5, 0.21
_RIGHT_IN = 2.4
_TOP_IN = 0.86
_BOTTOM_IN = 0.74
_BETWEEN_IN = 0.48
_LINE_IN = 0.175
_TICK_IN = 3.5 / 72
_LABEL_PT = 9.0
_LABELS_FROM = 1.025
_NOTE_PT, _NOTE_LINE_IN = 8.5, 0.15


@dataclass
class Label:
    """A name beside the right edge, at a value of the vertical axis."""

    value: float
    text: str
    colour: str = INK
    bold: bool = False


class Panel:
    """A pair of axes with labels at its right edge. Set its ranges before drawing.

    ``box``: left, bottom, width and height on the sheet, in inches. ``ticks``: values and words of the horizontal axis,
    in place of round values; an empty list for none. ``rows``: the same for the vertical axis.
    """

    def __init__(self, drawing: Drawing, box: tuple[float, float, float, float]) -> None:
        self.drawing = drawing
        self.box = box
        self.x = AxisScale(0, 1)
        self.y = AxisScale(0, 1)
        self.ticks: Sequence[tuple[float, str]] | None = None
        self.rows: Sequence[tuple[float, str]] | None = None
        self.grid = "y"
        self.labels: list[Label] = []

    def across(self, low: float, high: float) -> None:
        """Set the range of the horizontal axis."""
        self.x = AxisScale(low, high)

    def upwards(self, low: float, high: float, *, logarithmic: bool = False) -> None:
        """Set the range of the vertical axis."""
        self.y = AxisScale(low, high, logarithmic)

    def point(self, x: float, y: float) -> Point:
        """Return the position of a pair of values on the sheet."""
        return self.spot(self.x.share(x), self.y.share(y))

    def spot(self, across: float, up: float) -> Point:
        """Return the position on the sheet of shares of the panel's width and height."""
        left, bottom, width, height = self.box
        return left + across * width, bottom + up * height

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        colour: str,
        *,
        style: Dashes = (),
        width: float = 1.6,
        steps: bool = False,
        z: float = 3.0,
    ) -> None:
        """Draw a line through values, with gaps for NaN; ``steps``: level up to each value's x."""
        points = [self.point(x, y) for x, y in zip(xs, ys, strict=True)]
        self.drawing.line(points, colour, width_pt=width, dashes=style, z=z, clip=self.box, steps=steps)

    def label(self, value: float, *lines: str, colour: str = INK, bold: bool = False) -> None:
        """Label this value at the right edge; long lines are wrapped between words."""
        room_in = WIDTH_IN - self.spot(_LABELS_FROM, 0)[0] - 0.04
        parts = [part for line in lines for part in broken(line, room_in, size_pt=_LABEL_PT, bold=bold)]
        self.labels.append(Label(value, "\n".join(parts), colour, bold))

    def limit(self, value: float, *lines: str, style: Dashes, colour: str) -> None:
        """Draw a level line over the whole width, labelled at its end."""
        up = self.y.share(value)
        ends = [self.spot(0, up), self.spot(1, up)]
        self.drawing.line(ends, colour, width_pt=1.1, dashes=style, z=4, snap=True)
        self.label(value, *lines, colour=colour)

    def moment(self, at: float, text: str, *, height: float = 0.97) -> None:
        """Mark a moment on the time axis, with a label beside its line; ``height`` is a share of the panel."""
        across = self.x.share(at)
        beyond = across > 0.6
        ends = [self.spot(across, 0), self.spot(across, 1)]
        self.drawing.line(ends, INK, dashes=(2, 2), z=1.6, snap=True)
        self.drawing.text(
            self.spot(across, height),
            text,
            size_pt=9,
            align="right" if beyond else "left",
            vertical="top",
            shift_pt=(-5 if beyond else 5, 0),
            backed=True,
        )

    def unit(self, text: str) -> None:
        """Write the unit of the vertical axis above it."""
        self.drawing.text(self.spot(0, 1), text, colour=QUIET, shift_pt=(0, 5))

    def below(self, text: str) -> None:
        """Write the unit of the horizontal axis below its end."""
        self.drawing.text(
            self.spot(1, 0), text, colour=QUIET, align="right", vertical="top", shift_pt=(0, -23)
        )

    def finish(self) -> None:
        """Draw the axes, the grid and the labels beside the right edge."""
        self._axes()
        self._place_labels()

    def _axes(self) -> None:
        left, bottom, width, height = self.box
        line = self.drawing.line
        ticks = _named(self.x, width, 3) if self.ticks is None else self.ticks
        rows = _named(self.y, height, 2) if self.rows is None else self.rows
        for value, words in ticks:
            x, _ = self.spot(self.x.share(value), 0)
            if "x" in self.grid:
                line([(x, bottom), (x, bottom + height)], _GRID, width_pt=0.7, z=1, snap=True)
            line([(x, bottom), (x, bottom - _TICK_IN)], _TICKS, width_pt=0.8, z=1.2, snap=True)
            self.drawing.text(
                (x, bottom), words, colour=_TICKS, align="middle", vertical="top", shift_pt=(0, -7)
            )
        for value, words in rows:
            _, y = self.spot(0, self.y.share(value))
            if "y" in self.grid:
                line([(left, y), (left + width, y)], _GRID, width_pt=0.7, z=1, snap=True)
            if self.rows is None:
                line([(left, y), (left - _TICK_IN, y)], _TICKS, width_pt=0.8, z=1.2, snap=True)
            self.drawing.text(
                (left, y), words, colour=_TICKS, align="right", vertical="center", shift_pt=(-7, 0)
            )
        corners = [(left, bottom + height), (left, bottom), (left + width, bottom)]
        line(corners, _FRAME, width_pt=0.8, z=4.5, snap=True)

    def _place_labels(self) -> None:
        """Write the labels, moved so that none covers another."""
        wanted = [self.y.share(label.value) for label in self.labels]
        heights = [(label.text.count("\n") + 1) * _LINE_IN / self.box[3] + 0.012 for label in self.labels]
        places = spread(wanted, heights, low=-0.08, high=1.06)
        for label, edge, place in zip(self.labels, wanted, places, strict=True):
            leader = [self.spot(1.003, min(1.0, max(0.0, edge))), self.spot(1.019, place)]
            self.drawing.line(leader, label.colour, width_pt=0.7)
            self.drawing.text(
                self.spot(_LABELS_FROM, place),
                label.text,
                size_pt=_LABEL_PT,
                colour=label.colour,
                bold=label.bold,
                vertical="center",
            )


class Sheet:
    """Panels above each other with one time axis, a title with a subtitle, and a note at the foot."""

    def __init__(
        self, heights_in: Sequence[float], *, right_in: float = _RIGHT_IN, left_in: float = _LEFT_IN
    ) -> None:
        self._foot_in = 0.0
        self._height = _TOP_IN + sum(heights_in) + _BETWEEN_IN * (len(heights_in) - 1) + _BOTTOM_IN
        self.drawing = Drawing(self._height)
        self.panels: list[Panel] = []
        top = self._height - _TOP_IN
        for height in heights_in:
            box = (left_in, top - height, WIDTH_IN - left_in - right_in, height)
            self.panels.append(Panel(self.drawing, box))
            top -= height + _BETWEEN_IN

    def title(self, text: str, below: str) -> None:
        """Write the title, and the result below it in smaller letters. Long ones make the sheet higher."""
        room_in = WIDTH_IN - 2 * _MARGIN_IN
        heads = broken(text, room_in, size_pt=_TITLE_PT, bold=True)
        said = broken(below, room_in)
        more = (max(1, len(heads)) - 1) * _TITLE_IN + (max(1, len(said)) - 1) * _LINE_IN
        self._height += more
        self.drawing.grow(more)
        for number, line in enumerate(heads):
            self._text(0.29 + number * _TITLE_IN, line, size_pt=_TITLE_PT, bold=True)
        under = 0.52 + (max(1, len(heads)) - 1) * _TITLE_IN
        for number, line in enumerate(said):
            self._text(under + number * _LINE_IN, line, colour=QUIET)

    def reach(self, down_to_in: float) -> None:
        """Make the sheet higher if what is drawn beside a panel goes down into the note."""
        if (more := _NOTE_LINE_IN * 2 - down_to_in + self._foot_in) > 0:
            self.drawing.deepen(more)
            self._foot_in -= more

    def note(self, text: str) -> None:
        """Write small letters at the foot. A long note makes the sheet higher."""
        for number, line in enumerate(broken(text, WIDTH_IN - 2 * _MARGIN_IN, size_pt=_NOTE_PT)):
            if number:
                self.drawing.deepen(_NOTE_LINE_IN)
            place = _MARGIN_IN, self._foot_in + 0.11 - number * _NOTE_LINE_IN
            self.drawing.text(place, line, size_pt=_NOTE_PT, colour=QUIET)

    def time_axis(self, unit: str, compression: float = 1.0) -> None:
        """Name the time axis below the last panel."""
        faster = f" of the test (time compressed {compression:g} times)" if compression != 1 else ""
        self.panels[-1].below(f"time{faster}, {unit}")
        for panel in self.panels[:-1]:
            panel.ticks = [(value, "") for value, _ in _named(panel.x, panel.box[2], 3)]

    def picture(self, name: str) -> Picture:
        for panel in self.panels:
            panel.finish()
        return self.drawing.rendered(name)

    def _text(self, from_top_in: float, text: str, **style: Any) -> None:
        self.drawing.text((_MARGIN_IN, self._height - from_top_in), text, **style)


def _named(scale: AxisScale, length_in: float, font_sizes: float) -> list[tuple[float, str]]:
    """Return the ticks, nine at most, that fit on an axis of this length if each takes this number of font sizes."""
    most = max(1, min(9, int(length_in * 72 / (FONT_PT * font_sizes))))
    return [(value, tick_text(value)) for value in scale.ticks(most)]
