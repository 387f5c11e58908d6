"""Limits that burst: exhaustion and levels against the rule's arithmetic, with a throttle that errs a little."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cloudbench.promises.credits import ebs_credits, volume_credits
from pytest_cloudbench.promises.instances import EbsLimit
from pytest_cloudbench.promises.quantities import MIB, Iops, Throughput
from pytest_cloudbench.promises.volumes import gp2, gp3, st1
from pytest_cloudbench.twin.burst_limit import BurstLimit
from pytest_cloudbench.twin.control import Shares
from pytest_cloudbench.twin.storage_accounts import RateLimit, UntilRead, VolumeAccount

TICK_S = 0.1
GP2 = volume_credits(gp2(size_gib=100))  # 3,000 for 2,000 s, then 300


def burst(rule=GP2, compression=100.0):
    return BurstLimit(float("inf"), rule, 0.0, compression)


def hungry(limit, seconds, start=0.0, noise=0.0, seed=1):
    """A load that takes all it may, through the governor's law; (time, served per second) of every tick."""
    dice = random.Random(seed)
    limit.rest_until(start)
    shares = Shares(float("inf"))
    shares.add("v", limit.limit)
    state = shares.volumes["v"]
    history = []
    for number in range(round(seconds / TICK_S)):
        now = start + (number + 1) * TICK_S
        served = state.reads.granted * (1 + dice.uniform(-noise, noise))
        shares.account({"v": (served, 0.0)}, TICK_S)
        limit.take(served * TICK_S, TICK_S, now, pressed=state.budget.binding)
        shares.change("v", limit.limit)
        shares.grant()
        history.append((now, served))
    return history


def mean(history, start, end=float("inf")):
    rates = [rate for when, rate in history if start <= when < end]
    return sum(rates) / len(rates)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("compression", [20.0, 100.0])
def test_it_ends_when_the_arithmetic_says_and_leaves_the_baseline(noise, compression):
    ends_s = 2_000 / compression
    history = hungry(burst(compression=compression), ends_s + 40, noise=noise)
    dropped = next(when for when, rate in history if rate < 1_500)
    assert dropped == pytest.approx(ends_s, rel=0.01, abs=0.2)
    assert mean(history, 2, ends_s - 1) == pytest.approx(3_000, rel=0.01)
    for start in range(int(ends_s) + 2, int(ends_s) + 30, 5):
        assert mean(history, start, start + 10) == pytest.approx(300, rel=0.02)


def test_levels_on_the_way_follow_the_arithmetic():
    limit = burst()
    hungry(limit, 5.0, noise=0.1)
    assert limit.percent(5.0) == pytest.approx(75, abs=1)
    hungry(limit, 5.0, start=5.0, noise=0.1)
    assert limit.percent(10.0) == pytest.approx(50, abs=1)


def test_an_empty_bucket_does_not_take_slips_of_the_throttle_for_credits():
    limit = burst()
    history = hungry(limit, 320, noise=0.3)
    assert limit.spent
    assert max(rate for when, rate in history if when > 25) < 600
    assert mean(history, 25) == pytest.approx(300, rel=0.005)


def test_idle_time_refills_and_a_load_that_comes_back_may_burst_again():
    limit = burst()
    hungry(limit, 25)
    assert limit.percent(25.0) < 0.5
    assert limit.percent(25.0 + 90) == pytest.approx(50, abs=0.5)  # 5,400,000 / 300 / 100 = 180 s fill it
    history = hungry(limit, 30, start=25.0 + 90)
    assert next(when for when, rate in history if rate < 1_500) - 115 == pytest.approx(10, rel=0.02)


def test_asking_for_the_balance_changes_nothing():
    asked, left_alone = burst(), burst()
    for number in range(50):
        now = (number + 1) * TICK_S
        for limit in (asked, left_alone):
            limit.take(300.0, TICK_S, now)
        for later in (0.0, 0.03, 0.07):
            asked.percent(now + later)
    assert asked.percent(5.0) == left_alone.percent(5.0)


def test_a_plain_limit_stays():
    limit = BurstLimit(3_000.0, None, 0.0)
    limit.take(1e9, 1.0, 1.0)
    assert (limit.limit, limit.percent(2.0)) == (3_000.0, None)


def test_a_volume_that_grows_keeps_its_credits():
    limit = burst(compression=1.0)
    limit.take(2_700_000 + 300, 1.0, 1.0)
    limit.change(3_000.0, volume_credits(gp2(size_gib=500)), 1.0)
    assert limit.percent(1.0) == pytest.approx(50)
    limit.change(16_000.0, None, 1.0)
    assert (limit.limit, limit.percent(1.0)) == (16_000.0, None)
    limit.change(3_000.0, GP2, 1.0)
    assert limit.percent(1.0) == 100  # a bucket that it had not before


