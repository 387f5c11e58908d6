"""S3 on the region's endpoint: objects, signatures of all kinds, limits and refusals."""

from __future__ import annotations

import hashlib
import http.client
import io
import urllib.parse
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from region_calls import Calls

MIB = 1 << 20
KEYS = ("plain", "a b/ü+c//d", "/leading", "per%20cent", "q?&=#x", "trailing/")


@pytest.fixture
def s3(calls: Calls) -> Any:
    client = calls.client("s3")
    client.create_bucket(Bucket="objects")
    return client


def send(calls: Calls, method: str, url: str, body: Any = None, headers: Any = None) -> tuple[int, bytes]:
    """Send a request past botocore; a body that is an iterator goes out in chunks of unknown length."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, body, headers or {}, encode_chunked=True)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def signed(calls: Calls, path: str, body: bytes, *, payload: bool = True) -> tuple[str, dict[str, str]]:
    """Return the URL and headers of a PUT that botocore has signed for S3, with or without its payload."""
    key = calls.front.access_key
    request = AWSRequest("PUT", calls.front.url + path, data=body)
    request.context["client_config"] = Config(s3={"payload_signing_enabled": payload})
    S3SigV4Auth(Credentials(key.key_id, key.secret), "s3", "us-east-1").add_auth(request)
    return request.url, dict(request.headers)


def test_objects_are_put_listed_got_and_deleted(s3: Any) -> None:
    for key in KEYS:
        s3.put_object(Bucket="objects", Key=key, Body=key.encode(), Metadata={"made-by": "test"})
    found = s3.list_objects_v2(Bucket="objects")["Contents"]
    assert {each["Key"]: each["Size"] for each in found} == {key: len(key.encode()) for key in KEYS}
    for key in KEYS:
        got = s3.get_object(Bucket="objects", Key=key)
        assert (got["Body"].read(), got["Metadata"]) == (key.encode(), {"made-by": "test"})
        assert s3.head_object(Bucket="objects", Key=key)["ContentLength"] == len(key.encode())
    assert s3.get_object(Bucket="objects", Key="plain", Range="bytes=1-2")["Body"].read() == b"la"
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="objects")
    s3.delete_objects(Bucket="objects", Delete={"Objects": [{"Key": key} for key in KEYS]})
    s3.delete_bucket(Bucket="objects")
    assert s3.list_buckets()["Buckets"] == []


def test_a_large_file_goes_up_in_parts(s3: Any) -> None:
    content = bytes(range(256)) * (17 * MIB // 256)
    s3.upload_fileobj(io.BytesIO(content), "objects", "large")
    down = io.BytesIO()
    s3.download_fileobj("objects", "large", down)
    assert hashlib.sha256(down.getvalue()).digest() == hashlib.sha256(content).digest()
    s3.put_object(Bucket="objects", Key="one part", Body=content[: 5 * MIB])
    assert s3.head_object(Bucket="objects", Key="one part")["ContentLength"] == 5 * MIB


def test_other_ways_to_sign(calls: Calls, s3: Any) -> None:
    unsigned = calls.client("s3", s3={"payload_signing_enabled": False})
    unsigned.put_object(Bucket="objects", Key="unsigned", Body=b"content")
    later = calls.client("s3", signature_version="s3v4")
    asked = {"Bucket": "objects", "Key": "a key/presigned"}
    assert send(calls, "PUT", later.generate_presigned_url("put_object", asked), b"presigned")[0] == 200
    assert send(calls, "GET", later.generate_presigned_url("get_object", asked)) == (200, b"presigned")
    url, headers = signed(calls, "/objects/chunked", b"", payload=False)
    assert send(calls, "PUT", url, iter([b"in ", b"chunks"]), headers)[0] == 200
    found = {each["Key"]: each["Size"] for each in s3.list_objects_v2(Bucket="objects")["Contents"]}
    assert found == {"unsigned": 7, "a key/presigned": 9, "chunked": 9}


def test_what_is_wrong_is_refused(calls: Calls, s3: Any) -> None:
    def code(call: Any, **asked: Any) -> str:
        with pytest.raises(ClientError) as caught:
            call(**asked)
        return caught.value.response["Error"]["Code"]

    stranger = calls.client("s3", key_id="AKIAAAAAAAAAAAAAAAAA")
    assert code(stranger.list_buckets) == "InvalidAccessKeyId"
    assert code(calls.client("s3", secret="0" * 40).list_buckets) == "SignatureDoesNotMatch"
    assert code(s3.get_object, Bucket="objects", Key="none") == "NoSuchKey"
    assert code(s3.list_objects_v2, Bucket="no-such-bucket") == "NoSuchBucket"
    query = {"Expression": "SELECT * FROM S3Object", "ExpressionType": "SQL"}
    forms = {"InputSerialization": {"JSON": {"Type": "LINES"}}, "OutputSerialization": {"JSON": {}}}
    assert (
        code(s3.select_object_content, Bucket="objects", Key="x", **query, **forms) == "UnsupportedOperation"
    )
    url, headers = signed(calls, "/objects/key", b"content")
    assert send(calls, "PUT", url, b"CONTENT", headers)[0] == 403
    assert send(calls, "PUT", url.replace("key", "other"), b"content", headers)[0] == 403
    too_large = {**headers, "Content-Length": str(65 * MIB)}
    assert send(calls, "PUT", url, b"", too_large)[0] == 413
    assert s3.list_objects_v2(Bucket="objects")["KeyCount"] == 0


@pytest.mark.parametrize("weather", ["deny=PutObject"])
def test_the_weather_denies_by_the_operation(calls: Calls) -> None:
    client = calls.client("s3")
    client.create_bucket(Bucket="denied")
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Bucket="denied", Key="key", Body=b"")


@given(
    key=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
    body=st.binary(max_size=40),
)
def test_objects_signed_by_botocore_are_accepted(key: str, body: bytes) -> None:
    from pytest_cloudbench.twin.api.authentication import new_access_key, read_credential, signature_is_right

    own = new_access_key()
    path = "/bucket/" + urllib.parse.quote(key, safe="/-_.~")
    request = AWSRequest("PUT", f"http://127.0.0.1:80{path}", data=body)
    S3SigV4Auth(Credentials(own.key_id, own.secret), "s3", "us-east-1").add_auth(request)
    environ = {"REQUEST_METHOD": "PUT", "RAW_URI": path, "HTTP_HOST": "127.0.0.1", "QUERY_STRING": ""}
    for name, value in request.prepare().headers.items():
        environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    credential = read_credential(environ)
    assert credential is not None
    assert signature_is_right(own, credential, environ, body)
    assert not signature_is_right(own, credential, environ, body + b"x")
    assert not signature_is_right(own, credential, {**environ, "RAW_URI": f"{path}x"}, body)
    assert not signature_is_right(new_access_key(), credential, environ, body)
