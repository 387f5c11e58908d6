"""Several measurements in one picture, as bars or as lines over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.reports.plots.drawing import broken
from pytest_cloudbench.reports.plots.picture import Picture, check_can_draw
from pytest_cloudbench.reports.plots.rate_over_time import PANEL_IN, draw_series
from pytest_cloudbench.reports.plots.rate_scale import (
    MIB_PER_S,
    RateScale,
    bits_for,
    latency_text,
    scale_of,
    time_scale,
)
from pytest_cloudbench.reports.plots.sheet import COLOURS, LIMIT, QUIET, SERIES, STYLES, Sheet
from pytest_cloudbench.verdicts.run import is_of_network, run_of

MOST_LINES = 6
"""More lines than this cannot be distinguished; bars are drawn instead."""

_BAR_IN = 0.33
_MANY_BARS = 60
_BAR = "#b9cde0"
_NAMES_IN = 3.6
_BURST_DASHES = (1.0, 0.8)


def plot_comparison(measurements: Sequence[Any], labels: Sequence[str], title: str) -> Picture:
    """Draw measurements of one kind, each with its label.

    File creations, and runs of which at least one has a falling rate, are drawn as lines over time if they are few and
    all have a series; others as bars.
    Raises ValueError for runs of different kinds, PlotsMissing without matplotlib.
    """
    if not measurements or len(measurements) != len(labels):
        raise ValueError(
            f"{len(measurements)} measurements with {len(labels)} labels cannot be compared: give one label for each"
        )
    kinds = {_kind(each) for each in measurements}
    if len(kinds) > 1:
        raise ValueError(f"measurements of {' and '.join(sorted(kinds))} cannot be compared in one picture")
    check_can_draw()
    over_time = (
        len(measurements) <= MOST_LINES
        and all(_has_series(each) for each in measurements)
        and (kinds == {"files"} or any(_falls(each) for each in measurements))
    )
    if over_time and (picture := lines_over_time(measurements, labels, title)) is not None:
        return picture
    return bars(measurements, labels, title)


def lines_over_time(measurements: Sequence[Any], labels: Sequence[str], title: str) -> Picture | None:
    """Draw each measurement as a line; None if one of them has no series."""
    files = _kind(measurements[0]) == "files"
    scale = FILES_SCALE if files else common_scale(measurements)
    lines = []
    for each in measurements:
        if files:
            seconds, values = list(each.series.seconds), list(each.series.files_per_second)
        else:
            line = run_of(each).timeline(scale.like)
            seconds, values = list(line.seconds), [value * scale.factor for value in line.values]
        if len(seconds) < 2:
            return None
        lines.append((seconds, values))
    end_s = max(seconds[-1] for seconds, _ in lines)
    unit, per_s = time_scale(end_s)
    sheet = Sheet([PANEL_IN], right_in=2.5)
    panel = sheet.panels[0]
    sheet.title(title, f"{'files per second' if files else scale.noun} over time, {len(lines)} runs")
    panel.upwards(0, max(value for _, values in lines for value in values) * 1.1 or 1)
    panel.across(0, end_s * per_s)
    panel.unit(scale.unit)
    for number, ((seconds, values), each, label) in enumerate(zip(lines, measurements, labels, strict=True)):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
        draw_series(panel, seconds, values, seconds[1] - seconds[0], per_s, colour=colour, style=style)
        panel.drawing.mark(panel.point(seconds[-1] * per_s, values[-1]), colour)
        panel.label(values[-1], label, _result(each, scale), colour=colour, bold=True)
    sheet.time_axis(unit, max(getattr(each, "time_compression", 1.0) for each in measurements))
    return sheet.picture(title)


def bars(measurements: Sequence[Any], labels: Sequence[str], title: str) -> Picture:
    """Draw each measurement as a bar with its figure, its mean latency and a tick at the lowest promised ceiling."""
    files = _kind(measurements[0]) == "files"
    scale = FILES_SCALE if files else common_scale(measurements)
    # The rate until all data was on the devices, if known: the rate into the page cache does not describe them.
    on_device = files and all(each.files_per_second_on_device is not None for each in measurements)
    values = [
        float(each.files_per_second_on_device) if on_device else _value(each, scale) for each in measurements
    ]
    counted = f"{scale.noun}, mean over each run"
    if files:
        counted = f"files per second until all were {'on the device' if on_device else 'in the page cache'}"
    limits = [None if files else _limit(each, scale) for each in measurements]
    latencies = [getattr(each, "latency", None) for each in measurements]
    left = min(_NAMES_IN, 0.35 + max(len(name) for name in labels) * 0.082)
    names = ["\n".join(broken(label, left - 0.25)) for label in labels]
    count = len(values)
    bar_in = _BAR_IN if count <= _MANY_BARS else 12 / count
    if count <= _MANY_BARS:
        bar_in *= max(name.count("\n") for name in names) * 0.45 + 1
    sheet = Sheet([max(0.7, count * bar_in)], left_in=left, right_in=1.5 if any(latencies) else 0.6)
    panel = sheet.panels[0]
    highest = max([*values, *(limit for limit in limits if limit is not None)])
    bound = any(limit is not None for limit in limits)
    sheet.title(
        title,
        counted
        + ("; the mark is the lowest promised ceiling" if bound else "")
        + (", dotted if it holds only for a burst" if any(map(_bursts, measurements)) else ""),
    )
    panel.across(0, highest * 1.16 or 1)
    panel.upwards(0, count)
    panel.grid = "x"
    middles = [count - place - 0.5 for place in range(count)]
    panel.rows = list(zip(middles, names, strict=True))
    for middle, value, limit, each in zip(middles, values, limits, measurements, strict=True):
        low, high = panel.point(0, middle - 0.31), panel.point(value, middle + 0.31)
        panel.drawing.area(low, (high[0] - low[0], high[1] - low[1]), _BAR, edge=SERIES)
        at = value
        if limit is not None and limit <= highest:
            ends = [panel.point(limit, middle - 0.42), panel.point(limit, middle + 0.42)]
            dashes = _BURST_DASHES if _bursts(each) else ()
            panel.drawing.line(ends, LIMIT, width_pt=2.2, dashes=dashes, z=4, snap=True)
            at = max(value, limit) if limit < value + 0.14 * highest else value
        panel.drawing.text(
            panel.point(at, middle), scale.number(value), bold=True, vertical="center", shift_pt=(5, 0)
        )
    panel.below(scale.unit)
    if any(latencies):
        right = panel.box[0] + panel.box[2] + 1.3
        head = right, panel.spot(0, 1)[1]
        panel.drawing.text(head, "mean latency", colour=QUIET, align="right", shift_pt=(0, 3))
        for middle, each in zip(middles, latencies, strict=True):
            said = latency_text(each.mean_s) if each else "-"
            place = right, panel.point(0, middle)[1]
            panel.drawing.text(place, said, align="right", vertical="center")
    return sheet.picture(title)


FILES_SCALE = RateScale("files/s", 1.0, MIB_PER_S.like)


def common_scale(measurements: Sequence[Any]) -> RateScale:
    """Return the unit for all measurements.

    Storage: IOPS if that is the unit of each, or if it is that of the first and all have the same block size; else
    MiB/s.
    """
    if is_of_network(measurements[0]):
        return bits_for(max(each.throughput.bytes_per_second for each in measurements))
    scales = [scale_of(each) for each in measurements]
    same_size = len({each.block_size for each in measurements}) == 1
    if all(scale.noun == "IOPS" for scale in scales) or (same_size and scales[0].noun == "IOPS"):
        return scales[0]
    return MIB_PER_S


def _kind(measurement: Any) -> str:
    if hasattr(measurement, "files_per_second"):
        return "files"
    return "a network" if is_of_network(measurement) else "storage"


def _value(measurement: Any, scale: RateScale) -> float:
    if scale is FILES_SCALE:
        return float(measurement.files_per_second)
    return scale.mean_of(measurement)


def _result(measurement: Any, scale: RateScale) -> str:
    if scale is not FILES_SCALE:
        falls = run_of(measurement).timeline(scale.like).falls.lasting
        if falls:
            before, after = falls[0].before * scale.factor, falls[-1].after * scale.factor
            return f"from {scale.number(before)} to {scale.text(after)}"
        return f"mean {scale.text(_value(measurement, scale))}"
    on_device = measurement.on_device_s
    ended = f", {figure(on_device)} s to the device" if on_device else ""
    return f"{figure(measurement.written_s)} s to write{ended}"


def _limit(measurement: Any, scale: RateScale) -> float | None:
    envelope = measurement.envelope.promised if measurement.envelope is not None else None
    if envelope is None or not envelope.ceilings:
        return None
    lowest = envelope.limit_iops if scale.noun == "IOPS" else envelope.limit_throughput
    return None if lowest is None else scale.of(lowest)


def _bursts(measurement: Any) -> bool:
    """Return True if the lowest promised ceiling holds only until the credits of a burst are spent."""
    envelope = getattr(measurement, "envelope", None)
    if envelope is None or _kind(measurement) == "files":
        return False
    return any(ceiling.base is not None for ceiling in envelope.promised.binding)


def _has_series(measurement: Any) -> bool:
    return measurement.series is not None and len(measurement.series.seconds) >= 2


def _falls(measurement: Any) -> bool:
    if _kind(measurement) == "files":
        return False
    return bool(run_of(measurement).timeline(scale_of(measurement).like).falls.lasting)
