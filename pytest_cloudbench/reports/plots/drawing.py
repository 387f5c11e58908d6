"""Draw lines, areas, marks and texts on a white sheet, and render it as SVG and PNG.

matplotlib's renderers draw, without its figures and axes: those lay out every text again for each format and take 60 ms
a picture instead of 6, which adds up over hundreds of measurements. Texts of the SVG stay texts, which can be searched
and selected. Those of the PNG are drawn by Pillow, a dependency of matplotlib.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Sequence
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
"""White (255) with so few colours."""
_FULL_TURN = "o"

Point = tuple[float, float]
Dashes = tuple[float, ...]
"""Lengths of dash and gap in turn, in line widths; empty for a solid line."""


@dataclass(frozen=True)
class _Line:
    points: Sequence[Point]
    colour: str
    width_pt: float
    dashes: Dashes
    clip: tuple[float, float, float, float] | None
    snap: bool


@dataclass(frozen=True)
class _Area:
    corner: Point
    size: Point
    fill: str
    edge: str | None
    width_pt: float


@dataclass(frozen=True)
class _Mark:
    at: Point
    shape: str
    size_pt: float
    edge: str
    fill: str | None
    width_pt: float


@dataclass(frozen=True)
class _Text:
    at: Point
    text: str
    size_pt: float
    colour: str
    bold: bool
    align: str
    backed: bool


class Drawing:
    """A sheet of the usual width. Positions are in inches from its lower left corner. Later items lie on top."""

    def __init__(self, height_in: float) -> None:
        check_can_draw()
        self.height_in = height_in
        self._items: list[tuple[float, _Line | _Area | _Mark]] = []
        self._texts: list[_Text] = []

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
    ) -> None:
        """Draw a line through points. ``clip``: left, bottom, width, height of the visible part; ``snap``: sharp."""
        self._items.append((z, _Line(points, colour, width_pt, dashes, clip, snap)))

    def area(
        self,
        corner: Point,
        size: Point,
        fill: str,
        *,
        edge: str | None = None,
        width_pt: float = 0.9,
        z: float = 2.0,
    ) -> None:
        """Draw a rectangle by its lower left corner."""
        self._items.append((z, _Area(corner, size, fill, edge, width_pt)))

    def mark(
        self,
        at: Point,
        colour: str,
        *,
        shape: str = _FULL_TURN,
        size_pt: float = 4.0,
        fill: str | None = None,
        hollow: bool = False,
        width_pt: float = 1.0,
        z: float = 3.5,
    ) -> None:
        """Draw a mark of matplotlib's shapes ("o", "s", "^" ...), filled with its own colour by default."""
        self._items.append(
            (z, _Mark(at, shape, size_pt, colour, None if hollow else fill or colour, width_pt))
        )

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
                self._texts.append(_Text((x, y), line, size_pt, colour, bold, align, backed))

    def rendered(self, name: str) -> Picture:
        """Return the picture; equal drawings give equal bytes."""
        import matplotlib

        style: Any = {"svg.hashsalt": "cloudbench", "path.simplify": True, "path.snap": True}
        with matplotlib.rc_context(style):
            return Picture(name, self._svg(name), self._png())

    def _svg(self, name: str) -> bytes:
        from matplotlib.backends.backend_svg import RendererSVG

        out: Any = io.StringIO()
        width, height = WIDTH_IN * _POINTS_PER_INCH, self.height_in * _POINTS_PER_INCH
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
                    "y": f"{height - each.at[1] * _POINTS_PER_INCH:.2f}",
                    "text-anchor": {"left": "start", "middle": "middle", "right": "end"}[each.align],
                    "style": f"{weight}font-size: {each.size_pt:g}px; font-family: {_FONTS}; fill: {each.colour}",
                },
            )
        renderer.finalize()
        return str(out.getvalue()).encode()

    def _png(self) -> bytes:
        from matplotlib.backends.backend_agg import RendererAgg
        from PIL import Image, ImageDraw

        size = WIDTH_IN * PIXELS_PER_INCH, round(self.height_in * PIXELS_PER_INCH)
        make: Any = RendererAgg
        renderer = make(*size, PIXELS_PER_INCH)
        self._draw(renderer, PIXELS_PER_INCH)
        image = Image.frombuffer(
            "RGBX", (int(size[0]), size[1]), renderer.buffer_rgba(), "raw", "RGBX", 0, 1
        ).convert("RGB")
        pen = ImageDraw.Draw(image)
        for each in self._texts:
            at = each.at[0] * PIXELS_PER_INCH, size[1] - each.at[1] * PIXELS_PER_INCH
            anchor = {"left": "ls", "middle": "ms", "right": "rs"}[each.align]
            pen.text(at, each.text, each.colour, _font(each.size_pt, each.bold), anchor)
        out = io.BytesIO()
        few = image.quantize(_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.putpalette([255 if value == _NEARLY else value for value in few.getpalette() or ()])
        few.save(out, "png", compress_level=3)  # half the time of the default 6, for a quarter more bytes
        return out.getvalue()

    def _draw(self, renderer: Any, per_inch: int) -> None:
        white = _Area((0.0, 0.0), (WIDTH_IN, self.height_in), "white", None, 0.0)
        _area(renderer, per_inch, white)
        for _, item in sorted(self._items, key=lambda each: each[0]):
            if isinstance(item, _Line):
                _line(renderer, per_inch, item)
            elif isinstance(item, _Area):
                _area(renderer, per_inch, item)
            else:
                _mark(renderer, per_inch, item)
        for back in self._backs():
            _area(renderer, per_inch, back)

    def _backs(self) -> Iterator[_Area]:
        for each in self._texts:
            if each.backed:
                width = _length_pt(each.text, each.size_pt, each.bold)
                left = {"left": 0.0, "middle": -width / 2, "right": -width}[each.align] - 1.5
                corner = each.at[0] + left / 72, each.at[1] - (_DESCENT * each.size_pt + 0.5) / 72
                yield _Area(corner, ((width + 3) / 72, (_LINE * each.size_pt + 0.5) / 72), "white", None, 0.0)


def _context(renderer: Any, colour: str, width_pt: float) -> Any:
    context = renderer.new_gc()
    context.set_foreground(colour)
    context.set_linewidth(width_pt)  # in points, like dashes: the renderers convert them to pixels
    return context


def _line(renderer: Any, per_inch: int, line: _Line) -> None:
    from matplotlib.path import Path as Route
    from matplotlib.transforms import Affine2D, Bbox

    context = _context(renderer, line.colour, line.width_pt)
    context.set_joinstyle("round")
    context.set_capstyle("butt" if line.dashes or line.snap else "projecting")
    context.set_snap(line.snap)
    if line.dashes:
        context.set_dashes(0, [each * line.width_pt for each in line.dashes])
    if line.clip is not None:
        left, bottom, width, height = (each * per_inch for each in line.clip)
        context.set_clip_rectangle(Bbox.from_bounds(left, bottom, width, height))
    renderer.draw_path(context, Route(line.points), Affine2D().scale(per_inch))
    context.restore()


def _area(renderer: Any, per_inch: int, area: _Area) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.path import Path as Route
    from matplotlib.transforms import Affine2D

    context = _context(renderer, area.edge or area.fill, area.width_pt if area.edge else 0.0)
    context.set_snap(True)
    place = Affine2D().scale(*area.size).translate(*area.corner).scale(per_inch)
    renderer.draw_path(context, Route.unit_rectangle(), place, to_rgba(area.fill))
    context.restore()


def _mark(renderer: Any, per_inch: int, mark: _Mark) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.transforms import Affine2D

    route, shape = _shape(mark.shape)
    context = _context(renderer, mark.edge, mark.width_pt)
    context.set_snap(False)
    place = shape + Affine2D().scale(mark.size_pt / _POINTS_PER_INCH).translate(*mark.at).scale(per_inch)
    renderer.draw_path(context, route, place, to_rgba(mark.fill) if mark.fill else None)
    context.restore()


@functools.cache
def _shape(name: str) -> tuple[Any, Any]:
    from matplotlib.markers import MarkerStyle

    style = MarkerStyle(name)
    return style.get_path(), style.get_transform().frozen()


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
        if lines and _length_pt(longer, size_pt, bold) <= width_in * _POINTS_PER_INCH:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _length_pt(text: str, size_pt: float, bold: bool) -> float:
    return float(_font(size_pt, bold).getlength(text)) * _POINTS_PER_INCH / PIXELS_PER_INCH
