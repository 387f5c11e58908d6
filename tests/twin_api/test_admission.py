"""Refusals of the service that moto lacks: the code, a message with the value, and no change."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.twin.api.instance_admission import admitted_user_data
from pytest_cloudbench.twin.api.refusal import Refusal


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    """Return the error code and message of a call that must be refused."""
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


VOLUMES = [
    ({"VolumeType": "gp9", "Size": 10}, "InvalidParameterValue", "gp9"),
    ({"VolumeType": "gp3"}, "MissingParameter", "size"),
    ({"VolumeType": "gp3", "Size": 65_537}, "InvalidParameterValue", "65,537"),
    ({"VolumeType": "gp2", "Size": 16_385}, "InvalidParameterValue", "16,385"),
    ({"VolumeType": "io2", "Size": 3, "Iops": 100}, "InvalidParameterValue", "3 GiB"),
    ({"VolumeType": "st1", "Size": 124}, "InvalidParameterValue", "124"),
    ({"VolumeType": "io2", "Size": 80}, "MissingParameter", "IOPS"),
    ({"VolumeType": "io1", "Size": 80}, "MissingParameter", "IOPS"),
    ({"VolumeType": "io2", "Size": 80, "Iops": 80_001}, "InvalidParameterValue", "80,001"),
    ({"VolumeType": "io1", "Size": 10, "Iops": 501}, "InvalidParameterValue", "501"),
    ({"VolumeType": "io2", "Size": 1000, "Iops": 256_001}, "InvalidParameterValue", "256,001"),
    ({"VolumeType": "gp3", "Size": 10, "Iops": 2999}, "InvalidParameterValue", "2,999"),
    ({"VolumeType": "gp3", "Size": 10, "Iops": 5001}, "InvalidParameterValue", "5,001"),
    ({"VolumeType": "gp3", "Size": 100, "Throughput": 124}, "InvalidParameterValue", "124"),
    ({"VolumeType": "gp3", "Size": 100, "Throughput": 751}, "InvalidParameterValue", "751"),
    ({"VolumeType": "gp2", "Size": 10, "Iops": 100}, "InvalidParameterCombination", "gp2"),
    ({"VolumeType": "sc1", "Size": 200, "Iops": 100}, "InvalidParameterCombination", "sc1"),
    (
        {"VolumeType": "io2", "Size": 80, "Iops": 100, "Throughput": 500},
        "InvalidParameterCombination",
        "500 MiB/s",
    ),
    (
        {"VolumeType": "gp3", "Size": 10, "AvailabilityZone": "us-east-1x"},
        "InvalidZone.NotFound",
        "us-east-1x",
    ),
    (
        {"VolumeType": "gp3", "Size": 10, "SnapshotId": "snap-0123456789abcdef0"},
        "InvalidSnapshot.NotFound",
        "snap-0123456789abcdef0",
    ),
    ({"VolumeType": "gp3", "SnapshotId": "snap-x"}, "InvalidParameterValue", "snap-x"),
    (
        {"VolumeType": "io2", "Size": 10, "Iops": 100, "MultiAttachEnabled": True},
        "UnsupportedOperation",
        "one",
    ),
]


@pytest.mark.parametrize(("asked", "code", "words"), VOLUMES)
def test_volume_against_the_rules(
    calls: Calls, plane: RecordingPlane, asked: dict[str, Any], code: str, words: str
) -> None:
    told, message = refused(lambda: calls.ec2.create_volume(**{"AvailabilityZone": "us-east-1a", **asked}))
    assert told == code
    assert words in message
    assert plane.calls == []
    assert calls.ec2.describe_volumes()["Volumes"] == []


def test_attachments(calls: Calls, plane: RecordingPlane) -> None:
    one, two = calls.launch(), calls.launch()
    volume, other, elsewhere = calls.volume(), calls.volume(), calls.volume("us-east-1b")

    def attach(volume_id: str, instance_id: str, device: str) -> Callable[[], Any]:
        return lambda: calls.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)

    assert refused(attach("vol-00000000000000000", one, "/dev/sdf"))[0] == "InvalidVolume.NotFound"
    assert refused(attach("nonsense", one, "/dev/sdf"))[0] == "InvalidParameterValue"
    assert refused(attach(volume, "i-00000000000000000", "/dev/sdf"))[0] == "InvalidInstanceID.NotFound"
    assert refused(attach(volume, "nonsense", "/dev/sdf"))[0] == "InvalidInstanceID.Malformed"
    code, message = refused(attach(elsewhere, one, "/dev/sdf"))
    assert code == "InvalidVolume.ZoneMismatch"
    assert "us-east-1b" in message
    assert "us-east-1a" in message
    for name in ("sd", "/dev/nvme1n1", "/dev/sdf0", "/dev/xvdzz", "f"):
        assert refused(attach(volume, one, name))[0] == "InvalidParameterValue"
    for name in ("/dev/xvddy", "/dev/xvdea"):
        assert refused(attach(volume, one, name))[0] == "InvalidParameterValue"
    for name in ("/dev/xvda", "/dev/sda1"):  # the root's place, whatever it is called
        assert "already in use" in refused(attach(volume, one, name))[1]
    attach(volume, one, "/dev/sdf")()
    code, message = refused(attach(volume, two, "/dev/sdf"))
    assert code == "VolumeInUse"
    assert one in message
    code, message = refused(attach(other, one, "xvdf"))
    assert code == "InvalidParameterValue"
    assert "already in use" in message
    assert len(plane.named("attach")) == 1


def test_attachment_to_an_instance_in_the_wrong_state(calls: Calls, plane: RecordingPlane) -> None:
    plane.gates["boot"] = threading.Event()
    instance, volume = calls.launch(wait=False), calls.volume()
    code, message = refused(
        lambda: calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    )
    assert code == "IncorrectState"
    assert "pending" in message
    plane.gates["boot"].set()
    calls.wait_state(instance, "running")
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    code, message = refused(
        lambda: calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    )
    assert code == "IncorrectState"
    assert "terminated" in message


def test_volume_that_is_still_being_created(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    plane.gates["create_disk"] = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(calls.volume)
        until(lambda: len(calls.ec2.describe_volumes()["Volumes"]) == 2, "the volume is described")
        [volume] = [one for one in calls.ec2.describe_volumes()["Volumes"] if not one["Attachments"]]
        assert volume["State"] == "creating"
        name = volume["VolumeId"]
        attach = refused(
            lambda: calls.ec2.attach_volume(VolumeId=name, InstanceId=instance, Device="/dev/sdf")
        )
        assert attach[0] == "IncorrectState"
        assert refused(lambda: calls.ec2.delete_volume(VolumeId=name))[0] == "IncorrectState"
        assert refused(lambda: calls.ec2.modify_volume(VolumeId=name, Size=20))[0] == "IncorrectState"
        plane.gates["create_disk"].set()
        assert creating.result() == name


def test_one_attachment_too_many(calls: Calls) -> None:
    instance = calls.launch("m5.large")  # 27, shared, the root among them
    for number in range(26):
        volume = calls.volume(Size=1)
        name = f"/dev/xvd{'b' if number < 13 else 'c'}{chr(ord('a') + number % 13)}"
        calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=name)
    volume = calls.volume(Size=1)
    code, message = refused(
        lambda: calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    )
    assert code == "AttachmentLimitExceeded"
    assert "27" in message


def test_detachments(calls: Calls, plane: RecordingPlane) -> None:
    one, two, volume = calls.launch(), calls.launch(), calls.volume()
    assert refused(lambda: calls.ec2.detach_volume(VolumeId=volume))[0] == "IncorrectState"
    assert (
        refused(lambda: calls.ec2.detach_volume(VolumeId="vol-00000000000000000"))[0]
        == "InvalidVolume.NotFound"
    )
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=one, Device="/dev/sdf")
    code, message = refused(lambda: calls.ec2.detach_volume(VolumeId=volume, InstanceId=two))
    assert code == "InvalidAttachment.NotFound"
    assert two in message
    assert (
        refused(lambda: calls.ec2.detach_volume(VolumeId=volume, Device="/dev/sdg"))[0]
        == "InvalidAttachment.NotFound"
    )
    assert refused(lambda: calls.ec2.delete_volume(VolumeId=volume))[0] == "VolumeInUse"
    assert plane.named("detach") == plane.named("delete_disk") == []


def test_modifications(calls: Calls, plane: RecordingPlane) -> None:
    volume = calls.volume(Size=100)

    def modify(**asked: Any) -> Callable[[], Any]:
        return lambda: calls.ec2.modify_volume(VolumeId=volume, **asked)

    code, message = refused(modify(Size=99))
    assert code == "InvalidParameterValue"
    assert "smaller" in message
    assert "99" in message
    assert refused(modify())[0] == "InvalidParameterValue"
    assert refused(modify(Iops=50_001))[0] == "InvalidParameterValue"
    assert refused(modify(Throughput=2001))[0] == "InvalidParameterValue"
    assert refused(modify(VolumeType="io2"))[0] == "MissingParameter"
    assert refused(modify(VolumeType="st1", Size=110))[0] == "InvalidParameterValue"
    assert refused(modify(VolumeType="gp9"))[0] == "InvalidParameterValue"
    assert plane.named("modify") == []
    plane.gates["modify"] = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(modify(Size=101))
        until(lambda: plane.named("modify"), "the plane is asked")
        assert refused(modify(Size=102))[0] == "IncorrectModificationState"
        plane.gates["modify"].set()
        first.result()
    for size in (102, 103, 104):
        until(lambda: completed(calls, volume), "the modification before is completed")
        modify(Size=size)()
    code, message = refused(modify(Size=105))
    assert code == "VolumeModificationRateExceeded"
    assert "4 times" in message


def completed(calls: Calls, volume: str) -> bool:
    entries = calls.ec2.describe_volumes_modifications(VolumeIds=[volume])["VolumesModifications"]
    return all(entry["ModificationState"] == "completed" for entry in entries)


INSTANCES = [
    ({"InstanceType": "c5.19xlarge"}, "InvalidParameterValue", "c5.18xlarge"),
    ({"InstanceType": "m5.large", "ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound", "ami-0000"),
    ({"InstanceType": "m5.large", "ImageId": "linux"}, "InvalidAMIID.Malformed", "linux"),
    ({"InstanceType": "c7g.large"}, "InvalidParameterValue", "The architecture 'x86_64'"),
    ({"InstanceType": "m5.large", "KeyName": "lost"}, "InvalidKeyPair.NotFound", "lost"),
    ({"InstanceType": "m5.large", "MinCount": 3, "MaxCount": 2}, "InvalidParameterCombination", "3"),
    ({"InstanceType": "m5.large", "MinCount": 0, "MaxCount": 0}, "InvalidParameterValue", "at least 1"),
    (
        {"InstanceType": "m5.large", "SubnetId": "subnet-00000000000000000"},
        "InvalidSubnetID.NotFound",
        "subnet-0",
    ),
    ({"InstanceType": "m5.large", "SubnetId": "here"}, "InvalidSubnetID.Malformed", "here"),
    (
        {"InstanceType": "m5.large", "Placement": {"AvailabilityZone": "us-east-1z"}},
        "InvalidParameterValue",
        "us-east-1z",
    ),
    (
        {"InstanceType": "m5.large", "Placement": {"GroupName": "near"}},
        "InvalidPlacementGroup.Unknown",
        "near",
    ),
    (
        {"InstanceType": "m5.large", "SecurityGroupIds": ["sg-00000000000000000"]},
        "InvalidGroup.NotFound",
        "sg-0000",
    ),
    ({"InstanceType": "m5.large", "SecurityGroupIds": ["mine"]}, "InvalidGroupId.Malformed", "mine"),
    ({"InstanceType": "m5.large", "SecurityGroups": ["mine"]}, "InvalidGroup.NotFound", "mine"),
    ({"InstanceType": "m5.large", "UserData": "x" * 16_385}, "InvalidParameterValue", "16385"),
    ({"InstanceType": "m5.large", "PrivateIpAddress": "10.0.0.9"}, "InvalidParameterValue", "range"),
    ({"InstanceType": "m5.large", "PrivateIpAddress": "198.18.0.2"}, "InvalidParameterValue", "reserved"),
    ({"InstanceType": "m5.large", "PrivateIpAddress": "here"}, "InvalidParameterValue", "here"),
    (
        {
            "InstanceType": "m5.large",
            "NetworkInterfaces": [{"DeviceIndex": 0, "SecondaryPrivateIpAddressCount": 2}],
        },
        "UnsupportedOperation",
        "one private address",
    ),
    (
        {"InstanceType": "m5.large", "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa"}]},
        "UnsupportedOperation",
        "efa",
    ),
    (
        {
            "InstanceType": "m5.large",
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:x", "Value": "y"}]}],
        },
        "InvalidParameterValue",
        "aws:x",
    ),
    (
        {
            "InstanceType": "m5.large",
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "VolumeType": "io2"}}
            ],
        },
        "MissingParameter",
        "IOPS",
    ),
    (
        {
            "InstanceType": "m5.large",
            "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 4}}],
        },
        "InvalidBlockDeviceMapping",
        "4GB",
    ),
    ({"InstanceType": "m5.large", "DryRun": True}, "DryRunOperation", "would have succeeded"),
]


@pytest.mark.parametrize(("asked", "code", "words"), INSTANCES)
def test_launch_against_the_rules(
    calls: Calls, plane: RecordingPlane, asked: dict[str, Any], code: str, words: str
) -> None:
    request = {"ImageId": calls.image(), "MinCount": 1, "MaxCount": 1, **asked}
    told, message = refused(lambda: calls.ec2.run_instances(**request))
    assert told == code
    assert words in message
    assert plane.calls == []
    assert calls.ec2.describe_instances()["Reservations"] == []
    assert calls.ec2.describe_volumes()["Volumes"] == []


def test_user_data_of_exactly_the_limit_is_accepted(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch(UserData="x" * 16_384)
    assert len(plane.plans[instance].user_data) == 16_384


def test_zone_that_does_not_offer_the_type(calls: Calls) -> None:
    pages = calls.ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone"
    )
    offerings = [one for page in pages for one in page["InstanceTypeOfferings"]]
    zones: dict[str, set[str]] = {}
    for one in offerings:
        zones.setdefault(one["InstanceType"], set()).add(one["Location"])
    here = {zone["ZoneName"] for zone in calls.ec2.describe_availability_zones()["AvailabilityZones"]}
    name = next(name for name in sorted(zones) if zones[name] & here and here - zones[name])
    architecture = calls.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0][
        "ProcessorInfo"
    ]["SupportedArchitectures"][-1]
    image = calls.image("arm64" if architecture == "arm64" else "x86_64")
    missing = min(here - zones[name])
    code, message = refused(
        lambda: calls.launch(name, ImageId=image, wait=False, Placement={"AvailabilityZone": missing})
    )
    assert code == "Unsupported"
    assert min(zones[name] & here) in message
    instance = calls.launch(name, ImageId=image)
    assert calls.instance(instance)["Placement"]["AvailabilityZone"] in zones[name]


def test_instances_in_the_wrong_state(calls: Calls, plane: RecordingPlane) -> None:
    plane.gates["boot"] = threading.Event()
    instance = calls.launch(wait=False)
    for act in (calls.ec2.stop_instances, calls.ec2.reboot_instances):
        code, message = refused(lambda act=act: act(InstanceIds=[instance]))
        assert code == "IncorrectInstanceState"
        assert "pending" in message
    plane.gates["boot"].set()
    calls.wait_state(instance, "running")
    change = calls.ec2.start_instances(InstanceIds=[instance])["StartingInstances"][0]
    assert change["CurrentState"]["Name"] == "running"  # starting what runs is not an error, and does nothing
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    for act in (calls.ec2.start_instances, calls.ec2.stop_instances, calls.ec2.reboot_instances):
        assert refused(lambda act=act: act(InstanceIds=[instance]))[0] == "IncorrectInstanceState"
    assert refused(lambda: calls.ec2.start_instances(InstanceIds=["i-00000000000000000"]))[0] == (
        "InvalidInstanceID.NotFound"
    )
    assert (
        refused(lambda: calls.ec2.terminate_instances(InstanceIds=["mine"]))[0]
        == "InvalidInstanceID.Malformed"
    )
    assert plane.named("start") == plane.named("stop") == plane.named("reboot") == []


def test_one_bad_id_refuses_the_whole_request(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    ids = [instance, "i-00000000000000000"]
    assert refused(lambda: calls.ec2.terminate_instances(InstanceIds=ids))[0] == "InvalidInstanceID.NotFound"
    assert calls.instance(instance)["State"]["Name"] == "running"


def test_protected_instance(calls: Calls) -> None:
    instance = calls.launch(DisableApiTermination=True, DisableApiStop=True)
    assert (
        refused(lambda: calls.ec2.terminate_instances(InstanceIds=[instance]))[0] == "OperationNotPermitted"
    )
    assert refused(lambda: calls.ec2.stop_instances(InstanceIds=[instance]))[0] == "OperationNotPermitted"
    calls.ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": False})
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")


def test_launch_without_addresses_left_leaves_nothing(
    calls: Calls, plane: RecordingPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.front.region()  # built by now
    taken = set(plane.taken)
    monkeypatch.setattr(plane, "addresses", len(taken) + 1)
    request = {"ImageId": calls.image(), "InstanceType": "m5.large", "MinCount": 2, "MaxCount": 2}
    code, message = refused(lambda: calls.ec2.run_instances(**request))
    assert code == "InsufficientFreeAddressesInSubnet"
    assert "no address is left" in message
    assert plane.taken == taken
    assert calls.ec2.describe_instances()["Reservations"] == []
    assert calls.ec2.describe_volumes()["Volumes"] == []
    assert plane.calls == []


def test_security_group_in_use(calls: Calls) -> None:
    vpc = calls.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = calls.ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    instance = calls.launch(SecurityGroupIds=[group])
    assert [one["GroupId"] for one in calls.instance(instance)["SecurityGroups"]] == [group]
    code, message = refused(lambda: calls.ec2.delete_security_group(GroupId=group))
    assert code == "DependencyViolation"
    assert instance in message
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    calls.ec2.delete_security_group(GroupId=group)
    assert refused(lambda: calls.ec2.delete_security_group(GroupId=group))[0] == "InvalidGroup.NotFound"


def test_unknown_types_are_named_with_their_neighbours(calls: Calls) -> None:
    code, message = refused(
        lambda: calls.ec2.describe_instance_types(InstanceTypes=["c5.19xlarge", "m5.large"])
    )
    assert code == "InvalidInstanceType"
    assert "c5.19xlarge" in message
    assert "c5.18xlarge" in message
    assert "[m5.large" not in message


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ("create_snapshots", {"InstanceSpecification": {"InstanceId": "i-00000000000000000"}}),
        ("create_nat_gateway", {"SubnetId": "subnet-00000000000000000"}),
        ("request_spot_instances", {"InstanceCount": 1}),
        ("create_image", {"InstanceId": "i-00000000000000000", "Name": "xyz"}),
    ],
)
def test_unsupported_actions_are_refused(calls: Calls, call: str, asked: dict[str, Any]) -> None:
    code, message = refused(lambda: getattr(calls.ec2, call)(**asked))
    assert code == "UnsupportedOperation"
    assert "this region" in message


def test_user_data_that_is_not_base64() -> None:
    with pytest.raises(Refusal, match="BASE64") as caught:
        admitted_user_data("not base64!")
    assert caught.value.code == "InvalidUserData.Malformed"
    assert admitted_user_data(base64.b64encode(b"\x00\xff")) == b"\x00\xff"


def test_security_group_used_in_a_rule_of_another(calls: Calls) -> None:
    vpc = calls.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    named, naming = (
        calls.ec2.create_security_group(GroupName=name, Description="d", VpcId=vpc)["GroupId"]
        for name in "ab"
    )
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "UserIdGroupPairs": [{"GroupId": named}]}
    calls.ec2.authorize_security_group_ingress(GroupId=naming, IpPermissions=[rule])
    code, message = refused(lambda: calls.ec2.delete_security_group(GroupId=named))
    assert code == "DependencyViolation"
    assert naming in message
    calls.ec2.delete_security_group(GroupId=naming)
    calls.ec2.delete_security_group(GroupId=named)


def test_ebs_cards(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch("m8in.96xlarge"), calls.volume()
    asked = {"VolumeId": volume, "Device": "/dev/xvdaa"}
    assert (
        "EbsCardIndex"
        in refused(lambda: calls.ec2.attach_volume(InstanceId=instance, EbsCardIndex=2, **asked))[1]
    )
    plain = calls.launch()
    code, _ = refused(lambda: calls.ec2.attach_volume(InstanceId=plain, EbsCardIndex=1, **asked))
    assert code == "InvalidParameterValue"
    assert calls.ec2.attach_volume(InstanceId=instance, EbsCardIndex=1, **asked)["EbsCardIndex"] == 1
    assert calls.described_volume(volume)["Attachments"][0]["EbsCardIndex"] == 1
    described = {each["DeviceName"]: each["Ebs"] for each in calls.instance(instance)["BlockDeviceMappings"]}
    assert described["/dev/xvdaa"]["EbsCardIndex"] == 1
    assert ("attach", volume, instance, "/dev/xvdaa", 1) in plane.calls
    assert [card.index for card in plane.plans[instance].ebs_cards] == [0, 1]


def express(udp: bool = False, tcp: bool = True) -> dict[str, Any]:
    asked = {"EnaSrdEnabled": tcp, "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": udp}}
    return {"NetworkInterfaces": [{"DeviceIndex": 0, "EnaSrdSpecification": asked}]}


def weighting(choice: str) -> dict[str, Any]:
    return {"NetworkPerformanceOptions": {"BandwidthWeighting": choice}}


def test_network_options_are_described_and_shape_the_instance(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch("m8i.8xlarge", **weighting("ebs-1"), **express(udp=True))
    described = calls.instance(instance)
    assert described["NetworkPerformanceOptions"] == {"BandwidthWeighting": "ebs-1"}
    attachment = described["NetworkInterfaces"][0]["Attachment"]
    assert (
        attachment["EnaSrdSpecification"] == express(udp=True)["NetworkInterfaces"][0]["EnaSrdSpecification"]
    )
    plan = plane.plans[instance]
    assert plan.network_options == NetworkOptions("ebs-1", True, True)
    plain = plane.plans[calls.launch("m8i.8xlarge")]
    assert plan.ebs_baseline.throughput / plain.ebs_baseline.throughput == pytest.approx(1.25)
    moved = plan.ebs_baseline.throughput - plain.ebs_baseline.throughput
    assert plain.network.baseline - plan.network.baseline == moved
    assert plain.network_options == NetworkOptions()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (weighting("vpc-1"), "UnsupportedOperation"),
        (express(), "UnsupportedOperation"),
        (express(udp=True, tcp=False), "InvalidParameterCombination"),
    ],
)
def test_network_options_that_a_type_lacks(calls: Calls, options: dict[str, Any], code: str) -> None:
    assert refused(lambda: calls.launch("m5.large", **options))[0] == code
    assert calls.ec2.describe_instances()["Reservations"] == []
