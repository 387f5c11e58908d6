"""One verdict over the repeats of a test: order statistics, what would decide, and repeats that say nothing."""

import dataclasses
import math
import random
import statistics
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import run_of

from pytest_cloudbench.limits.quantities import Bandwidth, Iops
from pytest_cloudbench.verdicts.comparison import outperforms
from pytest_cloudbench.verdicts.latency_limits import latency_at_most
from pytest_cloudbench.verdicts.repeats import (
    Repeat,
    confidence_of,
    exceptions_allowed,
    over_repeats,
    repeats_to_decide,
)
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import duration

HELD, VIOLATED, INCONCLUSIVE = Outcome.HELD, Outcome.VIOLATED, Outcome.INCONCLUSIVE


def verdict(outcome, measured=3_000.0, *, volume="vol-0a", **figures):
    promise = f"reaches gp3 {volume} IOPS, 3,000 IOPS, within 10 %"
    figures = {"measured": Iops(measured), "asked": Iops(3_000), **figures}
    return Verdict(outcome, f"{outcome.value}: {measured:,.0f} IOPS", promise, **figures)


def repeats(*outcomes):
    return [
        Repeat(
            number, verdict(each, volume=f"vol-{number:x}") if isinstance(each, Outcome) else None, str(each)
        )
        for number, each in enumerate(outcomes, 1)
    ]


@pytest.mark.parametrize(
    ("number", "allowed", "percent"),
    [(6, 0, 96.875), (9, 1, 96.09), (12, 2, 96.14), (15, 3, 96.48), (20, 5, 95.86)],
)
def test_the_interval_of_the_median_has_the_ranks_of_the_tables(number, allowed, percent):
    assert exceptions_allowed(number) == allowed
    assert confidence_of(number, allowed) * 100 == pytest.approx(percent, abs=0.01)


@pytest.mark.parametrize("number", range(6))
def test_fewer_than_six_repeats_decide_nothing(number):
    assert exceptions_allowed(number) is None


@given(number=st.integers(6, 120))
def test_the_ranks_are_the_narrowest_with_95_percent(number):
    allowed = exceptions_allowed(number)
    assert confidence_of(number, allowed) >= 0.95 > confidence_of(number, allowed + 1)


@given(number=st.integers(6, 60))
def test_two_equal_things_are_told_apart_in_at_most_5_percent(number):
    """If each repeat is held or violated by the toss of a coin, all of 2^n cases are equally likely."""
    allowed = exceptions_allowed(number)
    decided = 2 * sum(math.comb(number, each) for each in range(allowed + 1)) / 2**number
    assert decided <= 0.05


def test_the_median_of_any_distribution_is_in_the_interval():
    random.seed(17)
    inside = 0
    for _ in range(2_000):
        values = [random.lognormvariate(8, 1) for _ in range(6)]
        found = over_repeats([Repeat(at, verdict(HELD, value), "") for at, value in enumerate(values, 1)])
        low, high = found.details["interval"]
        inside += low <= math.exp(8) <= high
    assert 0.955 < inside / 2_000 < 0.982


def test_six_that_hold_are_held_with_the_median_and_its_interval():
    values = [2_990, 3_010, 3_000, 2_980, 3_020, 3_000]
    found = over_repeats([Repeat(at, verdict(HELD, value), "") for at, value in enumerate(values, 1)])
    assert found.outcome is HELD
    assert found.measured == Iops(3_000)
    assert found.asked == Iops(3_000)
    assert found.details["interval"] == [2_980, 3_020]
    for part in ("6 of 6 repeats", "median 3,000 IOPS", "96.9 %", "2,980 IOPS to 3,020 IOPS"):
        assert part in found.sentence
    assert "vol-" not in found.promise


def test_rates_of_networks_keep_their_unit():
    rate = Bandwidth(1.25e9)
    held = Verdict.held("10 Gbit/s", promise="reaches 10 Gbit/s", measured=rate, asked=rate)
    found = over_repeats([Repeat(number, held) for number in range(1, 7)])
    assert "median 10 Gbit/s" in found.sentence


def test_six_that_are_violated_are_violated_with_the_reason_of_one():
    found = over_repeats([Repeat(number, verdict(VIOLATED, 2_000), "") for number in range(1, 7)])
    assert found.outcome is VIOLATED
    assert "0 of 6 repeats" in found.sentence
    assert "2,000 IOPS" in found.sentence


def test_runs_that_are_compared_in_each_repeat_have_the_median_of_their_ratios():
    """The first run is 2 % faster each time, although the rates of both differ by 20 % from hour to hour."""
    found = over_repeats(
        [
            Repeat(number, outperforms(run_of(rate * 1.02), run_of(rate)))
            for number, rate in enumerate((3_000, 3_600, 3_100, 3_300, 3_500, 3_200), 1)
        ]
    )
    assert found.outcome is HELD
    assert "median 1.02 times, 96.9 % interval 1.02 times to 1.02 times" in found.sentence


def test_one_in_six_that_differs_needs_three_more():
    found = over_repeats(repeats(*[HELD] * 5, VIOLATED))
    assert found.outcome is INCONCLUSIVE
    assert "3 more repeats would decide this" in found.sentence
    assert "repeat 6" in found.sentence
    assert over_repeats(repeats(*[HELD] * 8, VIOLATED)).outcome is HELD


