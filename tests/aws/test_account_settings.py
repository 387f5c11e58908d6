"""What an account requires or offers: an own security group, an instance profile, a KMS key, dedicated hardware."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import gp3
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.doorway import lets_in
from pytest_cloudbench.limits.account_values import (
    parse_instance_profile,
    parse_kms_key,
    parse_security_group,
)
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch
from pytest_cloudbench.resources.markers import BadMarker, RequestedInstance, read_markers

KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.fixture
def own_group(ec2):
    """Make a security group in the default VPC that lets SSH in from a network, or in a VPC of its own."""
    made = []

    def make(cidr="203.0.113.0/24", *, port=22, vpc=None):
        default = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
        group = ec2.create_security_group(
            GroupName=f"own-{len(made)}", Description="own", VpcId=vpc or default
        )
        made.append(group["GroupId"])
        rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": cidr}]}
        ec2.authorize_security_group_ingress(GroupId=made[-1], IpPermissions=[rule])
        return made[-1]

    yield make
    for each in made:
        ec2.delete_security_group(GroupId=each)


@pytest.mark.parametrize("by", ["option", "marker"])
def test_an_own_group_is_used_and_left_alone(make_cloud, access, own_group, asked_of, ec2, by):
    group = own_group()
    settings = AccountSettings(security_group=group if by == "option" else None)
    cloud = make_cloud(replace(access, settings=settings))
    cloud.launch("t3.micro", **({"security_group": group} if by == "marker" else {}))
    [run] = asked_of(cloud, "run_instances")
    assert run["SecurityGroupIds"] == [group]
    assert not asked_of(cloud, "create_security_group")
    assert not asked_of(cloud, "authorize_security_group_ingress")
    assert cloud.close().clean
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]


@pytest.mark.parametrize(
    ("cidr", "port", "elsewhere", "said"),
    [
        ("198.51.100.0/24", 22, False, "no rule that lets SSH in from 203.0.113.7/32"),
        ("203.0.113.7/32", 2222, False, "no rule that lets SSH in from 203.0.113.7/32"),
        ("203.0.113.7/32", 22, True, "of that VPC"),
    ],
)
def test_a_group_that_lets_nobody_in_is_refused_before_anything_is_created(
    make_cloud, access, own_group, ec2, cidr, port, elsewhere, said
):
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"] if elsewhere else None
    cloud = make_cloud(
        replace(access, settings=AccountSettings(security_group=own_group(cidr, port=port, vpc=vpc)))
    )
    with pytest.raises(CloudError, match=said):
        cloud.launch("t3.micro")
    assert cloud.journal.intentions == ()


def test_an_unknown_group_is_refused_before_anything_is_created(make_cloud, access):
    cloud = make_cloud(replace(access, settings=AccountSettings(security_group="sg-0123456789abcdef0")))
    with pytest.raises(CloudError, match="sg-0123456789abcdef0"):
        cloud.launch("t3.micro")
    assert cloud.journal.intentions == ()


@given(
    st.ip_addresses(v=4),
    st.integers(0, 32),
    st.ip_addresses(v=4),
    st.integers(0, 32),
    st.sampled_from([22, 80]),
)
def test_a_rule_lets_in_the_networks_within_its_own(here, length, there, other, port):
    cidr = str(ip_network((here, length), strict=False))
    source = ip_network((there, other), strict=False)
    rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": str(source)}]}
    assert lets_in(rule, cidr) == (port == 22 and ip_network(cidr).subnet_of(source))
    assert lets_in({"IpProtocol": "-1", "IpRanges": [{"CidrIp": cidr}]}, cidr)
    assert not lets_in({**rule, "IpProtocol": "udp"}, cidr)
    assert not lets_in({"IpProtocol": "-1", "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}, cidr)


def test_the_key_encrypts_every_volume(make_cloud, access, asked_of):
    cloud = make_cloud(replace(access, settings=AccountSettings(kms_key=KEY)))
    instance = cloud.launch("t3.micro")
    cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    [run], [volume] = asked_of(cloud, "run_instances"), asked_of(cloud, "create_volume")
    for each in (run["BlockDeviceMappings"][0]["Ebs"], volume):
        assert (each["Encrypted"], each["KmsKeyId"]) == (True, KEY)


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        ("benchmarks", {"Name": "benchmarks"}),
        (
            "arn:aws:iam::123456789012:instance-profile/benchmarks",
            {"Arn": "arn:aws:iam::123456789012:instance-profile/benchmarks"},
        ),
    ],
)
def test_the_instances_get_the_profile(profile, asked):
    assert AccountSettings(instance_profile=profile).profile == {"IamInstanceProfile": asked}
    assert AccountSettings().profile == {}


@pytest.mark.parametrize("tenancy", ["dedicated", "host", None])
def test_the_tenancy_is_that_of_the_marker(cloud, asked_of, tenancy):
    cloud.launch_many([Launch("c5.large", tenancy=tenancy)])
    [run] = asked_of(cloud, "run_instances")
    assert run.get("Placement") == (tenancy and {"Tenancy": tenancy})


def instance_marker(**arguments) -> RequestedInstance | None:
    return read_markers({"ec2_instance": pytest.mark.ec2_instance("c5.large", **arguments).mark}).instance


def test_the_marker_names_tenancy_and_group():
    asked = instance_marker(tenancy="host", security_group="sg-0123456789abcdef0")
    assert (asked.tenancy, asked.security_group) == ("host", "sg-0123456789abcdef0")


@pytest.mark.parametrize(
    "arguments",
    [
        {"tenancy": "own"},
        {"tenancy": "host", "spot": True},
        {"security_group": "default"},
        {"security_group": ""},
        {"security_group": 7},
    ],
)
def test_a_marker_that_cannot_be_is_refused(arguments):
    with pytest.raises(BadMarker, match=next(iter(arguments))):
        instance_marker(**arguments)


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (
            parse_security_group,
            ["sg-01234567", "sg-0123456789abcdef0"],
            ["sg-1", "default", "sg-0123456789ABCDEF0"],
        ),
        (
            parse_kms_key,
            [KEY, "alias/cloudbench", f"arn:aws:kms:eu-west-1:123456789012:key/{KEY}"],
            ["cloudbench", "alias/", "arn:aws:iam::123456789012:role/x"],
        ),
        (
            parse_instance_profile,
            ["benchmarks", "arn:aws-cn:iam::123456789012:instance-profile/a/b"],
            ["two words", "arn:aws:kms:eu-west-1:123456789012:key/x"],
        ),
    ],
)
def test_values_are_checked_before_anything_runs(parse, good, bad):
    assert parse("") is None
    for each in good:
        assert parse(each) == each
    for each in bad:
        with pytest.raises(ValueError, match="use one such as"):
            parse(each)
