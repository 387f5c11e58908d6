"""The address that SSH uses, and the network that may reach port 22, always agree."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws import doorway
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.errors import NoNetwork
from pytest_cloudbench.aws.network_settings import described_options, network_parameters
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.resources.facts import Placement

INSIDE = ["10.0.0.0/16", "172.31.4.0/24", "192.168.1.7/32", "100.64.0.0/16", "198.18.0.1/32", "fd00::1/128"]
OUTSIDE = ["203.0.113.7/32", "8.8.0.0/16", "172.32.0.0/16", "2001:db8::7/128"]


@given(st.sampled_from(INSIDE + OUTSIDE), st.booleans())
def test_the_network_of_ssh_decides(cidr, assigns):
    expected = "private" if cidr in INSIDE else "public"
    assert CloudAccess(ssh_from_cidr=cidr).reach(assigns) == expected
    assert CloudAccess(ssh_from_cidr=cidr, address="public").reach(assigns) == "public"
    assert CloudAccess(ssh_from_cidr=cidr, address="private").reach(assigns) == "private"


@pytest.mark.parametrize("cidr", [None, "0.0.0.0/0", "0.0.0.0/1", "::/0"])
@pytest.mark.parametrize(("assigns", "expected"), [(True, "public"), (False, "private")])
def test_otherwise_the_subnet_decides(cidr, assigns, expected):
    assert CloudAccess(ssh_from_cidr=cidr).reach(assigns) == expected


@given(st.integers(0, 2**32 - 1), st.integers(8, 32), st.booleans())
def test_ssh_from_a_network_reaches_an_address_of_its_kind(number, length, assigns):
    network = ipaddress.ip_network((number, length), strict=False)
    inside = [ipaddress.ip_network(each) for each in INSIDE[:2]]
    reach = CloudAccess(ssh_from_cidr=str(network)).reach(assigns)
    if any(network.subnet_of(each) for each in inside):
        assert reach == "private"
    if network.is_global:
        assert reach == "public"


def places(ec2, assigns):
    """Make every default subnet assign public addresses, or none, and return a function that undoes it."""
    subnets = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    for subnet in subnets:
        ec2.modify_subnet_attribute(SubnetId=subnet["SubnetId"], MapPublicIpOnLaunch={"Value": assigns})
    return {subnet["SubnetId"] for subnet in subnets}


@pytest.fixture
def private_subnets(ec2):
    yield places(ec2, False)
    places(ec2, True)


def test_without_public_addresses_a_run_from_outside_is_refused_before_anything_is_created(
    make_cloud, access, private_subnets, monkeypatch, ec2
):
    monkeypatch.setattr(doorway, "own_public_cidr", lambda: "203.0.113.9/32")
    cloud = make_cloud(replace(access, ssh_from_cidr=None))
    for attempt in (lambda: cloud.launch("t3.micro"), lambda: cloud.catalog.places.find("t3.micro")):
        with pytest.raises(NoNetwork, match=r"no public addresses .*--cloudbench-ssh-from"):
            attempt()
    assert not cloud.journal.intentions


def test_a_subnet_with_public_addresses_is_preferred(make_cloud, access, private_subnets, monkeypatch, ec2):
    monkeypatch.setattr(doorway, "own_public_cidr", lambda: "203.0.113.9/32")
    offered = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1c"]}])
    (chosen,) = (one["SubnetId"] for one in offered["Subnets"] if one["SubnetId"] in private_subnets)
    ec2.modify_subnet_attribute(SubnetId=chosen, MapPublicIpOnLaunch={"Value": True})
    cloud = make_cloud(replace(access, ssh_from_cidr=None))
    instance = cloud.launch("t3.micro")
    assert instance.subnet_id == chosen
    assert instance.address == instance.public_ip


def test_from_inside_the_private_address_is_used_although_there_is_a_public_one(make_cloud, access):
    instance = make_cloud(replace(access, ssh_from_cidr="10.0.0.0/8")).launch("t3.micro")
    assert instance.public_ip
    assert instance.address == instance.private_ip


def test_a_public_address_is_requested_where_the_subnet_assigns_none(
    make_cloud, access, private_subnets, asked_of
):
    cloud = make_cloud(replace(access, address="public"))
    instance = cloud.launch("t3.micro")
    assert instance.address == instance.public_ip
    (asked,) = asked_of(cloud, "run_instances")
    assert asked["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is True
    assert "SubnetId" not in asked


PLACE = Placement("us-east-1a", "subnet-0a", "vpc-0a", assigns_public=True)


def test_network_options_are_parameters_of_the_launch_and_are_read_back():
    options = NetworkOptions("vpc-1", ena_express=True, ena_express_udp=True)
    found = network_parameters(PLACE, "sg-0a", options, public=True)
    assert found["NetworkPerformanceOptions"] == {"BandwidthWeighting": "vpc-1"}
    (interface,) = found["NetworkInterfaces"]
    assert (interface["SubnetId"], interface["Groups"]) == ("subnet-0a", ["sg-0a"])
    assert "AssociatePublicIpAddress" not in interface
    answer = {
        "NetworkPerformanceOptions": found["NetworkPerformanceOptions"],
        "NetworkInterfaces": [{"Attachment": {"EnaSrdSpecification": interface["EnaSrdSpecification"]}}],
    }
    assert described_options(answer) == options
    assert described_options({}) == NetworkOptions()
    plain = network_parameters(PLACE, "sg-0a", NetworkOptions(), public=True)
    assert plain == {"SubnetId": "subnet-0a", "SecurityGroupIds": ["sg-0a"]}
