"""Lasting falls: every real one is found at its moment, and none in a series that only looks like it."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import burst, noise
from synthetic_runs import run_of
from synthetic_series import KINDS, sliding, with_fall, without_fall

from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.verdicts.change_point import FEWEST_AFTER, FEWEST_SAMPLES, PARAMETERS, find_falls
from pytest_cloudbench.verdicts.levels import (
    falling_splits,
    level_of,
    median_filtered,
    nearest_split,
    slow_start,
    without_outliers,
)
from pytest_cloudbench.verdicts.step_evidence import step_evidence
from pytest_cloudbench.verdicts.timeline import timed_samples


def falls_of(values, interval=1.0):
    return find_falls([interval * (index + 1) for index in range(len(values))], values)


@pytest.mark.parametrize("number", range(200))
def test_no_fall_is_found_in_a_series_without_one(number):
    kind, values = without_fall(number)
    assert falls_of(values).lasting == (), kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_short_series_give_hardly_a_false_fall(kind):
    """The shortest runs are the hardest: the noise itself is guessed from them."""
    found = [
        number
        for number in range(150)
        if falls_of(without_fall(number, kinds=(kind,), lengths=(20, 25, 30, 40))[1]).lasting
    ]
    assert len(found) <= 1, found


@pytest.mark.parametrize(
    ("high", "low", "each", "spread"),
    [(3_000, 2_250, 100, 0.07), (3_000, 2_550, 150, 0.05), (10, 7.5, 60, 0.05)],
)
def test_a_shallow_fall_is_found_in_real_noise(high, low, each, spread):
    """Levels 13 to 31 standard errors apart are not luck."""
    found = 0
    for seed in range(40):
        factors = noise(2 * each, spread, random.Random(seed))
        values = [(high if index < each else low) * factor for index, factor in enumerate(factors)]
        falls = falls_of(values).lasting
        found += len(falls) == 1 and abs(falls[0].at_s - each) <= 5
    assert found >= 37


def test_a_slide_is_hardly_ever_called_a_fall():
    assert sum(bool(falls_of(without_fall(number, (sliding,))[1]).lasting) for number in range(200)) <= 1


class _Series:
    def __init__(self, made):
        self.seconds = made.seconds
        self.throughput = [Throughput(value) for value in made.values]


@pytest.mark.parametrize("number", range(200))
def test_a_fall_is_found_within_a_second_and_its_levels_within_two_per_cent(number):
    made = with_fall(number)
    seconds, values = timed_samples(_Series(made), Throughput(0))
    (fall,) = find_falls(seconds, values).lasting
    assert abs(fall.at_s - made.at_s) <= 1.0
    assert fall.before == pytest.approx(made.before, rel=0.02)
    assert fall.after == pytest.approx(made.after, rel=0.02)


def test_a_clean_fall_is_found_to_the_part_of_a_second():
    found = falls_of(burst(1_260.4, 1_800, spread=0.0))
    (fall,) = found.lasting
    assert (fall.at_s, fall.before, fall.after) == pytest.approx((1_260.4, 9.93, 2.4825))
    assert math.isinf(fall.standard_errors)
    assert found.unproven is None


def test_compressed_samples_keep_the_seconds_of_the_test():
    (fall,) = falls_of(burst(1_257, 1_800, interval=6.0), interval=6.0).lasting
    assert fall.at_s == pytest.approx(1_257, abs=1)


def test_a_slow_sender_counts_in_whole_blocks():
    """At 32 Mbit/s three blocks of 128 KiB arrive in a tenth of a second, now and then four."""
    numbers = random.Random(4)
    blocks = [numbers.choices((48, 49), (18, 82))[0] for _ in range(200)]
    blocks += [numbers.choices((3, 4), (95, 5))[0] for _ in range(200)]
    (fall,) = falls_of([count * 10.4858 for count in blocks]).lasting
    assert fall.index == 200
    assert fall.after == pytest.approx(3.05 * 10.4858, rel=0.02)


def test_several_falls_are_all_named():
    values = burst(600, 1_200, 9.93, 4.96) + burst(0, 600, 9.93, 2.48)
    found = falls_of(values)
    assert [round(fall.at_s) for fall in found.lasting] == [600, 1_200]
    assert [fall.after for fall in found.lasting] == pytest.approx([4.96, 2.48], rel=0.02)
    assert found.lasting[1].before == pytest.approx(4.96, rel=0.02)


@pytest.mark.parametrize("left", [5, FEWEST_AFTER - 1])
def test_a_fall_just_before_the_end_may_yet_recover(left):
    found = falls_of(burst(600 - left, 600))
    assert found.lasting == ()
    assert found.unproven.at_s == pytest.approx(600 - left, abs=0.1)
    assert found.unproven.after == pytest.approx(2.48, rel=0.05)
    assert falls_of(burst(600 - FEWEST_AFTER, 600)).lasting


def test_a_fall_must_outlast_the_dips_before_it():
    dip = [9.93] * 200 + [2.48] * 30 + [9.93] * 200
    assert falls_of([*dip, *[2.48] * 80]).lasting == ()
    assert falls_of([*dip, *[2.48] * 80]).unproven is not None
    assert falls_of([*dip, *[2.48] * 95]).lasting


def test_a_fall_that_recovers_is_not_lasting():
    assert falls_of([9.93] * 600 + [2.48] * 600 + [9.93] * 60).lasting == ()
    assert falls_of([9.93] * 600 + [2.48] * 600 + [9.93] * 4).lasting == ()


def test_a_link_that_goes_away_for_good_is_a_fall_to_nothing():
    (fall,) = falls_of([9.93] * 100 + [0.0] * 50).lasting
    assert (fall.at_s, fall.after) == (100.0, 0.0)
    assert falls_of([0.0] * 100).lasting == ()


def test_too_few_samples_show_nothing():
    for count in range(FEWEST_SAMPLES):
        assert falls_of([9.0] * (count // 2) + [1.0] * (count - count // 2)).lasting == ()


def test_a_hundred_thousand_samples_take_little_time():
    numbers = random.Random(3)
    values = [
        (10 if index < 70_000 else 2.5) * factor for index, factor in enumerate(noise(100_000, 0.05, numbers))
    ]
    (fall,) = falls_of(values).lasting
    assert fall.at_s == pytest.approx(70_000, abs=1)


def test_the_parameters_are_plain_values():
    assert PARAMETERS["smallest_fall"] == 0.10
    assert all(isinstance(value, (int, float)) for value in PARAMETERS.values())


@given(
    st.floats(1e-3, 1e9),
    st.floats(0.0, 0.85),
    st.integers(5, 200),
    st.integers(FEWEST_AFTER, 200),
    st.floats(0.0, 1.0),
)
def test_every_clean_fall_is_found_at_any_scale(level, rest, before, after, part):
    between = level * part + level * rest * (1 - part)
    values = [level] * before + [between] + [level * rest] * after
    found = falls_of(values)
    (fall,) = found.lasting
    assert fall.at_s == pytest.approx(before + part, abs=1e-3)
    assert (fall.before, fall.after) == pytest.approx((level, level * rest))


@given(st.lists(st.floats(0, 1e12), max_size=120))
def test_whatever_the_series_its_falls_are_in_order_and_go_down(values):
    found = falls_of(values)
    times = [fall.at_s for fall in found.lasting]
    assert times == sorted(times)
    for fall in found.lasting:
        assert 0 <= fall.at_s <= len(values)
        assert fall.after <= 0.9 * fall.before
        assert len(values) - fall.index >= FEWEST_AFTER


@given(st.floats(0.1, 1e9), st.integers(20, 200))
def test_a_constant_never_falls(level, count):
    assert falls_of([level] * count).lasting == ()
    assert falls_of([level * (1 + index / count) for index in range(count)]).lasting == ()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_levels_and_filters_stay_within_the_values(values):
    low, high = min(values), max(values)
    assert low <= level_of(values) <= high
    for width in (5, 11):
        filtered = median_filtered(values, width)
        assert len(filtered) == len(values)
        assert set(filtered) <= set(values)
    tame = without_outliers(values)
    assert all(low <= value <= high for value in tame)
    assert 0 <= slow_start(values) <= len(values) // 2


def test_a_level_is_that_of_most():
    assert level_of([9, 10, 11, 1_000]) == 10.5
    assert level_of([10.0] * 150 + [0.0] * 10) == pytest.approx(10.0)
    assert median_filtered([1, 9, 1, 1, 1, 5, 5, 5], 5) == [1, 1, 1, 1, 1, 5, 5, 5]
    assert slow_start([1, 2, 5, 10, 10, 10, 10, 10]) == 3
    assert slow_start([10]) == 0


def test_splits_are_the_exact_least_squares_ones():
    values = [4.0, 5.0, 4.5, 4.0, 5.0, 1.0, 1.5, 1.0, 0.5, 1.0]
    assert falling_splits(values, shortest=2, smallest=0.05, most=1) == [5]
    assert nearest_split(values, 4, reach=3, shortest=2) == 5
    assert nearest_split([1.0, 1.0, 2.0, 2.0, 3.0, 3.0], 3, reach=2, shortest=1) == 3
    assert falling_splits([1.0, 2.0, 3.0, 4.0], shortest=1, smallest=0.05, most=5) == []


@given(st.lists(st.floats(0, 100), min_size=4, max_size=40))
def test_the_first_split_leaves_the_least_squared_error(values):
    def left(at):
        sides = values[:at], values[at:]
        return sum(sum((value - sum(side) / len(side)) ** 2 for value in side) for side in sides)

    falling = [
        at for at in range(1, len(values)) if sum(values[:at]) / at > sum(values[at:]) / (len(values) - at)
    ]
    found = falling_splits(values, shortest=1, smallest=0.0, most=1)
    if not falling or not found:
        return
    assert left(found[0]) == pytest.approx(min(left(at) for at in falling), abs=1e-6)


def test_a_clean_step_is_beyond_doubt_and_a_clean_slope_is_none():
    assert step_evidence([9.0] * 20, [5.0] * 20) > 1_000
    slope = [float(value) for value in range(40, 0, -1)]
    assert step_evidence(slope[:20], slope[20:]) < 0
    assert step_evidence([5.0] * 20, [5.0] * 20) == 0.0


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.97])
def test_noise_without_a_step_gives_hardly_ever_evidence_for_one(memory):
    numbers = random.Random(8)
    series = [noise(100, 0.05, numbers, memory) for _ in range(300)]
    assert sum(step_evidence(values[:50], values[50:]) >= 10 for values in series) <= 1


@given(
    st.lists(st.floats(0.1, 100), min_size=10, max_size=60).filter(lambda values: len(values) % 2 == 0),
    st.floats(0.01, 1e6),
)
def test_evidence_does_not_depend_on_the_unit(values, factor):
    half = len(values) // 2
    one = step_evidence(values[:half], values[half:])
    other = step_evidence(*([value * factor for value in side] for side in (values[:half], values[half:])))
    assert other == pytest.approx(one, rel=1e-3, abs=1e-3)


def test_iops_are_searched_as_well():
    run = run_of(1_920, values=[3_000] * 60 + [300] * 40)
    (fall,) = find_falls(*timed_samples(run.series, Iops(0))).lasting
    assert (fall.at_s, fall.before, fall.after) == (60.0, 3_000.0, 300.0)
