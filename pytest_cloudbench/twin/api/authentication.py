"""Who may talk to the region: only whoever holds its key.

Hosts run user data as root on this machine, so an open endpoint would give root to every local process. The key
id is random for each region and is compared in constant time.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from urllib.parse import parse_qs

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")


@dataclass(frozen=True)
class AccessKey:
    """A key pair for signing requests."""

    key_id: str
    secret: str


@dataclass(frozen=True)
class Credential:
    """What a signed request says of itself: whose key, for which region and service."""

    key_id: str
    region: str
    service: str


def new_access_key() -> AccessKey:
    """A random key of the form that AWS clients expect."""
    return AccessKey("AKIA" + "".join(secrets.choice(_BASE32) for _ in range(16)), secrets.token_hex(20))


def read_credential(authorization: str, query: str) -> Credential | None:
    """The credential of a request signed by header or by query (Signature Version 4), or None."""
    text = authorization
    if not text and "X-Amz-Credential" in query:
        text = "Credential=" + parse_qs(query).get("X-Amz-Credential", [""])[0]
    found = _CREDENTIAL.search(text)
    return Credential(found[1], found[3], found[4]) if found else None


def holds(key: AccessKey, credential: Credential) -> bool:
    """Whether the request was made with this key."""
    return hmac.compare_digest(key.key_id.encode(), credential.key_id.encode())
