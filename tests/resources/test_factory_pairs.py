"""Pairs and placement groups: what is asked of the control plane, in which order, and what is given back."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import UnknownInstanceType
from pytest_cloudbench.resources.markers import BadMarker


@pytest.fixture
def ec2(cloud: Any) -> Ec2:
    return Ec2(cloud, test_name="test_it", image="ami-run", user="bench")


def test_a_pair_is_checked_first_and_launched_in_one_go(ec2: Ec2, cloud: Any) -> None:
    pair = ec2.pair("t2.medium", "m5.2xlarge", zones=("us-east-1a", "us-east-1b"), commands=["true"])
    assert [call for call, _ in cloud.calls] == ["check", "launch"]
    launches, group = cloud.calls[1][1]
    assert [(launch.type, launch.zone) for launch in launches] == [
        ("t2.medium", "us-east-1a"),
        ("m5.2xlarge", "us-east-1b"),
    ]
    assert {(launch.image, launch.user, launch.name, launch.commands) for launch in launches} == {
        ("ami-run", "bench", "test_it", ("true",))
    }
    assert group is None
    assert (pair.client.type, pair.server.type, pair.cluster) == ("t2.medium", "m5.2xlarge", False)


def test_without_a_server_type_both_are_alike_and_the_zone_is_left_to_the_cloud(ec2: Ec2, cloud: Any) -> None:
    pair = ec2.pair("m5.2xlarge")
    assert pair.client.type == pair.server.type == "m5.2xlarge"
    assert pair.client.id != pair.server.id
    assert [launch.zone for launch in cloud.calls[1][1][0]] == [None, None]


def test_the_zone_of_the_run_is_for_both(cloud: Any) -> None:
    Ec2(cloud, test_name="test_it", zone="us-east-1c").pair("m5.2xlarge")
    assert [launch.zone for launch in cloud.calls[1][1][0]] == ["us-east-1c", "us-east-1c"]


def test_a_cluster_is_checked_created_used_and_released_with_its_instances(ec2: Ec2, cloud: Any) -> None:
    pair = ec2.pair("c5.18xlarge", placement="cluster")
    assert [call for call, _ in cloud.calls] == ["check", "group", "launch"]
    assert cloud.calls[0][1] == (["c5.18xlarge", "c5.18xlarge"], "cluster")
    assert pair.cluster
    group = cloud.calls[2][1][1]
    assert pair.client.launched.placement_group == pair.server.launched.placement_group == group.name
    ec2.close()
    assert cloud.released == [pair.client.launched, pair.server.launched, group]


def test_what_cannot_be_launched_creates_nothing(ec2: Ec2, cloud: Any) -> None:
    cloud.refuses = UnknownInstanceType(
        "us-east-1 knows no instance type 'm5.2xlarg'", nearest=("m5.2xlarge",)
    )
    with pytest.raises(UnknownInstanceType, match=r"m5\.2xlarg'"):
        ec2.pair("m5.2xlarg", placement="cluster")
    assert [call for call, _ in cloud.calls] == ["check"]
    ec2.close()
    assert not cloud.released


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"placement": "spread"},
            r"ec2\.pair: placement must be 'cluster', .* or None for none; not 'spread'",
        ),
        ({"zones": "us-east-1a"}, r"ec2\.pair: zones must be a pair of availability zones"),
        (
            {"placement": "cluster", "zones": ["us-east-1a", "us-east-1b"]},
            r"ec2\.pair: a cluster placement group lies in one availability zone, but zones are us-east-1a and us-",
        ),
        ({"commands": [7]}, r"ec2\.pair: commands must be a list of shell lines"),
    ],
)
def test_bad_arguments_are_refused_before_any_call(
    ec2: Ec2, cloud: Any, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadMarker, match=sentence):
        ec2.pair("m5.2xlarge", **arguments)
    assert not cloud.calls


def test_a_cluster_in_one_zone_named_twice_is_fine(ec2: Ec2) -> None:
    assert ec2.pair("m5.2xlarge", placement="cluster", zones=("us-east-1a", "us-east-1a")).cluster


def test_instances_of_one_made_cluster_are_known_to_be_in_it(ec2: Ec2) -> None:
    group = ec2.create_placement_group()
    client = ec2.launch("c5.18xlarge", placement_group=group)
    server = ec2.launch("c5.18xlarge", placement_group=group.name)
    outside = ec2.launch("c5.18xlarge")
    assert ec2.path(client, server).cluster
    assert not ec2.path(client, outside).cluster
    assert not ec2.path(outside, ec2.launch("c5.18xlarge")).cluster


def test_two_clusters_or_another_kind_of_group_are_no_cluster(ec2: Ec2) -> None:
    one, other = ec2.create_placement_group(), ec2.create_placement_group()
    client = ec2.launch("m5.2xlarge", placement_group=one)
    assert not ec2.path(client, ec2.launch("m5.2xlarge", placement_group=other)).cluster
    spread = ec2.create_placement_group("spread")
    pair = [ec2.launch("m5.2xlarge", placement_group=spread) for _ in range(2)]
    assert not ec2.path(*pair).cluster


def test_the_test_says_if_a_group_from_outside_is_a_cluster(ec2: Ec2) -> None:
    pair = [ec2.launch("m5.2xlarge", placement_group="the-team-s") for _ in range(2)]
    assert not ec2.path(*pair).cluster
    assert ec2.path(*pair, cluster=True).cluster
