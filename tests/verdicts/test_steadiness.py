"""Steadiness of one-second series, and ceilings that the throttle counters confirm or deny."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import run_of, series_of

from pytest_cloudbench.limits.ceilings import MACHINE, VOLUME, Ceiling
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.run import run_of as view_of
from pytest_cloudbench.verdicts.sample_statistics import steadiness
from pytest_cloudbench.verdicts.timeline import timed_samples

BLOCK = Size.parse("4k")


def test_a_flat_series_is_steady():
    found = steadiness([100.0] * 10, 0.05)
    assert found.steady is True
    assert (found.first_half, found.second_half, found.samples) == (100.0, 100.0, 10)


@pytest.mark.parametrize(
    "samples", [[100.0] * 30 + [80.0] * 30, [100.0, 100.0, 50.0, 50.0], list(range(100, 160))]
)
def test_a_step_and_a_slope_are_not(samples):
    assert steadiness([float(value) for value in samples], 0.05).steady is False


def test_a_burst_that_ends_late_is_not_steady():
    assert steadiness([3_000.0] * 45 + [300.0] * 15, 0.05).steady is False


def test_noise_alone_is_no_drift():
    source = random.Random(20)
    for _ in range(200):
        samples = [source.gauss(100, 12) for _ in range(60)]
        assert steadiness(samples, 0.1).steady is True


def test_one_bad_second_is_no_drift():
    assert steadiness([100.0] * 20 + [0.0] + [100.0] * 9, 0.02).steady is True


@pytest.mark.parametrize("samples", [[], [1.0], [1.0] * 3])
def test_a_short_series_says_nothing(samples):
    assert steadiness(samples, 0.05).steady is None


def test_a_short_last_interval_is_left_out():
    seconds = [1.0, 2.0, 3.0, 4.0, 4.2]
    assert timed_samples(series_of([9, 9, 9, 9, 2], BLOCK, seconds), Iops(1))[1] == [9.0] * 4
    assert timed_samples(series_of([9] * 5, BLOCK), Iops(1))[1] == [9.0] * 5


def test_samples_come_in_the_quantity_asked_for():
    assert timed_samples(series_of([2, 2, 2], BLOCK), Throughput(1))[1] == [8192.0] * 3
    assert timed_samples(None, Iops(1))[1] == []


def test_samples_without_a_figure_are_left_out():
    assert timed_samples(series_of([1, float("nan"), 3], BLOCK), Iops(1))[1] == [1.0, 3.0]


@given(st.lists(st.floats(0, 1e9), min_size=4, max_size=60), st.floats(0.001, 0.9))
def test_a_series_and_its_mirror_image_agree(samples, within):
    assert steadiness(samples, within).steady == steadiness(samples[::-1], within).steady


@pytest.mark.parametrize(
    ("seconds", "says"), [(60.0, True), (30.0, True), (29.0, None), (6.0, None), (5.9, False), (0.0, False)]
)
def test_counters_say_whether_a_ceiling_acted(seconds, says):
    volume = Ceiling("io2 vol-1", "volume throughput", VOLUME, Throughput(1))
    assert ThrottleDelta(60.0, volume_throughput_exceeded_s=seconds).acted(volume) is says


def test_counters_are_silent_where_they_do_not_look():
    machine = Ceiling("the machine", "machine IOPS", MACHINE, Iops(1))
    volume = Ceiling("io2 vol-1", "volume IOPS", VOLUME, Iops(1))
    assert ThrottleDelta(60.0, 60, 60, 60, 60).acted(machine) is None
    assert view_of(run_of(3_000, counters=None)).acted(volume) is None
    assert ThrottleDelta(0.0, 60).acted(volume) is None
