"""Snapshots of volumes and volumes from snapshots, over real HTTP calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane, until

TAGS = [{"ResourceType": "snapshot", "Tags": [{"Key": "cloudbench:run", "Value": "r1"}]}]


def described(calls: Calls, snapshot: str) -> dict:
    return calls.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]


def refused(call, **asked) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**asked)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def snapshot_of(calls: Calls, volume: str) -> str:
    snapshot = calls.ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    until(lambda: described(calls, snapshot)["State"] == "completed", "completed")
    return snapshot


def test_a_snapshot_is_pending_then_completed(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume(Size=12, Encrypted=True)
    plane.gates["take_snapshot"] = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(
            calls.ec2.create_snapshot, VolumeId=volume, Description="before", TagSpecifications=TAGS
        )
        until(lambda: plane.named("take_snapshot"), "the plane copies")
        wanted = [{"Name": "tag:cloudbench:run", "Values": ["r1"]}]
        [entry] = calls.ec2.describe_snapshots(Filters=wanted)["Snapshots"]
        assert (entry["State"], entry["Progress"], entry["VolumeSize"]) == ("pending", "42%", 12)
        code, message = refused(
            calls.ec2.create_volume, AvailabilityZone="us-east-1a", SnapshotId=entry["SnapshotId"]
        )
        assert (code, "pending" in message) == ("IncorrectState", True)
        plane.gates["take_snapshot"].set()
        answer = call.result()
    assert (answer["State"], answer["VolumeId"], answer["Description"]) == ("pending", volume, "before")
    entry = described(calls, answer["SnapshotId"])
    assert (entry["State"], entry["Progress"], entry["Encrypted"]) == ("completed", "100%", True)
    assert plane.named("take_snapshot") == [("take_snapshot", answer["SnapshotId"], volume)]


def test_a_failed_copy_is_an_error_and_cannot_be_restored(calls: Calls, plane: RecordingPlane) -> None:
    plane.failures["take_snapshot"] = RuntimeError("300 MiB are left")
    snapshot = calls.ec2.create_snapshot(VolumeId=calls.volume())["SnapshotId"]
    until(lambda: described(calls, snapshot)["State"] == "error", "error")
    assert described(calls, snapshot)["StateMessage"] == "300 MiB are left"
    assert refused(calls.ec2.create_volume, AvailabilityZone="us-east-1a", SnapshotId=snapshot)[0] == (
        "IncorrectState"
    )


def test_a_volume_from_a_snapshot(calls: Calls, plane: RecordingPlane) -> None:
    source = calls.volume(Size=12, Encrypted=True)
    snapshot = snapshot_of(calls, source)
    calls.ec2.modify_volume(VolumeId=source, Size=20)
    assert described(calls, snapshot)["VolumeSize"] == 12  # as it was then
    calls.ec2.delete_volume(VolumeId=source)
    made = calls.ec2.create_volume(AvailabilityZone="us-east-1b", SnapshotId=snapshot, VolumeType="gp3")
    volume = calls.described_volume(made["VolumeId"])
    assert (volume["Size"], volume["SnapshotId"], volume["Encrypted"]) == (12, snapshot, True)
    assert plane.named("create_disk")[-1][1:3] == (volume["VolumeId"], 12)
    assert plane.named("create_disk")[-1][-1] == snapshot
    larger = calls.volume(Size=13, SnapshotId=snapshot)
    assert calls.described_volume(larger)["Size"] == 13
    code, message = refused(calls.volume, Size=11, SnapshotId=snapshot)
    assert code == "InvalidParameterValue"
    assert "at least 12 GiB" in message


def test_a_deleted_snapshot_is_gone(calls: Calls, plane: RecordingPlane) -> None:
    snapshot = snapshot_of(calls, calls.volume())
    calls.ec2.delete_snapshot(SnapshotId=snapshot)
    assert plane.named("delete_snapshot") == [("delete_snapshot", snapshot)]
    for call in (calls.ec2.delete_snapshot, lambda SnapshotId: described(calls, SnapshotId)):
        assert refused(call, SnapshotId=snapshot)[0] == "InvalidSnapshot.NotFound"


def test_snapshots_that_are_refused(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.instance(calls.launch())
    [root] = [one["Ebs"]["VolumeId"] for one in instance["BlockDeviceMappings"]]
    assert refused(calls.ec2.create_snapshot, VolumeId=root)[0] == "UnsupportedOperation"
    missing = "vol-00000000000000000"
    assert refused(calls.ec2.create_snapshot, VolumeId=missing)[0] == "InvalidVolume.NotFound"
    image = calls.ec2.describe_images(ImageIds=[calls.image()])["Images"][0]
    of_image = image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
    assert refused(calls.ec2.delete_snapshot, SnapshotId=of_image)[0] == "InvalidSnapshot.InUse"
    assert refused(calls.volume, SnapshotId=of_image)[0] == "UnsupportedOperation"
    assert plane.named("take_snapshot") == plane.named("delete_snapshot") == []


def test_local_disks_are_in_the_plan_and_in_a_tag(calls: Calls, plane: RecordingPlane) -> None:
    metal, plain, hdd = (calls.launch(name) for name in ("i3.metal", "m5.large", "d2.xlarge"))
    assert [(one.count, one.size_gb) for one in plane.plans[metal].local_disks] == [(8, 1900)]
    assert plane.plans[plain].local_disks == plane.plans[hdd].local_disks == ()
    plane.limited_stores[metal] = False
    tags = {one["Key"]: one["Value"] for one in calls.instance(metal)["Tags"]}
    assert tags["aws:cloudbench:instance-store"] == "unlimited"
    assert not any("instance-store" in one["Key"] for one in calls.instance(plain).get("Tags", []))
