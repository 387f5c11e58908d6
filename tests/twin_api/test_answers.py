"""What single EC2 actions answer and refuse where moto's answer differs from the service's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import serialization
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.twin.api import region as region_module

AL2023 = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


# --- volumes and snapshots -------------------------------------------------------------------------------------


def test_the_latest_modification_of_each_volume_is_described(
    module_calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_cloudbench.twin.api import volume_modification

    monkeypatch.setattr(volume_modification, "OPTIMIZING_S", 1e-6)
    first, second = module_calls.volume(), module_calls.volume()
    for volume, size in ((first, 11), (second, 12), (first, 13)):
        module_calls.ec2.modify_volume(VolumeId=volume, Size=size)
    found = module_calls.ec2.describe_volumes_modifications(VolumeIds=[first, second])["VolumesModifications"]
    assert [(one["VolumeId"], one["TargetSize"]) for one in found] == [(first, 13), (second, 12)]
    every = module_calls.ec2.describe_volumes_modifications()["VolumesModifications"]
    assert [one["VolumeId"] for one in every][:2] == [first, second]
    code, _ = refused(
        lambda: module_calls.ec2.describe_volumes_modifications(VolumeIds=[module_calls.volume()])
    )
    assert code == "InvalidVolumeModification.NotFound"


def test_snapshots_by_their_owners(module_calls: Calls) -> None:
    def found(*owners: str) -> list[str]:
        return [
            one["SnapshotId"]
            for one in module_calls.ec2.describe_snapshots(OwnerIds=list(owners))["Snapshots"]
        ]

    own = module_calls.ec2.create_snapshot(VolumeId=module_calls.volume())["SnapshotId"]
    assert found("self") == found("123456789012") == [own]
    assert own not in found("amazon")
    assert len(found("amazon")) == 4
    assert set(found("self", "amazon")) == {own, *found("amazon")}
    assert len(module_calls.ec2.describe_snapshots()["Snapshots"]) == 9


def test_volumes_say_that_they_attach_once(module_calls: Calls) -> None:
    assert module_calls.described_volume(module_calls.volume())["MultiAttachEnabled"] is False


def test_a_key_requires_encryption(module_calls: Calls) -> None:
    for more in ({}, {"Encrypted": False}):
        code, message = refused(lambda more=more: module_calls.volume(KmsKeyId="alias/mine", **more))
        assert code == "InvalidParameterDependency"
        assert "Encrypted" in message
    assert module_calls.described_volume(module_calls.volume(KmsKeyId="alias/mine", Encrypted=True))[
        "Encrypted"
    ]


def test_encryption_by_default(module_calls: Calls) -> None:
    assert module_calls.ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"] is False
    module_calls.ec2.enable_ebs_encryption_by_default()
    try:
        assert module_calls.described_volume(module_calls.volume())["Encrypted"] is True
    finally:
        module_calls.ec2.disable_ebs_encryption_by_default()
    assert module_calls.described_volume(module_calls.volume())["Encrypted"] is False


def test_two_broken_rules_are_told_apart(module_calls: Calls) -> None:
    _, message = refused(lambda: module_calls.volume(Size=70_000, Iops=90_000))
    assert message.count("; ") == 1
    assert "70,000" in message.split("; ")[0]
    assert "90,000" in message.split("; ")[1]


# --- instances ---------------------------------------------------------------------------------------------------


def test_an_instance_shows_its_options(module_calls: Calls) -> None:
    described = module_calls.instance(module_calls.launch("m5.xlarge"))
    assert described["EnaSupport"] is True
    assert described["CpuOptions"] == {"CoreCount": 2, "ThreadsPerCore": 2}
    assert described["HibernationOptions"] == {"Configured": False}
    assert all("Association" not in one for one in described["NetworkInterfaces"])
    same = module_calls.launch("m5.xlarge", CpuOptions={"CoreCount": 2, "ThreadsPerCore": 2})
    assert module_calls.instance(same)["CpuOptions"] == described["CpuOptions"]


@pytest.mark.parametrize(
    "more",
    [
        {"CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 1}},
        {"HibernationOptions": {"Configured": True}},
        {"EnclaveOptions": {"Enabled": True}},
        {"KernelId": "aki-00000000"},
        {"Ipv6AddressCount": 1},
    ],
)
def test_what_a_launch_would_ignore_is_refused(module_calls: Calls, more: dict[str, Any]) -> None:
    code, message = refused(lambda: module_calls.launch("m5.xlarge", wait=False, **more))
    assert code == "UnsupportedOperation"
    assert next(iter(more))[:3] in message or "CPU" in message


def test_images_by_their_parameter(module_calls: Calls) -> None:
    instance = module_calls.launch(ImageId=f"resolve:ssm:{AL2023}")
    assert module_calls.instance(instance)["ImageId"] == module_calls.image()
    for unknown in ("/none", f"{AL2023}:99"):
        code, message = refused(lambda name=unknown: module_calls.launch(ImageId=f"resolve:ssm:{name}"))
        assert code == "InvalidParameterValue"
        assert unknown in message


def test_another_name_for_the_root_device_is_refused(module_calls: Calls) -> None:
    [image] = module_calls.ec2.describe_images(ImageIds=[module_calls.image()])["Images"]
    assert image["RootDeviceName"] == "/dev/xvda"
    mapping = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 20}}]
    code, message = refused(lambda: module_calls.launch(wait=False, BlockDeviceMappings=mapping))
    assert code == "InvalidBlockDeviceMapping"
    assert "/dev/xvda" in message


def test_an_attribute_of_a_device_that_is_not_there(module_calls: Calls) -> None:
    instance = module_calls.launch()
    for mapping in (
        {"DeviceName": "/dev/sdz"},
        {"DeviceName": "/dev/sdz", "Ebs": {"DeleteOnTermination": True}},
        {},
    ):
        code, _ = refused(
            lambda mapping=mapping: module_calls.ec2.modify_instance_attribute(
                InstanceId=instance, BlockDeviceMappings=[mapping]
            )
        )
        assert code in ("InvalidInstanceAttributeValue", "InvalidParameterCombination")


def test_a_launch_without_default_subnets(calls: Calls) -> None:
    for one in calls.ec2.describe_subnets()["Subnets"]:
        calls.ec2.delete_subnet(SubnetId=one["SubnetId"])
    code, message = refused(lambda: calls.launch(wait=False))
    assert code == "MissingInput"
    assert "ubnet" in message


def test_ended_instances_are_forgotten_after_an_hour(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, other = calls.launch(), calls.launch()
    calls.ec2.terminate_instances(InstanceIds=[instance])
    calls.wait_state(instance, "terminated")
    monkeypatch.setattr(region_module, "TERMINATED_SHOWN_S", 0.0)
    found = [
        one["InstanceId"]
        for each in calls.ec2.describe_instances()["Reservations"]
        for one in each["Instances"]
    ]
    assert found == [other]
    assert {one["ResourceId"] for one in calls.ec2.describe_tags()["Tags"]} == {other}


# --- types and key pairs -----------------------------------------------------------------------------------------


def test_generations_of_types(module_calls: Calls) -> None:
    def current(*names: str) -> list[bool]:
        found = module_calls.ec2.describe_instance_types(InstanceTypes=list(names))["InstanceTypes"]
        by_name = {one["InstanceType"]: one["CurrentGeneration"] for one in found}
        return [by_name[name] for name in names]

    assert current("m5.large", "c5.18xlarge", "r5.large", "i3.metal", "g5.xlarge") == [True] * 5
    assert current("m2.4xlarge", "c4.large", "m4.large", "t1.micro") == [False] * 4


@pytest.mark.parametrize("kind", ["availability-zone", "availability-zone-id"])
def test_types_are_offered_in_zones_of_the_region_only(module_calls: Calls, kind: str) -> None:
    key = "ZoneName" if kind == "availability-zone" else "ZoneId"
    here = {zone[key] for zone in module_calls.ec2.describe_availability_zones()["AvailabilityZones"]}
    pages = module_calls.ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType=kind)
    offered = [one for page in pages for one in page["InstanceTypeOfferings"]]
    assert {one["Location"] for one in offered} == here
    elsewhere = module_calls.ec2.describe_instance_type_offerings(
        LocationType=kind, Filters=[{"Name": "location", "Values": ["us-east-1e", "use1-az3"]}]
    )
    assert {one["Location"] for one in elsewhere["InstanceTypeOfferings"]} <= here


def test_key_pairs_show_type_and_fingerprint(calls: Calls, tmp_path: Path) -> None:
    rsa = calls.ec2.create_key_pair(KeyName="rsa")
    elliptic = calls.ec2.create_key_pair(KeyName="elliptic", KeyType="ed25519")
    keys = {one["KeyName"]: one for one in calls.ec2.describe_key_pairs(IncludePublicKey=True)["KeyPairs"]}
    assert {name: one["KeyType"] for name, one in keys.items()} == {"rsa": "rsa", "elliptic": "ed25519"}
    assert "PublicKey" not in calls.ec2.describe_key_pairs()["KeyPairs"][0]

    public = tmp_path / "key.pub"
    public.write_text(keys["elliptic"]["PublicKey"])
    listed = subprocess.run(["ssh-keygen", "-l", "-f", public], capture_output=True, text=True, check=True)
    assert f"SHA256:{elliptic['KeyFingerprint']}".rstrip("=") == listed.stdout.split()[1]
    assert keys["elliptic"]["KeyFingerprint"] == elliptic["KeyFingerprint"]
    assert len(rsa["KeyFingerprint"]) == 59  # SHA-1
    private = serialization.load_pem_private_key(rsa["KeyMaterial"].encode(), None)
    line = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    imported = calls.ec2.import_key_pair(KeyName="imported", PublicKeyMaterial=line)
    assert len(imported["KeyFingerprint"]) == 47  # MD5
    assert calls.ec2.describe_key_pairs(KeyNames=["imported"])["KeyPairs"][0]["KeyType"] == "rsa"
    by_print = [{"Name": "fingerprint", "Values": [rsa["KeyFingerprint"]]}]
    assert [one["KeyName"] for one in calls.ec2.describe_key_pairs(Filters=by_print)["KeyPairs"]] == ["rsa"]
    calls.ec2.delete_key_pair(KeyPairId=rsa["KeyPairId"])
    assert refused(lambda: calls.ec2.describe_key_pairs(KeyNames=["rsa"]))[0] == "InvalidKeyPair.NotFound"


def test_a_key_in_another_form_is_imported(calls: Calls, plane: RecordingPlane, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", tmp_path / "key"], check=True)
    shown = subprocess.run(["ssh-keygen", "-e", "-f", tmp_path / "key"], capture_output=True, check=True)
    assert b"BEGIN SSH2 PUBLIC KEY" in shown.stdout
    calls.ec2.import_key_pair(KeyName="other", PublicKeyMaterial=shown.stdout)
    instance = calls.launch(KeyName="other")
    line = (tmp_path / "key.pub").read_text().split()[:2]
    assert plane.plans[instance].authorized_keys[0].split()[:2] == line


def test_tags_of_launch_templates_are_current(calls: Calls) -> None:
    made = calls.ec2.create_launch_template(
        LaunchTemplateName="template", LaunchTemplateData={"InstanceType": "m5.large"}
    )["LaunchTemplate"]
    tag = {"Key": "k", "Value": "v"}
    calls.ec2.create_tags(Resources=[made["LaunchTemplateId"]], Tags=[tag])
    by_tag = [{"Name": "tag:k", "Values": ["v"]}]
    [found] = calls.ec2.describe_launch_templates(Filters=by_tag)["LaunchTemplates"]
    assert found["Tags"] == [tag]


def test_more_launch_templates_than_moto_shows(calls: Calls) -> None:
    for number in range(17):
        data = {"InstanceType": "m5.large"}
        calls.ec2.create_launch_template(LaunchTemplateName=f"template{number}", LaunchTemplateData=data)
        calls.ec2.create_launch_template_version(LaunchTemplateName="template0", LaunchTemplateData=data)
    assert len(calls.ec2.describe_launch_templates()["LaunchTemplates"]) == 17
    versions = calls.ec2.describe_launch_template_versions(LaunchTemplateName="template0")
    assert len(versions["LaunchTemplateVersions"]) == 18


def test_an_attribute_without_value_is_shown_empty(module_calls: Calls) -> None:
    instance = module_calls.launch()
    described = module_calls.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")
    assert described["UserData"] == {}


def test_rules_of_a_malformed_group(module_calls: Calls) -> None:
    def rules(group: str) -> Any:
        return module_calls.ec2.describe_security_group_rules(
            Filters=[{"Name": "group-id", "Values": [group]}]
        )

    assert refused(lambda: rules("foobar"))[0] == "InvalidGroupId.Malformed"
    assert rules("sg-*")["SecurityGroupRules"]


def test_client_tokens_are_shown_and_found(calls: Calls, plane: RecordingPlane) -> None:
    instance = calls.launch(ClientToken="one of mine")
    assert calls.instance(instance)["ClientToken"] == "one of mine"
    until(lambda: len(plane.named("boot")) == 1, "booted")
