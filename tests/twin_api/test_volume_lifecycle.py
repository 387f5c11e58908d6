"""Volumes from creating to deleted, over real HTTP calls."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane, until


def test_created_volume_gets_its_disk_and_is_available(calls: Calls, plane: RecordingPlane) -> None:
    answer = calls.ec2.create_volume(
        AvailabilityZone="us-east-1b",
        Size=80,
        VolumeType="io2",
        Iops=80_000,
        Encrypted=True,
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "cloudbench:run", "Value": "r1"}]}],
    )
    assert answer["State"] == "creating"
    assert re.fullmatch(r"vol-[0-9a-f]{17}", answer["VolumeId"])
    volume = calls.described_volume(answer["VolumeId"])
    assert (volume["State"], volume["Size"], volume["Iops"], volume["Encrypted"]) == (
        "available",
        80,
        80_000,
        True,
    )
    assert volume["KmsKeyId"].startswith("arn:aws:kms:")
    assert "Throughput" not in volume
    assert volume["Tags"] == [{"Key": "cloudbench:run", "Value": "r1"}]
    [(_, volume_id, size_gib, spec)] = plane.named("create_disk")
    assert (volume_id, size_gib, spec.type, spec.iops) == (answer["VolumeId"], 80, "io2", 80_000)


@pytest.mark.parametrize(
    ("asked", "iops", "throughput"),
    [
        ({"VolumeType": "gp3", "Size": 10}, 3000, 125),
        ({"VolumeType": "gp3", "Size": 100, "Iops": 6000, "Throughput": 500}, 6000, 500),
        ({"VolumeType": "gp2", "Size": 10}, 100, None),
        ({"VolumeType": "gp2", "Size": 1000}, 3000, None),
        ({"VolumeType": "st1", "Size": 500}, None, None),
    ],
)
def test_described_figures_are_those_of_the_type(
    calls: Calls, asked: dict, iops: int, throughput: int
) -> None:
    volume = calls.described_volume(calls.volume(**asked))
    assert (volume.get("Iops"), volume.get("Throughput")) == (iops, throughput)


def test_a_tag_sets_the_io_unit(calls: Calls, plane: RecordingPlane) -> None:
    def tagged(unit: str) -> list[dict]:
        tags = [{"Key": "cloudbench:io-unit", "Value": unit}]
        return [{"ResourceType": "volume", "Tags": tags}]

    volume = calls.volume(VolumeType="io1", Size=100, Iops=1000, TagSpecifications=tagged("16k"))
    [(_, _, _, spec)] = plane.named("create_disk")
    assert (spec.io_unit.kib, spec.merging) == (16, False)
    calls.ec2.modify_volume(VolumeId=volume, Iops=2000)
    [(_, _, modified)] = plane.named("modify")
    assert (modified.iops, modified.io_unit.kib) == (2000, 16)
    for unit, says in (("many", "The tag cloudbench:io-unit is not an I/O unit"), ("12k", "a power of two")):
        with pytest.raises(ClientError, match=says) as refused:
            calls.volume(VolumeType="io1", Size=100, Iops=1000, TagSpecifications=tagged(unit))
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_tag_sets_the_share_at_first_touch(calls: Calls, plane: RecordingPlane) -> None:
    def tagged(share: str) -> list[dict]:
        return [{"ResourceType": "volume", "Tags": [{"Key": "cloudbench:first-touch", "Value": share}]}]

    volume = calls.volume(VolumeType="gp3", Size=100, TagSpecifications=tagged("0.5"))
    [(_, _, _, spec)] = plane.named("create_disk")
    assert spec.first_touch == 0.5
    calls.ec2.modify_volume(VolumeId=volume, Iops=4000)
    [(_, _, modified)] = plane.named("modify")
    assert (modified.iops, modified.first_touch) == (4000, 0.5)
    for share, says in (
        ("half", "must be a share of a rate such as 0.5, got 'half'"),
        ("nan", "less than 1"),
        ("1", "less"),
    ):
        with pytest.raises(ClientError, match=says) as refused:
            calls.volume(VolumeType="gp3", Size=100, TagSpecifications=tagged(share))
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_tag_plants_a_weakness_for_large_writes(calls: Calls, plane: RecordingPlane) -> None:
    def tagged(share: str) -> list[dict]:
        return [{"ResourceType": "volume", "Tags": [{"Key": "cloudbench:large-writes", "Value": share}]}]

    volume = calls.volume(VolumeType="gp3", Size=100, TagSpecifications=tagged("0.25"))
    [(_, _, _, spec)] = plane.named("create_disk")
    assert spec.large_writes == 0.25
    calls.ec2.modify_volume(VolumeId=volume, Iops=4000)
    [(_, _, modified)] = plane.named("modify")
    assert (modified.iops, modified.large_writes) == (4000, 0.25)
    for share, says in (("slow", "must be a share of a rate"), ("nan", "less than 1"), ("1", "less than 1")):
        with pytest.raises(ClientError, match=says) as refused:
            calls.volume(VolumeType="gp3", Size=100, TagSpecifications=tagged(share))
        assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_the_default_type_is_gp2(calls: Calls) -> None:
    answer = calls.ec2.create_volume(AvailabilityZone="us-east-1a", Size=10)
    assert calls.described_volume(answer["VolumeId"])["VolumeType"] == "gp2"


def test_volume_without_room_is_refused_with_the_planes_message(calls: Calls, plane: RecordingPlane) -> None:
    plane.failures["create_disk"] = RuntimeError("80 GiB of data do not fit into 2 GiB of memory")
    with pytest.raises(ClientError, match="80 GiB of data do not fit") as refused:
        calls.volume()
    assert refused.value.response["Error"]["Code"] == "InsufficientVolumeCapacity"
    assert calls.ec2.describe_volumes()["Volumes"] == []


def test_attach_and_detach(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    answer = calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert answer["State"] == "attaching"
    described = calls.described_volume(volume)
    assert described["State"] == "in-use"
    [attachment] = described["Attachments"]
    assert (attachment["State"], attachment["InstanceId"], attachment["Device"]) == (
        "attached",
        instance,
        "/dev/sdf",
    )
    assert attachment["DeleteOnTermination"] is False
    devices = {one["DeviceName"]: one["Ebs"] for one in calls.instance(instance)["BlockDeviceMappings"]}
    assert devices["/dev/sdf"]["VolumeId"] == volume
    assert devices["/dev/sdf"]["Status"] == "attached"
    assert plane.named("attach") == [("attach", volume, instance, "/dev/sdf")]
    assert calls.ec2.detach_volume(VolumeId=volume)["State"] == "detaching"
    assert calls.described_volume(volume)["State"] == "available"
    assert [one["DeviceName"] for one in calls.instance(instance)["BlockDeviceMappings"]] == ["/dev/xvda"]


def test_busy_volume_is_detached_when_the_host_no_longer_uses_it(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    plane.busy.add(volume)
    assert calls.ec2.detach_volume(VolumeId=volume)["State"] == "detaching"
    assert calls.described_volume(volume)["Attachments"][0]["State"] == "busy"
    # Asked again (a client that lost the first answer): the same answer, no second attempt beside the first.
    assert calls.ec2.detach_volume(VolumeId=volume)["State"] == "detaching"
    until(lambda: len(plane.named("detach")) > 2, "the front tries on")
    assert calls.described_volume(volume)["State"] == "in-use"
    plane.busy.clear()
    until(lambda: calls.described_volume(volume)["State"] == "available", "detached at last")


def test_a_busy_volume_is_detached_at_once_by_force(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    plane.busy.add(volume)
    calls.ec2.detach_volume(VolumeId=volume)
    assert calls.described_volume(volume)["State"] == "in-use"
    assert calls.ec2.detach_volume(VolumeId=volume, Force=True)["State"] == "detaching"
    assert plane.named("forced detach")
    assert calls.described_volume(volume)["State"] == "available"


def test_failed_attachment_leaves_the_volume_available(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    plane.failures["attach"] = RuntimeError("no loop device is free")
    with pytest.raises(ClientError, match="no loop device is free"):
        calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    assert calls.described_volume(volume)["State"] == "available"


def test_attaching_is_described_while_it_lasts(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    plane.gates["attach"] = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(calls.ec2.attach_volume, VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        until(lambda: plane.named("attach"), "the plane is asked")
        assert calls.described_volume(volume)["Attachments"][0]["State"] == "attaching"
        plane.gates["attach"].set()
        call.result()
    assert calls.described_volume(volume)["Attachments"][0]["State"] == "attached"


def test_deleted_volume_is_gone(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume()
    calls.ec2.delete_volume(VolumeId=volume)
    with pytest.raises(ClientError, match="does not exist") as refused:
        calls.described_volume(volume)
    assert refused.value.response["Error"]["Code"] == "InvalidVolume.NotFound"
    assert plane.disks == {}


def test_modification_acts_on_the_disk(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume(Size=10)
    answer = calls.ec2.modify_volume(VolumeId=volume, Size=100, VolumeType="io2", Iops=5000)[
        "VolumeModification"
    ]
    assert (answer["OriginalSize"], answer["TargetSize"]) == (10, 100)
    assert (answer["OriginalVolumeType"], answer["TargetVolumeType"]) == ("gp3", "io2")
    assert (answer["OriginalIops"], answer["TargetIops"]) == (3000, 5000)
    described = calls.described_volume(volume)
    assert (described["Size"], described["VolumeType"], described["Iops"]) == (100, "io2", 5000)
    [(_, volume_id, spec)] = plane.named("modify")
    assert (volume_id, spec.type, spec.size_gib, spec.iops) == (volume, "io2", 100, 5000)
    assert (answer["ModificationState"], answer["Progress"]) == ("modifying", 0)
    [entry] = modifications(calls, volume)
    assert entry["ModificationState"] in ("optimizing", "completed")
    with pytest.raises(ClientError, match="in state 'optimizing'") as refused:
        calls.ec2.modify_volume(VolumeId=volume, Size=101)
    assert refused.value.response["Error"]["Code"] == "IncorrectModificationState"
    until(lambda: modifications(calls, volume)[0]["ModificationState"] == "completed", "completed")
    [entry] = modifications(calls, volume)
    assert entry["Progress"] == 100
    assert entry["EndTime"] >= entry["StartTime"]
    wanted = [{"Name": "modification-state", "Values": ["modifying"]}]
    assert calls.ec2.describe_volumes_modifications(Filters=wanted)["VolumesModifications"] == []


def modifications(calls: Calls, volume: str) -> list:
    return calls.ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]


def test_a_modification_keeps_the_other_figures(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume(Size=100, Iops=6000, Throughput=500)
    calls.ec2.modify_volume(VolumeId=volume, Size=200)
    described = calls.described_volume(volume)
    assert (described["Size"], described["Iops"], described["Throughput"]) == (200, 6000, 500)


def test_failed_modification_changes_nothing(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume(Size=10)
    plane.failures["modify"] = RuntimeError("the disk is full")
    with pytest.raises(ClientError, match="the disk is full"):
        calls.ec2.modify_volume(VolumeId=volume, Size=20)
    assert calls.described_volume(volume)["Size"] == 10
    assert calls.ec2.describe_volumes_modifications()["VolumesModifications"] == []


def test_thirty_volumes_at_once(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch("c7i.large")  # its limit of 32 counts volumes alone, the root among them

    def one(number: int) -> str:
        volume = calls.volume(Size=4 + number)
        name = f"/dev/xvd{'b' if number < 15 else 'c'}{chr(ord('a') + number % 15)}"
        calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=name)
        return volume

    with ThreadPoolExecutor(30) as pool:
        volumes = list(pool.map(one, range(30)))
    assert len(set(volumes)) == 30
    described = {one["VolumeId"]: one for one in calls.ec2.describe_volumes()["Volumes"]}
    assert all(described[volume]["Attachments"][0]["State"] == "attached" for volume in volumes)
    assert sorted(described[volume]["Size"] for volume in volumes) == list(range(4, 34))
    assert len(calls.instance(instance)["BlockDeviceMappings"]) == 31
    assert set(plane.disks) == set(volumes)


def test_filters_find_volumes(calls: Calls) -> None:
    volume = calls.volume(
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "cloudbench:run", "Value": "r7"}]}]
    )
    calls.volume()
    found = calls.ec2.describe_volumes(Filters=[{"Name": "tag:cloudbench:run", "Values": ["r7"]}])["Volumes"]
    assert [one["VolumeId"] for one in found] == [volume]
    assert (
        len(calls.ec2.describe_volumes(Filters=[{"Name": "status", "Values": ["available"]}])["Volumes"]) == 2
    )
    status = calls.ec2.describe_volume_status(VolumeIds=[volume])["VolumeStatuses"]
    assert status[0]["VolumeStatus"]["Status"] == "ok"
