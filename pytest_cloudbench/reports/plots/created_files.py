"""Pictures of a creation of files."""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.reports.plots.picture import Picture
from pytest_cloudbench.reports.plots.rate_over_time import draw_rates, draw_series, told_below
from pytest_cloudbench.reports.plots.rate_scale import MIB_PER_S, time_scale
from pytest_cloudbench.reports.plots.sheet import SERIES, Sheet
from pytest_cloudbench.verdicts.timeline import Timeline
from pytest_cloudbench.verdicts.wording import duration

FILES_IN, DEVICE_IN, ALONE_IN = 1.5, 2.1, 2.6


def files_over_time(creation: Any) -> Picture:
    """Draw files per second over time, or only the total times if the series has fewer than two samples."""
    series = creation.series
    if len(series) < 2:
        return _times_of_files(creation)
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


_ROW_IN = 0.45
_WRITTEN, _ON_DEVICE = "#b9cde0", "#14406b"


def _times_of_files(creation: Any) -> Picture:
    """Draw how long it took until the last file was written, and until all data was on the device."""
    rows = [("last file written", creation.written_s, f"{figure(creation.files_per_second, 0)} files/s")]
    if creation.on_device_s:
        rate = MIB_PER_S.text(creation.throughput_mib)
        rows.append(("all on the device", creation.on_device_s, rate))
    sheet = Sheet([_ROW_IN * len(rows)], left_in=1.7, right_in=2.0)
    sheet.title(
        f"{creation.files:,} files of {creation.size} on {creation.target}",
        "too short for a series over time; written means that it was in the page cache",
    )
    panel = sheet.panels[0]
    panel.across(0, max(seconds for _, seconds, _ in rows) * 1.05)
    panel.upwards(0, len(rows))
    panel.grid = "x"
    middles = [len(rows) - place - 0.5 for place in range(len(rows))]
    panel.rows = [(middle, name) for middle, (name, _, _) in zip(middles, rows, strict=True)]
    for middle, (_, seconds, rate), fill in zip(middles, rows, (_WRITTEN, _ON_DEVICE), strict=False):
        low, high = panel.point(0, middle - 0.28), panel.point(seconds, middle + 0.28)
        panel.drawing.area(low, (high[0] - low[0], high[1] - low[1]), fill, edge=SERIES)
        panel.label(middle, f"{duration(seconds)}, {rate}", colour=SERIES, bold=True)
    sheet.time_axis("s")
    return sheet.picture("time of the files")
