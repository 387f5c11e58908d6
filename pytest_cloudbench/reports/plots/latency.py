"""Latency in pictures: over time, and as distribution, with a wide scale for the rare slow I/Os."""

from __future__ import annotations

import functools
import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pytest_cloudbench.reports.plots.drawing import length_pt
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_scale import latency_scale, latency_text, time_scale
from pytest_cloudbench.reports.plots.sheet import COLOURS, STYLES, Panel, Sheet

PANEL_IN = 2.6
FEW = 30
"""Up to this number of samples, each has a mark."""
LOG_FROM = 15
"""From this ratio of largest to smallest on, the axis is logarithmic."""

_NAMES = {"mean": "mean", "p50": "median", "p95": "p95", "p99": "p99", "p999": "p99.9"}


def latency_over_time(measurement: Any) -> Picture | None:
    """Draw latency over time; None if no second has a latency."""
    series = measurement.series
    lines = {"mean": series.latency_s, **dict(getattr(series, "percentiles_s", {}))}
    drawn = {
        name: [math.nan if value is None else value for value in values]
        for name, values in lines.items()
        if len(values) == len(series.seconds) and sum(value is not None for value in values) >= 2
    }
    if not drawn:
        return None
    known = [value for values in drawn.values() for value in values if math.isfinite(value) and value > 0]
    if not known:
        return None
    unit, factor = latency_scale(known)
    time_unit, per_s = time_scale(series.seconds[-1])
    sheet = Sheet([PANEL_IN], right_in=1.5)
    panel = sheet.panels[0]
    whole = measurement.latency
    means = [f"mean {latency_text(whole.mean_s)}"] if whole else []
    means += [f"p99 {latency_text(whole.p99_s)}"] if whole and whole.p99_s is not None else []
    sheet.title(
        f"{measurement.workload} on {measurement.target}",
        ", ".join([*means, "of one I/O, over the whole run"]),
    )
    if max(known) > LOG_FROM * min(known):
        panel.upwards(min(known) * factor * 0.8, max(known) * factor * 1.25, logarithmic=True)
    else:
        panel.upwards(0, max(known) * factor * 1.1)
    panel.across(0, series.seconds[-1] * per_s)
    compressed = getattr(measurement, "time_compression", 1.0) != 1
    panel.unit(f"latency, {unit}, by the {'sample' if compressed else 'second'}")
    for number, (name, values) in enumerate(drawn.items()):
        colour = COLOURS[number % len(COLOURS)]
        times, scaled = [at * per_s for at in series.seconds], [value * factor for value in values]
        panel.line(times, scaled, colour, style=STYLES[number % len(STYLES)], width=1.3)
        if len(values) <= FEW:
            for at, value in zip(times, scaled, strict=True):
                if math.isfinite(value):
                    panel.drawing.mark(panel.point(at, value), colour, size_pt=2.5)
        panel.label(_last(values) * factor, _NAMES.get(name, name), colour=colour, bold=name == "mean")
    sheet.time_axis(time_unit, getattr(measurement, "time_compression", 1.0))
    return sheet.picture("latency over time")


def _last(values: Sequence[float]) -> float:
    return next(value for value in reversed(values) if math.isfinite(value))


_FILES = ("measured.json", "result.json")
"""Files with histograms. The first exists if a workload separates the measured part from the ramp."""
_NS = 1e-9


@dataclass(frozen=True)
class Distribution:
    """Histogram of one direction: ``counts`` of I/Os that took up to ``seconds``, which rise."""

    seconds: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of I/Os."""
        return sum(self.counts)

    @functools.cached_property
    def shares(self) -> list[float]:
        """The share of all I/Os that took no longer than each of ``seconds``."""
        total = self.total
        return [reached / total for reached in accumulate(self.counts)]

    def percentile_s(self, percent: float) -> float:
        """Return the latency that this percentage of I/Os did not exceed, by fio's definition."""
        wanted = self.total * percent / 100
        for at, reached in zip(self.seconds, accumulate(self.counts), strict=True):
            if reached >= wanted:
                return at
        return self.seconds[-1]


def distributions(raw: Mapping[str, bytes]) -> dict[str, Distribution]:
    """Return the distributions of "read" and "write" from fio's files; empty without histograms."""
    result = next((raw[name] for name in _FILES if name in raw), b"")
    text = result.decode("utf-8", "replace")
    begin = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin)
        jobs = document.get("jobs") or document["client_stats"]
        found = {way: _merged(jobs, way) for way in ("read", "write")}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return {way: each for way, each in found.items() if each is not None}


def _merged(jobs: Any, way: str) -> Distribution | None:
    bins: Counter[int] = Counter()
    for job in jobs:
        part = job.get(way) or {}
        for key in ("lat_ns", "clat_ns"):
            stats = part.get(key) or {}
            if stats.get("N"):
                bins.update({int(value): int(count) for value, count in (stats.get("bins") or {}).items()})
                break
    known = sorted((value, count) for value, count in bins.items() if count > 0)
    if not known:
        return None
    return Distribution(tuple(value * _NS for value, _ in known), tuple(count for _, count in known))


