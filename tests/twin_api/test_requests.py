"""What is refused of any EC2 request, with EC2's code: unreadable values, tags beyond limits, unknown names."""

from __future__ import annotations

import http.client
import urllib.parse
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from region_calls import Calls

from pytest_cloudbench.twin.api import front as front_module
from pytest_cloudbench.twin.api.offered import ACTIONS

FORM = "application/x-www-form-urlencoded; charset=utf-8"


def send(calls: Calls, body: str, token: str | None = None) -> tuple[int, str]:
    """Return status and body of the answer to a signed form."""
    key = calls.front.access_key
    request = AWSRequest("POST", calls.front.url, data=body, headers={"Content-Type": FORM})
    SigV4Auth(Credentials(key.key_id, key.secret, token), "ec2", "us-east-1").add_auth(request)
    address = urllib.parse.urlsplit(calls.front.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("POST", "/", body, dict(request.headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("body", ["", "Version=2016-11-15", "Action=&Version=2016-11-15"])
def test_a_request_without_action(module_calls: Calls, body: str) -> None:
    status, text = send(module_calls, body)
    assert (status, "<Code>MissingAction</Code>" in text) == (400, True)


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("DescribeVolumes&Sise=1", "UnknownParameter"),
        ("DescribeVolume", "InvalidAction"),
        ("CreateVolume&AvailabilityZone=us-east-1a&Size=abc", "InvalidParameterValue"),
        ("CreateVolume&AvailabilityZone=us-east-1a&Size=10&Encrypted=maybe", "InvalidParameterValue"),
        ("DescribeVolumes&MaxResults=1e3", "InvalidParameterValue"),
        ("DescribeSpotInstanceRequests&MaxResults=ten", "InvalidParameterValue"),
        ("CreateCapacityReservation&EndDate=soon", "InvalidParameterValue"),
        ("AttachVolume&Device=/dev/sdf", "MissingParameter"),
        ("CreateTransitGateway", "UnsupportedOperation"),
        ("DescribeNatGateways", "UnsupportedOperation"),
    ],
)
def test_mistakes_of_clients_have_codes_of_their_own(module_calls: Calls, action: str, code: str) -> None:
    status, text = send(module_calls, f"Action={action}&Version=2016-11-15")
    assert (status, f"<Code>{code}</Code>" in text) == (400, True), text


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize("value", ["", "i-nonsense", "-1"])
def test_no_request_is_an_internal_error(module_calls: Calls, action: str, value: str) -> None:
    """Send each action without parameters, and with the same value for each parameter that is text or a number."""

    def wire(member: Any, name: str) -> str:
        named = member.serialization.get("name", name)
        return str(member.serialization.get("queryName", named[0].upper() + named[1:]))

    shape = module_calls.ec2.meta.service_model.operation_model(action).input_shape
    form = {"Action": action, "Version": "2016-11-15"}
    for name, member in shape.members.items() if value and shape else ():
        if name != "DryRun" and member.type_name in ("string", "integer"):
            form[wire(member, name)] = value
        elif member.type_name == "list" and member.member.type_name == "string":
            form[f"{wire(member, name)}.1"] = value
    status, text = send(module_calls, urllib.parse.urlencode(form))
    assert status < 500, text


TAGS = [
    ({"Key": "a\x01b", "Value": "v"}, "U+0001"),
    ({"Key": "k", "Value": "a\x0bb"}, "U+000B"),
    ({"Key": "k", "Value": "\ufffe"}, "U+FFFE"),
    ({"Key": "k" * 129, "Value": "v"}, "128"),
    ({"Key": "k", "Value": "v" * 257}, "256"),
    ({"Key": "", "Value": "v"}, "empty"),
    ({"Key": "AWS:x", "Value": "v"}, "reserved"),
]


@pytest.mark.parametrize(("tag", "named"), TAGS)
def test_tags_that_no_resource_may_have(module_calls: Calls, tag: dict[str, str], named: str) -> None:
    volume = module_calls.volume()
    calls = [
        lambda: module_calls.ec2.create_tags(Resources=[volume], Tags=[tag]),
        lambda: module_calls.volume(TagSpecifications=[{"ResourceType": "volume", "Tags": [tag]}]),
    ]
    for call in calls:
        code, message = refused(call)
        assert code == "InvalidParameterValue"
        assert named in message
    assert "Tags" not in module_calls.described_volume(volume)


def test_tags_at_their_limits(module_calls: Calls) -> None:
    volume = module_calls.volume()
    tag = {"Key": "ä" * 128, "Value": "<\t&\n\r>" + "v" * 250}
    module_calls.ec2.create_tags(Resources=[volume], Tags=[tag])
    assert module_calls.described_volume(volume)["Tags"] == [tag]
    twice = [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]
    code, _ = refused(lambda: module_calls.ec2.create_tags(Resources=[volume], Tags=twice))
    assert code == "InvalidParameterValue"


def test_each_answer_has_an_id_of_its_own(module_calls: Calls) -> None:
    ids = {module_calls.ec2.describe_volumes()["ResponseMetadata"]["RequestId"] for _ in range(3)}
    assert len(ids) == 3
    assert all(len(one) == 36 for one in ids)
    _, text = send(module_calls, "Action=DescribeRegions&Version=2016-11-15")
    assert "<requestId>" in text


# --- the age of signatures -----------------------------------------------------------------------------------


class Clock(datetime):
    """A clock of the region that runs ahead of the client's by ``ahead``."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return datetime.now(timezone.utc) + cls.ahead


@pytest.fixture
def clock() -> Any:
    with mock.patch.object(front_module, "datetime", Clock):
        yield Clock
    Clock.ahead = timedelta()


@pytest.mark.parametrize("minutes", [-14, 14])
def test_a_signature_holds_for_15_minutes(module_calls: Calls, clock: Any, minutes: int) -> None:
    clock.ahead = timedelta(minutes=minutes)
    assert module_calls.ec2.describe_regions()["Regions"]


@pytest.mark.parametrize("minutes", [-16, 16])
def test_an_old_signature_is_refused_by_every_service(module_calls: Calls, clock: Any, minutes: int) -> None:
    clock.ahead = timedelta(minutes=minutes)
    assert refused(module_calls.ec2.describe_regions)[0] == "RequestExpired"
    ssm, sts, s3 = (module_calls.client(name) for name in ("ssm", "sts", "s3"))
    assert refused(lambda: ssm.get_parameter(Name="x"))[0] == "InvalidSignatureException"
    assert refused(sts.get_caller_identity)[0] == "SignatureDoesNotMatch"
    assert refused(s3.list_buckets)[0] == "RequestTimeTooSkewed"


def test_a_presigned_address_expires(module_calls: Calls, clock: Any) -> None:
    url = module_calls.ec2.generate_presigned_url("describe_regions", ExpiresIn=1800, HttpMethod="GET")
    address = urllib.parse.urlsplit(url)

    def status(query: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            connection.request("GET", f"/?{query}")
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    clock.ahead = timedelta(minutes=29)
    assert status(address.query)[0] == 200
    clock.ahead = timedelta(minutes=31)
    code, body = status(address.query)
    assert (code, b"RequestExpired" in body) == (400, True)
    assert status(address.query.replace("Expires=1800", "Expires=180000"))[0] == 403


def test_a_session_token_is_refused(module_calls: Calls) -> None:
    key = module_calls.front.access_key
    client = boto3.client(
        "ec2",
        endpoint_url=module_calls.front.url,
        region_name="us-east-1",
        aws_access_key_id=key.key_id,
        aws_secret_access_key=key.secret,
        aws_session_token="garbage",
    )
    code, message = refused(client.describe_regions)
    assert code == "AuthFailure"
    assert "AWS_SESSION_TOKEN" in message
