"""A finished picture, and the drawing sheet it comes from. matplotlib is imported when the first one is drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_IN = 9.375
"""900 pixels of a browser, which counts 96 to the inch."""
PIXELS_PER_INCH = 144

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9.5,
    "text.color": "#111111",
    "text.parse_math": False,  # a "$" in somebody's target is no formula
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "xtick.direction": "out",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text: it can be searched and selected
    "svg.hashsalt": "cloudbench",
}


class PlotsMissing(ImportError):
    """A picture was wanted and the library that draws it is not installed."""


@dataclass(frozen=True)
class Picture:
    """A picture twice: ``svg`` for screens and paper, ``png`` for whatever cannot show that."""

    name: str
    svg: bytes
    png: bytes


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Have what is drawn and rendered in here look like all our pictures; whatever else draws is not touched.

    Raises PlotsMissing, naming the extra, where matplotlib is not installed.
    """
    check_can_draw()
    import matplotlib

    style: Any = STYLE
    with matplotlib.rc_context(style):
        yield


def check_can_draw() -> None:
    """Raise PlotsMissing, naming the extra, where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotsMissing(
            "pictures need matplotlib, which is not installed: pip install 'pytest-cloudbench[plots]'"
        ) from error


def new_figure(height_in: float) -> Figure:
    """An empty white sheet of the usual width."""
    check_can_draw()
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), facecolor="white")


def rendered(name: str, figure: Figure) -> Picture:
    """The drawing as a picture; the same drawing gives the same bytes."""
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Title": name})
    figure.savefig(png, format="png", dpi=PIXELS_PER_INCH, metadata={"Software": None})
    return Picture(name, svg.getvalue(), png.getvalue())
