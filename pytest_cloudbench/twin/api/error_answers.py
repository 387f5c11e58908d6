"""Errors on the wire, in the form that each service's clients read."""

from __future__ import annotations

import json
import uuid
from xml.sax.saxutils import escape

from .refusal import Refusal


def error_answer(service: str, content_type: str, refusal: Refusal) -> tuple[int, str, bytes]:
    """Status, content type and body of an answer that refuses a request to ``service``."""
    request_id = str(uuid.uuid4())
    if "json" in content_type:
        body = json.dumps({"__type": refusal.code, "message": refusal.message})
        return refusal.status, "application/x-amz-json-1.1", body.encode()
    code, message = escape(refusal.code), escape(refusal.message)
    if service == "ec2":
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
