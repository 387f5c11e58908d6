"""Pages of describe actions: every item once, and only tokens of the same request."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, until


def pages(call: Any, key: str, size: int, **more: Any) -> list[list[Any]]:
    found, token = [], {}
    while True:
        answer = call(MaxResults=size, **more, **token)
        found.append(answer[key])
        if "NextToken" not in answer:
            return found
        token = {"NextToken": answer["NextToken"]}


@pytest.fixture(scope="module")
def full(module_calls: Calls) -> Calls:
    """A region with 12 volumes, a tag and a snapshot of each, and instances in reservations of 1 and of 12."""
    calls = module_calls
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "n", "Value": "v"}]}]
    for _ in range(12):
        volume = calls.volume(TagSpecifications=tags)
        calls.ec2.create_snapshot(VolumeId=volume)
        calls.ec2.modify_volume(VolumeId=volume, Size=11)
    calls.launch("m5.large")
    asked = {"ImageId": calls.image(), "MinCount": 12, "MaxCount": 12, "InstanceType": "m5.large"}
    for one in calls.ec2.run_instances(**asked)["Instances"]:
        calls.wait_state(one["InstanceId"], "running")
    own = [{"Name": "owner-id", "Values": ["123456789012"]}]
    until(
        lambda: (
            {one["State"] for one in calls.ec2.describe_snapshots(Filters=own)["Snapshots"]} == {"completed"}
        ),
        "snapshots",
    )
    return calls


@pytest.mark.parametrize(
    ("action", "key", "more"),
    [
        ("describe_volumes", "Volumes", {"Filters": [{"Name": "tag:n", "Values": ["v"]}]}),
        ("describe_volume_status", "VolumeStatuses", {}),
        ("describe_tags", "Tags", {"Filters": [{"Name": "key", "Values": ["n"]}]}),
        ("describe_snapshots", "Snapshots", {"OwnerIds": ["self"]}),
        ("describe_instance_status", "InstanceStatuses", {}),
        ("describe_network_interfaces", "NetworkInterfaces", {}),
        (
            "describe_instance_types",
            "InstanceTypes",
            {"Filters": [{"Name": "instance-type", "Values": ["m?.*"]}]},
        ),
    ],
)
def test_pages_hold_every_item_once(full: Calls, action: str, key: str, more: dict[str, Any]) -> None:
    call = getattr(full.ec2, action)
    every = call(**more)[key]
    assert len(every) >= 12
    found = pages(call, key, 5, **more)
    assert [len(page) for page in found[:-1]] == [5] * (len(found) - 1)
    assert [one for page in found for one in page] == every


def test_modifications_have_pages(full: Calls) -> None:
    call = full.ec2.describe_volumes_modifications
    found = pages(call, "VolumesModifications", 5)
    ids = [one["VolumeId"] for page in found for one in page]
    assert [len(page) for page in found] == [5, 5, 2]
    assert ids == [one["VolumeId"] for one in call()["VolumesModifications"]]


def test_images_have_pages_of_one(full: Calls) -> None:
    every = full.ec2.describe_images()["Images"]
    assert pages(full.ec2.describe_images, "Images", 1) == [[one] for one in every]


def test_pages_of_instances_count_instances(full: Calls) -> None:
    found = pages(full.ec2.describe_instances, "Reservations", 5)
    counts = [sum(len(one["Instances"]) for one in page) for page in found]
    assert counts == [5, 5, 3]
    ids = {one["InstanceId"] for page in found for each in page for one in each["Instances"]}
    assert len(ids) == 13
    assert len({one["ReservationId"] for page in found for one in page}) == 2


def test_items_that_are_removed_between_pages_move_no_others(full: Calls) -> None:
    tags = [{"ResourceType": "volume", "Tags": [{"Key": "gone", "Value": "v"}]}]
    made = {full.volume(TagSpecifications=tags) for _ in range(12)}
    own = [{"Name": "tag-key", "Values": ["gone"]}]
    seen = set()
    for page in full.ec2.get_paginator("describe_volumes").paginate(
        Filters=own, PaginationConfig={"PageSize": 5}
    ):
        for one in page["Volumes"]:
            seen.add(one["VolumeId"])
            full.ec2.delete_volume(VolumeId=one["VolumeId"])
    assert seen == made


def refused(call: Any, **asked: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**asked)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize(
    "action",
    [
        "instances",
        "volumes",
        "volume_status",
        "tags",
        "snapshots",
        "images",
        "instance_types",
        "security_groups",
    ],
)
def test_foreign_tokens_are_refused(full: Calls, action: str) -> None:
    call = getattr(full.ec2, f"describe_{action}")
    token = full.ec2.describe_network_interfaces(MaxResults=5)["NextToken"]
    for bad in ("x", "käse", "MA==", token):
        code, message = refused(call, NextToken=bad)
        assert code == "InvalidNextToken"
        assert bad in message


def test_a_token_belongs_to_its_filters(full: Calls) -> None:
    def ask(size: str, **more: Any) -> Any:
        return full.ec2.describe_volumes(Filters=[{"Name": "size", "Values": [size]}], MaxResults=5, **more)

    token = ask("11")["NextToken"]
    assert len(ask("11", NextToken=token)["Volumes"]) == 5
    assert refused(lambda: ask("10", NextToken=token))[0] == "InvalidNextToken"


def test_sizes_of_pages_are_checked(full: Calls) -> None:
    code, message = refused(full.ec2.describe_volumes, MaxResults=4)
    assert code == "InvalidParameterValue"
    assert "4" in message
    instance = full.ec2.describe_instances()["Reservations"][0]["Instances"][0]["InstanceId"]
    assert (
        refused(full.ec2.describe_instances, MaxResults=5, InstanceIds=[instance])[0]
        == "InvalidParameterCombination"
    )
