"""How latencies are distributed: which share of the I/Os took no longer than what, the rare slow ones drawn wide."""

from __future__ import annotations

import math
from typing import Any

from pytest_cloudbench.reports.plots.fio_histogram import Distribution, distributions
from pytest_cloudbench.reports.plots.latency_over_time import LOG_FROM
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_scale import latency_scale, latency_text
from pytest_cloudbench.reports.plots.sheet import COLOURS, STYLES, Panel, Sheet

PANEL_IN = 2.6
_TICKS = (0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
_MARKED = (50.0, 95.0, 99.0, 99.9)
_FEWEST = 100
"""I/Os below which percentiles say nothing."""


def latency_distribution(measurement: Any) -> Picture | None:
    """The picture; None where the tool left no histogram."""
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
        # To the right of the last ones stands the label of the line.
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
    """How many nines a share has: 0.99 is 2. It spreads the tail, where a plain axis would hide it."""
    return -math.log10(max(1e-12, 1 - share))
