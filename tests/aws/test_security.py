"""What docs/security.md states of a run, from the calls that the run makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_cloudbench import gp3
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.hosts.login import read_private_key


@pytest.fixture
def run_instances(cloud, asked_of):
    cloud.launch("t3.micro")
    [run] = asked_of(cloud, "run_instances")
    return run


def test_the_metadata_service_takes_version_2_from_the_instance_itself_only(run_instances):
    assert run_instances["MetadataOptions"] == {
        "HttpTokens": "required",
        "HttpEndpoint": "enabled",
        "HttpPutResponseHopLimit": 1,
    }


def test_the_login_key_is_made_here_and_aws_gets_its_public_half_only(cloud, asked_of, heard):
    instance = cloud.launch("t3.micro")
    [imported] = asked_of(cloud, "import_key_pair")
    kind, public, *_ = imported["PublicKeyMaterial"].decode().split()
    key = read_private_key(instance.private_key)
    assert (kind, public) == ("ssh-ed25519", key.get_base64())
    assert not asked_of(cloud, "create_key_pair")
    for answer in heard:
        assert "PRIVATE KEY" not in f"{answer.asked} {answer.answer}"


def test_port_22_is_open_to_one_network_and_nothing_else_to_the_outside(cloud, asked_of):
    cloud.launch("t3.micro")
    [group] = asked_of(cloud, "authorize_security_group_ingress")
    ssh, members = group["IpPermissions"]
    assert (ssh["FromPort"], ssh["ToPort"]) == (22, 22)
    assert [each["CidrIp"] for each in ssh["IpRanges"]] == ["203.0.113.7/32"]
    assert [each["GroupId"] for each in members["UserIdGroupPairs"]] == [group["GroupId"]]
    assert "IpRanges" not in members


def test_every_volume_is_encrypted_and_no_instance_gets_a_role(cloud, asked_of):
    instance = cloud.launch("t3.micro")
    cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    [run], [volume] = asked_of(cloud, "run_instances"), asked_of(cloud, "create_volume")
    assert run["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is volume["Encrypted"] is True
    assert "IamInstanceProfile" not in run


@pytest.fixture
def metadata(ec2):
    def state(instance):
        [found] = ec2.describe_instances(InstanceIds=[instance.id])["Reservations"]
        return found["Instances"][0]["MetadataOptions"]["HttpEndpoint"]

    return state


def test_the_metadata_service_is_off_after_each_boot_and_on_during_the_next(cloud, metadata, asked_of):
    instance = cloud.launch("t3.micro")
    cloud.instances.end_metadata(instance, "first boot")
    assert metadata(instance) == "disabled"
    cloud.reboot(instance)
    assert metadata(instance) == "enabled"
    cloud.instances.end_metadata(instance, "first boot")  # a connection to the boot that is ending
    assert metadata(instance) == "enabled"
    cloud.instances.end_metadata(instance, "second boot")
    assert metadata(instance) == "disabled"
    cloud.reboot(instance)
    assert metadata(instance) == "enabled"


def test_without_the_option_the_metadata_service_stays_on(cloud, asked_of):
    cloud.reboot(cloud.launch("t3.micro"))
    assert not asked_of(cloud, "modify_instance_metadata_options")


class Booted:
    """The end of a boot, seen by SSH: processes of this host answer."""

    def run(self, argv, **_):
        class Result:
            stdout = "boot-1\n1 (init) S " + " ".join(["0"] * 17) + " 7 0"

        return Result()


@pytest.mark.parametrize("off", [True, False])
def test_the_option_acts_at_the_end_of_the_boot(make_cloud, access, metadata, off, monkeypatch):
    cloud = make_cloud(replace(access, settings=AccountSettings(metadata_off=off)))
    instance = cloud.launch("t3.micro")
    host = cloud.host(instance, connect_timeout_s=1.0)
    monkeypatch.setattr(host, "_connection", lambda timeout_s=None: None)
    monkeypatch.setattr("pytest_cloudbench.hosts.boot.wait_for_boot", lambda host, limit_s: None)
    monkeypatch.setattr(type(host), "run", Booted.run)
    host.connect()
    host.connect()
    assert metadata(instance) == ("disabled" if off else "enabled")
