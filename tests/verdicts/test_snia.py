"""SNIA's steady state: the last five rounds, their range and their slope."""

import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import burst, machine, network_run, noise
from synthetic_runs import run_of

from pytest_cloudbench import Outcome
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.steady import last_window, steady


def of_rounds(*means, seconds=60):
    return [mean for mean in means for _ in range(seconds)]


def stored(values):
    return run_of(fmean(values), values=values)


@pytest.mark.parametrize(
    ("rounds", "steep", "wide", "steady_state"),
    [
        ((100, 100, 100, 100, 100), 0.0, 0.0, True),
        ((90, 110, 100, 90, 110), 0.08, 0.2, True),
        ((90, 111, 100, 90, 109), 0.068, 0.21, False),
        ((95, 97.5, 100, 102.5, 105), 0.10, 0.10, True),
        ((94, 97, 100, 103, 106), 0.12, 0.12, False),
        ((106, 103, 100, 97, 94), -0.12, 0.12, False),
    ],
)
def test_range_and_slope_are_shares_of_the_mean(rounds, steep, wide, steady_state):
    window = last_window(of_rounds(*rounds), 1.0)
    assert window.rounds == pytest.approx(rounds)
    assert (window.range, window.slope) == (pytest.approx(wide), pytest.approx(steep))
    assert window.steady is steady_state


def test_the_last_five_minutes_count():
    window = last_window(of_rounds(500, 300, 100, 100, 100, 100, 100) + [100] * 30, 1.0)
    assert window.round_samples == 60
    assert window.rounds[1:] == (100,) * 4
    assert window.steady
    assert last_window([100] * 12, 1.0).round_samples == 2
    assert last_window([100] * 12, 60.0).round_samples == 1
    assert math.isinf(last_window([0.0] * 10, 1.0).range)


def test_a_slow_start_before_the_last_five_rounds_does_not_matter():
    run = stored(of_rounds(500, 2_000, 2_950, 3_050, 3_000, 3_000, 3_000))
    verdict = steady(run, method="snia")
    assert verdict.outcome is Outcome.HELD
    assert verdict.details["rounds"] == [2_950, 3_050, 3_000, 3_000, 3_000]
    assert (verdict.details["round_s"], verdict.details["steady_method"]) == (60.0, "snia")
    assert verdict.details["range"] == pytest.approx(1 / 30)
    assert steady(run).outcome is Outcome.VIOLATED


def test_scatter_within_rounds_does_not_matter_and_a_trend_does():
    wild = [3_000 * factor for factor in noise(300, 0.2, random.Random(4))]
    assert steady(stored(wild), method="snia").outcome is Outcome.HELD
    assert steady(stored(wild)).outcome is Outcome.VIOLATED
    trend = steady(network_run(values=[10 - index / 200 for index in range(300)]), method="snia")
    assert trend.outcome is Outcome.VIOLATED
    assert "falls by 13 % of it" in trend.sentence
    assert steady(network_run(values=burst(500, 600)), method="snia").outcome is Outcome.VIOLATED


def test_who_else_may_have_caused_it_is_asked_as_of_seconds():
    values = of_rounds(5, 4, 3, 5, 4)
    region = steady(network_run(values=values, on=machine(13)), method="snia")
    assert (region.outcome, region.machine_limited) == (Outcome.INCONCLUSIVE, True)
    busy = steady(network_run(values=values, generator=GeneratorLoad(98.0)), method="snia")
    assert busy.outcome is Outcome.INCONCLUSIVE
    assert steady(network_run(5.0, samples=4), method="snia").outcome is Outcome.INCONCLUSIVE
    idle = steady(stored(of_rounds(3_000, 3_000, 3_000, 3_000, 3_000, 0, 0, 0, 0, 0)), method="snia")
    assert idle.outcome is Outcome.VIOLATED
    assert "nothing was transferred" in idle.sentence


def test_other_methods_and_tolerances_are_refused():
    with pytest.raises(ValueError, match="expected 'seconds' or 'snia'"):
        steady(run_of(3_000), method="iso")
    with pytest.raises(ValueError, match="leave within out"):
        steady(run_of(3_000), within=0.1, method="snia")


@given(st.lists(st.floats(0.1, 1e6), min_size=5, max_size=400), st.floats(0.1, 120))
def test_a_window_lies_within_its_samples(samples, sample_s):
    window = last_window(samples, sample_s)
    assert len(window.rounds) == 5
    assert 5 * window.round_samples <= len(samples)
    assert min(samples) * (1 - 1e-9) <= min(window.rounds) <= max(window.rounds) <= max(samples) * (1 + 1e-9)
    assert abs(window.slope) <= 1.2 * window.range + 1e-9
