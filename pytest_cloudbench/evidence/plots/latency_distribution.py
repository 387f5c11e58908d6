"""How latencies are distributed: which share of the I/Os took no longer than what, the rare slow ones drawn wide."""

from __future__ import annotations

import math
from typing import Any

from pytest_cloudbench.evidence.plots.fio_histogram import Distribution, distributions
from pytest_cloudbench.evidence.plots.latency_over_time import LOG_FROM, logarithmic
from pytest_cloudbench.evidence.plots.picture import Picture
from pytest_cloudbench.evidence.plots.rate_scale import latency_scale, latency_text
from pytest_cloudbench.evidence.plots.sheet import COLOURS, QUIET, STYLES, Sheet

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
    axes = panel.axes
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
        logarithmic(axes, lowest * factor * 0.6, longest * factor * 1.6)
    else:
        axes.set_ylim(0, longest * factor * 1.15)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    right = min(_nines(1 - 1 / total), _nines(_TICKS[-1] / 100))
    ticks = [tick for tick in _TICKS if _nines(tick / 100) <= right]
    axes.set_xlim(0, right)
    axes.set_xticks([_nines(tick / 100) for tick in ticks], [f"{tick:g} %" for tick in ticks])
    axes.grid()
    panel.unit(f"latency, {unit}")
    slowest = max(found.values(), key=lambda each: each.percentile_s(50.0))
    for number, (way, each) in enumerate(found.items()):
        colour = COLOURS[number]
        shares = [min(_nines(share), right) for share in each.shares]
        values = [value * factor for value in each.seconds]
        axes.plot(
            [0.0, *shares],
            [values[0], *values],
            color=colour,
            linestyle=STYLES[number],
            linewidth=1.5,
            drawstyle="steps-pre",
        )
        panel.label(
            values[-1],
            f"{way}s" if len(found) > 1 else "longest",
            latency_text(each.seconds[-1]),
            colour=colour,
        )
        _mark(axes, each, factor, colour, right, above=each is slowest and len(found) > 1)
    axes.annotate(
        "share of the I/Os that took no longer",
        (1, 0),
        xycoords="axes fraction",
        xytext=(0, -23),
        textcoords="offset points",
        ha="right",
        va="top",
        color=QUIET,
    )
    return sheet.picture("latency distribution")


def _mark(axes: Any, found: Distribution, factor: float, colour: str, right: float, *, above: bool) -> None:
    for percent in _MARKED:
        at = _nines(percent / 100)
        if at > right * 0.97:
            continue
        value_s = found.percentile_s(percent)
        axes.plot([at], [value_s * factor], marker="o", markersize=4, color=colour)
        axes.annotate(
            f"p{percent:g} {latency_text(value_s)}" if percent != 50 else f"median {latency_text(value_s)}",
            (at, value_s * factor),
            xytext=(-4 if percent > 50 else 4, 7) if above else (5, -5),
            textcoords="offset points",
            ha=("right" if percent > 50 else "center") if above else "left",
            va="bottom" if above else "top",
            fontsize=9,
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
        )


def _nines(share: float) -> float:
    """How many nines a share has: 0.99 is 2. It spreads the tail, where a plain axis would hide it."""
    return -math.log10(max(1e-12, 1 - share))
