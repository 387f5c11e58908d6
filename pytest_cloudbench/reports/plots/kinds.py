"""The pictures of each kind of measurement, and a plain one of lines: what a `Workload` declares as its ``plots``.

The drawing is loaded when a picture is drawn, because most sessions declare workloads and draw nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_cloudbench.reports.plots.picture import Picture, check_can_draw

Plots = Callable[[Any], Iterable[Picture | None]]
"""Returns the pictures of a measurement, with None for one that cannot be drawn."""


def drawn(plots: Plots, measurement: Any) -> list[Picture]:
    """Draw the pictures of a measurement. Raises PlotsMissing if matplotlib is not installed."""
    check_can_draw()
    return [picture for picture in plots(measurement) if picture is not None]


def storage_plots(run: Any) -> list[Picture | None]:
    """Draw a storage run: its rate and its latency over time, and how its latency was distributed.

    A run without a series has no pictures.
    """
    from pytest_cloudbench.reports.plots.latency import latency_distribution, latency_over_time
    from pytest_cloudbench.reports.plots.rate_over_time import rate_over_time

    if getattr(run, "series", None) is None:
        return []
    return [rate_over_time(run), latency_over_time(run), latency_distribution(run)]


def network_plots(run: Any) -> list[Picture | None]:
    """Draw a network run: its rate over time, with a line for each direction if it had two."""
    if run.directions:
        from pytest_cloudbench.reports.plots.comparison import lines_over_time

        ways = ["server to client" if each.reverse else "client to server" for each in run.directions]
        return [lines_over_time(run.directions, ways, f"{run.workload} on {run.path}, each direction")]
    from pytest_cloudbench.reports.plots.rate_over_time import rate_over_time

    return [rate_over_time(run)]


def creation_plots(creation: Any) -> list[Picture | None]:
    """Draw a creation of files: the files, and the data on the device, over time."""
    from pytest_cloudbench.reports.plots.created_files import files_over_time

    return [files_over_time(creation)]


def curve_plots(curve: Any) -> list[Picture | None]:
    """Draw a sweep: its latency over the load."""
    from pytest_cloudbench.reports.plots.curve import curves_picture

    return [curves_picture([curve])]


def line_plot(
    name: str, lines: Mapping[str, Sequence[float]], *, seconds: Sequence[float], unit: str, title: str = ""
) -> Picture | None:
    """Draw lines over time in one panel: each has a value, in ``unit``, for each of the ascending ``seconds``.

    ``name`` names the picture in reports and is its default title. Return None if no line has two values. Raises
    ValueError for a line of another length, PlotsMissing if matplotlib is not installed.
    """
    for label, values in lines.items():
        if len(values) != len(seconds):
            raise ValueError(
                f"line {label!r} of {name!r} has {len(values)} values for {len(seconds)} seconds"
            )
    if not lines or len(seconds) < 2:
        return None
    from pytest_cloudbench.reports.plots.rate_scale import time_scale
    from pytest_cloudbench.reports.plots.sheet import COLOURS, STYLES, Sheet

    time_unit, per_s = time_scale(seconds[-1])
    sheet = Sheet([2.6])
    sheet.title(title or name, "")
    panel = sheet.panels[0]
    panel.upwards(0, max(max(values) for values in lines.values()) * 1.12 or 1)
    panel.across(0, seconds[-1] * per_s)
    panel.unit(unit)
    for number, (label, values) in enumerate(lines.items()):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
        panel.line([at * per_s for at in seconds], list(values), colour, style=style, width=1.4)
        panel.label(values[-1], label, colour=colour)
    sheet.time_axis(time_unit)
    return sheet.picture(name)
