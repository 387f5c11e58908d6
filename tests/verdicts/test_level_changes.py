"""Changes between runs: found where they are, and hardly ever where there is none."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.verdicts.level_changes import level_changes, two_sided


def found(rates, usual=0.02):
    return [(change.index, round(change.share, 2)) for change in level_changes(rates, usual_noise=usual)]


def test_a_drop_of_the_level():
    assert found([6_000, 6_020, 5_990, 6_010, 4_000, 4_010, 3_990]) == [(4, -0.33)]


def test_a_drop_in_the_last_run():
    assert found([6_000, 6_020, 5_990, 6_010, 3_000]) == [(4, -0.5)]


def test_several_changes():
    chance = random.Random(1)
    levels = [6_000] * 12 + [4_000] * 8 + [5_000] * 10
    assert found([level * math.exp(chance.gauss(0, 0.02)) for level in levels]) == [(12, -0.33), (20, 0.25)]


@pytest.mark.parametrize("rates", [[], [6_000], [6_000, 6_100], [6_000] * 5, [6_000, 6_000, 6_000, 6_050]])
def test_too_little_or_no_difference(rates):
    assert found(rates) == []


@given(
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=30),
    st.floats(1e-3, 1e9),
    st.sampled_from([0.005, 0.02]),
)
def test_the_unit_of_the_rates_does_not_matter(rates, unit, usual):
    changes = level_changes(rates, usual_noise=usual)
    scaled = level_changes([rate * unit for rate in rates], usual_noise=usual)
    assert [change.index for change in changes] == [change.index for change in scaled]
    assert all(0 < change.index < len(rates) for change in changes)


@pytest.mark.parametrize("noise", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("runs", [5, 20, 60])
def test_noise_alone_is_hardly_ever_a_change(noise, runs):
    chance = random.Random(f"{noise} {runs}")
    series = [[1_000 * math.exp(chance.gauss(0, noise)) for _ in range(runs)] for _ in range(200)]
    assert sum(bool(found(each)) for each in series) <= 10, "5 % of the histories"


def test_a_drop_of_10_per_cent_is_found_at_its_run():
    chance = random.Random(2)
    hits = 0
    for _ in range(100):
        rates = [1_000 * (0.9 if run >= 12 else 1) * math.exp(chance.gauss(0, 0.02)) for run in range(20)]
        hits += found(rates)[:1] != [] and abs(found(rates)[0][0] - 12) <= 1
    assert hits >= 95


@pytest.mark.parametrize(
    ("t", "degrees", "beyond"), [(12.706, 1, 0.05), (4.3027, 2, 0.05), (2.7764, 4, 0.05)]
)
def test_students_distribution(t, degrees, beyond):
    assert two_sided(t, degrees) == pytest.approx(beyond, rel=1e-3)
    assert two_sided(0, degrees) == 1
    assert two_sided(2.0452, 29) == pytest.approx(0.05, rel=1e-3)
