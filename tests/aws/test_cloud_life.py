"""The full life of a run on a real EC2 endpoint: launch, volumes, states, release, close."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.clients import Secret
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.limits.bandwidth_weighting import UnsupportedOption
from pytest_cloudbench.limits.recorded_limits import recorded_limits
from pytest_cloudbench.limits.volumes import gp3, io1, io2, st1
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch


def tags(specifications):
    return {
        spec["ResourceType"]: {tag["Key"]: tag["Value"] for tag in spec["Tags"]} for spec in specifications
    }


def test_the_life_of_an_instance_leaves_nothing(cloud, ec2, journals):
    instance = cloud.launch("c5.18xlarge", name="test_io2")
    assert instance.state == "running"
    assert instance.address == instance.public_ip
    assert instance.login_user == "ec2-user"
    assert instance.limits.ebs_maximum.iops.per_second == 80_000
    assert "OPENSSH PRIVATE KEY" in instance.private_key
    assert instance.tags["Name"] == "cloudbench test_io2"

    volume = cloud.create_volumes([io2(size_gib=80, iops=80_000)], instance=instance, name="test_io2")[0]
    assert (volume.state, volume.zone) == ("available", instance.zone)
    assert volume.serial == volume.id.replace("-", "")
    volume = cloud.attach(volume, instance)
    assert volume.device == "/dev/sdf"
    assert volume.attachment.instance_id == instance.id
    assert {a.volume_id for a in cloud.refresh(instance).attachments} >= {volume.id}

    stopped = cloud.stop(instance)
    assert stopped.state == "stopped"
    assert cloud.start(stopped).state == "running"
    assert cloud.reboot(instance).id == instance.id

    free = cloud.detach(volume)
    assert (free.state, free.attachment) == ("available", None)
    cloud.release([free, instance])
    cloud.removal.wait_for_released(10)
    assert cloud.instances.wait_until_ended(instance).state == "terminated"

    assert {left.kind for left in cloud.ledger.remaining()} == {"security group", "key pair"}
    report = cloud.close()
    assert report.clean, report.sentences()
    assert cloud.ledger.remaining() == ()
    assert list(journals.iterdir()) == []
    run_filter = [{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}]
    assert ec2.describe_key_pairs(Filters=run_filter)["KeyPairs"] == []
    assert ec2.describe_security_groups(Filters=run_filter)["SecurityGroups"] == []


def test_the_creating_calls_carry_tags_tokens_and_safety(cloud, asked_of):
    instance = cloud.launch("c5.18xlarge", name="test_tags")
    cloud.create_volumes(
        [gp3(size_gib=10, iops=4_000, throughput_mib=200)], instance=instance, name="test_tags"
    )

    (run,) = asked_of(cloud, "run_instances")
    for kind in ("instance", "volume"):
        written = tags(run["TagSpecifications"])[kind]
        assert written["cloudbench:run"] == cloud.run_id
        assert written["Name"] == "cloudbench test_tags"
        assert written["cloudbench:created"].startswith("20")
    assert run["MetadataOptions"]["HttpTokens"] == "required"
    assert run["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert run["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert len(run["ClientToken"]) == 36
    (root,) = run["BlockDeviceMappings"]
    assert (root["Ebs"]["Encrypted"], root["Ebs"]["DeleteOnTermination"]) == (True, True)
    assert "EbsOptimized" not in run

    (volume,) = asked_of(cloud, "create_volume")
    assert tags(volume["TagSpecifications"])["volume"]["cloudbench:run"] == cloud.run_id
    assert volume["Encrypted"] is True
    assert (volume["Iops"], volume["Throughput"], volume["Size"]) == (4_000, 200, 10)
    assert volume["ClientToken"] != run["ClientToken"]

    (key,) = asked_of(cloud, "import_key_pair")
    assert key["PublicKeyMaterial"].startswith(b"ssh-ed25519 ")
    assert tags(key["TagSpecifications"])["key-pair"]["cloudbench:run"] == cloud.run_id
    (group,) = asked_of(cloud, "create_security_group")
    assert tags(group["TagSpecifications"])["security-group"]["cloudbench:run"] == cloud.run_id


def test_figures_that_the_type_does_not_take_are_left_out(cloud, asked_of):
    cloud.create_volumes([st1(size_gib=500)], "us-east-1a")
    (volume,) = asked_of(cloud, "create_volume")
    assert "Iops" not in volume
    assert "Throughput" not in volume


def test_io_unit_and_first_touch_of_a_spec_are_tags_of_the_volume(cloud, asked_of):
    cloud.create_volumes([io1(size_gib=100, iops=1_000, io_unit="16k", first_touch=0.5)], "us-east-1a")
    (volume,) = asked_of(cloud, "create_volume")
    written = tags(volume["TagSpecifications"])["volume"]
    assert (written["cloudbench:io-unit"], written["cloudbench:first-touch"]) == ("16k", "0.5")
    assert written["cloudbench:run"] == cloud.run_id


def test_ebs_optimisation_is_switched_on_if_the_figures_need_it(cloud, asked_of):
    cloud.launch("m2.4xlarge")
    (run,) = asked_of(cloud, "run_instances")
    assert run["EbsOptimized"] is True


def test_the_root_volume_is_encrypted_too(cloud, ec2):
    instance = cloud.launch("t3.micro")
    (root,) = cloud.refresh(instance).attachments
    (volume,) = ec2.describe_volumes(VolumeIds=[root.volume_id])["Volumes"]
    assert volume["Encrypted"] is True
    assert root.device == instance.image.root_device


def test_given_keys_need_no_profile(cloud, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    assert cloud.identity().account


def test_the_security_group_allows_ssh_from_one_network_and_all_traffic_between_members(cloud, ec2):
    instance = cloud.launch("t3.micro")
    described = ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    (group,) = described["SecurityGroups"]
    rules = ec2.describe_security_groups(GroupIds=[group["GroupId"]])["SecurityGroups"][0]["IpPermissions"]
    ssh, among_members = sorted(rules, key=lambda rule: rule["IpProtocol"], reverse=True)
    assert (ssh["IpProtocol"], ssh["FromPort"], ssh["ToPort"]) == ("tcp", 22, 22)
    assert [source["CidrIp"] for source in ssh["IpRanges"]] == ["203.0.113.7/32"]
    assert ssh["UserIdGroupPairs"] == []
    assert among_members["IpProtocol"] == "-1"
    assert [pair["GroupId"] for pair in among_members["UserIdGroupPairs"]] == [group["GroupId"]]
    assert among_members["IpRanges"] == []


def test_the_user_data_pins_the_host_key_and_runs_the_commands(cloud, ec2):
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_ssh_private_key,
    )

    commands = ["echo 'a: b' > /tmp/x", ["touch", "/tmp/two words"]]
    instance = cloud.launch("t3.micro", commands=commands)
    attribute = ec2.describe_instance_attribute(InstanceId=instance.id, Attribute="userData")
    text = base64.b64decode(attribute["UserData"]["Value"]).decode()
    assert text.startswith("#cloud-config\n")
    config = yaml.safe_load(text)
    assert config["ssh_deletekeys"] is True
    assert config["runcmd"] == commands
    public = load_ssh_private_key(config["ssh_keys"]["ed25519_private"].encode(), None).public_key()
    line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert line == config["ssh_keys"]["ed25519_public"] == instance.host_public_key


def test_the_run_has_one_key_pair_and_each_instance_its_own_host_key(cloud, asked_of):
    first, second = cloud.launch_many([Launch("t3.micro")] * 2)
    assert first.zone == second.zone
    assert first.private_key == second.private_key
    assert first.host_public_key != second.host_public_key
    assert len(asked_of(cloud, "import_key_pair")) == len(asked_of(cloud, "create_security_group")) == 1


def test_thirty_volumes_side_by_side(cloud):
    instance = cloud.launch("m5d.metal")
    room = instance.limits.max_ebs_attachments - 1
    assert room >= 30
    volumes = cloud.attach_all(cloud.create_volumes([gp3(size_gib=100)] * 30, instance=instance), instance)
    devices = [volume.device for volume in volumes]
    assert len(set(devices)) == 30
    assert len({volume.id for volume in volumes}) == 30
    assert all(volume.state == "in-use" for volume in volumes)
    report = cloud.close()
    assert report.clean, report.sentences()


def test_volumes_are_spread_over_the_ebs_cards(cloud, asked_of):
    instance = cloud.launch("m8in.96xlarge")
    volumes = cloud.create_volumes([gp3(size_gib=1)] * 4, instance=instance)
    cloud.attach_all(volumes[:3], instance)
    cloud.attach_all(volumes[3:], instance, card=1)
    cards = {each["VolumeId"]: each.get("EbsCardIndex") for each in asked_of(cloud, "attach_volume")}
    assert [cards[volume.id] for volume in volumes] == [None, 1, None, 1]
    with pytest.raises(UnsupportedOption, match="EBS card 2"):
        cloud.attach_all(volumes[:1], instance, card=2)


def test_a_type_with_one_ebs_card_is_asked_for_none(cloud, asked_of):
    instance = cloud.launch("t3.micro")
    cloud.attach_all(cloud.create_volumes([gp3(size_gib=1)], instance=instance), instance)
    assert "EbsCardIndex" not in asked_of(cloud, "attach_volume")[0]


def test_a_free_device_name_is_used_again(cloud):
    instance = cloud.launch("t3.micro")
    first = cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0], instance)
    cloud.detach(first)
    second = cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0], instance)
    assert first.device == second.device == "/dev/sdf"


@pytest.mark.parametrize(("rule", "field"), [("private", "private_ip"), ("public", "public_ip")])
def test_the_address_follows_the_rule(make_cloud, access, rule, field):
    from dataclasses import replace

    instance = make_cloud(replace(access, address=rule)).launch("t3.micro")
    assert instance.address == getattr(instance, field)


def test_machine_limits_are_read_from_tags_that_only_the_service_sets(cloud, faults):
    instance = cloud.launch("t3.micro")
    assert instance.machine_limits is None
    tags = {"aws:cloudbench:machine-iops": "52000", "aws:cloudbench:machine-bytes-per-second": "1500000000"}

    def add_tags(parsed, **_):
        for reservation in parsed["Reservations"]:
            for each in reservation["Instances"]:
                each["Tags"] += [{"Key": key, "Value": value} for key, value in tags.items()]

    faults.on("after-call", "DescribeInstances", add_tags)
    limits = cloud.refresh(instance).machine_limits
    assert (limits.iops.per_second, limits.throughput.bytes_per_second) == (52_000, 1_500_000_000)
    tags["aws:cloudbench:machine-iops"] = "fast"
    assert cloud.refresh(instance).machine_limits is None


def test_release_removes_some_and_close_the_rest(cloud):
    first, second = cloud.launch_many([Launch("t3.micro")] * 2)
    of_first = cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=first)[0], first)
    of_second = cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=second)[0], second)
    cloud.release([first, of_first, of_second])
    cloud.removal.wait_for_released(10)
    left = {one.id for one in cloud.ledger.remaining()}
    assert second.id in left
    assert not left & {first.id, of_first.id, of_second.id}
    assert cloud.refresh(second).state == "running"
    assert (
        cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=second)[0], second).device == "/dev/sdf"
    )
    assert cloud.close().clean


def test_no_secret_reaches_logs_journal_repr_or_evidence(access, make_cloud, caplog, heard):
    import logging

    caplog.set_level(logging.DEBUG)
    cloud = make_cloud()
    instance = cloud.launch("t3.micro", commands=["echo hush"])
    cloud.launch("t3.micro")
    journal = cloud.journal.path.read_text()
    everything = "\n".join(
        [
            caplog.text,
            journal,
            repr(access),
            repr(instance),
            repr(heard),
            repr(cloud.journal.intentions),
        ]
    )
    secret_lines = [line for line in instance.private_key.splitlines() if "KEY" not in line]
    assert secret_lines
    for secret in ("PRIVATE KEY", "the-secret-access-key", *secret_lines):
        assert secret not in everything
    assert base64.b64encode(b"#cloud-config").decode()[:12] not in everything
    assert "DescribeInstances" in caplog.text


def test_no_secret_reaches_the_traceback_of_a_refused_launch(cloud, faults):
    faults.answer("RunInstances", "UnauthorizedOperation")
    with pytest.raises(CloudError) as caught:
        cloud.launch("t3.micro")
    shown = str(caught.getrepr(style="long", chain=True, funcargs=True, showlocals=True))
    assert "UnauthorizedOperation" in shown
    assert "PRIVATE KEY" not in shown
    assert "cloud-config" not in shown
    assert "PRIVATE" not in repr({"UserData": Secret("PRIVATE KEY")})


def test_resources_of_others_are_not_touched(cloud, make_cloud, ec2, access, journals):
    other = make_cloud()
    theirs = other.launch("t3.micro")
    untagged = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    cloud.launch("t3.micro")
    assert cloud.close().clean
    assert reap(access, directory=journals) == ()
    assert other.refresh(theirs).state == "running"
    assert ec2.describe_volumes(VolumeIds=[untagged])["Volumes"][0]["State"] == "available"
    ec2.delete_volume(VolumeId=untagged)


def test_region_comes_from_the_configuration_when_not_given(monkeypatch):
    from pytest_cloudbench.aws.clients import Clients
    from pytest_cloudbench.aws.errors import NoRegion

    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(Path("/nonexistent")))
    with pytest.raises(NoRegion, match="--cloudbench-region"):
        _ = Clients(CloudAccess()).region
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert Clients(CloudAccess()).region == "eu-west-3"


def test_recorded_limits_are_tags_of_the_launch_and_replace_those_of_the_type(cloud, asked_of):
    recorded = recorded_limits(ebs_iops=64_000, source="a review", date="2018")
    instance = cloud.launch("c5.18xlarge", recorded=recorded)
    (run,) = asked_of(cloud, "run_instances")
    assert tags(run["TagSpecifications"])["instance"]["cloudbench:ebs-iops"] == "64000"
    assert instance.limits.ebs_iops.limit.per_second == 64_000
    assert instance.limits.ebs_iops.source == "a review"
    assert cloud.refresh(instance).limits == instance.limits
    assert cloud.limits("c5.18xlarge").ebs_iops.limit.per_second == 80_000, "of this instance alone"


class Ended(Exception):
    """The error of a region that has ended."""


def test_a_region_that_has_ended_gets_no_more_requests(access, make_cloud, journals, heard):
    """Calls report its end; its resources ended with it, so that closing has nothing to report."""
    gone = []

    def check():
        if gone:
            raise Ended("the region ended")

    cloud = make_cloud(replace(access, check_region=check))
    instance = cloud.launch("m5.large")
    asked = len(heard)
    gone.append(True)
    with pytest.raises(Ended):
        cloud.refresh(instance)
    with pytest.raises(Ended):
        cloud.launch("m5.large")
    cloud.release([instance])
    assert cloud.close().clean
    assert list(journals.iterdir()) == []
    assert len(heard) == asked


def test_a_call_to_a_region_that_has_ended_says_so(access, make_cloud):
    asked = []

    def check():
        asked.append(True)
        if len(asked) == 2:  # before the call it still stood
            raise Ended("the region ended")

    nobody = replace(access, endpoint_url="http://127.0.0.1:9", check_region=check)
    with pytest.raises(Ended):
        make_cloud(nobody).identity()
