"""A sheet with one or more panels over each other: titles, units, lines with their names beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.evidence.plots.label_places import spread
from pytest_cloudbench.evidence.plots.picture import WIDTH_IN, Picture, new_figure, rendered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = "#14406b"
LIMIT = "#a63a00"
GREY = "#666666"
QUIET = "#555555"

STYLES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1, 1.3)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1.5)),
    (0, (9, 2, 1, 2, 1, 2)),
)
"""Line styles that are told apart without colour."""
COLOURS = ("#14406b", "#a63a00", "#2d6a2e", "#6a3d8a", "#222222", "#8a6d00")

_LEFT_IN = 0.78
_RIGHT_IN = 2.25
_TOP_IN = 0.86
_BOTTOM_IN = 0.74
_BETWEEN_IN = 0.48
_LINE_IN = 0.165
_LABEL_COLUMNS, _BOLD_COLUMNS = 31, 27


@dataclass
class Label:
    """A name beside the right edge, at a value of the vertical axis."""

    value: float
    text: str
    colour: str = "#111111"
    bold: bool = False


@dataclass
class Panel:
    """One pair of axes and the labels that will stand at its right edge."""

    axes: Axes
    height_in: float
    labels: list[Label] = field(default_factory=list)

    def label(self, value: float, *lines: str, colour: str = "#111111", bold: bool = False) -> None:
        """Name what ends at the right edge at this value; long lines are broken between words."""
        columns = _BOLD_COLUMNS if bold else _LABEL_COLUMNS
        broken = [part for line in lines for part in textwrap.wrap(line, columns)]
        self.labels.append(Label(value, "\n".join(broken), colour, bold))

    def limit(self, value: float, *lines: str, style: Any = (0, (6, 3)), colour: str = LIMIT) -> None:
        """A level line over the whole width, named at its end."""
        self.axes.axhline(value, color=colour, linewidth=1.1, linestyle=style, zorder=4)
        self.label(value, *lines, colour=colour)

    def moment(self, at: float, text: str, *, height: float = 0.97) -> None:
        """A moment on the time axis, named beside its line; ``height`` as a share of the panel."""
        left, right = self.axes.get_xlim()
        beyond = (at - left) / (right - left) > 0.6
        self.axes.axvline(at, color="#111111", linewidth=1.0, linestyle=(0, (2, 2)), zorder=1.6)
        self.axes.annotate(
            text,
            (at, height),
            xycoords=("data", "axes fraction"),
            xytext=(-5 if beyond else 5, 0),
            textcoords="offset points",
            ha="right" if beyond else "left",
            va="top",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.88, "pad": 1.5},
        )

    def unit(self, text: str) -> None:
        """What the vertical axis counts, above it."""
        self.axes.text(0, 1.02, text, transform=self.axes.transAxes, ha="left", va="bottom", color=QUIET)

    def place_labels(self) -> None:
        """Write the labels, moved apart where they would cover each other."""
        to_share = self.axes.transData + self.axes.transAxes.inverted()
        at = self.axes.get_xlim()[0]
        wanted = [float(to_share.transform((at, label.value))[1]) for label in self.labels]
        heights = [(label.text.count("\n") + 1) * _LINE_IN / self.height_in + 0.012 for label in self.labels]
        places = spread(wanted, heights, low=-0.08, high=1.06)
        for label, edge, place in zip(self.labels, wanted, places, strict=True):
            across = self.axes.transAxes
            leader = [min(1.0, max(0.0, edge)), place]
            self.axes.plot(
                [1.003, 1.019], leader, transform=across, color=label.colour, linewidth=0.7, clip_on=False
            )
            self.axes.text(
                1.025,
                place,
                label.text,
                transform=across,
                ha="left",
                va="center",
                color=label.colour,
                fontsize=9,
                fontweight="bold" if label.bold else "normal",
                linespacing=1.15,
            )


class Sheet:
    """Panels over each other with one time axis, a title, what is to be said below it, and a note at the foot."""

    def __init__(
        self, heights_in: Sequence[float], *, right_in: float = _RIGHT_IN, left_in: float = _LEFT_IN
    ) -> None:
        self._height = _TOP_IN + sum(heights_in) + _BETWEEN_IN * (len(heights_in) - 1) + _BOTTOM_IN
        self._figure = new_figure(self._height)
        self.panels: list[Panel] = []
        top = self._height - _TOP_IN
        first: Any = None
        for height in heights_in:
            box = (
                left_in / WIDTH_IN,
                (top - height) / self._height,
                (WIDTH_IN - left_in - right_in) / WIDTH_IN,
                height / self._height,
            )
            axes: Any = self._figure.add_axes(box, sharex=first)
            first = first or axes
            self.panels.append(Panel(axes, height))
            top -= height + _BETWEEN_IN
        self._columns = int((WIDTH_IN - 0.3) * 72 / 5.5)

    def title(self, text: str, below: str) -> None:
        """What the picture shows, and in quieter letters what came out."""
        self._text(0.29, textwrap.shorten(text, 98, placeholder=" …"), fontsize=11.5, fontweight="bold")
        self._text(0.52, textwrap.shorten(below, 125, placeholder=" …"), fontsize=9.5, color=QUIET)

    def note(self, text: str) -> None:
        """Small letters at the foot, on one line."""
        short = textwrap.shorten(text, 140, placeholder=" …") if text else ""
        self._text(self._height - 0.11, short, fontsize=8.5, color=QUIET)

    def time_axis(self, unit: str, compression: float = 1.0) -> None:
        """Name the time axis below the last panel."""
        faster = f" of the test (time compressed {compression:g} times)" if compression != 1 else ""
        axes = self.panels[-1].axes
        axes.annotate(
            f"time{faster}, {unit}",
            (1, 0),
            xycoords="axes fraction",
            xytext=(0, -23),
            textcoords="offset points",
            ha="right",
            va="top",
            color=QUIET,
        )
        for panel in self.panels[:-1]:
            panel.axes.tick_params(labelbottom=False)

    def picture(self, name: str) -> Picture:
        """The finished picture."""
        for panel in self.panels:
            panel.place_labels()
        return rendered(name, self._figure)

    def _text(self, from_top_in: float, text: str, **style: Any) -> None:
        self._figure.text(
            0.15 / WIDTH_IN, 1 - from_top_in / self._height, text, ha="left", va="baseline", **style
        )
