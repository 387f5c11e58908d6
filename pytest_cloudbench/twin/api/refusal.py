"""Refusals: the errors of the API, checks that many actions share, and errors as each service's clients read them."""

from __future__ import annotations

import json
import re
import uuid
from typing import TypeVar
from xml.sax.saxutils import escape

T = TypeVar("T")

_MALFORMED = {
    "ami": "InvalidAMIID.Malformed",
    "cr": "InvalidCapacityReservationId.Malformed",
    "i": "InvalidInstanceID.Malformed",
    "key": "InvalidKeyPairID.Malformed",
    "pg": "InvalidPlacementGroupId.Malformed",
    "sg": "InvalidGroupId.Malformed",
    "subnet": "InvalidSubnetID.Malformed",
}
_PARAMETER = {"snap": "snapshotId", "vol": "volume"}


class Refusal(Exception):
    """A request that the service refuses.

    ``code`` is the service's own error code (``InvalidParameterValue``), ``message`` a readable sentence and
    ``status`` the HTTP status of the answer.
    """

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def unsupported(message: str) -> Refusal:
    """Return the refusal of something that this region does not have."""
    return Refusal("UnsupportedOperation", message)


def dry_run() -> Refusal:
    """Return the answer to a dry run of a valid request."""
    return Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", status=412)


def unauthorised(action: str, service: str = "ec2") -> Refusal:
    """Return the refusal of an action that the credentials may not call."""
    code, status = {"ssm": ("AccessDeniedException", 400), "s3": ("AccessDenied", 403)}.get(
        service, ("UnauthorizedOperation", 403)
    )
    what = f"({service}:{action}) is denied by the region's weather."
    return Refusal(code, f"You are not authorized to perform this operation. {what}", status=status)


def invalid_value(message: str) -> Refusal:
    return Refusal("InvalidParameterValue", message)


def invalid_combination(message: str) -> Refusal:
    return Refusal("InvalidParameterCombination", message)


def incorrect_state(message: str) -> Refusal:
    """Return the refusal of a request that a resource's present state does not allow."""
    return Refusal("IncorrectState", message)


def required(value: T | None, parameter: str) -> T:
    """Return the value of a request's parameter. Raises Refusal if it is missing or empty."""
    if not value:
        raise Refusal("MissingParameter", f"The request must contain the parameter {parameter}")
    return value


def well_formed_id(prefix: str, resource_id: str) -> str:
    """Return an id such as "vol-0123456789abcdef0". Raises Refusal if it is malformed."""
    if re.fullmatch(f"{prefix}-(?:[0-9a-f]{{8}}|[0-9a-f]{{17}})", resource_id):
        return resource_id
    if prefix == "sg":
        raise Refusal(_MALFORMED[prefix], f"The security group ID '{resource_id}' is malformed")
    if prefix in _MALFORMED:
        raise Refusal(_MALFORMED[prefix], f'Invalid id: "{resource_id}" (expecting "{prefix}-...").')
    raise Refusal(
        "InvalidParameterValue",
        f"Value ({resource_id}) for parameter {_PARAMETER[prefix]} is invalid. Expected: '{prefix}-...'.",
    )


def error_answer(service: str, content_type: str, refusal: Refusal) -> tuple[int, str, bytes]:
    """Return status, content type and body of the answer with which ``service`` refuses a request."""
    request_id = str(uuid.uuid4())
    if "json" in content_type:
        body = json.dumps({"__type": refusal.code, "message": refusal.message})
        return refusal.status, "application/x-amz-json-1.1", body.encode()
    code, message = escape(refusal.code), escape(refusal.message)
    if service == "s3":
        text = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>{request_id}</RequestId></Error>"
    elif service == "ec2":
        text = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID></Response>"
        )
    else:
        kind = "Sender" if refusal.status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
    return refusal.status, "text/xml", f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
