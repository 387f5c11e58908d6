"""The pictures of one measurement, whatever kind it is of."""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.reports.plots.picture import Picture, check_can_draw
from pytest_cloudbench.verdicts.network.observation import is_network


def plot_measurement(measurement: Any) -> list[Picture]:
    """Its rate over time, and what else is known of it; none where its series is too short to be drawn.

    Raises PlotsMissing where matplotlib is not installed.
    """
    check_can_draw()
    return [picture for draw in _drawings(measurement) if (picture := draw(measurement)) is not None]


def _drawings(measurement: Any) -> list[Any]:
    from pytest_cloudbench.reports.plots.files_over_time import files_over_time
    from pytest_cloudbench.reports.plots.latency_distribution import latency_distribution
    from pytest_cloudbench.reports.plots.latency_over_time import latency_over_time
    from pytest_cloudbench.reports.plots.rate_over_time import rate_over_time

    if hasattr(measurement, "files_per_second"):
        return [files_over_time]
    if is_network(measurement):
        return [_both_ways if getattr(measurement, "directions", ()) else rate_over_time]
    if not hasattr(measurement, "series") or not hasattr(measurement, "block_size"):
        return []  # a curve of many runs has a picture of its own
    return [rate_over_time, latency_over_time, latency_distribution]


def _both_ways(measurement: Any) -> Picture | None:
    from pytest_cloudbench.reports.plots.comparison import lines_over_time

    ways = [
        f"{each.server} to {each.client}" if each.reverse else f"{each.client} to {each.server}"
        for each in measurement.directions
    ]
    return lines_over_time(
        measurement.directions, ways, f"{measurement.workload} on {measurement.path}, each direction"
    )
