"""A run whose hosts are reached by SSM: what it creates and needs differs from one by SSH."""

from __future__ import annotations

from dataclasses import replace

import pytest
from service_clients import client_of

from pytest_cloudbench.aws import doorway
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.plan import Planner, RequestedSet
from pytest_cloudbench.aws.ssm import stored_key
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch

ONE = RequestedSet((Launch("t3.micro"),), (), cluster=False)


@pytest.fixture
def profile(access):
    """The name of an instance profile."""
    iam = client_of(access, "iam")
    iam.create_instance_profile(InstanceProfileName="tests")
    yield "tests"
    iam.delete_instance_profile(InstanceProfileName="tests")


@pytest.fixture
def by_ssm(access, profile, monkeypatch):
    def asked(*_):
        raise AssertionError("the address of this machine does not matter")

    monkeypatch.setattr(doorway, "own_public_cidr", asked)
    settings = AccountSettings(instance_profile=profile)
    return replace(access, way_in="ssm", ssh_from_cidr=None, settings=settings)


@pytest.fixture
def private_subnets(ec2):
    subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    for subnet in subnets:
        ec2.modify_subnet_attribute(SubnetId=subnet["SubnetId"], MapPublicIpOnLaunch={"Value": False})
    yield
    for subnet in subnets:
        ec2.modify_subnet_attribute(SubnetId=subnet["SubnetId"], MapPublicIpOnLaunch={"Value": True})


@pytest.mark.usefixtures("private_subnets")
def test_a_private_subnet_without_a_key_and_a_port_is_enough(make_cloud, by_ssm, asked_of, ec2):
    cloud = make_cloud(by_ssm)
    launched = cloud.launch("t3.micro")
    assert launched.address == launched.private_ip
    [request] = asked_of(cloud, "run_instances")
    assert "KeyName" not in request
    assert asked_of(cloud, "import_key_pair") == []
    [rules] = asked_of(cloud, "authorize_security_group_ingress")
    assert [each["IpProtocol"] for each in rules["IpPermissions"]] == ["-1"]
    assert "SSH" not in asked_of(cloud, "create_security_group")[0]["Description"]


def test_a_security_group_of_ones_own_needs_no_rule_for_ssh(make_cloud, by_ssm, ec2):
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="closed", Description="no rules", VpcId=vpc)["GroupId"]
    cloud = make_cloud(by_ssm)
    assert cloud.launch_many([Launch("t3.micro", security_group=group)])
    cloud.close()
    ec2.delete_security_group(GroupId=group)


def test_a_missing_instance_profile_is_one_sentence_before_anything_is_created(make_cloud, by_ssm):
    cloud = make_cloud(replace(by_ssm, settings=AccountSettings()))
    planner = Planner(cloud, lambda types: None)
    for refused in (
        lambda: cloud.launch("t3.micro"),
        lambda: cloud.check_launches([Launch("t3.micro")]),
        lambda: planner.plan(ONE),
    ):
        with pytest.raises(CloudError, match="--cloudbench-access=ssm needs --cloudbench-instance-profile"):
            refused()
    assert not cloud.journal.intentions


def test_a_plan_asks_for_no_key_pair(make_cloud, by_ssm):
    cloud = make_cloud(by_ssm)
    asked = []
    cloud.clients.client("ec2").meta.events.register(
        "provide-client-params.ec2.*", lambda model, **_: asked.append(model.name)
    )
    planner = Planner(cloud, lambda types: None)
    planner.refusals([planner.plan(ONE)])
    assert "RunInstances" in asked
    assert not [each for each in asked if "KeyPair" in each]


@pytest.mark.parametrize(
    "url",
    [
        "https://s3.us-east-1.amazonaws.com/outputs/cloudbench/run/a%20b/stdout",
        "https://outputs.s3.us-east-1.amazonaws.com/cloudbench/run/a%20b/stdout",
    ],
)
def test_the_place_of_an_output_is_read_from_its_url(url):
    assert stored_key(url, "outputs") == "cloudbench/run/a b/stdout"


def test_an_output_without_a_place_is_an_error():
    with pytest.raises(HostError, match="no place in bucket 'outputs'"):
        stored_key("", "outputs")
