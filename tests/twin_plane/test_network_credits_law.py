"""The law of network credits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.twin.network.credits_law import DEMAND_S, FULL_USE, RESUME_SHARE, Bucket

GBIT = 1e9 / 8
RATES = st.tuples(st.floats(0.03, 25), st.floats(1.05, 100)).map(
    lambda pair: (pair[0] * GBIT, pair[0] * pair[1] * GBIT)
)


def bucket(baseline=2.5 * GBIT, peak=10 * GBIT, minutes=26.0, compression=1.0):
    return Bucket((peak - baseline) * minutes * 60, peak, baseline, compression)


@given(rates=RATES, minutes=st.floats(5, 60), compression=st.floats(1, 3600), tick_s=st.floats(0.01, 0.2))
def test_a_full_burst_lasts_as_long_as_the_capacity_says(rates, minutes, compression, tick_s):
    subject = bucket(*rates, minutes, compression)
    expected_s = minutes * 60 / compression
    steps = math.ceil(expected_s / tick_s)
    if steps > 20_000:
        tick_s, steps = expected_s / 20_000 * 1.0001, 20_000
    for step in range(1, steps + 2):
        assert subject.bursting
        left = subject.empty_in_s(subject.peak)
        # Not by approx(): it takes fifty times as long, and this is asked millions of times.
        assert math.isclose(left, expected_s - (step - 1) * tick_s, rel_tol=1e-6, abs_tol=1e-6 * expected_s)
        subject.account(subject.rate * tick_s, tick_s)
        if not subject.bursting:
            break
    assert not subject.bursting
    assert (step - 1) * tick_s <= expected_s * (1 + 1e-6)
    assert step * tick_s >= expected_s * (1 - 1e-6)
    assert subject.rate == subject.baseline
    assert subject.level == 0


@given(
    rates=RATES,
    loads=st.lists(st.tuples(st.floats(0, 3), st.floats(0.001, 600)), max_size=60),
    compression=st.floats(1, 3600),
)
def test_the_level_stays_within_the_bucket_at_any_rate(rates, loads, compression):
    subject = bucket(*rates, compression=compression)
    for over_baseline, seconds in loads:
        before, was_bursting = subject.level, subject.bursting
        subject.account(over_baseline * subject.baseline * seconds, seconds)
        assert 0 <= subject.level <= subject.capacity
        assert subject.rate in (subject.peak, subject.baseline)
        if was_bursting:
            assert subject.bursting == (subject.level > 0)
        if over_baseline < FULL_USE * 0.999:
            assert subject.level >= before
        elif over_baseline > 1.001:
            assert subject.level <= before


@given(
    rates=RATES,
    use=st.floats(FULL_USE * 1.0001, 1.0),
    hours=st.floats(0.1, 48),
    compression=st.floats(1, 3600),
)
def test_under_load_it_stays_at_the_baseline(rates, use, hours, compression):
    subject = bucket(*rates, compression=compression)
    subject.empty()
    for _ in range(100):
        subject.account(use * subject.baseline * hours * 36, hours * 36)
        assert not subject.bursting


@given(rates=RATES, use=st.floats(0, 0.9), compression=st.floats(1, 3600))
def test_the_unused_baseline_fills_it_and_brings_the_peak_back_once(rates, use, compression):
    subject = bucket(*rates, compression=compression)
    subject.empty()
    gain_per_s = (1 - use) * subject.baseline * compression
    step_s = RESUME_SHARE * subject.capacity / gain_per_s / 50
    changes = 0
    for step in range(1, 200):
        before = subject.bursting
        subject.account(use * subject.baseline * step_s, step_s)
        changes += subject.bursting != before
        assert subject.bursting == (step >= 51) or step in (50, 51)
    assert changes == 1
    assert subject.level == pytest.approx(gain_per_s * step_s * 199, rel=1e-3)


@given(
    rates=RATES,
    moments=st.lists(st.tuples(st.floats(0.75, 1.0), st.floats(0.0, 0.4)), min_size=20, max_size=60),
    compression=st.floats(1, 3600),
)
def test_a_load_slowed_by_the_machine_earns_nothing(rates, moments, compression):
    """The load waits for its rate. The machine causes pauses of up to 0.4 s."""
    subject = bucket(*rates, compression=compression)
    subject.account(2 * subject.peak, 2.0, waited=True)
    subject.empty()
    for use, pause_s in moments:
        subject.account(0.0, pause_s)
        subject.account(use * subject.baseline * 0.4, 0.4, waited=True)
        assert not subject.bursting
        assert subject.level == 0


@given(rates=RATES, compression=st.floats(1, 3600))
def test_it_begins_to_fill_within_a_second_after_the_load(rates, compression):
    subject = bucket(*rates, compression=compression)
    subject.account(subject.baseline, 1.0, waited=True)
    subject.empty()
    for _ in range(11):
        subject.account(0.0, DEMAND_S / 10)
    full_tick = min(subject.baseline * DEMAND_S / 10 * compression, subject.capacity)
    assert subject.level >= full_tick * 0.99


def test_a_load_far_below_the_baseline_fills_it_even_if_its_packets_wait():
    subject = bucket()
    subject.account(0.0, 5.0)
    subject.empty()
    for _ in range(600):
        subject.account(0.1 * subject.baseline, 0.1, waited=True)
        subject.account(0.0, 0.9)
    assert subject.level == pytest.approx(600 * 0.9 * subject.baseline, rel=0.01)


def test_it_drains_twice_as_fast_with_time_compressed_twice():
    slow, fast = bucket(compression=1), bucket(compression=2)
    slow.account(10 * GBIT * 60, 60)
    fast.account(10 * GBIT * 30, 30)
    assert slow.level == pytest.approx(fast.level)


def test_a_stop_fills_it():
    subject = bucket()
    subject.empty()
    subject.refill()
    assert (subject.level, subject.rate, subject.full) == (subject.capacity, subject.peak, True)


@pytest.mark.parametrize("wrong", [{"peak": GBIT, "baseline": GBIT}, {"minutes": 0}, {"compression": 0}])
def test_an_invalid_bucket_is_refused(wrong):
    with pytest.raises(ValueError, match="invalid bucket of"):
        bucket(**wrong)


def test_nothing_moved_in_no_time_changes_nothing():
    subject = bucket()
    subject.account(1e9, 0)
    assert subject.full
