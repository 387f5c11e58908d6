"""Bandwidth weighting moves bandwidth between network and EBS, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.bandwidth_weighting import UnsupportedOption
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops


@pytest.fixture(scope="module")
def limits():
    catalogue = pytest.importorskip("moto.ec2.models.instance_types").INSTANCE_TYPES
    found = {name: InstanceLimits.from_describe(entry) for name, entry in catalogue.items()}
    return {name: one for name, one in found.items() if one.bandwidth_weightings or name == "m5.large"}


def gbit(one):
    """Return network baseline and peak, and EBS baseline and peak, in Gbit/s."""
    network, ebs = one.network_rates, (one.ebs_baseline.throughput, one.ebs_maximum.throughput)
    return [rate.bytes_per_second * 8e-9 for rate in (network.baseline, network.peak, *ebs)]


# The EC2 user guide's rule: 25 % of the favoured baseline moves; the other burst falls, on small Flex types it stays.
@pytest.mark.parametrize(
    ("name", "weighting", "expected"),
    [
        ("m8g.48xlarge", "default", [50, 50, 40, 40]),
        ("m8g.48xlarge", "vpc-1", [62.5, 62.5, 27.5, 27.5]),
        ("m8g.48xlarge", "ebs-1", [40, 40, 50, 50]),
        ("m8g.xlarge", "vpc-1", [1.875 * 1.25, 12.5, 1.25 - 0.46875, 10 - 0.46875]),
        ("m8g.xlarge", "ebs-1", [1.875 - 0.3125, 12.5 - 0.3125, 1.25 * 1.25, 10]),
        ("c8i-flex.large", "vpc-1", [0.468 * 1.25, 12.5, 0.315 - 0.117, 10]),
    ],
)
def test_figures_of_types(limits, name, weighting, expected):
    assert gbit(limits[name].with_weighting(weighting)) == pytest.approx(expected)


@given(data=st.data())
def test_the_sum_of_both_baselines_stays(limits, data):
    name = data.draw(st.sampled_from([name for name, one in limits.items() if one.bandwidth_weightings]))
    weighting = data.draw(st.sampled_from(["default", "vpc-1", "ebs-1"]))
    before, after = limits[name], limits[name].with_weighting(weighting)
    assert gbit(after)[0] + gbit(after)[2] == pytest.approx(gbit(before)[0] + gbit(before)[2])
    assert all(rate > 0 for rate in gbit(after))
    assert gbit(after)[1] >= gbit(after)[0]
    assert gbit(after)[3] >= gbit(after)[2]
    assert after.ebs_maximum.iops == before.ebs_maximum.iops > Iops(0)
    assert after.weighting == weighting
    if weighting != "default":
        assert f"bandwidth weighting {weighting}" in after.ebs_throughput.note
        assert f"bandwidth weighting {weighting}" in after.network_peak.note


def test_a_type_that_does_not_support_it_is_refused(limits):
    with pytest.raises(
        UnsupportedOption, match=r"m5\.large does not support the bandwidth weighting 'vpc-1'"
    ):
        limits["m5.large"].with_weighting("vpc-1")
    assert limits["m5.large"].with_weighting("default") is limits["m5.large"]
