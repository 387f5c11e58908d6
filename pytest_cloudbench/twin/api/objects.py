"""S3 on the region's endpoint, by moto's S3, which is loaded at the first request.

Buckets are addressed by path, since an IP address has no subdomains. SDKs do so by default for such an endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .moto_loading import ACCOUNT
from .refusal import unsupported

if TYPE_CHECKING:
    from .region import Region


def answer_objects(region: Region, request: Any) -> tuple[int, dict[str, str], bytes]:
    """Let S3 answer a request; return status, headers and body."""
    from moto.s3.responses import S3Response

    _, key = bucket_and_key(request.raw_path)
    if "select" in request.args:
        raise unsupported("SelectObjectContent is not available: this region has no SQL for objects.")
    with region.objects_lock:
        answer = S3Response.key_dispatch if key else S3Response.bucket_dispatch
        status, headers, body = answer(request, request.raw_url, dict(request.headers))
    headers = {str(name): str(value) for name, value in headers.items() if name.lower() != "status"}
    return int(status), headers, body.encode() if isinstance(body, str) else body


def bucket_and_key(raw_path: str) -> tuple[str, str]:
    """Return the bucket and the key in the path of a request; "" if it names none."""
    bucket, _, key = raw_path.removeprefix("/").partition("/")
    return bucket, key


def operation_of(method: str, raw_path: str) -> str:
    """Return the name of what a request does with a bucket or an object, such as PutObject."""
    bucket, key = bucket_and_key(raw_path)
    return f"{method.title()}{'Object' if key else 'Bucket' if bucket else 'Buckets'}"


def has_bucket(region: Region, name: str) -> bool:
    with region.objects_lock:
        return name in _backend().buckets


def put_object(region: Region, bucket: str, key: str, content: bytes) -> None:
    """Store an object. Raises moto's error if there is no such bucket."""
    with region.objects_lock:
        _backend().put_object(bucket, key, content)


def _backend() -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"]
