"""iperf3 between two instances of the same type: T2, M4, M5, C4 and C5, every size.

The published measurement (2018) ran `iperf3 -c IP -i 1 -t 1800` for half an hour and more between instances of one
zone, without a placement group, and compared the rate at the start with the rate later. Each of its findings is an
assertion here. Two things have changed since: one flow outside a cluster placement group is limited to 5 Gbit/s today,
so most tests use five streams, and AWS states a baseline for every type.

Half an hour of burst credits is long. With `--cloudbench-twin-time=60`, which `tox -e scenarios` uses, the embedded
region drains them 60 times faster: half an hour takes 30 s, and every result says so.
"""

import pytest

MINUTE = 60
HALF_HOUR = 30 * MINUTE
SIZES = ["large", "xlarge", "2xlarge", "4xlarge"]
SEEN_FLAT = {"m4.large": "0.5 Gbit/s", "m4.4xlarge": "2 Gbit/s"}
"""The published rates."""


def at_full_pace_except(*quick, of, marks=()):
    """Return all of `of`; those not in `quick`, which have the marks, run at full pace only."""
    return [pytest.param(each, marks=marks if each in quick else pytest.mark.full_pace) for each in of]


@pytest.mark.parametrize(
    "size",
    at_full_pace_except("medium", of=["nano", "micro", "small", "medium", "large", "xlarge", "2xlarge"]),
)
def test_t2_is_far_slower_and_varies_widely(ec2, iperf3, size):
    """Published: t2.medium between 0.2 and 0.5 Gbit/s, t2.2xlarge at most about 1 Gbit/s."""
    pair = ec2.pair(f"t2.{size}")
    t2 = iperf3(pair, streams=5, duration=HALF_HOUR if "xlarge" in size else 20 * MINUTE)
    m5 = iperf3(ec2.pair("m5.2xlarge"), streams=5, duration=MINUTE)
    assert m5.outperforms(t2, by=4)
    assert t2.throughput_gbit < 1.1
    if size == "2xlarge":  # its baseline is only 2 % below its peak
        assert t2.reaches("1 Gbit/s")
        return
    assert t2.capped_by(pair.client.network_peak)
    assert t2.drops_to(pair.client.network_baseline)
    if size == "medium":
        assert pair.client.network_peak.limit.gbit == pytest.approx(0.5, rel=0.1)
        assert t2.sustains("0.2 Gbit/s", for_="19 min", share=0.95)


@pytest.mark.parametrize(
    "type",
    at_full_pace_except(
        "m4.large",
        "c4.large",
        of=[f"m4.{size}" for size in (*SIZES, "10xlarge", "16xlarge")]
        + [f"c4.{size}" for size in (*SIZES, "8xlarge")],
        marks=pytest.mark.light,
    ),
)
def test_m4_and_c4_are_flat(ec2, iperf3, type):
    pair = ec2.pair(type)
    # Five connections of 5 Gbit/s equal the limit of m4.16xlarge: more connections show that the instance is the limit.
    run = iperf3(pair, streams=8 if type == "m4.16xlarge" else 5, duration=5 * MINUTE)
    assert run.capped_by(pair.client.network_baseline)
    assert run.steady()
    if type in SEEN_FLAT:
        assert run.reaches(SEEN_FLAT[type], within=0.15)


@pytest.mark.parametrize("size", at_full_pace_except("4xlarge", of=SIZES))
def test_c4_beats_m4_at_the_same_size(ec2, iperf3, size):
    c4 = iperf3(ec2.pair(f"c4.{size}"), streams=5, duration=MINUTE)
    m4 = iperf3(ec2.pair(f"m4.{size}"), streams=5, duration=MINUTE)
    assert c4.outperforms(m4, by=0.25)


@pytest.mark.parametrize(
    ("type", "duration"),
    [
        pytest.param(
            f"{family}.{size}",
            minutes * MINUTE,
            id=f"{family}.{size}",
            marks=() if (family, size) == ("c5", "large") else pytest.mark.full_pace,
        )
        for family in ("m5", "c5")
        for size, minutes in zip(SIZES, (25, 30, 30, 60), strict=True)
    ],
)
def test_a_burst_ends_at_the_baseline_of_the_size(ec2, iperf3, type, duration):
    """Published: 15 to 40 minutes. At a rate slightly below the peak the same credits last longer."""
    pair = ec2.pair(type)
    run = iperf3(pair, streams=5, duration=duration)
    assert run.reaches(pair.client.network_peak)
    fallen = run.drops_to(pair.client.network_baseline)
    assert fallen
    assert 0.9 * 15 * MINUTE <= fallen.details["falls"][-1]["at_s"] <= 1.2 * 40 * MINUTE


@pytest.mark.full_pace
@pytest.mark.parametrize("type", ["m5.12xlarge", "c5.9xlarge"])
def test_large_m5_and_c5_reach_ten_gigabit_and_stay_there(ec2, iperf3, type):
    """These are half the largest size; the largest are tested below, with one and five connections."""
    run = iperf3(ec2.pair(type), streams=5, duration=HALF_HOUR)
    assert run.reaches("10 Gbit/s")
    assert run.steady()


@pytest.mark.parametrize(
    ("m5_size", "c5_size"),
    [
        pytest.param(*sizes, marks=() if sizes[0] == "xlarge" else pytest.mark.full_pace)
        for sizes in [*zip(SIZES, SIZES, strict=True), ("12xlarge", "9xlarge"), ("24xlarge", "18xlarge")]
    ],
)
def test_m5_and_c5_do_not_differ(ec2, iperf3, m5_size, c5_size):
    m5 = iperf3(ec2.pair(f"m5.{m5_size}"), streams=5, duration=MINUTE)
    c5 = iperf3(ec2.pair(f"c5.{c5_size}"), streams=5, duration=MINUTE)
    assert m5.resembles(c5)


@pytest.mark.parametrize(
    "type", at_full_pace_except("c5.18xlarge", of=["m4.16xlarge", "m5.24xlarge", "c5.18xlarge"])
)
def test_five_connections_are_faster_than_one(ec2, iperf3, type):
    """Five connections reach about 20 Gbit/s; one is limited to 5 today."""
    pair = ec2.pair(type)
    one = iperf3(pair, streams=1, duration=MINUTE)
    five = iperf3(pair, streams=5, duration=MINUTE)
    assert one.capped_by("5 Gbit/s")
    assert five.outperforms(one, by=2.5)
    assert five.reaches("20 Gbit/s")


@pytest.mark.light
def test_the_slower_end_decides(ec2, iperf3):
    """Between t2.medium and m5.2xlarge, in both directions, the connection is as fast as the t2."""
    slow = iperf3(ec2.pair("t2.medium"), streams=5, duration=MINUTE)
    mixed = ec2.pair("t2.medium", "m5.2xlarge")
    assert iperf3(mixed, streams=5, duration=MINUTE).resembles(slow)
    assert iperf3(mixed, streams=5, duration=MINUTE, reverse=True).resembles(slow)


@pytest.mark.ec2_pair("c5.18xlarge", placement="cluster")
def test_one_flow_reaches_ten_gigabit_in_a_cluster_group(ec2_pair, iperf3):
    run = iperf3(ec2_pair, streams=1, duration=MINUTE)
    assert run.capped_by("10 Gbit/s")
