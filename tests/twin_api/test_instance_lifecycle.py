"""Instances from pending to terminated, over real HTTP calls."""

from __future__ import annotations

import base64
import re
import threading

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Throughput


def test_launched_instance_boots_the_host_it_describes(calls: Calls, plane: RecordingPlane) -> None:
    key = calls.ec2.create_key_pair(KeyName="k", KeyType="ed25519")
    plane.gates["boot"] = threading.Event()
    user_data = "#cloud-config\nssh_keys: {}\n"
    [instance] = calls.ec2.run_instances(
        ImageId=calls.image(),
        InstanceType="c5.18xlarge",
        MinCount=1,
        MaxCount=1,
        KeyName="k",
        UserData=user_data,
        MetadataOptions={"HttpTokens": "required"},
        EbsOptimized=True,
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "cloudbench x"}]}],
    )["Instances"]
    instance_id = instance["InstanceId"]
    assert re.fullmatch(r"i-[0-9a-f]{17}", instance_id)
    assert instance["State"]["Name"] == "pending"
    assert calls.instance(instance_id)["State"]["Name"] == "pending"
    plane.gates["boot"].set()
    calls.wait_state(instance_id, "running")
    described = calls.instance(instance_id)
    address = described["PrivateIpAddress"]
    assert address == "198.18.0.10"
    assert described["PrivateDnsName"] == "ip-198-18-0-10.ec2.internal"
    assert not described.get("PublicIpAddress")
    assert described["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert described["MetadataOptions"]["HttpTokens"] == "required"
    assert described["EbsOptimized"] is True
    assert described["KeyName"] == "k"
    plan = plane.plans[instance_id]
    assert (plan.hostname, plan.private_ip, plan.login_user) == ("ip-198-18-0-10", address, "ec2-user")
    assert plan.user_data == user_data.encode()
    assert plan.nitro is True
    assert (plan.ebs_limit.iops.per_second, plan.ebs_limit.throughput.bytes_per_second) == (
        80_000,
        2_375_000_000,
    )
    [line] = plan.authorized_keys
    assert line.startswith("ssh-ed25519 ")
    assert "PRIVATE KEY" in key["KeyMaterial"]
    statuses = calls.ec2.describe_instance_status(InstanceIds=[instance_id])["InstanceStatuses"]
    assert statuses[0]["InstanceStatus"]["Status"] == statuses[0]["SystemStatus"]["Status"] == "ok"


def test_imported_key_can_log_in(calls: Calls, plane: RecordingPlane) -> None:
    public = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1Up1c0cLmSlKYVeyzPw5RLIj7cg8OBZ0PyzQPHRyUN me@here\n"
    calls.ec2.import_key_pair(KeyName="mine", PublicKeyMaterial=public)
    instance = calls.launch(KeyName="mine")
    assert plane.plans[instance].authorized_keys == (public.decode().strip(),)


def test_root_volume_is_described_and_has_no_disk(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    [volume] = calls.ec2.describe_volumes()["Volumes"]
    assert (volume["State"], volume["VolumeType"], volume["Size"]) == ("in-use", "gp3", 8)
    [attachment] = volume["Attachments"]
    assert (attachment["InstanceId"], attachment["Device"], attachment["State"]) == (
        instance,
        "/dev/xvda",
        "attached",
    )
    assert attachment["DeleteOnTermination"] is True
    assert plane.named("create_disk") == []
    with pytest.raises(ClientError, match="root volume"):
        calls.ec2.detach_volume(VolumeId=volume["VolumeId"])
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    assert calls.ec2.describe_volumes()["Volumes"] == []


def test_instances_of_one_call_boot_side_by_side(calls: Calls, plane: RecordingPlane) -> None:
    plane.gates["boot"] = threading.Event()
    answer = calls.ec2.run_instances(ImageId=calls.image(), InstanceType="m5.large", MinCount=2, MaxCount=4)
    ids = [one["InstanceId"] for one in answer["Instances"]]
    assert len(ids) == 4
    until(lambda: plane.booting == 4, "all four are booting")
    plane.gates["boot"].set()
    for instance_id in ids:
        calls.wait_state(instance_id, "running")
    assert len({calls.instance(instance_id)["PrivateIpAddress"] for instance_id in ids}) == 4


def test_boot_failure_terminates_with_its_reason(calls: Calls, plane: RecordingPlane) -> None:
    plane.failures["boot"] = RuntimeError("sshd did not answer within 30 s")
    instance = calls.launch(wait=False)
    calls.wait_state(instance, "terminated")
    described = calls.instance(instance)
    assert described["StateReason"]["Code"] == "Server.InternalError"
    assert "sshd did not answer within 30 s" in described["StateReason"]["Message"]
    assert "sshd did not answer" in described["StateTransitionReason"]
    assert plane.named("terminate") == []
    assert calls.ec2.describe_volumes()["Volumes"] == []
    output = calls.ec2.get_console_output(InstanceId=instance)["Output"]
    assert output == f"{instance} login: käse\nsshd did not answer within 30 s\n"


def test_launch_without_a_disk_leaves_neither_volumes_nor_address(
    calls: Calls, plane: RecordingPlane
) -> None:
    plane.failures["create_disk"] = RuntimeError("no room")
    instance = calls.launch(
        wait=False,
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sdg", "Ebs": {"VolumeSize": 20, "DeleteOnTermination": False}}
        ],
    )
    calls.wait_state(instance, "terminated")
    assert calls.ec2.describe_volumes()["Volumes"] == []
    assert plane.named("boot") == []
    assert plane.taken == set()


def test_launch_refused_halfway_releases_its_addresses(calls: Calls, plane: RecordingPlane) -> None:
    first = calls.launch()
    plane.addresses = 3
    with pytest.raises(ClientError, match="InsufficientFreeAddressesInSubnet"):
        calls.ec2.run_instances(ImageId=calls.image(), InstanceType="m5.large", MinCount=3, MaxCount=3)
    assert plane.taken == {calls.instance(first)["PrivateIpAddress"]}
    assert len(calls.ec2.describe_instances()["Reservations"]) == 1


def test_root_volume_that_outlives_its_instance_can_be_deleted(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch(
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": False}}]
    )
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    [volume] = calls.ec2.describe_volumes()["Volumes"]
    assert volume["State"] == "available"
    calls.ec2.delete_volume(VolumeId=volume["VolumeId"])
    assert calls.ec2.describe_volumes()["Volumes"] == []
    assert plane.named("delete_disk") == []


def test_stop_and_start_keep_address_and_volumes(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    address = calls.instance(instance)["PrivateIpAddress"]
    plane.gates["stop"] = threading.Event()
    [change] = calls.ec2.stop_instances(InstanceIds=[instance])["StoppingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "stopping")
    assert calls.instance(instance)["State"]["Name"] == "stopping"
    plane.gates["stop"].set()
    calls.wait_state(instance, "stopped")
    assert calls.instance(instance)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    plane.gates["start"] = threading.Event()
    [change] = calls.ec2.start_instances(InstanceIds=[instance])["StartingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("stopped", "pending")
    plane.gates["start"].set()
    calls.wait_state(instance, "running")
    described = calls.instance(instance)
    assert described["PrivateIpAddress"] == address
    assert "StateReason" not in described
    assert calls.described_volume(volume)["Attachments"][0]["State"] == "attached"
    assert [call[0] for call in plane.calls if call[0] in ("boot", "stop", "start")] == [
        "boot",
        "stop",
        "start",
    ]


def test_reboot_reaches_the_host(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    calls.ec2.reboot_instances(InstanceIds=[instance])
    until(lambda: plane.named("reboot") == [("reboot", instance)], "rebooted")
    assert calls.instance(instance)["State"]["Name"] == "running"


def test_termination_releases_volumes(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch(
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sdg", "Ebs": {"VolumeSize": 20, "VolumeType": "io2", "Iops": 5000}},
            {
                "DeviceName": "/dev/sdh",
                "Ebs": {"VolumeSize": 30, "VolumeType": "gp3", "DeleteOnTermination": False},
            },
        ]
    )
    own = calls.volume()
    calls.ec2.attach_volume(VolumeId=own, InstanceId=instance, Device="/dev/sdf")
    by_size = {one["Size"]: one for one in calls.ec2.describe_volumes()["Volumes"]}
    assert by_size[20]["Iops"] == 5000
    assert by_size[20]["Attachments"][0]["State"] == "attached"
    assert {call[3] for call in plane.named("attach")} == {"/dev/sdf", "/dev/sdg", "/dev/sdh"}
    plane.gates["terminate"] = threading.Event()
    [change] = calls.ec2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]
    assert change["CurrentState"]["Name"] == "shutting-down"
    assert calls.instance(instance)["State"]["Name"] == "shutting-down"
    plane.gates["terminate"].set()
    calls.wait_state(instance, "terminated")
    left = {one["VolumeId"]: one["State"] for one in calls.ec2.describe_volumes()["Volumes"]}
    assert left == {own: "available", by_size[30]["VolumeId"]: "available"}
    assert set(plane.disks) == set(left)
    again = calls.ec2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]
    assert again[0]["CurrentState"]["Name"] == "terminated"
    assert "login" in calls.ec2.get_console_output(InstanceId=instance)["Output"]


def test_termination_during_boot_waits_for_it(calls: Calls, plane: RecordingPlane) -> None:
    plane.gates["boot"] = threading.Event()
    instance = calls.launch(wait=False)
    until(lambda: plane.named("boot"), "booting")
    calls.ec2.terminate_instances(InstanceIds=[instance])
    assert plane.named("terminate") == []
    plane.gates["boot"].set()
    calls.wait_state(instance, "terminated")
    assert [call[0] for call in plane.calls if call[0] in ("boot", "terminate")] == ["boot", "terminate"]


def test_console_output(calls: Calls) -> None:
    instance = calls.launch()
    output = calls.ec2.get_console_output(InstanceId=instance)["Output"]
    assert output == f"{instance} login: käse\n"


def test_user_data_is_kept(calls: Calls) -> None:
    instance = calls.launch(UserData="#!/bin/sh\ntrue\n")
    kept = calls.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")["UserData"][
        "Value"
    ]
    assert base64.b64decode(kept) == b"#!/bin/sh\ntrue\n"


def test_machine_limits_are_tags_that_only_the_region_sets(calls: Calls, plane: RecordingPlane) -> None:
    plane.limits = MachineLimits(Iops(60_000), Throughput(2_000_000_000))
    calls.front.region().measure_machine()
    instance = calls.launch()

    def tags() -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in calls.instance(instance).get("Tags", [])}

    until(lambda: tags().get("aws:cloudbench:machine-iops") == "60000", "the tags are there")
    assert tags()["aws:cloudbench:machine-bytes-per-second"] == "2000000000"
    assert tags()["aws:cloudbench:machine-free-bytes"] == "5000000000"
    with pytest.raises(ClientError, match="reserved"):
        calls.ec2.create_tags(
            Resources=[instance], Tags=[{"Key": "aws:cloudbench:machine-iops", "Value": "1000000000"}]
        )
    with pytest.raises(ClientError, match="reserved"):
        calls.ec2.delete_tags(Resources=[instance], Tags=[{"Key": "aws:cloudbench:machine-iops"}])


def test_a_tag_states_compressed_time(calls: Calls, plane: RecordingPlane) -> None:
    tag = "aws:cloudbench:time-compression"
    instance = calls.launch()
    assert tag not in {one["Key"] for one in calls.instance(instance).get("Tags", [])}
    for factor, told in ((60.0, "60"), (2.5, "2.5")):
        plane.time_compression = factor
        assert {"Key": tag, "Value": told} in calls.instance(instance)["Tags"]
    with pytest.raises(ClientError, match="reserved"):
        calls.ec2.create_tags(Resources=[instance], Tags=[{"Key": tag, "Value": "1"}])


@pytest.mark.parametrize("mode", ["ebs", "none"])
def test_a_tag_states_the_latency_mode(calls: Calls, plane: RecordingPlane, mode: str) -> None:
    plane.latency = mode
    instance = calls.launch()
    assert {"Key": "aws:cloudbench:latency", "Value": mode} in calls.instance(instance)["Tags"]


def test_a_tag_states_data_in_a_folder(calls: Calls, plane: RecordingPlane) -> None:
    tag = "aws:cloudbench:backing"
    instance = calls.launch()
    assert tag not in {one["Key"] for one in calls.instance(instance).get("Tags", [])}
    plane.store.in_memory = False
    assert {"Key": tag, "Value": "folder"} in calls.instance(instance)["Tags"]


def test_the_machines_network_is_published_with_the_second_instance(
    calls: Calls, plane: RecordingPlane
) -> None:
    instance = calls.launch()

    def told() -> str | None:
        tags = {one["Key"]: one["Value"] for one in calls.instance(instance).get("Tags", [])}
        return tags.get("aws:cloudbench:machine-network-bytes-per-second")

    plane.carried = Throughput.from_gbit(12)
    calls.front.region().measure_machine()
    assert not plane.probes_network.is_set()
    calls.launch()
    assert told() == "1500000000"
    plane.carried = Throughput.from_gbit(16)
    until(lambda: told() == "2000000000", "the figure that was raised is told")


def test_the_second_instance_waits_for_the_network_probe_and_no_call_does(
    calls: Calls, plane: RecordingPlane
) -> None:
    calls.launch()
    plane.gates["machine_network"] = threading.Event()
    plane.carried = Throughput.from_gbit(12)
    second = calls.launch(wait=False)
    assert plane.probes_network.wait(10)
    assert calls.instance(second)["State"]["Name"] == "pending"
    plane.gates["machine_network"].set()
    until(lambda: calls.instance(second)["State"]["Name"] == "running", "it runs")


@pytest.mark.parametrize("name", ["m5.2xlarge", "c5.18xlarge", "t2.micro"])
def test_a_host_is_shaped_to_the_rates_of_its_type(calls: Calls, plane: RecordingPlane, name: str) -> None:
    [entry] = calls.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    limits = InstanceLimits.from_describe(entry)
    plan = plane.plans[calls.launch(name)]
    assert plan.network is not None
    assert plan.network == limits.network_rates
    assert plan.network_credits == limits.network_credits
    assert plan.network.bursts == (plan.network_credits is not None)
    assert plan.placement_group is None


def test_launch_template_fills_in_what_the_request_leaves_out(calls: Calls, plane: RecordingPlane) -> None:
    calls.ec2.create_launch_template(
        LaunchTemplateName="t",
        LaunchTemplateData={
            "ImageId": calls.image("arm64"),
            "InstanceType": "c7g.large",
            "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
        },
    )
    answer = calls.ec2.run_instances(LaunchTemplate={"LaunchTemplateName": "t"}, MinCount=1, MaxCount=1)
    instance = answer["Instances"][0]["InstanceId"]
    calls.wait_state(instance, "running")
    assert plane.plans[instance].instance_type == "c7g.large"
    assert plane.plans[instance].user_data == b"#!/bin/sh\n"


def test_bare_metal_type_missing_in_motos_catalogue(calls: Calls, plane: RecordingPlane) -> None:
    [entry] = calls.ec2.describe_instance_types(InstanceTypes=["i3.metal"])["InstanceTypes"]
    assert entry["BareMetal"] is True
    assert entry["EbsInfo"]["EbsOptimizedInfo"]["MaximumIops"] == 80_000
    instance = calls.launch("i3.metal")
    assert plane.plans[instance].ebs_limit.iops.per_second == 80_000


def test_xen_type_shows_its_volumes_the_xen_way(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch("m2.4xlarge")
    assert plane.plans[instance].nitro is False
    assert plane.plans[instance].ebs_limit.throughput.bytes_per_second == 125_000_000


def test_volume_marked_to_be_deleted_with_its_instance(calls: Calls, plane: RecordingPlane) -> None:
    instance, volume = calls.launch(), calls.volume()
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    calls.ec2.modify_instance_attribute(
        InstanceId=instance,
        BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": True}}],
    )
    assert calls.described_volume(volume)["Attachments"][0]["DeleteOnTermination"] is True
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    assert calls.ec2.describe_volumes()["Volumes"] == []
    assert plane.disks == {}


@pytest.mark.parametrize(("behaviour", "state"), [("terminate", "terminated"), ("stop", "stopped")])
def test_instance_that_shuts_itself_down_ends_as_it_was_launched(
    calls: Calls, plane: RecordingPlane, behaviour: str, state: str
) -> None:
    instance, volume = calls.launch(InstanceInitiatedShutdownBehavior=behaviour), calls.volume()
    calls.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
    calls.ec2.modify_instance_attribute(
        InstanceId=instance,
        BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": True}}],
    )
    plane.on_shutdown[instance](False)
    calls.wait_state(instance, state)
    assert calls.instance(instance)["StateReason"] == {
        "Code": "Client.InstanceInitiatedShutdown",
        "Message": "Client.InstanceInitiatedShutdown: Instance initiated shutdown",
    }
    if state == "terminated":
        assert calls.ec2.describe_volumes()["Volumes"] == []
        assert plane.disks == {}
        return
    assert calls.described_volume(volume)["State"] == "in-use"
    calls.ec2.start_instances(InstanceIds=[instance])
    calls.wait_state(instance, "running")


def test_shutdown_behaviour_can_be_changed_later(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    calls.ec2.modify_instance_attribute(
        InstanceId=instance, InstanceInitiatedShutdownBehavior={"Value": "terminate"}
    )
    plane.on_shutdown[instance](False)
    calls.wait_state(instance, "terminated")


def test_instance_that_reboots_itself_boots_again(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch()
    plane.on_shutdown[instance](True)
    until(lambda: plane.named("reboot"), "it boots again")
    assert calls.instance(instance)["State"]["Name"] == "running"


def test_shutdown_before_the_boot_is_recorded_still_ends_the_instance(
    calls: Calls, plane: RecordingPlane
) -> None:
    plane.gates["boot"] = threading.Event()
    instance = calls.launch(wait=False, InstanceInitiatedShutdownBehavior="terminate")
    until(lambda: plane.booting == 1, "it boots")
    plane.on_shutdown[instance](False)
    plane.gates["boot"].set()
    calls.wait_state(instance, "terminated")


def test_unknown_device_cannot_be_marked(calls: Calls) -> None:
    instance = calls.launch()
    with pytest.raises(ClientError, match="No device is currently mapped at /dev/sdz") as refused:
        calls.ec2.modify_instance_attribute(
            InstanceId=instance,
            BlockDeviceMappings=[{"DeviceName": "/dev/sdz", "Ebs": {"DeleteOnTermination": True}}],
        )
    assert refused.value.response["Error"]["Code"] == "InvalidInstanceAttributeValue"