_TICKS = (0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
_MARKED = (50.0, 95.0, 99.0, 99.9)
_FEWEST = 100
"""With fewer I/Os percentiles mean nothing."""


def latency_distribution(measurement: Any) -> Picture | None:
    """Draw the distribution of latencies; None if the tool wrote no histogram."""
    found = {way: each for way, each in distributions(measurement.raw).items() if each.total >= _FEWEST}
    if not found:
        return None
    sheet = Sheet([PANEL_IN], right_in=1.5)
    panel = sheet.panels[0]
    total = sum(each.total for each in found.values())
    longest = max(each.seconds[-1] for each in found.values())
    sheet.title(
        f"{measurement.workload} on {measurement.target}",
        f"{total:,} I/Os; longest {latency_text(longest)}",
    )
    unit, factor = latency_scale(
        each.percentile_s(percent) for each in found.values() for percent in (5.0, *_MARKED)
    )
    lowest = min(each.percentile_s(1.0) for each in found.values())
    if longest > LOG_FROM * lowest:
        panel.upwards(lowest * factor * 0.6, longest * factor * 1.6, logarithmic=True)
    else:
        panel.upwards(0, longest * factor * 1.15)
    right = min(_nines(1 - 1 / total), _nines(_TICKS[-1] / 100))
    ticks = [tick for tick in _TICKS if _nines(tick / 100) <= right]
    panel.across(0, right)
    panel.ticks = [(_nines(tick / 100), f"{tick:g} %") for tick in ticks]
    panel.grid = "xy"
    panel.unit(f"latency, {unit}")
    for number, (way, each) in enumerate(found.items()):
        colour = COLOURS[number]
        shares = [min(_nines(share), right) for share in each.shares]
        values = [value * factor for value in each.seconds]
        panel.line([0.0, *shares], [values[0], *values], colour, style=STYLES[number], width=1.5, steps=True)
        panel.label(
            values[-1],
            f"{way}s" if len(found) > 1 else "longest",
            latency_text(each.seconds[-1]),
            colour=colour,
        )
    _mark(panel, found, factor)
    panel.below("share of the I/Os that took no longer")
    return sheet.picture("latency distribution")


Box = tuple[float, float, float, float]
"""Left, bottom, right and top on the sheet, in inches."""
_BELOW = (("left", "top"), ("right", "top"))
_ABOVE = (("right", "bottom"), ("middle", "bottom"), ("left", "bottom"))
_AWAY_PT = (5.0, 12.0, 20.0, 30.0)
_PERCENTILE_PT = 9.0


def _mark(panel: Panel, found: Mapping[str, Distribution], factor: float) -> None:
    """Mark the percentiles of each line. Place each label where it hides no line and no other label."""
    slowest = max(found.values(), key=lambda each: each.percentile_s(50.0))
    left, bottom, width, height = panel.box
    taken: list[Box] = []

    def hides(box: Box) -> bool:
        inside = left < box[0] and bottom < box[1] and box[2] < left + width and box[3] < bottom + height
        apart = all(box[2] < x0 or x1 < box[0] or box[3] < y0 or y1 < box[1] for x0, y0, x1, y1 in taken)
        return not (inside and apart) or any(_crosses(panel, each, factor, box) for each in found.values())

    for number, each in enumerate(found.values()):
        above = each is slowest and len(found) > 1
        for percent in _MARKED:
            at = _nines(percent / 100)
            if at > panel.x.high * 0.97:
                continue
            value_s = each.percentile_s(percent)
            place = panel.point(at, value_s * factor)
            name = "median" if percent == 50 else f"p{percent:g}"
            text = f"{name} {latency_text(value_s)}"
            sides = (_ABOVE, _BELOW) if above else (_BELOW, _ABOVE)
            places = [(side, away) for group in sides for away in _AWAY_PT for side in group]
            boxes = [_box(place, text, side, away) for side, away in places]
            chosen = next((index for index, box in enumerate(boxes) if not hides(box)), 0)
            (align, vertical), away = places[chosen]
            taken.append(boxes[chosen])
            panel.drawing.mark(place, COLOURS[number])
            panel.drawing.text(
                place,
                text,
                size_pt=_PERCENTILE_PT,
                colour=COLOURS[number],
                align=align,
                vertical=vertical,
                shift_pt=_shift(align, vertical, away),
                backed=True,
            )


def _shift(align: str, vertical: str, away: float) -> tuple[float, float]:
    return {"left": 5.0, "right": -5.0, "middle": 0.0}[align], -away if vertical == "top" else away


def _box(place: tuple[float, float], text: str, side: tuple[str, str], away: float) -> Box:
    """Return the area of a label on the sheet, with a margin."""
    align, vertical = side
    across, up = _shift(align, vertical, away)
    width = length_pt(text, _PERCENTILE_PT)
    left = across - {"left": 0.0, "right": width, "middle": width / 2}[align]
    low = up - (_PERCENTILE_PT if vertical == "top" else 0.0)
    corners = place[0] + (left - 2) / 72, place[1] + (low - 1) / 72
    return *corners, corners[0] + (width + 4) / 72, corners[1] + (_PERCENTILE_PT + 2) / 72


def _crosses(panel: Panel, found: Distribution, factor: float, box: Box) -> bool:
    """Return True if the line, which only rises, goes through the box."""
    low, high = (_height_at(panel, found, factor, across) for across in (box[0], box[2]))
    return low <= box[3] and high >= box[1]


def _height_at(panel: Panel, found: Distribution, factor: float, across_in: float) -> float:
    nines = (across_in - panel.box[0]) / panel.box[2] * panel.x.high
    index = bisect_left(found.shares, 1 - 10**-nines)
    return panel.point(0, found.seconds[min(index, len(found.seconds) - 1)] * factor)[1]


def _nines(share: float) -> float:
    """Return the number of nines of a share: 2 for 0.99. This scale spreads the tail, which a linear axis hides."""
    return -math.log10(max(1e-12, 1 - share))
