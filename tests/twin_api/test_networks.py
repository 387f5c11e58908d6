"""VPCs of clients with their subnets and gateways, and public addresses of instances."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, RecordingPlane

from pytest_cloudbench.twin.slots import Slot


@pytest.fixture
def vpc(calls: Calls) -> dict[str, str]:
    """A VPC as clients make one: a subnet, a gateway and a route to it."""
    ec2 = calls.ec2
    vpc_id = ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.7.1.0/24", AvailabilityZone="us-east-1b")["Subnet"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc_id)
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["RouteTables"]
    ec2.create_route(
        RouteTableId=tables[0]["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway
    )
    return {"vpc": vpc_id, "subnet": subnet["SubnetId"], "gateway": gateway}


def code_of(call: Any, **asked: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**asked)
    return caught.value.response["Error"]["Code"]


def test_the_default_vpc_has_a_gateway_and_a_route_to_it(calls: Calls) -> None:
    vpc = calls.ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]
    gateway = calls.ec2.describe_internet_gateways()["InternetGateways"][0]
    assert gateway["Attachments"] == [{"State": "available", "VpcId": vpc["VpcId"]}]
    routes = calls.ec2.describe_route_tables()["RouteTables"][0]["Routes"]
    assert {route["DestinationCidrBlock"]: route["GatewayId"] for route in routes} == {
        vpc["CidrBlock"]: "local",
        "0.0.0.0/0": gateway["InternetGatewayId"],
    }


def test_an_instance_lives_in_the_subnet_of_a_client(
    calls: Calls, plane: RecordingPlane, vpc: dict[str, str]
) -> None:
    instance_id = calls.launch(SubnetId=vpc["subnet"])
    described = calls.instance(instance_id)
    assert ipaddress.ip_address(described["PrivateIpAddress"]) in ipaddress.ip_network("10.7.1.0/24")
    assert (described["VpcId"], described["Placement"]["AvailabilityZone"]) == (vpc["vpc"], "us-east-1b")
    assert "PublicIpAddress" not in described
    plan = plane.plans[instance_id]
    assert (plan.netmask, plan.public_ip) == ("255.255.0.0", None)


def test_a_private_address_is_given_if_it_is_free(calls: Calls, vpc: dict[str, str]) -> None:
    instance_id = calls.launch(SubnetId=vpc["subnet"], PrivateIpAddress="10.7.1.77")
    assert calls.instance(instance_id)["PrivateIpAddress"] == "10.7.1.77"
    asked = {"ImageId": calls.image(), "MinCount": 1, "MaxCount": 1, "PrivateIpAddress": "10.7.1.77"}
    code = code_of(calls.ec2.run_instances, InstanceType="m5.large", SubnetId=vpc["subnet"], **asked)
    assert code == "InvalidIPAddress.InUse"


def test_a_public_address_changes_with_each_start(
    calls: Calls, plane: RecordingPlane, vpc: dict[str, str]
) -> None:
    card = {"DeviceIndex": 0, "SubnetId": vpc["subnet"], "AssociatePublicIpAddress": True}
    instance_id = calls.launch(NetworkInterfaces=[card])
    first = calls.instance(instance_id)["PublicIpAddress"]
    assert ipaddress.ip_address(first) in Slot(0).public_network
    assert plane.plans[instance_id].public_ip == first
    calls.ec2.stop_instances(InstanceIds=[instance_id])
    calls.wait_state(instance_id, "stopped")
    assert "PublicIpAddress" not in calls.instance(instance_id)
    assert first not in plane.taken
    calls.ec2.start_instances(InstanceIds=[instance_id])
    calls.wait_state(instance_id, "running")
    now = calls.instance(instance_id)["PublicIpAddress"]
    assert plane.named("set_public_ip") == [("set_public_ip", instance_id, now)]
    calls.ec2.terminate_instances(InstanceIds=[instance_id])
    calls.wait_state(instance_id, "terminated")
    assert "PublicIpAddress" not in calls.instance(instance_id)
    assert now not in plane.taken


def test_a_subnet_may_give_public_addresses(calls: Calls, vpc: dict[str, str]) -> None:
    calls.ec2.modify_subnet_attribute(SubnetId=vpc["subnet"], MapPublicIpOnLaunch={"Value": True})
    assert "PublicIpAddress" in calls.instance(calls.launch(SubnetId=vpc["subnet"]))
    card = {"DeviceIndex": 0, "SubnetId": vpc["subnet"], "AssociatePublicIpAddress": False}
    assert "PublicIpAddress" not in calls.instance(calls.launch(NetworkInterfaces=[card]))


def test_an_elastic_address_moves_between_instances(
    calls: Calls, plane: RecordingPlane, vpc: dict[str, str]
) -> None:
    ec2 = calls.ec2
    elastic = ec2.allocate_address(Domain="vpc")
    allocation = elastic["AllocationId"]
    card = {"DeviceIndex": 0, "SubnetId": vpc["subnet"], "AssociatePublicIpAddress": True}
    first, second = calls.launch(NetworkInterfaces=[card]), calls.launch(SubnetId=vpc["subnet"])
    own = calls.instance(first)["PublicIpAddress"]

    ec2.associate_address(InstanceId=first, AllocationId=allocation)
    assert calls.instance(first)["PublicIpAddress"] == elastic["PublicIp"]
    assert own not in plane.taken  # its own is given up
    assert plane.named("set_public_ip")[-1] == ("set_public_ip", first, elastic["PublicIp"])
    assert code_of(ec2.release_address, AllocationId=allocation) == "InvalidIPAddress.InUse"
    again = {"InstanceId": first, "AllocationId": allocation}
    assert code_of(ec2.associate_address, **again, DryRun=True) == "DryRunOperation"
    assert ec2.associate_address(**again)["AssociationId"].startswith("eipassoc-")
    moves = {"InstanceId": second, "AllocationId": allocation}
    assert code_of(ec2.associate_address, **moves) == "Resource.AlreadyAssociated"

    ec2.associate_address(**moves, AllowReassociation=True)
    assert calls.instance(second)["PublicIpAddress"] == elastic["PublicIp"]
    assert calls.instance(first)["PublicIpAddress"] not in (elastic["PublicIp"], None)  # it gets a new one
    described = ec2.describe_addresses(AllocationIds=[allocation])["Addresses"][0]
    assert (described["InstanceId"], described["PublicIp"]) == (second, elastic["PublicIp"])

    ec2.terminate_instances(InstanceIds=[second])
    calls.wait_state(second, "terminated")
    assert "AssociationId" not in ec2.describe_addresses(AllocationIds=[allocation])["Addresses"][0]
    ec2.release_address(AllocationId=allocation)
    assert elastic["PublicIp"] not in plane.taken


def test_a_network_in_use_is_not_removed(calls: Calls, vpc: dict[str, str]) -> None:
    ec2 = calls.ec2
    card = {"DeviceIndex": 0, "SubnetId": vpc["subnet"], "AssociatePublicIpAddress": True}
    instance_id = calls.launch(NetworkInterfaces=[card])
    gateway = {"InternetGatewayId": vpc["gateway"], "VpcId": vpc["vpc"]}
    assert code_of(ec2.delete_subnet, SubnetId=vpc["subnet"]) == "DependencyViolation"
    assert code_of(ec2.detach_internet_gateway, **gateway) == "DependencyViolation"
    ec2.terminate_instances(InstanceIds=[instance_id])
    calls.wait_state(instance_id, "terminated")
    ec2.delete_subnet(SubnetId=vpc["subnet"])
    assert code_of(ec2.delete_vpc, VpcId=vpc["vpc"]) == "DependencyViolation"
    ec2.detach_internet_gateway(**gateway)
    ec2.delete_internet_gateway(InternetGatewayId=vpc["gateway"])
    ec2.delete_vpc(VpcId=vpc["vpc"])
    assert code_of(ec2.describe_vpcs, VpcIds=[vpc["vpc"]]) == "InvalidVpcID.NotFound"


def test_an_elastic_address_needs_a_gateway(calls: Calls) -> None:
    vpc_id = calls.ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
    subnet = calls.ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.8.1.0/24")["Subnet"]["SubnetId"]
    instance_id = calls.launch(SubnetId=subnet)
    allocation = calls.ec2.allocate_address()["AllocationId"]
    code = code_of(calls.ec2.associate_address, InstanceId=instance_id, AllocationId=allocation)
    assert code == "Gateway.NotAttached"


def test_a_default_subnet_can_be_made_again(calls: Calls) -> None:
    zone = [{"Name": "availability-zone", "Values": ["us-east-1d"]}]
    before = calls.ec2.describe_subnets(Filters=zone)["Subnets"][0]
    calls.ec2.delete_subnet(SubnetId=before["SubnetId"])
    made = calls.ec2.create_default_subnet(AvailabilityZone="us-east-1d")["Subnet"]
    assert (made["CidrBlock"], made["DefaultForAz"]) == (before["CidrBlock"], True)
    assert code_of(calls.ec2.create_default_subnet, AvailabilityZone="us-east-1d").startswith("DefaultSubnet")


def test_tags_go_with_their_resource(calls: Calls) -> None:
    ec2 = calls.ec2

    def tagged(kind: str) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": [{"Key": "run", "Value": "1"}]}]

    vpc_id = ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.9.1.0/24", TagSpecifications=tagged("subnet"))
    table = ec2.create_route_table(VpcId=vpc_id, TagSpecifications=tagged("route-table"))["RouteTable"]
    group = ec2.create_security_group(
        GroupName="g", Description="g", VpcId=vpc_id, TagSpecifications=tagged("security-group")
    )["GroupId"]
    gateway = ec2.create_internet_gateway(TagSpecifications=tagged("internet-gateway"))["InternetGateway"]
    address = ec2.allocate_address(TagSpecifications=tagged("elastic-ip"))["AllocationId"]
    ec2.create_key_pair(KeyName="k", TagSpecifications=tagged("key-pair"))
    of_the_run = [{"Name": "tag:run", "Values": ["1"]}]
    assert len(ec2.describe_tags(Filters=of_the_run)["Tags"]) == 7
    ec2.delete_subnet(SubnetId=subnet["Subnet"]["SubnetId"])
    ec2.delete_route_table(RouteTableId=table["RouteTableId"])
    ec2.delete_security_group(GroupId=group)
    ec2.delete_internet_gateway(InternetGatewayId=gateway["InternetGatewayId"])
    ec2.release_address(AllocationId=address)
    ec2.delete_key_pair(KeyName="k")
    ec2.delete_vpc(VpcId=vpc_id)
    assert ec2.describe_tags(Filters=of_the_run)["Tags"] == []
