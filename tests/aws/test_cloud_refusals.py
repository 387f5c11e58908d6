"""Bad input and refusals by the service: one clear sentence each, and nothing created."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from service_clients import client_of

from pytest_cloudbench.aws.access import CloudAccess, own_public_cidr
from pytest_cloudbench.aws.errors import NoCredentials, NoNetwork, Unreachable, UnusableImage
from pytest_cloudbench.limits.volumes import InvalidSpec, gp3, io2
from pytest_cloudbench.resources.errors import (
    AttachmentLimit,
    CloudError,
    NotOffered,
    ResourceFailed,
    UnknownInstanceType,
    WaitTimeout,
    ZoneMismatch,
)
from pytest_cloudbench.resources.facts import Launch

WINDOWS_AMI = "ami-03cf127a"
UBUNTU_AMI = "ami-1e749f67"


def nothing_was_created(cloud):
    return cloud.journal.intentions == ()


def test_unknown_type_names_the_nearest(cloud):
    with pytest.raises(
        UnknownInstanceType, match=r"no instance type 'c5\.19xlarge'.*c5\.\d+xlarge"
    ) as caught:
        cloud.launch("c5.19xlarge")
    assert "c5.18xlarge" in caught.value.nearest
    assert nothing_was_created(cloud)
    with pytest.raises(UnknownInstanceType, match="not the name"):
        cloud.limits("")


def test_a_type_that_the_service_lacks_comes_from_the_override_table(cloud):
    limits = cloud.limits("i3.metal")
    assert limits.ebs_maximum.iops.per_second == 80_000
    assert limits.max_ebs_attachments >= 31
    assert cloud.catalog.places.find("i3.metal").zone == "us-east-1a"


def test_limits_are_asked_once(cloud, asked_of):
    assert cloud.limits("t3.micro") is cloud.limits("t3.micro")
    assert len(asked_of(cloud, "describe_instance_types")) == 1


def test_a_type_not_offered_in_the_zone(cloud):
    with pytest.raises(NotOffered, match=r"c5\.18xlarge is not offered in us-east-1e; it is in us-east-1a"):
        cloud.launch("c5.18xlarge", zone="us-east-1e")
    assert nothing_was_created(cloud)


def test_a_volume_in_another_zone_is_refused_before_it_is_created(cloud, asked_of):
    instance = cloud.launch("t3.micro", zone="us-east-1a")
    with pytest.raises(ZoneMismatch, match=r"us-east-1b cannot be attached to t3\.micro .* in us-east-1a"):
        cloud.create_volumes([gp3(size_gib=1)], "us-east-1b", instance=instance)
    assert asked_of(cloud, "create_volume") == []
    volume = cloud.create_volumes([gp3(size_gib=1)], "us-east-1b")[0]
    with pytest.raises(ZoneMismatch, match=f"volume gp3 .* {volume.id} in us-east-1b"):
        cloud.attach(volume, instance)
    with pytest.raises(ZoneMismatch):
        cloud.attach_all([volume], instance)
    assert asked_of(cloud, "attach_volume") == []


def test_a_volume_in_another_zone_is_known_before_the_instance_is_launched(cloud):
    limits = cloud.limits("t3.micro")
    with pytest.raises(ZoneMismatch, match=r"a volume in us-east-1b .* the t3\.micro in us-east-1a"):
        cloud.check_zone(limits, None, "us-east-1b")
    cloud.check_zone(limits, "us-east-1b", "us-east-1b")
    assert nothing_was_created(cloud)


def test_private_addresses_need_the_network_that_ssh_comes_from(make_cloud, access):
    cloud = make_cloud(replace(access, address="private", ssh_from_cidr=None))
    with pytest.raises(CloudError, match="address=private needs --cloudbench-ssh-from"):
        cloud.launch("t3.micro")
    assert nothing_was_created(cloud)


def test_a_volume_needs_a_zone(cloud):
    with pytest.raises(CloudError, match="needs its availability zone"):
        cloud.create_volumes([gp3(size_gib=1)])


def test_a_volume_against_the_rules_never_reaches_the_service(cloud):
    with pytest.raises(InvalidSpec, match=r"1,000"):
        cloud.create_volumes([io2(size_gib=80, iops=80_001)], "us-east-1a")
    with pytest.raises(InvalidSpec):
        cloud.create_volumes([gp3(size_gib=1), gp3(size_gib=0)], "us-east-1a")
    assert nothing_was_created(cloud)


def test_more_volumes_than_the_type_takes(cloud, asked_of):
    instance = cloud.launch("c5.18xlarge")
    most = instance.limits.max_ebs_attachments
    with pytest.raises(AttachmentLimit, match=rf"c5\.18xlarge takes {most} EBS volumes.*make {most + 1}"):
        cloud.create_volumes([gp3(size_gib=1)] * most, instance=instance)
    assert asked_of(cloud, "create_volume") == []
    with pytest.raises(AttachmentLimit):
        cloud.check_attachments(instance.limits, most)
    cloud.check_attachments(instance.limits, most - 1)


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (WINDOWS_AMI, "is Windows; cloudbench runs Linux only"),
        ("ami-00000000000000000", "no image ami-00000000000000000"),
        ("/no/such/parameter", "no SSM parameter /no/such/parameter"),
        ("al2023", "neither an AMI id"),
        (
            "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64",
            "is for arm64, t3.micro needs",
        ),
    ],
)
def test_unusable_images(cloud, image, says):
    with pytest.raises(UnusableImage, match=says):
        cloud.launch("t3.micro", image=image)
    assert nothing_was_created(cloud)


def test_the_default_image_has_the_types_own_architecture(cloud):
    images = cloud.catalog.images
    assert images.find("t3.micro", ["x86_64"]).architecture == "x86_64"
    graviton = images.find("m6g.large", ["arm64"])
    assert graviton.architecture == "arm64"
    assert graviton.asked.endswith("arm64")
    assert graviton.login_user == "ec2-user"


def test_the_login_user_is_derived_or_given(cloud, ec2):
    images = cloud.catalog.images
    assert images.find("t3.micro", ["x86_64"], UBUNTU_AMI).login_user == "ubuntu"
    assert images.find("t3.micro", ["x86_64"], UBUNTU_AMI, user="me").login_user == "me"
    own = ec2.register_image(Name="our own thing", RootDeviceName="/dev/sda1", Architecture="x86_64")[
        "ImageId"
    ]
    with pytest.raises(UnusableImage, match="give user="):
        cloud.launch("t3.micro", image=own)
    assert images.find("t3.micro", ["x86_64"], own, user="me").login_user == "me"
    assert nothing_was_created(cloud)


def test_a_mac_runs_no_linux(cloud):
    from pytest_cloudbench.aws.images import architecture_for

    with pytest.raises(UnusableImage, match="Linux on x86_64 or arm64"):
        architecture_for("mac2.metal", ("arm64_mac",))


def test_too_large_user_data(cloud):
    with pytest.raises(CloudError, match="16,384"):
        cloud.launch("t3.micro", commands=["echo " + "x" * 17_000])
    with pytest.raises(CloudError, match="a list of commands"):
        cloud.launch("t3.micro", commands="echo hello")
    assert nothing_was_created(cloud)


def test_a_region_without_default_subnets(make_cloud, access, service_of_all_regions):
    elsewhere = replace(access, region="eu-north-1", endpoint_url=service_of_all_regions)
    ec2 = client_of(elsewhere)
    subnets = ec2.describe_subnets()["Subnets"]
    keep = subnets[0]
    for subnet in subnets[1:]:
        ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    others = sorted(subnet["AvailabilityZone"] for subnet in subnets[1:])
    with pytest.raises(NoNetwork, match=f"no default subnet in {others[0]}"):
        make_cloud(elsewhere).launch("t3.micro", zone=others[0])
    with pytest.raises(ZoneMismatch, match=keep["SubnetId"]):
        make_cloud(elsewhere).catalog.places.find("t3.micro", zone=others[0], subnet_id=keep["SubnetId"])
    chosen = make_cloud(elsewhere).catalog.places.find("t3.micro", subnet_id=keep["SubnetId"])
    assert (chosen.subnet_id, chosen.zone) == (keep["SubnetId"], keep["AvailabilityZone"])
    in_subnet = make_cloud(replace(elsewhere, subnet_id=keep["SubnetId"]))
    with pytest.raises(ZoneMismatch, match=keep["SubnetId"]):
        in_subnet.check_zone(in_subnet.limits("t3.micro"), others[0], others[0])
    ec2.delete_subnet(SubnetId=keep["SubnetId"])
    with pytest.raises(NoNetwork, match="create-default-vpc"):
        make_cloud(elsewhere).launch("t3.micro")
    with pytest.raises(NoNetwork, match="no subnet subnet-0"):
        make_cloud(elsewhere).launch_many([Launch("t3.micro", subnet_id="subnet-00000000000000000")])


def test_no_credentials(make_cloud, endpoint_url, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bare = CloudAccess(endpoint_url=endpoint_url, region="us-east-1", ssh_from_cidr="203.0.113.7/32")
    cloud = make_cloud(bare)
    for ask in (
        cloud.identity,
        lambda: cloud.launch("t3.micro"),
        lambda: cloud.create_volumes([gp3(size_gib=1)], "z")[0],
    ):
        with pytest.raises(NoCredentials, match=r"AWS_ACCESS_KEY_ID.*aws configure.*role"):
            ask()
    assert nothing_was_created(cloud)
    assert cloud.close().clean


def test_half_credentials():
    with pytest.raises(CloudError, match="needs its secret key"):
        CloudAccess(access_key="AKIA")


@pytest.mark.parametrize("cidr", ["203.0.113.7/33", "anywhere", "203.0.113.7/24"])
def test_an_invalid_ssh_network(cidr):
    with pytest.raises(CloudError, match="--cloudbench-ssh-from"):
        CloudAccess(ssh_from_cidr=cidr)


def test_the_own_address_cannot_be_found_out():
    with pytest.raises(CloudError, match="--cloudbench-ssh-from"):
        own_public_cidr("http://127.0.0.1:9/", timeout_s=1)


def test_a_proxy_is_not_asked_for_an_endpoint_on_this_machine(make_cloud, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert make_cloud().identity().account == "123456789012"


def test_an_endpoint_that_does_not_answer(make_cloud, access, monkeypatch):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    with pytest.raises(Unreachable, match="the endpoint did not answer"):
        make_cloud(replace(access, endpoint_url="http://127.0.0.1:9")).launch("t3.micro")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("InsufficientInstanceCapacity", "try another zone"),
        ("VcpuLimitExceeded", "Service Quotas"),
        ("InstanceLimitExceeded", "Service Quotas"),
        ("UnauthorizedOperation", "lack the permission"),
        ("RequestExpired", "credentials have expired"),
        ("SomethingNew", "said SomethingNew: the message"),
    ],
)
def test_refused_launches(cloud, faults, code, advice):
    faults.answer("RunInstances", code, "the message.")
    with pytest.raises(CloudError, match=advice) as caught:
        cloud.launch("c5.18xlarge")
    assert caught.value.code == code
    assert str(caught.value).startswith("could not launch c5.18xlarge in us-east-1a: the service said")
    assert not [one for one in cloud.journal.intentions if one.unresolved]
    assert cloud.close().clean


def in_zone(cloud, *zones):
    """Whether a RunInstances request is for one of these zones."""
    subnets = {cloud.catalog.places.find("c5.large", zone).subnet_id for zone in zones}
    return lambda asked: asked["SubnetId"] in subnets


def test_without_capacity_in_a_zone_the_next_one_is_tried(cloud, faults):
    where = in_zone(cloud, "us-east-1a", "us-east-1b")
    calls = faults.answer("RunInstances", "InsufficientInstanceCapacity", when=where)
    pair = cloud.launch_many([Launch("c5.18xlarge"), Launch("c5.large")])
    assert [one.zone for one in pair] == ["us-east-1c"] * 2
    assert len(calls) == 4
    assert cloud.close().clean


def test_both_of_a_pair_move_if_one_finds_no_capacity(cloud, faults):
    here = in_zone(cloud, "us-east-1a")
    faults.answer(
        "RunInstances",
        "InsufficientInstanceCapacity",
        when=lambda asked: here(asked) and asked["InstanceType"] == "c5.18xlarge",
    )
    pair = cloud.launch_many([Launch("c5.18xlarge"), Launch("c5.large")])
    assert [one.zone for one in pair] == ["us-east-1b"] * 2
    alive = {left.id for left in cloud.ledger.remaining() if left.kind == "instance"}
    assert alive == {one.id for one in pair}


def test_no_zone_has_capacity(cloud, faults):
    calls = faults.answer("RunInstances", "InsufficientInstanceCapacity", "the message")
    offered = cloud.catalog.places.zones_offering("c5.18xlarge")
    others = ", ".join(f"c5.18xlarge in {zone}" for zone in offered[1:])
    with pytest.raises(CloudError, match=f"; also without success: {others}$") as caught:
        cloud.launch("c5.18xlarge")
    assert str(caught.value).startswith(f"could not launch c5.18xlarge in {offered[0]}: the service said")
    assert caught.value.code == "InsufficientInstanceCapacity"
    assert len(calls) == len(offered)


def test_a_requested_zone_is_the_only_one_tried(cloud, faults):
    calls = faults.answer("RunInstances", "InsufficientInstanceCapacity")
    with pytest.raises(CloudError, match="in us-east-1b: the service said Insufficient"):
        cloud.launch("c5.18xlarge", zone="us-east-1b")
    assert len(calls) == 1


def test_another_refusal_tries_no_other_zone(cloud, faults):
    calls = faults.answer("RunInstances", "VcpuLimitExceeded")
    with pytest.raises(CloudError, match="Service Quotas"):
        cloud.launch("c5.18xlarge")
    assert len(calls) == 1


def test_nothing_to_launch(cloud, heard):
    with pytest.raises(CloudError, match="at least one"):
        cloud.launch_many([])
    assert not heard


@pytest.mark.parametrize("code", ["VolumeLimitExceeded", "MaxIOPSLimitExceeded"])
def test_a_refused_volume_releases_those_already_created(cloud, faults, code):
    calls = faults.answer("CreateVolume", code, times=1)
    with pytest.raises(CloudError, match=f"could not create volume gp3 .* {code}: .*Service Quotas"):
        cloud.create_volumes([gp3(size_gib=1)] * 4, "us-east-1a")
    assert len(calls) == 1
    cloud.removal.wait_for_released(10)
    assert cloud.ledger.remaining() == ()


def test_expired_credentials(cloud, faults):
    faults.answer("GetCallerIdentity", "ExpiredToken")
    with pytest.raises(CloudError, match="credentials have expired"):
        cloud.launch("t3.micro")
    assert nothing_was_created(cloud)


def test_throttled_calls_are_tried_again(cloud, faults):
    calls = faults.answer("RunInstances", "RequestLimitExceeded", status=503, times=1)
    assert cloud.launch("t3.micro").state == "running"
    assert len(calls) == 1


def test_an_instance_that_does_not_start_says_why_and_is_terminated(cloud, make_cloud, monkeypatch):
    instance = cloud.launch("t3.micro")
    with pytest.raises(
        WaitTimeout, match=r"did not reach 'stopped' in 0 s; it is 'running'.*console"
    ) as caught:
        cloud.instances.wait_for(instance, "stopped", 0.2)
    assert str(caught.value).startswith(f"t3.micro {instance.id} did not")
    assert "Linux version" in str(caught.value)
    cloud.release([instance])
    cloud.instances.wait_until_ended(instance)
    with pytest.raises(
        ResourceFailed, match=r"ended while waiting for 'running': it is 'terminated'; reason"
    ):
        cloud.instances.wait_for(instance, "running", 5)

    def never(_):
        raise WaitTimeout("it never ran")

    monkeypatch.setattr(cloud.instances, "wait_until_running", never)
    with pytest.raises(WaitTimeout, match="it never ran"):
        cloud.launch("t3.micro")
    assert {left.kind for left in cloud.ledger.remaining()} == {"security group", "key pair"}


def test_importing_the_control_plane_loads_no_heavy_library():

    heavy = ("boto3", "botocore", "pytest", "paramiko", "cryptography")
    code = f"import sys, pytest_cloudbench.aws.cloud; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
