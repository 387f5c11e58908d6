"""Instances behind a bastion or a proxy command: the address, the rule for SSH, and the login."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.hosts import login
from pytest_cloudbench.resources.errors import CloudError

JUMP = "ada@bastion.example:2222"
COMMAND = "aws ec2-instance-connect open-tunnel --instance-id %i"


@pytest.mark.parametrize(
    ("way", "named"), [({"jump": JUMP}, "jump"), ({"proxy_command": COMMAND}, "proxy-command")]
)
def test_the_network_that_ssh_then_comes_from_must_be_named(make_cloud, access, way, named):
    cloud = make_cloud(replace(access, ssh_from_cidr=None, **way))
    with pytest.raises(CloudError, match=f"--cloudbench-{named} needs --cloudbench-ssh-from"):
        cloud.launch("t3.micro")
    assert not cloud.journal.intentions


def test_a_bastion_inside_reaches_private_addresses(make_cloud, access, ec2):
    cloud = make_cloud(replace(access, jump=JUMP, ssh_from_cidr="10.0.0.5/32"))
    instance = cloud.launch("t3.micro")
    assert instance.address == instance.private_ip
    described = ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    [group] = ec2.describe_security_groups(GroupIds=[described["SecurityGroups"][0]["GroupId"]])[
        "SecurityGroups"
    ]
    [rule] = [each for each in group["IpPermissions"] if each.get("FromPort") == 22]
    assert [each["CidrIp"] for each in rule["IpRanges"]] == ["10.0.0.5/32"]


def test_existing_instances_behind_a_bastion_are_reached_by_their_private_address():
    assert CloudAccess(jump=JUMP).reach(assigns_public=True) == "private"
    assert CloudAccess(jump=JUMP, address="public").reach(assigns_public=True) == "public"


def test_the_login_has_the_way_and_the_instance_s_id(make_cloud, access, monkeypatch):
    opened = []
    monkeypatch.setattr(login, "open_host", opened.append)
    instance = make_cloud(access).launch("t3.micro")
    way = replace(access, proxy_command=COMMAND, host_key="SHA256:any", ssh_from_cidr="10.0.0.5/32")
    cloud = make_cloud(way)
    cloud.host(instance, connect_timeout_s=1.0)
    cloud.host(replace(instance, existing=True, private_key="", host_public_key=""), connect_timeout_s=1.0)
    launched, existing = opened
    assert (launched.proxy_command, launched.instance_id) == (COMMAND, instance.id)
    assert (launched.private_key, launched.host_public_key) == (
        instance.private_key,
        instance.host_public_key,
    )
    assert (existing.private_key, existing.host_public_key) == ("", "SHA256:any")
