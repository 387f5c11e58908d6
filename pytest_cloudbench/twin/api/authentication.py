"""Authentication: a request must be signed with the region's key.

Hosts run user data as root on this machine, so an open endpoint would give root to every local process. The key is
random for each region, and the signature of every request is verified. A key id alone, which tools write into their
logs, is not enough.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

# AWS Identity and Access Management User Guide, "AWS Signature Version 4 for API requests", read 2026-11.
MAX_AGE = timedelta(minutes=15)
MAX_PRESIGNED_S = 7 * 24 * 3600

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request"
    r", *SignedHeaders=([a-z0-9;-]+), *Signature=([0-9a-f]{64})$"
)


@dataclass(frozen=True)
class AccessKey:
    """A key pair for signing requests."""

    key_id: str
    secret: str


@dataclass(frozen=True)
class Credential:
    """The key id, time, region, service and signature in a signed request.

    ``date`` is the request's full time stamp; ``day``, ``region`` and ``service`` are the signature's scope.
    ``lasts_s`` is the stated lifetime of a presigned URL, in seconds (unchecked text); None for a request signed by
    header. ``token`` is a session token, which the region's keys do not have.
    """

    key_id: str
    day: str
    region: str
    service: str
    date: str
    signed_headers: tuple[str, ...]
    signature: str
    lasts_s: str | None = None
    token: str = ""


def new_access_key() -> AccessKey:
    """Return a random key of the form that AWS clients expect."""
    return AccessKey("AKIA" + "".join(secrets.choice(_BASE32) for _ in range(16)), secrets.token_hex(20))


def read_credential(environ: Mapping[str, Any]) -> Credential | None:
    """Return the credential of a request signed by header or query (Signature Version 4), or None."""
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    date = _header(environ, "x-amz-date")
    lasts_s = None
    if not authorization and query.get("X-Amz-Algorithm") == "AWS4-HMAC-SHA256":
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={query.get('X-Amz-Credential')}, "
            f"SignedHeaders={query.get('X-Amz-SignedHeaders')}, Signature={query.get('X-Amz-Signature')}"
        )
        date, lasts_s = query.get("X-Amz-Date", ""), query.get("X-Amz-Expires", "")
    found = _AUTHORIZATION.match(authorization)
    if found is None:
        return None
    token = _header(environ, "x-amz-security-token") or query.get("X-Amz-Security-Token", "")
    return Credential(
        found[1], found[2], found[3], found[4], date, tuple(found[5].split(";")), found[6], lasts_s, token
    )


def fault_in_time(credential: Credential, now: datetime) -> str | None:
    """Return why a signature is not valid at the time ``now``; None if it is valid.

    It is valid from 15 minutes before its date: for a request until 15 minutes after it, for a presigned URL until the
    stated lifetime ends.
    """
    try:
        made = datetime.strptime(credential.date, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return f"the date must be of the form 20261231T235959Z, got {credential.date!r}"
    age = now - made
    if age < -MAX_AGE:
        return f"it is dated {credential.date}, later than {now:%Y%m%dT%H%M%SZ} (+ 15 min.)"
    lasts = MAX_AGE
    if credential.lasts_s is not None:
        if not (credential.lasts_s.isdigit() and 1 <= int(credential.lasts_s) <= MAX_PRESIGNED_S):
            return f"X-Amz-Expires must be 1 to {MAX_PRESIGNED_S} seconds, got {credential.lasts_s!r}"
        lasts = timedelta(seconds=int(credential.lasts_s))
    if age > lasts:
        seconds = int(lasts.total_seconds())
        return f"it is dated {credential.date} and held for {seconds} s, until {made + lasts:%Y%m%dT%H%M%SZ}"
    return None


def holds(key: AccessKey, credential: Credential) -> bool:
    """Return True if the request names this key. Its signature is not checked."""
    return hmac.compare_digest(key.key_id.encode(), credential.key_id.encode())


def signature_is_right(
    key: AccessKey, credential: Credential, environ: Mapping[str, Any], body: bytes
) -> bool:
    """Return True if the request, given by WSGI's ``environ`` and its body, was signed with the key's secret.

    The algorithm is Signature Version 4 as AWS documents it: the hash of the body is signed. A request to S3
    has a path, and signs what its header states about the body: the hash, or that the body is unsigned or signed in
    parts. Other services have one path, "/"; requests for other paths are refused.
    """
    path, payload = "/", hashlib.sha256(body).hexdigest()
    if credential.service == "s3":
        path = quote(unquote(environ.get("RAW_URI", "/").partition("?")[0]), safe="/-_.~")
        stated = _header(environ, "x-amz-content-sha256") or "UNSIGNED-PAYLOAD"
        if stated != payload and not stated.startswith(("UNSIGNED-PAYLOAD", "STREAMING-")):
            return False
        payload = stated
    elif environ.get("PATH_INFO", "/") not in ("", "/"):
        return False
    headers = {name: _header(environ, name) for name in credential.signed_headers}
    request = "\n".join(
        [
            environ["REQUEST_METHOD"],
            path,
            _canonical_query(environ.get("QUERY_STRING", "")),
            *(f"{name}:{' '.join(value.split())}" for name, value in headers.items()),
            "",
            ";".join(headers),
            payload,
        ]
    )
    scope = f"{credential.day}/{credential.region}/{credential.service}/aws4_request"
    text = "\n".join(
        ["AWS4-HMAC-SHA256", credential.date, scope, hashlib.sha256(request.encode()).hexdigest()]
    )
    signing_key = f"AWS4{key.secret}".encode()
    for part in scope.split("/"):
        signing_key = hmac.digest(signing_key, part.encode(), "sha256")
    right = hmac.digest(signing_key, text.encode(), "sha256").hex()
    return hmac.compare_digest(right, credential.signature)


def _header(environ: Mapping[str, Any], name: str) -> str:
    variable = name.upper().replace("-", "_")
    bare = variable in ("CONTENT_TYPE", "CONTENT_LENGTH")
    return str(environ.get(variable if bare else f"HTTP_{variable}", ""))


def _canonical_query(query: str) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
        if name != "X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in pairs)
