"""Pictures of one measurement: both directions of a network, a creation of files."""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_over_time import draw_rates, draw_series, told_below
from pytest_cloudbench.reports.plots.rate_scale import MIB_PER_S, time_scale
from pytest_cloudbench.reports.plots.sheet import SERIES, Sheet
from pytest_cloudbench.verdicts.timeline import Timeline


def both_ways(measurement: Any) -> Picture | None:
    """Draw both directions of a network run as lines; None if one of them has no series."""
    from pytest_cloudbench.reports.plots.comparison import lines_over_time

    ways = [
        f"{each.server} to {each.client}" if each.reverse else f"{each.client} to {each.server}"
        for each in measurement.directions
    ]
    return lines_over_time(
        measurement.directions, ways, f"{measurement.workload} on {measurement.path}, each direction"
    )


FILES_IN, DEVICE_IN, ALONE_IN = 1.5, 2.1, 2.6


def files_over_time(creation: Any) -> Picture | None:
    """Draw files per second over time; None if all files were created within a second or two."""
    series = creation.series
    if len(series) < 2:
        return None
    device = series.device if series.device is not None and len(series.device.seconds) >= 2 else None
    end_s = max([*series.seconds, *(device.seconds if device else ())])
    unit, per_s = time_scale(end_s)
    sheet = Sheet([FILES_IN, DEVICE_IN] if device else [ALONE_IN])
    on_device = f"; on the device after {figure(creation.on_device_s)} s" if creation.on_device_s else ""
    sheet.title(
        f"{creation.files:,} files of {creation.size} on {creation.target}",
        f"written after {figure(creation.written_s)} s, {figure(creation.files_per_second, 0)} files/s{on_device}",
    )
    top = sheet.panels[0]
    rates = list(series.files_per_second)
    top.upwards(0, max(rates) * 1.12 or 1)
    top.across(0, end_s * per_s)
    top.unit("files/s, page cache included")
    draw_series(top, series.seconds, rates, series.seconds[0], per_s)
    top.label(
        rates[-1],
        "files written,",
        f"mean {figure(creation.files_per_second, 0)} files/s",
        colour=SERIES,
        bold=True,
    )
    if device:
        line = Timeline(
            tuple(device.seconds), tuple(each.bytes_per_second for each in device.throughput), MIB_PER_S.like
        )
        mean = f", mean {MIB_PER_S.text(creation.throughput_mib)}" if creation.throughput_mib else ""
        below = sheet.panels[1]
        beyond = draw_rates(
            below,
            line,
            MIB_PER_S,
            creation.envelope,
            per_s=per_s,
            name=f"written to the device{mean}",
            falls=False,
            whole_s=(0, end_s),
        )
        sheet.note(told_below(beyond, MIB_PER_S))
    if end_s - creation.written_s > 0.03 * end_s:
        top.moment(
            creation.written_s * per_s, f"last file written\nafter {figure(creation.written_s)} s", height=0.5
        )
        if device:
            sheet.panels[1].moment(creation.written_s * per_s, "", height=0.1)
    sheet.time_axis(unit)
    return sheet.picture("files per second over time")
