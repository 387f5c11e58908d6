"""Errors of AWS as CloudErrors: what was requested, what the service answered (with its code), and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cloudbench.errors import RequestError
from pytest_cloudbench.resources.errors import CloudError


class NoCredentials(CloudError):
    """Credentials are missing or incomplete."""


class NoRegion(CloudError):
    """No region was given and none is configured."""


class NoNetwork(CloudError):
    """There is no default VPC or subnet to launch into, or the requested subnet does not exist."""


class UnusableImage(CloudError, RequestError):
    """The image does not exist, is not Linux, has the wrong architecture or an unknown login user."""


class Unreachable(CloudError):
    """The endpoint did not answer: the connection was refused, its name not resolved, or it timed out."""


class JournalError(CloudError):
    """The journal of the run cannot be opened or written."""


# Temporary refusals: botocore's throttling codes (retries/standard.py, ThrottledRetryableChecker), and the codes for
# failures of EC2 itself (EC2 API Reference, "Server error codes").
THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_SERVER_ERRORS = frozenset(
    {
        *("InternalError", "InternalFailure", "InternalServerError", "ServerInternal"),
        *("RequestTimeout", "RequestTimeoutException", "ServiceUnavailable", "Unavailable"),
        *("500", "502", "503", "504"),
    }
)

CREDENTIALS_REFUSED = frozenset(
    {
        *("", "AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId"),
        *("RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException"),
    }
)
"""The codes of refusals that affect every call with these credentials; "" if the client has none."""

_EXPIRED = "the credentials have expired; renew them (such as by `aws sso login`) and start again"
_INVALID = "the endpoint does not know these credentials; check the access key, its secret and the endpoint"
_QUOTA = "ask for a higher quota in Service Quotas, use a smaller type, or end other instances"

# The service's error code -> what to do about it.
_REMEDIES: dict[str, str] = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": "the request's time is off or the credentials have expired; check the clock and the credentials",
    "AuthFailure": _INVALID,
    "InvalidClientTokenId": _INVALID,
    "UnrecognizedClientException": _INVALID,
    "SignatureDoesNotMatch": _INVALID,
    "UnauthorizedOperation": "the credentials lack the permission for this action; have it added to their policy",
    "AccessDenied": "the credentials lack the permission for this action; have it added to their policy",
    "AccessDeniedException": "the credentials lack the permission for this action; have it added to their policy",
    "OptInRequired": "the account is not subscribed to this service or region; enable it in the account's settings",
    "VcpuLimitExceeded": _QUOTA,
    "InstanceLimitExceeded": _QUOTA,
    "MaxSpotInstanceCountExceeded": _QUOTA,
    "InsufficientInstanceCapacity": (
        "the zone has no free machine of this type at present; try another zone, or again later"
    ),
    "InsufficientFreeAddressesInSubnet": (
        "the subnet has no free private address: use another zone or a larger subnet (--cloudbench-subnet), "
        "or end instances in it"
    ),
    "ReservationCapacityExceeded": "all instances of the Capacity Reservation are in use: end some, or enlarge it",
    "SpotMaxPriceTooLow": "the spot price is above the On-Demand price at present: try again later",
    "InsufficientVolumeCapacity": "the zone has no room for such a volume at present; try another zone, or again later",
    "Unsupported": "choose another zone, type or image: this combination is not offered",
    "VolumeLimitExceeded": "ask for a higher quota of volume storage in Service Quotas, or delete volumes",
    "MaxIOPSLimitExceeded": (
        "the account's provisioned IOPS of this volume type are used up in this region; "
        "ask for a higher quota in Service Quotas, or delete volumes"
    ),
    "AttachmentLimitExceeded": "attach fewer volumes, or use an instance type that takes more",
    "RequestLimitExceeded": "the account's request rate is used up, also after retries; try again in a minute",
    "Throttling": "the account's request rate is used up, also after retries; try again in a minute",
    "KeyPairLimitExceeded": "delete key pairs that are no longer used",
    "PlacementGroupLimitExceeded": "delete placement groups that are no longer used",
    "SecurityGroupLimitExceeded": "delete security groups that are no longer used",
    "VolumeInUse": "detach it first",
    "IncorrectState": "wait until the resource is in the state that the request needs",
}

CREDENTIAL_WAYS = (
    "give them in one of the usual ways: the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), "
    "a profile (`aws configure`, then AWS_PROFILE), or a role (`aws sso login`, an instance or container role)"
)


def is_temporary(error: BaseException) -> bool:
    """Return True if the same call may succeed soon: it was throttled, the service failed, or did not answer.

    After such an error, it is unknown whether a creating call created something.
    """
    return isinstance(error, Unreachable) or (
        isinstance(error, CloudError) and error.code in THROTTLED | _SERVER_ERRORS
    )


def no_credentials(detail: str) -> NoCredentials:
    """Return the error for missing or partial credentials."""
    return NoCredentials(f"no AWS credentials: {detail}; {CREDENTIAL_WAYS}")


def translate(error: Exception, asked: str) -> CloudError:
    """Return a CloudError for an error of botocore; `asked` is what was tried, such as "create volume io2 80 GiB"."""
    from botocore import exceptions

    if isinstance(error, CloudError):
        return error
    if isinstance(error, exceptions.ClientError):
        return _from_service(error.response.get("Error", {}), asked)
    return _from_client(error, asked)


def _from_service(said: Mapping[str, Any], asked: str) -> CloudError:
    code = str(said.get("Code", ""))
    message = str(said.get("Message", "")).strip().rstrip(".") or "no message"
    remedy = _REMEDIES.get(code)
    sentence = f"could not {asked}: the service said {code}: {message}"
    return CloudError(f"{sentence}; {remedy}" if remedy else sentence, code=code, asked=asked)


def _from_client(error: Exception, asked: str) -> CloudError:
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    if isinstance(error, exceptions.PartialCredentialsError):
        return no_credentials(f"only some of them were found ({error})")
    if isinstance(error, exceptions.NoCredentialsError):
        return no_credentials("none were found")
    no_longer_valid = (
        exceptions.TokenRetrievalError,
        exceptions.SSOTokenLoadError,
        exceptions.UnauthorizedSSOTokenError,
        exceptions.CredentialRetrievalError,
    )
    if isinstance(error, no_longer_valid):
        return NoCredentials(f"could not {asked}: {error}; {_EXPIRED}", asked=asked)
    if isinstance(error, exceptions.ProfileNotFound):
        return NoCredentials(f"could not {asked}: {error}; {CREDENTIAL_WAYS}", asked=asked)
    # A body that cannot be parsed comes from a proxy or a failing service; botocore itself suggests a retry.
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError | ResponseParserError):
        return Unreachable(
            f"could not {asked}: the endpoint did not answer ({error}); "
            "check the endpoint, the network and the proxy settings",
            asked=asked,
        )
    return CloudError(f"could not {asked}: {type(error).__name__}: {error}", asked=asked)
