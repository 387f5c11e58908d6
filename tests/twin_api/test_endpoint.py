"""The endpoint: authentication, services, client tokens, images, and the calls of other tools."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import shutil
import subprocess
import threading
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from region_calls import Calls, RecordingPlane

from pytest_cloudbench.twin.slots import Slot


def error_of(call) -> tuple[str, int]:  # type: ignore[no-untyped-def]
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value.response["Error"]["Code"], caught.value.response["ResponseMetadata"]["HTTPStatusCode"]


def test_another_key_is_refused_by_every_service(calls: Calls, plane: RecordingPlane) -> None:
    stranger = "AKIAAAAAAAAAAAAAAAAA"
    assert error_of(lambda: calls.client("ec2", key_id=stranger).describe_volumes()) == ("AuthFailure", 401)
    assert error_of(
        lambda: calls.client("ec2", key_id=stranger).create_volume(AvailabilityZone="us-east-1a", Size=1)
    ) == ("AuthFailure", 401)
    assert error_of(lambda: calls.client("ssm", key_id=stranger).get_parameter(Name="x")) == (
        "UnrecognizedClientException",
        403,
    )
    assert error_of(lambda: calls.client("sts", key_id=stranger).get_caller_identity()) == (
        "InvalidClientTokenId",
        403,
    )
    assert plane.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic abc"},
        {"Authorization": "AWS4-HMAC-SHA256 Credential=/20260101/us-east-1/ec2/aws4_request"},
    ],
)
def test_unsigned_calls_are_refused(calls: Calls, plane: RecordingPlane, headers: dict[str, str]) -> None:
    address = urllib.parse.urlsplit(calls.front.url)
    for path in ("/", "/moto-api/data.json", "/latest/meta-data/", "/?Action=DescribeVolumes"):
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            body = "Action=CreateVolume&Size=1&AvailabilityZone=us-east-1a&Version=2016-11-15"
            connection.request(
                "POST", path, body, {"Content-Type": "application/x-www-form-urlencoded", **headers}
            )
            answer = connection.getresponse()
            assert answer.status == 403
            assert b"MissingAuthenticationToken" in answer.read()
        finally:
            connection.close()
    assert plane.calls == []


def test_presigned_call_is_served(calls: Calls) -> None:
    url = calls.ec2.generate_presigned_url("describe_volumes", HttpMethod="GET")
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("GET", f"{address.path or '/'}?{address.query}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"DescribeVolumesResponse" in answer.read()
    finally:
        connection.close()


def test_other_services_and_regions_are_refused_by_name(calls: Calls) -> None:
    with pytest.raises(ClientError, match="has no 'sqs' service; it has ec2, ssm, s3, monitoring, sts"):
        calls.client("sqs").list_queues()
    with pytest.raises(ClientError, match="serves us-east-1, the request is for eu-west-1"):
        calls.client("ec2", region="eu-west-1").describe_volumes()
    assert [one["RegionName"] for one in calls.ec2.describe_regions()["Regions"]] == ["us-east-1"]


def test_identity_and_metrics(calls: Calls) -> None:
    assert calls.client("sts").get_caller_identity()["Account"] == "123456789012"
    cloudwatch = calls.client("cloudwatch")
    cloudwatch.put_metric_data(Namespace="cloudbench", MetricData=[{"MetricName": "m", "Value": 1.0}])
    assert [one["MetricName"] for one in cloudwatch.list_metrics()["Metrics"]] == ["m"]


def test_repeated_volume_request_creates_one_volume(calls: Calls, plane: RecordingPlane) -> None:
    asked = {"AvailabilityZone": "us-east-1a", "Size": 10, "VolumeType": "gp3", "ClientToken": "t1"}
    with ThreadPoolExecutor(8) as pool:
        ids = {
            answer["VolumeId"] for answer in pool.map(lambda _: calls.ec2.create_volume(**asked), range(8))
        }
    assert len(ids) == 1
    assert len(plane.named("create_disk")) == 1
    with pytest.raises(ClientError) as caught:
        calls.ec2.create_volume(**{**asked, "Size": 11})
    assert caught.value.response["Error"]["Code"] == "IdempotentParameterMismatch"


def test_token_of_a_failed_request_is_free_again(calls: Calls, plane: RecordingPlane) -> None:
    plane.failures["create_disk"] = RuntimeError("no room")
    asked = {"AvailabilityZone": "us-east-1a", "Size": 10, "ClientToken": "t1"}
    with pytest.raises(ClientError, match="no room"):
        calls.ec2.create_volume(**asked)
    plane.failures.clear()
    assert calls.described_volume(calls.ec2.create_volume(**asked)["VolumeId"])["State"] == "available"


def test_repeated_launch_boots_one_host(calls: Calls, plane: RecordingPlane) -> None:
    asked = {
        "ImageId": calls.image(),
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "t2",
    }
    first, second = (calls.ec2.run_instances(**asked)["Instances"][0]["InstanceId"] for _ in range(2))
    assert first == second
    calls.wait_state(first, "running")
    assert len(plane.named("boot")) == 1
    with pytest.raises(ClientError) as caught:
        calls.ec2.run_instances(**{**asked, "InstanceType": "m5.xlarge"})
    assert caught.value.response["Error"]["Code"] == "IdempotentParameterMismatch"


PARAMETERS = [
    (
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
        "x86_64",
        "al2023-ami-2023",
        "ec2-user",
    ),
    (
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64",
        "arm64",
        "al2023-ami-2023",
        "ec2-user",
    ),
    (
        "/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-default-x86_64",
        "x86_64",
        "al2023-ami-minimal",
        "ec2-user",
    ),
    (
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id",
        "x86_64",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64",
        "ubuntu",
    ),
    (
        "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id",
        "arm64",
        "ubuntu/images",
        "ubuntu",
    ),
    ("/aws/service/debian/release/12/latest/amd64", "x86_64", "debian-12-amd64", "admin"),
    ("/aws/service/debian/release/12/latest/arm64", "arm64", "debian-12-arm64", "admin"),
]


@pytest.mark.parametrize(("name", "architecture", "image_name", "login"), PARAMETERS)
def test_public_parameter_leads_to_an_image_that_boots(
    calls: Calls, plane: RecordingPlane, name: str, architecture: str, image_name: str, login: str
) -> None:
    image_id = calls.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    [image] = calls.ec2.describe_images(ImageIds=[image_id])["Images"]
    assert (image["Architecture"], image["State"], image["RootDeviceType"]) == (
        architecture,
        "available",
        "ebs",
    )
    assert image["Name"].startswith(image_name)
    instance = calls.launch("m5.large" if architecture == "x86_64" else "m6g.large", ImageId=image_id)
    assert plane.plans[instance].login_user == login


def test_images_are_found_by_the_filters_that_tools_use(calls: Calls) -> None:
    found = calls.ec2.describe_images(
        Owners=["amazon"],
        Filters=[
            {"Name": "name", "Values": ["al2023-ami-2023*"]},
            {"Name": "architecture", "Values": ["x86_64"]},
        ],
    )["Images"]
    assert len(found) == 1
    assert found[0]["OwnerId"] == "137112412989"
    assert found[0]["ImageOwnerAlias"] == "amazon"
    assert found[0]["CreationDate"].startswith("2025-")
    assert len(calls.ec2.describe_images()["Images"]) == 8
    tree = calls.client("ssm").get_parameters_by_path(Path="/aws/service/ami-amazon-linux-latest")[
        "Parameters"
    ]
    ids = {image["ImageId"] for image in calls.ec2.describe_images()["Images"]}
    assert {parameter["Value"] for parameter in tree} <= ids


def test_network_is_in_the_regions_range(calls: Calls) -> None:
    [vpc] = calls.ec2.describe_vpcs()["Vpcs"]
    assert (vpc["CidrBlock"], vpc["IsDefault"]) == (str(Slot(0).network), True)
    subnets = {one["AvailabilityZone"]: one for one in calls.ec2.describe_subnets()["Subnets"]}
    zones = [one["ZoneName"] for one in calls.ec2.describe_availability_zones()["AvailabilityZones"]]
    assert zones == sorted(subnets)
    assert [subnets[zone]["CidrBlock"] for zone in zones] == [
        str(Slot(0).zone_network(index)) for index in range(4)
    ]
    assert not any(one["MapPublicIpOnLaunch"] for one in subnets.values())
    assert all(one["DefaultForAz"] for one in subnets.values())
    instance = calls.launch(SubnetId=subnets["us-east-1c"]["SubnetId"])
    described = calls.instance(instance)
    assert described["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert ipaddress.ip_address(described["PrivateIpAddress"]) in Slot(0).zone_network(2)


def test_types_come_in_pages(calls: Calls) -> None:
    pages = list(calls.ec2.get_paginator("describe_instance_types").paginate())
    names = [one["InstanceType"] for page in pages for one in page["InstanceTypes"]]
    assert len(pages[0]["InstanceTypes"]) == 100
    assert len(names) == len(set(names)) > 1_390
    assert "i3.metal" in names


def test_calls_that_terraform_makes(calls: Calls) -> None:
    instance = calls.launch(NetworkInterfaces=[{"DeviceIndex": 0, "AssociatePublicIpAddress": False}])
    volume = calls.volume()
    ec2 = calls.ec2
    for name in (
        "instanceType",
        "userData",
        "disableApiTermination",
        "disableApiStop",
        "instanceInitiatedShutdownBehavior",
        "ebsOptimized",
        "sourceDestCheck",
        "groupSet",
    ):
        ec2.describe_instance_attribute(InstanceId=instance, Attribute=name)
    ec2.describe_instance_credit_specifications(InstanceIds=[instance])
    ec2.describe_iam_instance_profile_associations(Filters=[{"Name": "instance-id", "Values": [instance]}])
    ec2.describe_account_attributes(AttributeNames=["supported-platforms"])
    ec2.describe_vpc_attribute(VpcId=ec2.describe_vpcs()["Vpcs"][0]["VpcId"], Attribute="enableDnsHostnames")
    ec2.describe_network_acls()
    ec2.describe_route_tables()
    ec2.describe_security_groups()
    ec2.describe_network_interfaces()
    ec2.create_tags(Resources=[instance, volume], Tags=[{"Key": "a", "Value": "b"}])
    tags = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [instance, volume]}])["Tags"]
    mine = [tag["ResourceId"] for tag in tags if not tag["Key"].startswith("aws:")]
    assert sorted(mine) == sorted([instance, volume])
    ec2.delete_tags(Resources=[volume], Tags=[{"Key": "a"}])
    assert "Tags" not in calls.described_volume(volume)


def test_unimplemented_operation_is_an_error(calls: Calls) -> None:
    assert (
        error_of(
            lambda: calls.ec2.describe_volume_attribute(
                VolumeId="vol-00000000000000000", Attribute="productCodes"
            )
        )[0]
        == "UnsupportedOperation"
    )


def test_calls_before_the_region_is_loaded_wait(plane: RecordingPlane, moto_left_alone: None) -> None:
    from pytest_cloudbench.twin.api.front import Front

    front = Front()
    front.start()
    try:
        with ThreadPoolExecutor(1) as pool:
            early = pool.submit(Calls(front).ec2.describe_volumes)
            done = threading.Event()
            early.add_done_callback(lambda _: done.set())
            assert not done.wait(0.2)
            front.open(plane)  # type: ignore[arg-type]
            assert early.result(30)["Volumes"] == []
    finally:
        front.close()


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS command line is not installed")
def test_aws_command_line(calls: Calls) -> None:
    volume = calls.volume(Size=7)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "AWS_ENDPOINT_URL": calls.front.url,
        "AWS_ACCESS_KEY_ID": calls.front.access_key.key_id,
        "AWS_SECRET_ACCESS_KEY": calls.front.access_key.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    done = subprocess.run(
        ["aws", "ec2", "describe-volumes", "--output", "json"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    )
    assert [(one["VolumeId"], one["Size"]) for one in json.loads(done.stdout)["Volumes"]] == [(volume, 7)]


def test_a_key_id_without_its_secret_is_refused(calls: Calls, plane: RecordingPlane) -> None:
    guessed = "0" * 40
    assert error_of(lambda: calls.client("ec2", secret=guessed).describe_volumes()) == ("AuthFailure", 403)
    assert error_of(lambda: calls.client("ssm", secret=guessed).get_parameter(Name="x")) == (
        "SignatureDoesNotMatch",
        403,
    )
    assert plane.calls == []


def test_a_signed_request_cannot_be_altered(calls: Calls, plane: RecordingPlane) -> None:
    def enlarge(request, **_):  # type: ignore[no-untyped-def]
        request.body = request.body.replace("Size=1", "Size=9")

    client = calls.client("ec2")
    client.meta.events.register("before-send.ec2.CreateVolume", enlarge)
    assert error_of(lambda: client.create_volume(AvailabilityZone="us-east-1a", Size=1)) == (
        "AuthFailure",
        403,
    )
    assert plane.calls == []


@given(
    query=st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=3),
    body=st.binary(max_size=60),
    text=st.text(alphabet="ab :;= ", max_size=12),
)
def test_requests_signed_by_botocore_are_accepted(query, body, text):  # type: ignore[no-untyped-def]
    """Compare with botocore's own signatures of arbitrary requests."""
    from pytest_cloudbench.twin.api.authentication import new_access_key, read_credential, signature_is_right

    key = new_access_key()
    url = "http://127.0.0.1:80/"
    headers = {"X-Amz-Target": text.strip(), "Content-Type": "application/json"}
    request = AWSRequest("POST", url, data=body, params=query, headers=headers)
    SigV4Auth(Credentials(key.key_id, key.secret), "ec2", "us-east-1").add_auth(request)
    sent = request.prepare()
    parts = urllib.parse.urlsplit(sent.url)
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "HTTP_HOST": "127.0.0.1",
    }
    environ["QUERY_STRING"] = parts.query
    for name, value in sent.headers.items():
        variable = name.upper().replace("-", "_")
        environ[variable if variable == "CONTENT_TYPE" else f"HTTP_{variable}"] = value
    credential = read_credential(environ)
    assert credential is not None
    assert signature_is_right(key, credential, environ, body)
    assert not signature_is_right(key, credential, environ, body + b"x")
    assert not signature_is_right(new_access_key(), credential, environ, body)
