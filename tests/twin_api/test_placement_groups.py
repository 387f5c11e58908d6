"""Placement groups over real HTTP calls: made, found, refused, joined by instances, deleted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from region_calls import Calls, RecordingPlane

from pytest_cloudbench.twin.api.refusal import Refusal


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    """Return the error code and message of a call that must be refused."""
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def names(calls: Calls, **asked: Any) -> list[str]:
    return [group["GroupName"] for group in calls.ec2.describe_placement_groups(**asked)["PlacementGroups"]]


def test_a_group_shows_its_parameters(calls: Calls) -> None:
    specification = [{"ResourceType": "placement-group", "Tags": [{"Key": "Name", "Value": "x"}]}]
    made = calls.ec2.create_placement_group(
        GroupName="c", Strategy="cluster", TagSpecifications=specification
    )["PlacementGroup"]
    assert re.fullmatch(r"pg-[0-9a-f]{17}", made["GroupId"])
    assert made == {
        "GroupName": "c",
        "GroupId": made["GroupId"],
        "GroupArn": "arn:aws:ec2:us-east-1:123456789012:placement-group/c",
        "State": "available",
        "Strategy": "cluster",
        "Tags": [{"Key": "Name", "Value": "x"}],
    }
    assert calls.ec2.describe_placement_groups()["PlacementGroups"] == [made]
    [tag] = calls.ec2.describe_tags(Filters=[{"Name": "resource-type", "Values": ["placement-group"]}])[
        "Tags"
    ]
    assert (tag["ResourceId"], tag["ResourceType"], tag["Key"], tag["Value"]) == (
        made["GroupId"],
        "placement-group",
        "Name",
        "x",
    )
    calls.ec2.create_tags(Resources=[made["GroupId"]], Tags=[{"Key": "more", "Value": "y"}])
    [described] = calls.ec2.describe_placement_groups(GroupNames=["c"])["PlacementGroups"]
    assert {tag["Key"] for tag in described["Tags"]} == {"Name", "more"}
    calls.ec2.delete_placement_group(GroupName="c")
    assert names(calls) == []
    assert (
        calls.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [made["GroupId"]]}])["Tags"] == []
    )


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"Strategy": "spread"}, {"Strategy": "spread", "SpreadLevel": "rack"}),
        ({"Strategy": "partition"}, {"Strategy": "partition", "PartitionCount": 2}),
        ({"PartitionCount": 5}, {"Strategy": "partition", "PartitionCount": 5}),
    ],
)
def test_defaults_of_a_request(calls: Calls, asked: dict[str, Any], shown: dict[str, Any]) -> None:
    calls.ec2.create_placement_group(GroupName="g", **asked)
    [group] = calls.ec2.describe_placement_groups()["PlacementGroups"]
    fields = ("Strategy", "SpreadLevel", "PartitionCount")
    assert {field: group[field] for field in fields if field in group} == shown


REFUSED = [
    ({"Strategy": "cluster"}, "MissingParameter", "groupName"),
    ({"GroupName": "g"}, "MissingParameter", "strategy"),
    ({"GroupName": "g" * 256, "Strategy": "cluster"}, "InvalidParameterValue", "255"),
    ({"GroupName": "größe", "Strategy": "cluster"}, "InvalidParameterValue", "größe"),
    ({"GroupName": "g", "Strategy": "close"}, "InvalidParameterValue", "cluster, partition, spread"),
    (
        {"GroupName": "g", "Strategy": "cluster", "PartitionCount": 2},
        "InvalidParameterCombination",
        "cluster",
    ),
    ({"GroupName": "g", "Strategy": "partition", "PartitionCount": 8}, "InvalidParameterValue", "1 to 7"),
    ({"GroupName": "g", "Strategy": "partition", "PartitionCount": 0}, "InvalidParameterValue", "1 to 7"),
    (
        {"GroupName": "g", "Strategy": "cluster", "SpreadLevel": "rack"},
        "InvalidParameterCombination",
        "spread",
    ),
    (
        {"GroupName": "g", "Strategy": "spread", "SpreadLevel": "host"},
        "InvalidParameterCombination",
        "Outpost",
    ),
    ({"GroupName": "g", "Strategy": "spread", "SpreadLevel": "shelf"}, "InvalidParameterValue", "shelf"),
    (
        {"GroupName": "there", "Strategy": "spread"},
        "InvalidPlacementGroup.Duplicate",
        "'there' already exists",
    ),
    (
        {
            "GroupName": "g",
            "Strategy": "cluster",
            "TagSpecifications": [
                {"ResourceType": "placement-group", "Tags": [{"Key": "aws:x", "Value": "y"}]}
            ],
        },
        "InvalidParameterValue",
        "reserved",
    ),
    (
        {
            "GroupName": "g",
            "Strategy": "cluster",
            "TagSpecifications": [{"ResourceType": "volume", "Tags": [{"Key": "x", "Value": "y"}]}],
        },
        "InvalidParameterValue",
        "not a valid taggable resource type",
    ),
    ({"GroupName": "g", "Strategy": "cluster", "DryRun": True}, "DryRunOperation", "would have succeeded"),
]


@pytest.mark.parametrize(("asked", "code", "words"), REFUSED)
def test_a_group_against_the_rules_is_not_made(
    calls: Calls, asked: dict[str, Any], code: str, words: str
) -> None:
    calls.ec2.create_placement_group(GroupName="there", Strategy="cluster")
    told, message = refused(lambda: calls.ec2.create_placement_group(**asked))
    assert told == code
    assert words in message
    assert names(calls) == ["there"]


def test_more_groups_than_an_account_may_have(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_cloudbench.twin.api.placement_admission.MAX_GROUPS", 1)
    calls.ec2.create_placement_group(GroupName="a", Strategy="cluster")
    code, message = refused(lambda: calls.ec2.create_placement_group(GroupName="b", Strategy="cluster"))
    assert code == "PlacementGroupLimitExceeded"
    assert "limit of 1 placement group" in message


def test_groups_are_found_by_name_id_and_every_filter(calls: Calls) -> None:
    def make(name: str, strategy: str, **tags: str) -> str:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        specification = [{"ResourceType": "placement-group", "Tags": pairs}] if pairs else []
        group = calls.ec2.create_placement_group(
            GroupName=name, Strategy=strategy, TagSpecifications=specification
        )
        return str(group["PlacementGroup"]["GroupId"])

    red = make("red-1", "cluster", run="a", colour="red")
    make("red-2", "spread", run="b", colour="red")
    make("plain", "partition")

    def found(name: str, *values: str) -> list[str]:
        return names(calls, Filters=[{"Name": name, "Values": list(values)}])

    assert names(calls) == ["red-1", "red-2", "plain"]
    assert names(calls, GroupNames=["plain"], GroupIds=[red]) == ["plain", "red-1"]
    assert names(calls, GroupNames=["red-1"], GroupIds=[red]) == ["red-1"]
    assert found("tag:run", "a") == ["red-1"]
    assert found("tag:run", "a", "b") == ["red-1", "red-2"]
    assert found("tag:colour", "r?d") == ["red-1", "red-2"]
    assert found("tag-key", "colour") == ["red-1", "red-2"]
    assert found("group-name", "red-*") == ["red-1", "red-2"]
    assert found("group-arn", "*/plain") == ["plain"]
    assert found("strategy", "cluster", "partition") == ["red-1", "plain"]
    assert found("spread-level", "rack") == ["red-2"]
    assert found("state", "available") == ["red-1", "red-2", "plain"]
    assert found("state", "deleted") == []
    both = [{"Name": "tag:colour", "Values": ["red"]}, {"Name": "strategy", "Values": ["spread"]}]
    assert names(calls, Filters=both) == ["red-2"]
    code, message = refused(lambda: found("colour", "red"))
    assert (code, message) == ("InvalidParameterValue", "The filter 'colour' is invalid")
    assert refused(lambda: names(calls, GroupNames=["none"])) == (
        "InvalidPlacementGroup.Unknown",
        "The Placement Group 'none' is unknown.",
    )
    nobodys = "pg-00000000000000000"
    assert refused(lambda: names(calls, GroupIds=[nobodys]))[0] == "InvalidPlacementGroup.Unknown"
    assert refused(lambda: names(calls, GroupIds=["nonsense"]))[0] == "InvalidPlacementGroupId.Malformed"
    untagged = [{"Key": "a", "Value": "b"}]
    told = refused(lambda: calls.ec2.create_tags(Resources=[nobodys], Tags=untagged))
    assert told[0] == "InvalidPlacementGroup.Unknown"


def test_a_group_is_in_use_until_its_last_instance_is_terminated(calls: Calls, plane: RecordingPlane) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="cluster")
    instance = calls.launch(Placement={"GroupName": "g"})

    def delete() -> Any:
        return calls.ec2.delete_placement_group(GroupName="g")

    in_use = ("InvalidPlacementGroup.InUse", "The placement group 'g' is in use and may not be deleted.")
    assert refused(delete) == in_use
    calls.ec2.stop_instances(InstanceIds=[instance])
    calls.wait_state(instance, "stopped")
    assert refused(delete) == in_use
    plane.gates["terminate"] = threading.Event()
    calls.ec2.terminate_instances(InstanceIds=[instance])
    assert calls.instance(instance)["State"]["Name"] == "shutting-down"
    assert refused(delete) == in_use
    plane.gates["terminate"].set()
    calls.wait_state(instance, "terminated")
    delete()
    assert refused(delete)[0] == "InvalidPlacementGroup.Unknown"
    assert calls.instance(instance)["Placement"]["GroupName"] == "g"


def test_an_instance_shows_its_group_and_its_host_knows_its_cluster(
    calls: Calls, plane: RecordingPlane
) -> None:
    group_id = calls.ec2.create_placement_group(GroupName="near", Strategy="cluster")["PlacementGroup"][
        "GroupId"
    ]
    calls.ec2.create_placement_group(GroupName="far", Strategy="spread")
    near = calls.launch(Placement={"GroupName": "near"})
    by_id = calls.launch(Placement={"GroupId": group_id})
    far = calls.launch(Placement={"GroupName": "far"})
    alone = calls.launch()
    assert calls.instance(near)["Placement"] == {
        "AvailabilityZone": "us-east-1a",
        "AvailabilityZoneId": "use1-az6",
        "GroupName": "near",
        "GroupId": group_id,
        "Tenancy": "default",
    }
    assert calls.instance(alone)["Placement"]["GroupName"] == ""
    told = {one: plane.plans[one].placement_group for one in (near, by_id, far, alone)}
    assert told == {near: "near", by_id: "near", far: None, alone: None}

    def in_group(*groups: str) -> set[str]:
        filters = [{"Name": "placement-group-name", "Values": list(groups)}]
        reservations = calls.ec2.describe_instances(Filters=filters)["Reservations"]
        return {one["InstanceId"] for reservation in reservations for one in reservation["Instances"]}

    assert in_group("near") == {near, by_id}
    assert in_group("near", "far") == {near, by_id, far}
    assert in_group("none") == set()


def test_launches_that_a_group_refuses(calls: Calls, plane: RecordingPlane) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="cluster")
    calls.ec2.create_placement_group(GroupName="s", Strategy="spread")

    def launch(instance_type: str = "c5.large", **placement: Any) -> Callable[[], Any]:
        return lambda: calls.launch(instance_type, wait=False, Placement=placement)

    assert refused(launch(GroupName="none")) == (
        "InvalidPlacementGroup.Unknown",
        "The Placement Group 'none' is unknown.",
    )
    assert refused(launch(GroupId="pg-00000000000000000"))[0] == "InvalidPlacementGroup.Unknown"
    assert refused(launch(GroupId="g"))[0] == "InvalidPlacementGroupId.Malformed"
    both = launch(GroupName="g", GroupId="pg-00000000000000000")
    assert refused(both)[0] == "InvalidParameterCombination"
    for name in ("t2.micro", "t3.micro", "m2.4xlarge"):
        assert refused(launch(name, GroupName="g")) == (
            "InvalidParameterCombination",
            f"Cluster placement groups are not supported by the '{name}' instance type. Specify a supported "
            "instance type or change the placement group strategy, and try again.",
        )
    assert refused(launch(GroupName="g", PartitionNumber=1))[0] == "InvalidParameterCombination"
    assert refused(launch(PartitionNumber=1))[0] == "InvalidParameterCombination"
    assert plane.calls == []
    assert calls.ec2.describe_instances()["Reservations"] == []
    calls.launch("t2.micro", Placement={"GroupName": "s"})


def test_a_cluster_is_in_one_zone(calls: Calls) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="cluster")
    first = calls.launch("c5.large", Placement={"GroupName": "g", "AvailabilityZone": "us-east-1b"})

    def elsewhere() -> Any:
        return calls.launch("c5.large", Placement={"GroupName": "g", "AvailabilityZone": "us-east-1a"})

    told = refused(elsewhere)
    words = "The placement group 'g' is in use in another availability zone: us-east-1b"
    assert told == ("InvalidPlacementGroup.InUse", words)
    # Where no zone is asked for, the group decides.
    second = calls.launch("c5.large", Placement={"GroupName": "g"})
    assert calls.instance(second)["Placement"]["AvailabilityZone"] == "us-east-1b"
    calls.ec2.terminate_instances(InstanceIds=[first, second])
    for instance in (first, second):
        calls.wait_state(instance, "terminated")
    third = elsewhere()
    assert calls.instance(third)["Placement"]["AvailabilityZone"] == "us-east-1a"


def test_a_spread_group_runs_seven_instances_in_a_zone(calls: Calls) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="spread")

    def launch(count: int, zone: str) -> list[str]:
        answer = calls.ec2.run_instances(
            ImageId=calls.image(),
            InstanceType="c5.large",
            MinCount=count,
            MaxCount=count,
            Placement={"GroupName": "g", "AvailabilityZone": zone},
        )
        return [one["InstanceId"] for one in answer["Instances"]]

    code, message = refused(lambda: launch(8, "us-east-1a"))
    assert code == "InsufficientInstanceCapacity"
    assert "may have 7 running instances" in message
    first, *others = launch(7, "us-east-1a")
    for instance in (first, *others):
        calls.wait_state(instance, "running")
    assert refused(lambda: launch(1, "us-east-1a"))[0] == "InsufficientInstanceCapacity"
    launch(1, "us-east-1b")
    calls.ec2.stop_instances(InstanceIds=[first])
    calls.wait_state(first, "stopped")
    launch(1, "us-east-1a")
    told = refused(lambda: calls.ec2.start_instances(InstanceIds=[first]))
    assert told[0] == "InsufficientInstanceCapacity"
    calls.ec2.terminate_instances(InstanceIds=[others[0]])
    calls.wait_state(others[0], "terminated")
    calls.ec2.start_instances(InstanceIds=[first])
    calls.wait_state(first, "running")


def test_partitions_fill_evenly_or_as_requested(calls: Calls) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="partition", PartitionCount=3)

    def partition(**placement: Any) -> int:
        instance = calls.launch("c5.large", wait=False, Placement={"GroupName": "g", **placement})
        return int(calls.instance(instance)["Placement"]["PartitionNumber"])

    assert [partition(), partition(PartitionNumber=1), partition(), partition(), partition()] == [
        1,
        1,
        2,
        3,
        2,
    ]
    filters = [{"Name": "placement-partition-number", "Values": ["2"]}]
    assert len(calls.ec2.describe_instances(Filters=filters)["Reservations"]) == 2
    code, message = refused(lambda: partition(PartitionNumber=4))
    assert code == "InvalidParameterValue"
    assert "3 partitions" in message


def test_a_launch_template_may_name_the_group(calls: Calls, plane: RecordingPlane) -> None:
    calls.ec2.create_placement_group(GroupName="g", Strategy="cluster")
    calls.ec2.create_launch_template(
        LaunchTemplateName="t",
        LaunchTemplateData={
            "ImageId": calls.image(),
            "InstanceType": "c5.large",
            "Placement": {"GroupName": "g"},
        },
    )
    answer = calls.ec2.run_instances(LaunchTemplate={"LaunchTemplateName": "t"}, MinCount=1, MaxCount=1)
    instance = answer["Instances"][0]["InstanceId"]
    assert calls.instance(instance)["Placement"]["GroupName"] == "g"
    calls.wait_state(instance, "running")
    assert plane.plans[instance].placement_group == "g"


@given(st.text(max_size=300) | st.text(st.characters(max_codepoint=127), min_size=240, max_size=260))
def test_a_name_is_accepted_unchanged_or_refused(name: str) -> None:
    from pytest_cloudbench.twin.api import placement_admission as admission

    if 0 < len(name) <= 255 and name.isascii() and name.isprintable() and name == name.strip():
        assert admission.admitted_name(name) == name
    else:
        with pytest.raises(Refusal) as caught:
            admission.admitted_name(name)
        assert caught.value.code == ("InvalidParameterValue" if name else "MissingParameter")


@given(st.integers(1, 7), st.lists(st.integers(1, 7)))
def test_the_emptiest_partition_is_chosen(count: int, taken: list[int]) -> None:
    from pytest_cloudbench.twin.api.placement_admission import admitted_partition_number

    there = [number for number in taken if number <= count]
    group: Any = SimpleNamespace(partition_count=count)
    chosen = admitted_partition_number(group, None, there)
    assert chosen is not None
    assert 1 <= chosen <= count
    assert there.count(chosen) == min(there.count(number) for number in range(1, count + 1))
