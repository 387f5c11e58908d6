"""Figures and shares as they stand in a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.verdicts.wording import duration, listed, percent, tolerance


@pytest.mark.parametrize(
    ("share", "bounds", "text"),
    [
        (0.11326, (0.9,), "11 %"),
        (1.00005, (), "100.0 %"),
        (0.8999, (0.9,), "89.99 %"),
        (0.899999, (0.9,), "89.9999 %"),
        (0.9, (0.9,), "90.0 %"),
        (0.9996, (1.0,), "99.96 %"),
        (2.5, (), "250 %"),
        (12.0, (), "1,200 %"),
    ],
)
def test_per_cent(share, bounds, text):
    assert percent(share, *bounds) == text


@given(st.floats(0, 2), st.sampled_from([0.5, 0.9, 0.95, 0.999, 1.0]))
def test_per_cent_stays_on_its_side_of_the_bound(share, bound):
    shown = float(percent(share, bound).removesuffix(" %").replace(",", "")) / 100
    if abs(share - bound) > 1e-6:
        assert (shown < bound) == (share < bound)


def test_a_tolerance_shows_no_rounding_noise():
    assert tolerance(1 - 0.1) == "90 %"
    assert tolerance(1 - 0.03) == "97 %"
    assert tolerance(0.999) == "99.9 %"
    assert tolerance(0.005) == "0.5 %"


def test_lists():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_durations():
    assert [
        duration(value) for value in (0.00000756, 0.0000154, 0.0001, 0.00042, 0.0128, 0.256, 6.0, 300.0)
    ] == [
        "7.6 us",
        "15.4 us",
        "0.1 ms",
        "0.42 ms",
        "13 ms",
        "256 ms",
        "6 s",
        "300 s",
    ]
