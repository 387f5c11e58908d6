"""The rates to which instances' networks are shaped, and how long their bursts last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.network_credits import (
    BURST_MINUTES,
    LONGEST_BURST_MINUTES,
    burst_minutes,
)
from pytest_cloudbench.limits.quantities import Bandwidth


def limits(name, performance, baseline, peak, vcpus):
    card = {"NetworkCardIndex": 0, "NetworkPerformance": performance}
    if baseline is not None:
        card["BaselineBandwidthInGbps"] = baseline
    if peak is not None:
        card["PeakBandwidthInGbps"] = peak
    return InstanceLimits.from_describe(
        {
            "InstanceType": name,
            "VCpuInfo": {"DefaultVCpus": vcpus},
            "NetworkInfo": {"NetworkCards": [card]},
        }
    )


def gbit(rates):
    return rates.peak.gbit, rates.baseline.gbit


@pytest.mark.parametrize(
    ("name", "performance", "baseline", "peak", "vcpus", "shaped"),
    [
        ("m5.2xlarge", "Up to 10 Gigabit", 2.5, 10.0, 8, (10.0, 2.5)),
        ("c5.18xlarge", "25 Gigabit", 25.0, 25.0, 72, (25.0, 25.0)),
        ("m4.large", "Moderate", 0.45, 1.2, 2, (0.45, 0.45)),
        ("c4.4xlarge", "High", 5.0, 10.0, 16, (5.0, 5.0)),
        ("t2.medium", "Low to Moderate", 0.256, 1.024, 2, (0.512, 0.256)),
        ("t2.2xlarge", "Moderate", 1.0, 1.024, 8, (1.024, 1.0)),
        ("t3.nano", "Up to 5 Gigabit", 0.032, 5.0, 2, (5.0, 0.032)),
        ("only.peak", "10 Gigabit", None, 10.0, 8, (10.0, 10.0)),
        ("only.baseline", "10 Gigabit", 10.0, None, 8, (10.0, 10.0)),
    ],
)
def test_the_rates_are_the_figures_and_coarse_words_mean_what_was_measured(
    name, performance, baseline, peak, vcpus, shaped
):
    assert gbit(limits(name, performance, baseline, peak, vcpus).network_rates) == pytest.approx(shaped)


@pytest.mark.parametrize(("vcpus", "minutes"), [(2, 15), (4, 20), (8, 26), (16, 40)])
def test_a_full_bucket_of_m5_lasts_as_was_measured(vcpus, minutes):
    baseline = vcpus * 0.3125
    credits = limits("m5.any", "Up to 10 Gigabit", baseline, 10.0, vcpus).network_credits
    above = Bandwidth.from_gbit(10 - baseline).bytes_per_second
    assert credits.capacity_bytes / above / 60 == pytest.approx(minutes)
    assert "not published by AWS" in credits.source
    assert credits.date


def test_no_burst_means_no_bucket_and_no_figures_mean_no_rates():
    assert limits("c5.18xlarge", "25 Gigabit", 25.0, 25.0, 72).network_credits is None
    assert limits("m4.large", "Moderate", 0.45, 1.2, 2).network_credits is None
    nothing = limits("odd.large", "Up to 10 Gigabit", None, None, 2)
    assert nothing.network_rates is None
    assert nothing.network_credits is None
    assert InstanceLimits.from_describe({"InstanceType": "odd.cardless"}).network_rates is None


@given(
    baseline=st.floats(0.01, 400),
    over=st.floats(1, 40),
    vcpus=st.integers(1, 448),
    performance=st.sampled_from(["Up to 10 Gigabit", "High", "Low to Moderate", "25 Gigabit"]),
    family=st.sampled_from(["t2", "m4", "m5", "x9"]),
)
def test_every_type_has_rates_within_its_figures_and_a_burst_of_5_to_60_minutes(
    baseline, over, vcpus, performance, family
):
    subject = limits(f"{family}.size", performance, baseline, baseline * over, vcpus)
    rates, credits = subject.network_rates, subject.network_credits
    assert rates.baseline.gbit == pytest.approx(baseline)
    assert baseline * (1 - 1e-9) <= rates.peak.gbit <= baseline * over * (1 + 1e-9)
    assert (credits is not None) == rates.bursts
    if credits is not None:
        lasts_s = credits.capacity_bytes / (rates.peak - rates.baseline).bytes_per_second
        assert 5 * 60 <= lasts_s <= 60 * 60


def test_larger_sizes_burst_longer():
    durations = [burst_minutes(vcpus) for vcpus, _ in BURST_MINUTES]
    assert durations == sorted(durations)
    assert durations[-1] < LONGEST_BURST_MINUTES
