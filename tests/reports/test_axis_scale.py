"""Axes: the values that they name, and the positions of values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.reports.plots.sheet import AxisScale, tick_text


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 89_600, "0 10,000 20,000 30,000 40,000 50,000 60,000 70,000 80,000"),
        (0, 20, "0 2.5 5 7.5 10 12.5 15 17.5 20"),
        (0, 11.1, "0 2 4 6 8 10"),
        (0, 0.0061, "0 0.001 0.002 0.003 0.004 0.005 0.006"),
        (0, 1, "0 0.2 0.4 0.6 0.8 1"),
    ],
)
def test_plain_axes_name_round_values(low, high, wanted):
    assert " ".join(tick_text(value) for value in AxisScale(low, high).ticks()) == wanted


def test_logarithmic_axes_name_fewer_values_the_longer_they_are():
    assert AxisScale(0.8, 60, logarithmic=True).ticks() == [1, 2, 5, 10, 20, 50]
    assert AxisScale(0.5, 1_000, logarithmic=True).ticks() == [1, 3, 10, 30, 100, 300, 1000]
    assert AxisScale(1, 100_000, logarithmic=True).ticks() == [1, 10, 100, 1000, 10_000, 100_000]


def test_a_logarithmic_axis_spreads_evenly_by_factor():
    axis = AxisScale(1, 10_000, logarithmic=True)
    assert [axis.share(value) for value in (1, 10, 100, 1_000, 10_000)] == pytest.approx(
        [0, 0.25, 0.5, 0.75, 1]
    )
    assert axis.share(0) < -1, "an impossible value is far below, not an error"


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(1, 9))
def test_ticks_lie_on_the_axis_and_are_no_more_than_wanted(low, length, most):
    axis = AxisScale(low, low + length)
    if axis.high - axis.low < 1e-9 * abs(low):
        return  # below the resolution of floating-point numbers
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    assert all(-1e-6 <= axis.share(tick) <= 1 + 1e-6 for tick in ticks)