def test_half_and_half_is_not_worth_a_few_more():
    found = over_repeats(repeats(*[HELD] * 3, *[VIOLATED] * 3))
    assert found.outcome is INCONCLUSIVE
    assert "more repeats would decide" not in found.sentence


def test_repeats_that_are_all_undecided_do_not_differ():
    found = over_repeats(repeats(*[INCONCLUSIVE] * 6))
    assert found.outcome is INCONCLUSIVE
    assert "differ" not in found.sentence
    assert "no repeat decides this" in found.sentence
    assert "differ" not in over_repeats(repeats(INCONCLUSIVE, INCONCLUSIVE)).sentence


def test_five_need_one_more():
    found = over_repeats(repeats(*[HELD] * 5))
    assert found.outcome is INCONCLUSIVE
    assert "1 more repeat would decide this" in found.sentence


def test_a_repeat_that_was_not_measured_is_named_with_its_reason_and_counts():
    found = over_repeats(repeats(*[HELD] * 5, "HostLost: no answer from i-1"))
    assert found.outcome is INCONCLUSIVE
    assert "repeat 6 was not judged: HostLost: no answer from i-1" in found.sentence
    assert found.details["repeats"][5]["outcome"] == "not judged"
    assert not found.machine_limited


def test_noise_within_a_run_does_not_matter_if_the_repeats_agree():
    leaning = verdict(INCONCLUSIVE, leans=HELD)
    assert over_repeats([Repeat(number, leaning, "") for number in range(1, 7)]).outcome is HELD


def test_the_machine_is_the_reason_only_if_it_is_that_of_all_undecided_repeats():
    late = verdict(INCONCLUSIVE, machine_limited=True)
    mixed = [Repeat(1, late), *repeats(*[HELD] * 5)]
    assert over_repeats(mixed).machine_limited
    assert not over_repeats([*mixed, Repeat(7, verdict(INCONCLUSIVE))]).machine_limited
    assert not over_repeats([*mixed, Repeat(7, verdict(VIOLATED))]).machine_limited


OUTCOMES = st.lists(
    st.sampled_from([HELD, VIOLATED, INCONCLUSIVE, "FioError: broke off"]), min_size=1, max_size=25
)
some_judged = OUTCOMES.filter(lambda outcomes: any(isinstance(each, Outcome) for each in outcomes))


@given(outcomes=some_judged, order=st.randoms())
def test_the_order_of_repeats_does_not_matter(outcomes, order):
    shuffled = list(outcomes)
    order.shuffle(shuffled)
    assert over_repeats(repeats(*shuffled)).outcome is over_repeats(repeats(*outcomes)).outcome


@given(outcomes=some_judged, unknown=st.sampled_from([HELD, VIOLATED]))
def test_what_undecided_repeats_would_have_said_changes_no_decision(outcomes, unknown):
    found = over_repeats(repeats(*outcomes)).outcome
    known = [each if each in (HELD, VIOLATED) else unknown for each in outcomes]
    if found is not INCONCLUSIVE:
        assert over_repeats(repeats(*known)).outcome is found


@given(number=st.integers(1, 30), against=st.integers(0, 8))
def test_so_many_more_decide_and_one_fewer_does_not(number, against):
    against = min(against, number // 2)
    more = repeats_to_decide(number, against)
    outcomes = [VIOLATED] * against + [HELD] * (number - against)
    assert over_repeats(repeats(*outcomes, *[HELD] * more)).outcome is HELD
    assert not more or over_repeats(repeats(*outcomes, *[HELD] * (more - 1))).outcome is INCONCLUSIVE


def test_a_promise_of_latency_has_the_median_of_the_latency():
    own = run_of(999, rate_asked=Iops(999))
    runs = [dataclasses.replace(own, latency_mean_s=each / 1e3) for each in (2, 3, 1, 4, 6, 5)]
    verdicts = [
        latency_at_most(
            run, SimpleNamespace(mean_s=run.latency_mean_s, p99_s=0.02), {"mean": "9 ms", "p99": "30 ms"}
        )
        for run in runs
    ]
    verdict = over_repeats([Repeat(*each) for each in enumerate(verdicts, 1)])
    assert verdict.outcome is Outcome.HELD
    assert "median of mean 3.5 ms, 96.9 % interval 1 ms to 6 ms" in verdict.sentence
    assert "median of p99 20 ms" in verdict.sentence
    assert verdict.figure == "mean 3.5 ms, p99 20 ms"


@given(
    st.lists(st.floats(1e-6, 1e3), max_size=9), st.lists(st.sampled_from([math.inf, math.nan]), max_size=3)
)
def test_latencies_that_are_no_numbers_have_no_part_in_the_median(known, unknown):
    judged = [
        Repeat(number, verdict(INCONCLUSIVE, details={"latency_s": {"mean": each}}))
        for number, each in enumerate([*known, *unknown], 1)
    ]
    if judged:
        found = over_repeats(judged)
        expected = f"mean {duration(statistics.median(known))}" if known else ""
        assert expected in found.sentence
        assert ("median of mean" in found.sentence) is bool(known)
        assert "nan" not in found.sentence
        assert "inf" not in found.figure
