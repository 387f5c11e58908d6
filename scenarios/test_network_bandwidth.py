"""iperf3 between two instances of the same type: T2, M4, M5, C4 and C5, every size.

The published measurement (2018) ran `iperf3 -c IP -i 1 -t 1800` for half an hour and more between instances of one
zone, without a placement group, and read off what a type gives at once and what is left of it later. Each of its
findings is an assertion here. Two things have changed since: one flow outside a cluster placement group is held to
5 Gbit/s today, so five streams are used throughout, and AWS states a baseline for every type.

Half an hour of burst credits is long. The embedded region drains them faster when told so, with
`--cloudbench-twin-time=60` as `tox -e scenarios` does: half an hour then takes 30 s, and every result says so.
"""

import pytest

TWENTY_MINUTES, HALF_HOUR = 1200, 1800
SIZES = ["large", "xlarge", "2xlarge", "4xlarge"]


def at_quick_pace_only(*quick, of):
    """All of `of` at full pace, those of `quick` at quick pace too."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.full_pace) for each in of]


@pytest.mark.parametrize(
    "size",
    at_quick_pace_only("medium", of=["nano", "micro", "small", "medium", "large", "xlarge", "2xlarge"]),
)
def test_t2_is_far_below_with_a_wide_range(ec2, iperf3, size):
    t2 = iperf3(ec2.pair(f"t2.{size}"), streams=5, duration=HALF_HOUR if "xlarge" in size else TWENTY_MINUTES)
    m5 = iperf3(ec2.pair("m5.2xlarge"), streams=5, duration=60)
    assert m5.outperforms(t2, by=4)
    assert not t2.steady()


@pytest.mark.parametrize("size", at_quick_pace_only("large", of=[*SIZES, "10xlarge"]))
@pytest.mark.parametrize("family", ["m4", "c4"])
def test_m4_and_c4_are_flat(ec2, iperf3, family, size):
    type = "c4.8xlarge" if (family, size) == ("c4", "10xlarge") else f"{family}.{size}"
    pair = ec2.pair(type)
    run = iperf3(pair, streams=5, duration=300)
    assert run.capped_by(pair.client.network_baseline)
    assert run.steady()


@pytest.mark.parametrize("size", at_quick_pace_only("4xlarge", of=SIZES))
def test_c4_beats_m4_at_the_same_size(ec2, iperf3, size):
    c4 = iperf3(ec2.pair(f"c4.{size}"), streams=5, duration=60)
    m4 = iperf3(ec2.pair(f"m4.{size}"), streams=5, duration=60)
    assert c4.outperforms(m4, by=0.25)


@pytest.mark.parametrize("size", at_quick_pace_only("2xlarge", of=SIZES))
@pytest.mark.parametrize("family", ["m5", "c5"])
def test_a_burst_ends_at_the_baseline_of_the_size(ec2, iperf3, family, size):
    pair = ec2.pair(f"{family}.{size}")
    run = iperf3(pair, streams=5, duration=HALF_HOUR if size != "4xlarge" else 2 * HALF_HOUR)
    assert run.reaches(pair.client.network_peak)
    assert run.drops_to(pair.client.network_baseline)


@pytest.mark.parametrize("size", at_quick_pace_only("xlarge", of=SIZES))
def test_m5_and_c5_do_not_differ(ec2, iperf3, size):
    m5 = iperf3(ec2.pair(f"m5.{size}"), streams=5, duration=60)
    c5 = iperf3(ec2.pair(f"c5.{size}"), streams=5, duration=60)
    assert m5.resembles(c5)


@pytest.mark.parametrize(
    "type", at_quick_pace_only("c5.18xlarge", of=["m4.16xlarge", "m5.24xlarge", "c5.18xlarge"])
)
def test_five_connections_carry_what_one_cannot(ec2, iperf3, type):
    pair = ec2.pair(type)
    one = iperf3(pair, streams=1, duration=60)
    five = iperf3(pair, streams=5, duration=60)
    assert one.capped_by("5 Gbit/s")
    assert five.outperforms(one, by=1)


def test_the_slower_end_decides(ec2, iperf3):
    """t2.medium and m5.2xlarge, both ways: the connection does what the t2 does."""
    slow = iperf3(ec2.pair("t2.medium"), streams=5, duration=60)
    mixed = ec2.pair("t2.medium", "m5.2xlarge")
    assert iperf3(mixed, streams=5, duration=60).resembles(slow)
    assert iperf3(mixed, streams=5, duration=60, reverse=True).resembles(slow)


@pytest.mark.ec2_pair("c5.18xlarge", placement="cluster")
def test_one_flow_gets_ten_gigabit_in_a_cluster_group(ec2_pair, iperf3):
    run = iperf3(ec2_pair, streams=1, duration=60)
    assert run.capped_by("10 Gbit/s")
