"""Samples that resemble the one before: their noise is not drift, and a cluster of bad seconds counts as few."""

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import noise
from synthetic_runs import run_of

from pytest_cloudbench import Outcome
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.sample_statistics import (
    independent_samples,
    steadiness,
    time_share,
)
from pytest_cloudbench.verdicts.step_evidence import inflation, innovations, memory_of


def drifts(series, within=0.05):
    return sum(steadiness(values, within).steady is False for values in series)


@pytest.mark.parametrize(
    ("count", "memory", "spread", "most"),
    [
        (1_200, 0.97, 0.09, 4),
        (300, 0.9, 0.09, 4),
        (120, 0.8, 0.05, 4),
        (60, 0.6, 0.09, 6),
        (60, 0.9, 0.09, 14),
    ],
)
def test_noise_that_resembles_itself_is_no_drift(count, memory, spread, most):
    """Of 200; standard errors of independent samples call 7 to 90 of them a drift."""
    numbers = random.Random(count)
    assert drifts([noise(count, spread, numbers, memory) for _ in range(200)]) <= most


@pytest.mark.parametrize(
    "shape",
    [
        [1 - 0.2 * index / 60 for index in range(60)],
        [1.0] * 45 + [0.5] * 15,
        [1.0] * 50 + [0.5] * 10,
        [0.5] * 40 + [1.0] * 20,
    ],
    ids=["slope", "fall", "late fall", "rise"],
)
@pytest.mark.parametrize(("spread", "memory"), [(0.0, 0.0), (0.03, 0.0), (0.03, 0.6)])
def test_a_drift_is_seen_in_noise(shape, spread, memory):
    numbers = random.Random(4)
    series = [
        [value * factor for value, factor in zip(shape, noise(60, spread, numbers, memory), strict=True)]
        for _ in range(50)
    ]
    assert drifts(series) >= 47


@pytest.mark.parametrize("count", [10, 20, 60, 300])
@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize(
    ("depth", "spread", "memory"), [(0.5, 0.01, 0.0), (0.9, 0.01, 0.0), (0.9, 0.03, 0.5)]
)
def test_a_rate_that_warms_up_smoothly_drifts(count, share, depth, spread, memory):
    """It resembles the second before, as noise with much memory does."""
    numbers = random.Random(count)
    curve = [1 - depth * math.exp(-index / (share * count)) for index in range(count)]
    series = [
        [value * factor for value, factor in zip(curve, noise(count, spread, numbers, memory), strict=True)]
        for _ in range(20)
    ]
    assert drifts(series, 0.1) >= 18


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.6, 0.9])
def test_the_memory_of_noise_is_estimated_without_bias(memory):
    numbers = random.Random(6)
    found = []
    for _ in range(300):
        values = noise(60, 1.0, numbers, memory)
        mean = fmean(values)
        found.append(memory_of([value - mean for value in values]))
    assert fmean(found) == pytest.approx(memory, abs=0.06)


def test_what_is_new_in_a_sample_is_what_the_one_before_does_not_explain():
    values = [value - 1 for value in noise(2_000, 1.0, random.Random(5), 0.9)]
    assert innovations(values) == pytest.approx(2_000 * (1 - 0.9**2), rel=0.1)
    assert innovations([1.0, -1.0, 1.0, -1.0]) == 0.0
    assert (inflation(0.0), inflation(0.5)) == (1.0, 3.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_a_mirror_image_has_the_same_innovations(rests):
    assert innovations(rests[::-1]) == pytest.approx(innovations(rests), rel=1e-6, abs=1e-3)


def test_a_cluster_of_bad_seconds_counts_as_few():
    scattered = [index % 10 != 5 for index in range(300)]
    clustered = [index >= 30 for index in range(300)]
    assert independent_samples(scattered) > 250
    assert independent_samples(clustered) < 30
    assert independent_samples([True] * 300) == 300


def test_a_kept_promise_is_rarely_violated_however_its_seconds_cluster():
    """The floor is the 5 % quantile of each second, so exactly 95 % of the time is kept in the long run.

    The interval of independent seconds would violate it in one of five runs.
    """
    numbers, violated, independent = random.Random(2), 0, 0
    for _ in range(300):
        share = time_share(noise(300, 0.05, numbers, 0.9), 1 - 1.645 * 0.05)
        violated += share.consistent(0.95) is False
        independent += share.consistent(0.95) is not True
    assert violated <= 24
    assert independent >= 60


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([80_000] * 300, Outcome.HELD),
        ([80_000] * 270 + [60_000] * 30, Outcome.INCONCLUSIVE),
        ([*[80_000] * 9, 60_000] * 30, Outcome.VIOLATED),
    ],
)
def test_one_cluster_of_bad_seconds_does_not_decide_about_a_share_of_the_time(values, outcome):
    verdict = reaches(run_of(fmean(values), values=values), "80,000 IOPS", share=0.95)
    assert verdict.outcome is outcome
    assert ("come in clusters" in verdict.sentence) == (outcome is Outcome.INCONCLUSIVE)


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=200), st.floats(0.01, 1))
def test_clusters_never_turn_an_open_question_into_a_kept_promise(values, required):
    share = time_share(values, 50_000)
    assert 0 <= share.low <= share.share <= share.high <= 1
    assert 1 <= share.independent <= share.samples
    if share.share >= required:
        assert share.consistent(required) is True
