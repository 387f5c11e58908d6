"""Latency second by second: the mean, and percentiles where the workload kept histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_scale import latency_scale, latency_text, time_scale
from pytest_cloudbench.reports.plots.sheet import COLOURS, STYLES, Sheet

PANEL_IN = 2.3
FEW = 30
"""Up to so many samples each has a mark."""
LOG_FROM = 15
"""From this ratio of the largest to the smallest on, the axis is logarithmic."""

_NAMES = {"mean": "mean", "p50": "median", "p95": "p95", "p99": "p99", "p999": "p99.9"}


def latency_over_time(measurement: Any) -> Picture | None:
    """The picture; None where no second has a latency."""
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
