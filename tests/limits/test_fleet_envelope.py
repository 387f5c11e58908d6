"""The ceilings of several hosts under one load: sums, the machine once, and what unequal hosts reach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_envelope import C5, M2, envelope, instance

from pytest_cloudbench import gp2, gp3, io2
from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.fleet import fleet_envelope, summed_ceiling
from pytest_cloudbench.limits.quantities import Iops, Throughput

MACHINE = MachineLimits(Iops(100_000), Throughput.from_mib(3_000), "probe")
GP3 = [("vol-1", gp3(size_gib=10)), ("vol-2", gp3(size_gib=10))]


def of_label(found, label):
    (one,) = (ceiling for ceiling in found.ceilings if ceiling.label == label)
    return one


def test_equal_hosts_have_the_sums_and_share_one_machine():
    found = fleet_envelope([envelope(C5, GP3, "4k", machine=MACHINE)] * 4)
    assert of_label(found, "4 x 2 gp3 volumes IOPS").limit == Iops(24_000)
    assert of_label(found, "4 x c5.18xlarge EBS IOPS").limit == Iops(320_000)
    assert of_label(found, "4 x c5.18xlarge EBS throughput").limit.mb == pytest.approx(4 * 2_375)
    assert [one.limit for one in found.machine] == [Iops(100_000), Throughput.from_mib(3_000)]
    assert found.limit_iops == Iops(24_000)
    assert len(found.ceilings) == len(envelope(C5, GP3, "4k", machine=MACHINE).ceilings)


def test_single_volumes_are_named_by_their_type_and_number():
    each = [envelope(C5, [(f"vol-{number}", gp3(size_gib=10))], "4k") for number in range(3)]
    assert of_label(fleet_envelope(each), "3 x gp3 IOPS").limit == Iops(9_000)


def test_bursts_add_up_and_a_limit_without_one_keeps_its_figure():
    bursting, steady = (
        envelope(C5, [("vol-1", gp2(size_gib=size))], "4k").find(one)
        for size, one in ((100, gp2_iops(100)), (2_000, gp2_iops(2_000)))
    )
    both = summed_ceiling([bursting, steady])
    assert (both.limit, both.base) == (Iops(9_000), Iops(6_300))
    assert both.burst_credits == bursting.burst_credits
    assert summed_ceiling([bursting, bursting]).burst_s == pytest.approx(bursting.burst_s)
    assert summed_ceiling([steady, steady]).base is None


def gp2_iops(size_gib):
    return envelope(C5, [("vol-1", gp2(size_gib=size_gib))], "4k").ceilings[0]


def test_hosts_under_different_limits_reach_no_sum():
    """One host waits for its volume, the other for its instance."""
    slow_volume = envelope(C5, [("vol-1", gp3(size_gib=10))], "4k")
    slow_instance = envelope(M2, [("vol-2", io2(size_gib=400, iops=20_000))], "4k")
    found = fleet_envelope([slow_volume, slow_instance])
    assert found.limit_iops.per_second == pytest.approx(3_000 + 8_000)
    assert found.ordered[0].quantity == "lowest limits together"
    assert fleet_envelope([slow_volume, slow_volume]).ordered[0].quantity == "volume IOPS"


def test_a_limit_that_one_host_lacks_limits_nothing():
    found = fleet_envelope([envelope(C5, GP3, "4k"), envelope(None, GP3, "4k")])
    assert {one.scope for one in found.ceilings} == {"volume"}


@given(
    figures=st.lists(
        st.tuples(st.integers(1_000, 90_000), st.integers(3_000, 16_000)), min_size=1, max_size=5
    ),
    block=st.sampled_from(["4k", "64k", "1m"]),
)
def test_a_fleet_is_allowed_what_its_hosts_are(figures, block):
    each = [
        envelope(instance("c5.large", own, 500), [("vol-1", gp3(size_gib=100, iops=iops))], block)
        for own, iops in figures
    ]
    allowed = sum(one.limit_throughput.bytes_per_second for one in each)
    assert fleet_envelope(each).limit_throughput.bytes_per_second == pytest.approx(allowed, rel=0.006)
