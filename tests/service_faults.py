"""Faults of an EC2 service, put on the wire of one `Cloud`'s client."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.aws.cloud import Cloud


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


@dataclass
class Faults:
    """Makes the service answer a call with an error, on the wire, so that parsing and retries are real."""

    cloud: Cloud

    def answer(
        self,
        operation: str,
        code: str,
        message: str = "said so",
        *,
        status: int = 400,
        times: int = 10**6,
        when: Callable[[dict[str, str]], bool] = lambda _asked: True,
    ) -> list[str]:
        """Answer the next `times` calls of `operation` with `code`; the list grows by one per answered call.

        `when` is given the request's parameters and chooses the calls that are answered so.
        """
        from urllib.parse import parse_qsl

        from botocore.awsrequest import AWSResponse

        calls: list[str] = []
        counting = threading.Lock()  # a launch makes several calls at once
        body = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            "<RequestID>r-1</RequestID></Response>"
        ).encode()

        def refuse(request: Any, **_: Any) -> Any:
            text = request.body.decode() if isinstance(request.body, bytes) else str(request.body)
            with counting:
                if len(calls) >= times or not when(dict(parse_qsl(text))):
                    return None
                calls.append(request.url)
            return AWSResponse(request.url, status, {"content-type": "text/xml"}, _Raw(body))

        self.on("before-send", operation, refuse)
        return calls

    def lose_answer(self, operation: str) -> None:
        """Let `operation` happen, but let its answer never arrive."""
        from botocore.exceptions import ConnectionClosedError
        from botocore.httpsession import URLLib3Session

        def lose(request: Any, **_: Any) -> None:
            URLLib3Session().send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

        self.on("before-send", operation, lose)

    def on(self, event: str, operation: str, handler: Callable[..., Any]) -> None:
        service = "sts" if operation == "GetCallerIdentity" else "ec2"
        events = self.cloud.clients.client(service).meta.events
        events.register(f"{event}.{service}.{operation}", handler, unique_id=f"fault-{event}-{operation}")

    def none(self, operation: str, event: str = "before-send") -> None:
        """Let `operation` work again."""
        service = "sts" if operation == "GetCallerIdentity" else "ec2"
        events = self.cloud.clients.client(service).meta.events
        events.unregister(f"{event}.{service}.{operation}", unique_id=f"fault-{event}-{operation}")
