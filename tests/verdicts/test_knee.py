"""The knee of a curve, and curves without one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.verdicts.load_curve import FEWEST_POINTS, knee_index

LOADS = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100, 100]
LATENCIES = [0.2, 0.2, 0.21, 0.22, 0.23, 0.25, 0.3, 0.4, 0.7, 30, 58, 60]


def test_the_knee_is_the_last_load_before_latency_takes_off():
    assert knee_index(LOADS, LATENCIES) == 8


def test_the_paper_s_own_example_turned_upwards():
    """y = -1/x + 5 has its knee at 0.22 of the range; mirrored it is convex and rising, with the knee at 0.78."""
    xs = [number / 100 for number in range(101)]
    ys = [1 / (1.1 - x) for x in xs]
    found = knee_index(xs, ys)
    lead = [x - (y - ys[0]) / (ys[-1] - ys[0]) for x, y in zip(xs, ys, strict=True)]
    assert found == lead.index(max(lead))
    assert 0.65 < xs[found] < 0.8


@pytest.mark.parametrize(
    ("load", "latency"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
        ([1, 2, 3, 4, 5], [7, 7, 7, 7, 7]),
        ([1, 2, 3, 4, 5], [1, 5, 8, 9.5, 10]),
        ([5, 5, 5, 5, 5], [1, 2, 3, 4, 5]),
        (LOADS[:3], LATENCIES[:3]),
    ],
    ids=["a line", "flat", "it bends the other way", "one load", "too few points"],
)
def test_there_is_none(load, latency):
    assert knee_index(load, latency) is None


def test_as_many_latencies_as_loads_are_needed():
    with pytest.raises(ValueError, match="5 loads and 4 latencies"):
        knee_index([1, 2, 3, 4, 5], [1, 2, 3, 4])


@given(
    scale=st.floats(1e-6, 1e6),
    factor=st.floats(1e-6, 1e6),
    base=st.floats(0, 1e3),
)
def test_units_do_not_matter(scale, factor, base):
    load = [each * scale for each in LOADS]
    latency = [base * factor + each * factor for each in LATENCIES]
    assert knee_index(load, latency) == knee_index(LOADS, LATENCIES)


@given(limit=st.integers(4, 40), jump=st.floats(5, 1e4))
def test_the_knee_of_a_hockey_stick_is_its_corner(limit, jump):
    load = [*range(1, limit + 1), limit, limit]
    latency = [1.0] * limit + [jump, jump * 1.01]
    assert knee_index(load, latency) == limit - 1


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e3)), max_size=30))
def test_any_points_give_one_of_them_or_none(points):
    found = knee_index([x for x, _ in points], [y for _, y in points])
    assert found is None or (len(points) >= FEWEST_POINTS and 0 < found < len(points) - 1)
    assert found is None or math.isfinite(points[found][1])
