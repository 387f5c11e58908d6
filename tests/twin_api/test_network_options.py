"""Bandwidth weighting and ENA Express: requested, read back, and in the limits, against the region's API."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.limits.bandwidth_weighting import UnsupportedOption
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import ResourceFailed
from pytest_cloudbench.resources.facts import Launch
from pytest_cloudbench.resources.markers import BadMarker, RequestedHardware, RequestedPair, read_markers
from pytest_cloudbench.resources.pair import Pair


def pair_of(cloud: Cloud, **options: Any) -> Pair:
    return Ec2(cloud, test_name="test_it").pair("m8i.8xlarge", **options)


def one_flow(pair: Pair, **how: Any) -> Bandwidth:
    limit = pair.envelope(streams=1, **how).promised.limit_throughput
    assert limit is not None
    return Bandwidth.of(limit)


def test_a_pair_with_ena_express_has_one_faster_flow(cloud: Cloud) -> None:
    pair = pair_of(cloud, ena_express=True)
    assert pair.client.launched.network_options == NetworkOptions(ena_express=True)
    peak = pair.client.network_peak.limit
    assert one_flow(pair) == min(Bandwidth.from_gbit(25), peak)
    assert one_flow(pair, udp=True) == Bandwidth.from_gbit(5)
    assert "ENA Express for TCP" in pair.client.launched.conditions


@pytest.mark.parametrize("which", ["other end", "other zone"])
def test_both_ends_need_it_in_one_zone(cloud: Cloud, which: str) -> None:
    pair = pair_of(cloud, ena_express="udp")
    assert one_flow(pair, udp=True) > Bandwidth.from_gbit(5)
    change: dict[str, Any] = (
        {"zone": "us-east-1b"} if which == "other zone" else {"network_options": NetworkOptions()}
    )
    pair.server._launched = dataclasses.replace(pair.server.launched, **change)
    for udp in (False, True):
        assert one_flow(pair, udp=udp) == Bandwidth.from_gbit(5)


def test_bandwidth_weighting_is_in_the_limits_of_the_instance(cloud: Cloud) -> None:
    ec2 = Ec2(cloud, test_name="test_it")
    plain, favoured = ec2.launch("m8i.8xlarge"), ec2.launch("m8i.8xlarge", bandwidth_weighting="ebs-1")
    assert favoured.launched.network_options.weighting == "ebs-1"
    gained = favoured.ebs_throughput.limit - plain.ebs_throughput.limit  # type: ignore[operator]
    lost = plain.network_baseline.limit - favoured.network_baseline.limit  # type: ignore[operator]
    assert gained.bytes_per_second == lost.bytes_per_second > 0
    assert favoured.ebs_iops.limit == plain.ebs_iops.limit


@pytest.mark.parametrize("options", [{"bandwidth_weighting": "vpc-1"}, {"ena_express": True}])
def test_a_type_that_lacks_it_is_refused_before_anything_is_created(
    cloud: Cloud, options: dict[str, Any]
) -> None:
    ec2 = Ec2(cloud, test_name="test_it")
    mark = SimpleNamespace(args=("m5.large",), kwargs=options)
    for attempt in (
        lambda: ec2.launch("m5.large", **options),
        lambda: ec2.pair("m5.large", **options),
        lambda: ec2.check(read_markers({"ec2_instance": mark})),
        lambda: ec2.check(RequestedHardware(pair=RequestedPair.of("m5.large", **options))),
        lambda: cloud.launch_many([Launch("m5.large", network_options=NetworkOptions.of(**{
            "bandwidth_weighting": "default", "ena_express": False, **options}))]),
    ):  # fmt: skip
        with pytest.raises(UnsupportedOption, match=r"m5\.large does not support"):
            attempt()
    assert not cloud.journal.intentions


@pytest.mark.parametrize("marker", ["ec2_instance", "ec2_pair"])
@pytest.mark.parametrize("options", [{"bandwidth_weighting": "vpc-3"}, {"ena_express": "tcp"}])
def test_a_marker_with_an_invalid_option(marker: str, options: dict[str, Any]) -> None:
    with pytest.raises(BadMarker, match="invalid"):
        read_markers({marker: SimpleNamespace(args=("m8i.8xlarge",), kwargs=options)})


def test_an_instance_that_runs_without_what_was_requested_is_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.aws.instances.described_options", lambda _: NetworkOptions())
    with pytest.raises(ResourceFailed, match="bandwidth weighting vpc-1, and EC2 describes it with neither"):
        Ec2(cloud, test_name="test_it").launch("m8i.8xlarge", bandwidth_weighting="vpc-1")