def test_an_instance_falls_to_its_baseline_and_stays_there_under_load():
    limits = EbsLimit(Iops(1_000), Throughput.from_mb(50)), EbsLimit(Iops(4_000), Throughput.from_mb(100))
    limit = burst(ebs_credits(*limits).iops, compression=180.0)
    history = hungry(limit, 200, noise=0.05)
    assert next(when for when, rate in history if rate < 2_000) == pytest.approx(10, rel=0.02)
    assert mean(history, 15) == pytest.approx(1_000, rel=0.005)


@given(
    size_gib=st.integers(1, 900),
    compression=st.floats(1, 600),
    demand=st.floats(10, 20_000),
    seconds=st.integers(5, 60),
    seed=st.integers(0, 100),
)
@settings(max_examples=40, deadline=None)
def test_whatever_is_served_is_paid_for(size_gib, compression, demand, seconds, seed):
    """Credits spent, refilled and left add up, and nobody gets more than there was."""
    rule = volume_credits(gp2(size_gib=size_gib))
    limit = BurstLimit(3_000.0, rule, 0.0, compression)
    dice = random.Random(seed)
    served = 0.0
    for number in range(seconds * 10):
        rate = min(demand, limit.limit) * (1 + dice.uniform(-0.1, 0.1))
        served += rate * TICK_S
        limit.take(rate * TICK_S, TICK_S, (number + 1) * TICK_S)
    refill = rule.bucket().refill
    most = rule.capacity / compression + refill * seconds
    assert served <= most * 1.02 + refill  # the throttle of this test errs by up to a tenth
    if demand > refill * 1.2:
        left = rule.capacity + (refill * seconds - served) * compression
        assert limit.bucket.level == pytest.approx(left, abs=0.01 * rule.capacity + refill * compression)


# --- the accounts that they are part of ------------------------------------------------------------


def test_an_hdd_volume_pays_a_whole_unit_for_every_io():
    account = VolumeAccount(st1(size_gib=1_024), 0.0)
    account.charge(units=100, bytes_read=100 * 4096, elapsed_s=0.1, now=0.1)
    spent = 100 * MIB - 40 * MIB * 0.1
    assert account.burst_balance(0.1) == pytest.approx(100 * (1 - spent / 1024**4))
    assert account.limit == RateLimit(250, 250 * MIB)


def test_an_hdd_volume_without_credits_has_its_base_in_ios_too():
    account = VolumeAccount(st1(size_gib=500), 0.0, 1_000.0)
    account.charge(
        units=514, bytes_read=0, elapsed_s=0.1, now=0.1
    )  # 500 GiB, 1,000 times faster, and 2 that refill
    base = 40 * 500 / 1024
    assert account.burst_balance(0.1) == 0
    assert (account.limit.iops, account.limit.bytes_per_s) == pytest.approx((base, base * MIB), rel=1e-3)


def test_credits_come_back_while_a_volume_is_not_attached():
    account = VolumeAccount(gp2(size_gib=100), 0.0, 10.0)
    account.charge(units=1e9, bytes_read=0, elapsed_s=1.0, now=1.0)
    assert account.burst_balance(1.0) == 0
    account.rest_until(901.0)
    assert account.burst_balance(901.0) == pytest.approx(50, abs=0.1)
    assert account.limit.iops == 3_000


def test_a_volume_is_slow_until_it_was_read_once():
    account = VolumeAccount(gp3(size_gib=10), 0.0)
    account.until_read = UntilRead(RateLimit(iops=100, bytes_per_s=10 * MIB), 25 * MIB)
    assert account.varies
    assert account.limit == RateLimit(100, 10 * MIB)
    account.charge(units=10, bytes_read=10 * MIB, elapsed_s=1.0, now=1.0)
    assert account.limit == RateLimit(100, 10 * MIB)
    account.charge(units=15, bytes_read=15 * MIB, elapsed_s=1.0, now=2.0)
    assert account.limit == RateLimit(3_000, 125 * MIB)
    assert not account.varies


def test_a_volume_gives_a_share_until_as_much_as_it_has_was_read_or_written():
    account = VolumeAccount(gp2(size_gib=1, first_touch=0.5), 0.0)
    assert account.varies
    assert account.limit == RateLimit(1_500, 64 * MIB)
    account.charge(1, 512 * MIB, 1.0, 1.0, bytes_written=511 * MIB)
    assert account.limit == RateLimit(1_500, 64 * MIB)
    account.charge(5_400_000, 0, 0.001, 1.001, bytes_written=0.5 * MIB)
    assert account.limit.iops == pytest.approx(50, rel=1e-3), "its baseline is halved as its burst was"
    assert account.limit.bytes_per_s == 64 * MIB
    account.charge(1, 0.5 * MIB, 0.001, 1.002)
    assert account.limit.iops == pytest.approx(100, rel=1e-3)
    assert account.limit.bytes_per_s == 128 * MIB
