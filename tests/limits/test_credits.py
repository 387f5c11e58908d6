"""Burst credits: the rules as EBS publishes them, and the law of the bucket."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_cloudbench import gp2, gp3, io1, sc1, st1
from pytest_cloudbench.limits.credits import (
    DAY_S,
    CreditBucket,
    ebs_credits,
    volume_credits,
)
from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import TIB, Iops, Throughput, plain

M5_2XLARGE = (
    EbsLimit(Iops(12_000), Throughput.from_mbit(2_300)),
    EbsLimit(Iops(18_750), Throughput.from_mbit(4_750)),
)
T3_NANO = EbsLimit(Iops(250), Throughput.from_mbit(43)), EbsLimit(Iops(11_800), Throughput.from_mbit(2_085))


# --- the rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size_gib", "lasts_s"),
    # The table of the EBS user guide: 5,400,000 / (3,000 - 3 per GiB), with at least 100 IOPS.
    [(1, 5_400_000 / 2_900), (100, 2_000), (250, 2_400), (334, 2_703), (500, 3_600), (750, 7_200)],
)
def test_a_full_gp2_bucket_lasts_as_the_user_guide_says(size_gib, lasts_s):
    assert volume_credits(gp2(size_gib=size_gib)).time_until_empty() == pytest.approx(lasts_s, rel=1e-3)


def test_gp2_volumes_of_1000_gib_and_more_do_not_burst():
    assert volume_credits(gp2(size_gib=999)).capacity == 5_400_000
    assert volume_credits(gp2(size_gib=1_000)) is None
    assert volume_credits(gp2(size_gib=16_384)) is None


def test_small_gp2_volumes_refill_at_100_a_second():
    assert volume_credits(gp2(size_gib=1)).bucket().refill == 100
    assert volume_credits(gp2(size_gib=100)).bucket().refill == 300


@pytest.mark.parametrize("spec", [st1(size_gib=1_024), sc1(size_gib=1_024)])
def test_an_hdd_volume_has_a_tib_of_credits_per_tib(spec):
    rule = volume_credits(spec)
    assert rule.capacity == TIB
    assert plain(rule.baseline) == spec.throughput_mib * 2**20
    assert plain(rule.peak) == spec.burst_throughput_mib * 2**20


def test_hdd_volumes_whose_base_is_their_burst_have_no_credits():
    assert volume_credits(st1(size_gib=12_800)) is None  # 40 MiB/s per TiB are 500 there
    assert volume_credits(st1(size_gib=12_799)) is not None
    assert volume_credits(sc1(size_gib=16_384)) is not None


def test_types_that_do_not_burst_have_no_credits():
    assert volume_credits(gp3(size_gib=100)) is None
    assert volume_credits(io1(size_gib=100, iops=1_000)) is None


def test_an_instance_holds_its_maximum_for_30_minutes():
    rules = ebs_credits(*M5_2XLARGE)
    assert rules.iops.time_until_empty() == pytest.approx(1_800)
    assert rules.throughput.time_until_empty() == pytest.approx(1_800)
    assert rules.iops.capacity == 1_800 * 6_750
    assert rules.iops.time_until_empty(Iops(12_000)) == math.inf


@pytest.mark.parametrize("limits", [M5_2XLARGE, T3_NANO])
@pytest.mark.parametrize("share_of_baseline", [0, 0.5, 1])
def test_at_or_below_the_baseline_an_instance_is_full_again_within_a_day(limits, share_of_baseline):
    for rule in (ebs_credits(*limits).iops, ebs_credits(*limits).throughput):
        empty = rule.bucket(share=0)
        rate = share_of_baseline * empty.refill
        assert empty.advance(rate, DAY_S * (1 + 1e-9)).share == 1


def test_an_idle_t3_nano_refills_in_the_23_7_hours_that_its_baseline_takes():
    empty = ebs_credits(*T3_NANO).throughput.bucket(share=0)
    assert empty.advance(0, 23.75 * 3600).share == 1
    assert empty.advance(0, 23.73 * 3600).share < 1


def test_a_load_that_an_empty_bucket_limits_earns_no_credits():
    empty = ebs_credits(*M5_2XLARGE).iops.bucket(share=0)
    assert empty.advance(12_000, 3_600, held_back=True).empty
    assert not empty.advance(12_000, 3_600).empty


def test_an_instance_that_does_not_burst_or_has_no_figures_has_no_bucket():
    baseline, _ = M5_2XLARGE
    assert ebs_credits(baseline, baseline).iops is None
    assert ebs_credits(None, None).throughput is None
    assert ebs_credits(None, baseline).throughput is None


def test_the_average_over_a_run_is_the_burst_and_then_the_baseline():
    rule = volume_credits(gp2(size_gib=100))
    assert rule.average(Iops(5_000), 1_000) == Iops(3_000)
    assert rule.average(Iops(5_000), 4_000) == Iops((3_000 * 2_000 + 300 * 2_000) / 4_000)
    assert rule.average(Iops(200), 10_000) == Iops(200)
    assert rule.average(Iops(5_000), 40, time_compression=100) == Iops((3_000 * 20 + 300 * 20) / 40)


def test_a_rate_of_another_quantity_is_refused():
    with pytest.raises(TypeError, match=r"gp2 I/O credits need a rate such as 3,000 IOPS, not 10 MiB/s"):
        volume_credits(gp2(size_gib=100)).time_until_empty(Throughput.from_mib(10))


def test_every_rule_has_a_source_and_a_date():
    rules = [
        volume_credits(gp2(size_gib=10)),
        volume_credits(st1(size_gib=500)),
        ebs_credits(*M5_2XLARGE).iops,
    ]
    assert all(rule.source and rule.date and rule.name for rule in rules)


@pytest.mark.parametrize(
    "figures",
    [(-1, 1, 2, 0), (1, -1, 2, 0), (1, 2, 1, 0), (1, 1, 2, 2), (1, 1, 2, -1), (math.inf, 1, 2, 0)],
)
def test_an_invalid_bucket_is_refused(figures):
    with pytest.raises(ValueError, match=r"invalid bucket"):
        CreditBucket(*figures)


# --- the law -----------------------------------------------------------------------------------------


@st.composite
def buckets(draw):
    capacity = draw(st.floats(1, 1e12))
    refill = draw(st.floats(0.01, 1e9))
    return CreditBucket(
        capacity=capacity,
        refill=refill,
        spend=refill * draw(st.floats(1, 100)),
        level=capacity * draw(st.floats(0, 1)),
        least_gain=draw(st.sampled_from([0.0, capacity / DAY_S])),
    )


RATES = st.floats(0, 1e10)
SECONDS = st.floats(0, 1e6)


@given(buckets(), RATES, SECONDS, st.floats(1, 3_600))
def test_a_level_stays_between_empty_and_full(bucket, rate, seconds, compression):
    later = bucket.advance(rate, seconds, compression)
    assert 0 <= later.level <= bucket.capacity
    assert 0 <= later.share <= 1


@given(buckets(), RATES, st.floats(0, 1e4), st.floats(0, 1e4))
def test_two_steps_equal_one_of_their_length(bucket, rate, first, second):
    whole = bucket.advance(rate, first + second)
    parts = bucket.advance(rate, first).advance(rate, second)
    assert parts.level == pytest.approx(whole.level, rel=1e-6, abs=1e-6 * bucket.capacity)


@given(buckets(), RATES, st.floats(0, 1e4), st.floats(1, 3_600))
def test_time_compression_multiplies_the_seconds(bucket, rate, seconds, compression):
    compressed = bucket.advance(rate, seconds, compression)
    plain = bucket.advance(rate, seconds * compression)
    assert compressed.level == pytest.approx(plain.level, rel=1e-6, abs=1e-6 * bucket.capacity)


@given(buckets(), st.floats(1.01, 100), st.floats(1, 3_600))
def test_a_bucket_is_empty_at_the_computed_moment_and_not_before(bucket, times, compression):
    assume(bucket.level > 1e-3 * bucket.capacity)
    rate = min(times * bucket.refill, bucket.spend)
    assume(rate > 1.001 * bucket.refill)
    empty_s = bucket.time_until_empty(rate, compression)
    assert bucket.advance(rate, 0.999 * empty_s, compression).level > 0
    assert bucket.advance(rate, 1.001 * empty_s, compression).empty


@given(buckets(), st.floats(0, 0.99))
def test_a_bucket_is_full_once_it_has_gained_what_was_missing(bucket, use):
    full_s = (bucket.capacity - bucket.level) / max((1 - use) * bucket.refill, bucket.least_gain)
    assert bucket.advance(use * bucket.refill, 1.001 * full_s).level == pytest.approx(bucket.capacity)
    if bucket.level < 0.99 * bucket.capacity:
        assert bucket.advance(use * bucket.refill, 0.9 * full_s).level < bucket.capacity


@given(buckets(), RATES, st.floats(1, 1e5), st.floats(1, 3_600))
def test_no_load_gets_more_than_the_bucket_and_its_refill(bucket, demand, seconds, compression):
    served = bucket.served(demand, seconds, compression)
    most = bucket.level / compression + bucket.refill * seconds
    assert served <= min(demand, bucket.spend) * seconds * (1 + 1e-9)
    assert served <= most * (1 + 1e-9)
    if demand >= bucket.spend and bucket.spend > 1.001 * bucket.refill:
        full = bucket.spend * seconds
        assert served == pytest.approx(min(full, most), rel=1e-6)
