"""Draw lines, areas, marks and texts on a white sheet, and render it as SVG and PNG.

Only matplotlib's renderers are used: its figures and axes lay out every text again for each format and take 60 ms a
picture instead of 6, which adds up over hundreds of measurements. Texts of the SVG stay texts, which can be searched
and selected. Those of the PNG are drawn by Pillow, a dependency of matplotlib.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cloudbench.reports.plots.picture import Picture, check_can_draw

WIDTH_IN = 9.375
"""900 pixels in a browser, at 96 per inch."""
PIXELS_PER_INCH = 144
FONT_PT = 9.5
INK = "#111111"

_POINTS_PER_INCH = 72
_FONTS = "'DejaVu Sans', Verdana, Arial, sans-serif"
_LINE = 1.15
"""Line height of text, in font sizes."""
_CAPITAL, _ASCENT, _DESCENT = 0.73, 0.78, 0.22
"""Heights of DejaVu Sans, in font sizes."""
_COLOURS = 128
"""Colours of a PNG. It is a sixth of the size with all colours and looks the same: few colours are drawn."""
_NEARLY = 254
"""What white (255) becomes with so few colours."""
_BACKS = 9.0
"""The z-order of the white areas behind texts: above all lines and marks."""

Point = tuple[float, float]
Dashes = tuple[float, ...]
"""Lengths of dash and gap in turn, in line widths; empty for a solid line."""


@dataclass(frozen=True)
class _Text:
    at: Point
    text: str
    size_pt: float
    colour: str
    bold: bool
    align: str


class Drawing:
    """A sheet of the usual width. Positions are in inches from its lower left corner. Later items lie on top."""

    def __init__(self, height_in: float) -> None:
        check_can_draw()
        from matplotlib.transforms import Affine2D

        self.height_in = height_in
        self._below_in = 0.0
        self._scale = Affine2D()
        self._items: list[Any] = []
        self._texts: list[_Text] = []

    def grow(self, by_in: float) -> None:
        """Make the sheet higher; what is drawn keeps its distance from the lower edge."""
        self.height_in += by_in

    def deepen(self, by_in: float) -> None:
        """Add room below everything, at negative heights."""
        self._below_in += by_in

    def line(
        self,
        points: Sequence[Point],
        colour: str,
        *,
        width_pt: float = 1.0,
        dashes: Dashes = (),
        z: float = 2.0,
        clip: tuple[float, float, float, float] | None = None,
        snap: bool = False,
        steps: bool = False,
    ) -> None:
        """Draw a line through points, with gaps for NaN.

        ``clip``: left, bottom, width, height of the visible part; ``snap``: to pixels; ``steps``: level up to a point.
        """
        if not points:
            return
        from matplotlib.lines import Line2D
        from matplotlib.transforms import Bbox, TransformedBbox

        line = Line2D(
            *zip(*points, strict=True), color=colour, linewidth=width_pt, zorder=z, snap=snap, marker="",
            linestyle=(0, dashes) if dashes else "-", dash_joinstyle="round", dash_capstyle="butt",
            solid_joinstyle="round", solid_capstyle="butt" if snap else "projecting", transform=self._scale,
            drawstyle="steps-pre" if steps else "default",
        )  # fmt: skip
        if clip is not None:
            line.set_clip_box(TransformedBbox(Bbox.from_bounds(*clip), self._scale))
        self._items.append(line)

    def area(self, corner: Point, size: Point, fill: str, *, edge: str | None = None, z: float = 2.0) -> None:
        """Draw a rectangle by its lower left corner."""
        from matplotlib.patches import Rectangle

        self._items.append(
            Rectangle(
                corner, *size, facecolor=fill, edgecolor=edge or fill, linewidth=0.9 if edge else 0.0,
                snap=True, zorder=z, transform=self._scale,
            )
        )  # fmt: skip

    def mark(
        self,
        at: Point,
        colour: str,
        *,
        shape: str = "o",
        size_pt: float = 4.0,
        fill: str = "",
        width_pt: float = 1.0,
        z: float = 3.5,
    ) -> None:
        """Draw a mark of matplotlib's shapes ("o", "s", "^" ...), filled with its own colour by default."""
        from matplotlib.lines import Line2D

        self._items.append(
            Line2D(
                at[:1], at[1:], color=colour, linestyle="", marker=shape, markersize=size_pt, zorder=z,
                markeredgewidth=width_pt, markerfacecolor=fill or colour, transform=self._scale,
            )
        )  # fmt: skip

    def text(
        self,
        at: Point,
        text: str,
        *,
        size_pt: float = FONT_PT,
        colour: str = INK,
        bold: bool = False,
        align: str = "left",
        vertical: str = "baseline",
        shift_pt: Point = (0.0, 0.0),
        backed: bool = False,
    ) -> None:
        """Draw lines of text.

        ``align``: left, middle, right; ``vertical``: baseline (of the first line), top, center, bottom; ``backed``: on
        white, so that lines below do not cross it."""
        lines = text.split("\n")
        between = _LINE * size_pt
        below = {
            "baseline": 0.0,
            "top": -_ASCENT * size_pt,
            "center": (len(lines) - 1) / 2 * between - _CAPITAL / 2 * size_pt,
            "bottom": (len(lines) - 1) * between + _DESCENT * size_pt,
        }[vertical]
        x = at[0] + shift_pt[0] / _POINTS_PER_INCH
        for number, line in enumerate(lines):
            y = at[1] + (shift_pt[1] + below - number * between) / _POINTS_PER_INCH
            if line:
                self._texts.append(_Text((x, y), line, size_pt, colour, bold, align))
            if line and backed:
                width = length_pt(line, size_pt, bold)
                left = {"left": 0.0, "middle": -width / 2, "right": -width}[align] - 1.5
                corner = x + left / 72, y - (_DESCENT * size_pt + 0.5) / 72
                self.area(corner, ((width + 3) / 72, (_LINE * size_pt + 0.5) / 72), "white", z=_BACKS)

    def rendered(self, name: str) -> Picture:
        """Return the picture; equal drawings give equal bytes."""
        import matplotlib

        self.area((0.0, -self._below_in), (WIDTH_IN, self._whole_in), "white", z=-1.0)
        style: Any = {"svg.hashsalt": "cloudbench", "path.simplify": True, "path.snap": True}
        with matplotlib.rc_context(style):
            return Picture(name, self._svg(name), self._png())

    @property
    def _whole_in(self) -> float:
        return self.height_in + self._below_in

    def _svg(self, name: str) -> bytes:
        from matplotlib.backends.backend_svg import RendererSVG

        out: Any = io.StringIO()
        width, height = WIDTH_IN * _POINTS_PER_INCH, self._whole_in * _POINTS_PER_INCH
        about: Any = {"Title": name, "Date": None, "Creator": None}
        make: Any = RendererSVG
        renderer = make(width, height, out, None, _POINTS_PER_INCH, metadata=about)
        self._draw(renderer, _POINTS_PER_INCH)
        for each in self._texts:
            weight = "font-weight: bold; " if each.bold else ""
            renderer.writer.element(
                "text",
                each.text,
                attrib={
                    "x": f"{each.at[0] * _POINTS_PER_INCH:.2f}",
                    "y": f"{(self.height_in - each.at[1]) * _POINTS_PER_INCH:.2f}",
                    "text-anchor": {"left": "start", "middle": "middle", "right": "end"}[each.align],
                    "style": f"{weight}font-size: {each.size_pt:g}px; font-family: {_FONTS}; fill: {each.colour}",
                },
            )
        renderer.finalize()
        return str(out.getvalue()).encode()

    def _png(self) -> bytes:
        from matplotlib.backends.backend_agg import RendererAgg
        from PIL import Image, ImageDraw

        size = WIDTH_IN * PIXELS_PER_INCH, round(self._whole_in * PIXELS_PER_INCH)
        make: Any = RendererAgg
        renderer = make(*size, PIXELS_PER_INCH)
        self._draw(renderer, PIXELS_PER_INCH)
        image = Image.frombuffer(
            "RGBX", (int(size[0]), size[1]), renderer.buffer_rgba(), "raw", "RGBX", 0, 1
        ).convert("RGB")
        pen = ImageDraw.Draw(image)
        for each in self._texts:
            at = each.at[0] * PIXELS_PER_INCH, size[1] - (each.at[1] + self._below_in) * PIXELS_PER_INCH
            anchor = {"left": "ls", "middle": "ms", "right": "rs"}[each.align]
            pen.text(at, each.text, each.colour, _font(each.size_pt, each.bold), anchor)
        out = io.BytesIO()
        few = image.quantize(_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.putpalette([255 if value == _NEARLY else value for value in few.getpalette() or ()])
        few.save(out, "png", compress_level=3)  # half the time of the default 6, for a quarter more bytes
        return out.getvalue()

    def _draw(self, renderer: Any, per_inch: int) -> None:
        self._scale.clear().translate(0, self._below_in).scale(per_inch)
        for item in sorted(self._items, key=lambda each: each.zorder):
            item.draw(renderer)


@functools.cache
def _font(size_pt: float, bold: bool) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(_font_file(bold), round(size_pt * PIXELS_PER_INCH / _POINTS_PER_INCH))


@functools.cache
def _font_file(bold: bool) -> str:
    """Return the file of DejaVu Sans, which matplotlib includes; some distributions move it."""
    import matplotlib

    shipped = Path(matplotlib.get_data_path(), "fonts", "ttf", f"DejaVuSans{'-Bold' if bold else ''}.ttf")
    if shipped.is_file():
        return str(shipped)
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))


def broken(text: str, width_in: float, *, size_pt: float = FONT_PT, bold: bool = False) -> list[str]:
    """Wrap a text between words; a single word that is wider stays whole."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and length_pt(longer, size_pt, bold) <= width_in * _POINTS_PER_INCH:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def length_pt(text: str, size_pt: float, bold: bool = False) -> float:
    """Return the width of a text on one line."""
    return float(_font(size_pt, bold).getlength(text)) * _POINTS_PER_INCH / PIXELS_PER_INCH
