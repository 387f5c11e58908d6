"""How well a mean is known: by batches, by memory, and Student's quantiles against published ones."""

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import noise

from pytest_cloudbench.verdicts.sample_statistics import Noise, noise_of, student_t


@pytest.mark.parametrize(
    ("probability", "degrees", "published"),
    [
        (0.975, 4, 2.776),
        (0.975, 5, 2.571),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 1e6, 1.960),
        (0.95, 4, 2.132),
        (0.95, 20, 1.725),
    ],
)
def test_students_quantiles_are_the_published_ones(probability, degrees, published):
    assert student_t(probability, degrees) == pytest.approx(published, rel=0.005)


@pytest.mark.parametrize(("count", "memory", "most"), [(60, 0.0, 0.05), (300, 0.5, 0.06), (1_800, 0.9, 0.07)])
def test_the_true_mean_lies_within_the_margin(count, memory, most):
    """95 % of the intervals hold it; intervals that ignore correlation would hold far fewer."""
    numbers, outside, plain = random.Random(5), 0, 0
    for _ in range(400):
        values = noise(count, 0.05, numbers, memory)
        known = noise_of([values])
        off = abs(fmean(values) - 1)
        outside += off > known.margin()
        plain += off > 1.96 * 0.05 / math.sqrt(count)
    assert outside / 400 <= most
    if memory:
        assert plain / 400 > 0.15


def test_levels_of_several_pieces_do_not_count_as_noise():
    numbers = random.Random(2)
    one = noise(100, 0.01, numbers)
    other = [value / 4 for value in noise(100, 0.01, numbers)]
    assert noise_of([one, other]).error < 0.005
    assert noise_of([[*one, *other]]).error > 0.05
    assert noise_of([[5.0] * 10]) == Noise(0.0, 4)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="4 samples are too few to estimate their noise"):
        noise_of([[1.0, 2.0], [3.0, 4.0]])


def test_two_noises_combine():
    assert Noise(3.0, 10).combined(Noise(4.0, 10)).error == pytest.approx(5.0)
    assert Noise(3.0, 10).combined(Noise(3.0, 10)).degrees == pytest.approx(20)
    assert Noise(0.0, 4).combined(Noise(0.0, 9)) == Noise(0.0, 4)
    assert Noise(3.0, 10).scaled(-2).error == 6.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=80), st.floats(0.1, 100))
def test_noise_scales_with_the_values(values, factor):
    one, other = noise_of([values]), noise_of([[value * factor for value in values]])
    assert other.error == pytest.approx(one.error * factor, rel=1e-3, abs=1e-6 * factor)
    assert one.degrees >= 4
