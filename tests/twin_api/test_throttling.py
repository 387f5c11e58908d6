"""The token buckets of requests: AWS's figures, and what any sequence of requests gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.weather import Span, Weather
from pytest_cloudbench.twin.api.throttling import TokenBuckets, names_resources, request_rate
from pytest_cloudbench.twin.api.weather import RegionWeather


@pytest.mark.parametrize(
    ("action", "filtered", "rate"),
    [
        ("DescribeVolumes", True, (100, 20)),
        ("DescribeVolumes", False, (50, 10)),
        ("DescribeInstanceTypes", False, (100, 20)),
        ("GetConsoleOutput", True, (100, 20)),
        ("CreateVolume", False, (100, 5)),
        ("RunInstances", False, (5, 2)),
        ("TerminateInstances", True, (100, 5)),
        ("AttachVolume", True, (50, 5)),
        ("CreateKeyPair", True, (50, 5)),
        ("CreateTags", True, (100, 10)),
    ],
)
def test_the_buckets_are_those_of_the_developer_guide(action, filtered, rate):
    assert request_rate(action, filtered=filtered) == rate


@given(st.lists(st.floats(0, 3), max_size=300), st.sampled_from((1.0, 0.5, 0.1)))
def test_no_time_admits_more_than_the_bucket_and_its_refill(pauses, share):
    now = 0.0
    buckets = TokenBuckets(share, lambda: now)
    admitted: list[float] = []
    for pause in pauses:
        now += pause
        if buckets.take("AttachVolume", filtered=False):
            admitted.append(now)
    for index, first in enumerate(admitted):
        for count, last in enumerate(admitted[index:], start=1):
            assert count <= 50 * share + 5 * share * (last - first) + 1e-6


@given(st.integers(1, 400))
def test_a_bucket_admits_its_refill_to_one_who_keeps_below_it(count):
    now = 0.0
    buckets = TokenBuckets(1.0, lambda: now)
    for _ in range(count):
        assert buckets.take("RunInstances", filtered=False, instances=1)
        now += 0.51


def test_the_instances_of_a_request_count_too():
    now = 0.0
    buckets = TokenBuckets(1.0, lambda: now)
    assert buckets.take("RunInstances", filtered=False, instances=1000)
    now = 4.0
    assert not buckets.take("RunInstances", filtered=False, instances=9)
    assert buckets.take("RunInstances", filtered=False, instances=8)


def test_a_filter_on_a_name_names_no_resource():
    assert names_resources({"Action": "DescribeVolumes", "VolumeId.1": "vol-1"})
    assert names_resources({"Action": "DescribeKeyPairs", "KeyName.1": "ours"})
    assert not names_resources(
        {"Action": "DescribeVolumes", "Filter.1.Name": "tag:run", "Filter.1.Value.1": "i"}
    )


@given(st.integers(0, 99), st.sampled_from(("CreateVolume", "RunInstances")))
def test_draws_repeat_by_seed_and_action_and_lie_in_their_span(seed, action):
    settings = Weather(seed=seed, speed=2.0, volume_delay=Span(3, 6))
    drawn = [[RegionWeather(settings).delay("volume_delay", action)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    weather = RegionWeather(settings)
    delays = [weather.delay("volume_delay", action) for _ in range(20)]
    assert delays[0] == drawn[0][0]
    assert all(1.5 <= delay <= 3 for delay in delays)
    assert len(set(delays)) == 20
