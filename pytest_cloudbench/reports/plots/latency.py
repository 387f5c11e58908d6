"""Latency in pictures: over time, and as distribution, with a wide scale for the rare slow I/Os."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_scale import latency_scale, latency_text, time_scale
from pytest_cloudbench.reports.plots.sheet import COLOURS, STYLES, Panel, Sheet

PANEL_IN = 2.3
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

    @property
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


PANEL_IN = 2.6
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
    slowest = max(found.values(), key=lambda each: each.percentile_s(50.0))
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
        _mark(panel, each, factor, colour, right, above=each is slowest and len(found) > 1)
    panel.below("share of the I/Os that took no longer")
    return sheet.picture("latency distribution")


def _mark(
    panel: Panel, found: Distribution, factor: float, colour: str, right: float, *, above: bool
) -> None:
    for percent in _MARKED:
        at = _nines(percent / 100)
        if at > right * 0.97:
            continue
        value_s = found.percentile_s(percent)
        place = panel.point(at, value_s * factor)
        panel.drawing.mark(place, colour)
        # The label of the line is to the right of the last ones.
        leftwards = percent > 50 if above else at > right * 0.85
        panel.drawing.text(
            place,
            f"p{percent:g} {latency_text(value_s)}" if percent != 50 else f"median {latency_text(value_s)}",
            size_pt=9,
            colour=colour,
            align="right" if leftwards else "middle" if above else "left",
            vertical="bottom" if above else "top",
            shift_pt=(-4 if leftwards else 4, 7) if above else (-5 if leftwards else 5, -5),
            backed=True,
        )


def _nines(share: float) -> float:
    """Return the number of nines of a share: 2 for 0.99. This scale spreads the tail, which a linear axis hides."""
    return -math.log10(max(1e-12, 1 - share))
