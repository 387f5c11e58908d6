"""The region's endpoint: an HTTP server on loopback that authenticates each call and passes it to its service.

The server listens at once and loads its services in a thread. Calls wait until they are loaded.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from .authentication import (
    AccessKey,
    Credential,
    fault_in_time,
    holds,
    new_access_key,
    read_credential,
    signature_is_right,
)
from .images import known_images
from .moto_loading import REGION, load_moto
from .refusal import Refusal, error_answer, unsupported

if TYPE_CHECKING:
    from pytest_cloudbench.limits.weather import Weather
    from pytest_cloudbench.twin.plane import Plane

    from .region import Region

log = logging.getLogger(__name__)

_RESPONSES = {
    "monitoring": ("moto.cloudwatch.responses", "CloudWatchResponse"),
    "sts": ("moto.sts.responses", "TokenResponse"),
}
_SERVICES = ("ec2", "ssm", "s3", *_RESPONSES, "pricing", "servicequotas")
_LOADING_LIMIT_S = 170.0  # an emulated machine needs most of a minute
_POLL_S = 0.1  # how often the server checks whether it must end
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MAX_OBJECT_BYTES = 64 * 1024 * 1024  # of one request; SDKs upload larger objects in parts
_BACKLOG = 1024  # with werkzeug's 128, connections from the clients of a fleet would wait for seconds
_LOST = "cloudbench.lost"  # in the environment of a call whose answer the weather loses

StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Environ = dict[str, Any]


class Front:
    """The endpoint of one region.

    ``start`` returns when it listens on ``url``. ``open`` passes it the plane that it serves. Until then the services
    load, which needs no plane, and calls wait. Without ``weather`` the region answers as fast as it can.
    """

    def __init__(self, weather: Weather | None = None) -> None:
        self._weather = weather
        self.access_key: AccessKey = new_access_key()
        self._plane: Plane | None = None
        self._opened = threading.Event()
        self._loaded = threading.Event()
        self._failure: BaseException | None = None
        self._region: Region | None = None
        self._server: Any = None

    @property
    def url(self) -> str:
        """The endpoint's URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        """Listen on a free port of loopback and load the services meanwhile."""
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Handler(WSGIRequestHandler):  # type: ignore[misc]
            disable_nagle_algorithm = True  # otherwise answers wait for the client's delayed acknowledgement
            protocol_version = "HTTP/1.1"

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                log.debug("%s %s", self.requestline, code)

            def log(self, type: str, message: str, *args: Any) -> None:
                log.debug(message, *args)

        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=Handler)
        self._server.daemon_threads = True
        self._server.socket.listen(_BACKLOG)
        threading.Thread(target=self._load, name="load services", daemon=True).start()
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="front", daemon=True
        ).start()

    def open(self, plane: Plane) -> None:
        """Serve the region on this plane."""
        self._plane = plane
        self._opened.set()

    def region(self) -> Region:
        """Wait until the region behind the endpoint is loaded, and return it.

        Raises RuntimeError if loading failed or takes too long.
        """
        if not self._loaded.wait(_LOADING_LIMIT_S):
            raise RuntimeError(f"the region's services did not load within {_LOADING_LIMIT_S:.0f} s")
        if self._failure is not None or self._region is None:
            raise RuntimeError(f"the region's services did not load: {self._failure}") from self._failure
        return self._region

    def close(self) -> None:
        """Stop the server. Answers in progress may be lost."""
        self._opened.set()
        if self._region is not None:
            self._region.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        status, headers, body = self._answer(environ)
        if _LOST in environ:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if "content-length" not in map(str.lower, headers):
            headers["Content-Length"] = str(len(body))
        start_response(f"{status} {'OK' if status < 400 else 'Error'}", list(headers.items()))
        return [body]

    def _load(self) -> None:
        gc.disable()  # modules stay loaded: searching them for garbage would take a third of the time
        try:
            load_moto()
            self._opened.wait()
            plane = self._plane
            if plane is None:  # closed before it was opened
                return
            region = build_region(plane)
            _warm_up(region)
            if self._weather is not None and not self._weather.is_clear:
                from .weather import RegionWeather

                region.let_weather(RegionWeather(self._weather))
            region.measure_machine()
            region.metrics.start()
            self._region = region
        except BaseException as error:  # the next call raises it
            log.exception("loading the services")
            self._failure = error
        finally:
            gc.freeze()
            gc.enable()
            self._loaded.set()

    def _answer(self, environ: Environ) -> tuple[int, dict[str, str], bytes]:
        credential = read_credential(environ)
        service = credential.service if credential is not None else "ec2"
        try:
            self._check_signature(self._admitted_key(credential, environ), environ)
            return self._dispatch(service, environ)
        except Refusal as refusal:
            return _refused(service, environ, refusal)
        except NotImplementedError as error:
            message = f"This region does not have this operation: {error}"
            return _refused(service, environ, unsupported(message))
        except Exception as error:
            log.exception("answering a call to %s", service)
            message = (
                f"The region failed on this request ({type(error).__name__}: {error}); its log says more."
            )
            return _refused(service, environ, Refusal("InternalError", message, status=500))

    def _admitted_key(self, credential: Credential | None, environ: Environ) -> Credential:
        """Return the credential of a request if it names the region and its key."""
        if credential is None:
            raise Refusal(
                "MissingAuthenticationToken",
                "The request is not signed. Sign it (Signature Version 4) with the key that the region printed.",
                status=403,
            )
        if not holds(self.access_key, credential) or credential.token:
            raise _unknown_key(credential, environ)
        if credential.region != REGION:
            raise Refusal(
                "AuthFailure",
                f"Credential should be scoped to a valid region: this endpoint serves {REGION}, the request is for "
                f"{credential.region}.",
                status=403,
            )
        return credential

    def _check_signature(self, credential: Credential, environ: Environ) -> None:
        if credential.service not in _SERVICES:
            raise unsupported(
                f"The embedded region has no '{credential.service}' service; it has {', '.join(_SERVICES)}."
            )
        most = _MAX_OBJECT_BYTES if credential.service == "s3" else _MAX_BODY_BYTES
        if not signature_is_right(self.access_key, credential, environ, _body(environ, most)):
            raise Refusal(
                "AuthFailure" if credential.service == "ec2" else "SignatureDoesNotMatch",
                "The request signature does not match the one calculated with the region's secret key.",
                status=403,
            )
        if fault := fault_in_time(credential, datetime.now(timezone.utc)):
            raise _outdated(credential, environ, fault)

    def _dispatch(self, service: str, environ: Environ) -> tuple[int, dict[str, str], bytes]:
        region = self.region()
        if service in ("pricing", "servicequotas"):
            from .pricing import answer_account

            vcpus = region.weather.settings.vcpus if region.weather is not None else 0
            return answer_account(environ.get("HTTP_X_AMZ_TARGET", ""), _body(environ), vcpus)
        from moto.core.request import Request

        class FrontRequest(Request):  # type: ignore[misc]
            from_wsgi_server = True

        request = FrontRequest(environ)
        request.get_data(parse_form_data=service != "s3", cache=True)  # an object may look like a form
        if region.weather is None:
            return call_service(region, service, request)
        from .weather import action_of

        action = action_of(service, request)
        region.weather.check_call(service, action, request.form)
        answer = call_service(region, service, request, action)
        if region.weather.loses_answer(action):
            environ[_LOST] = True
        return answer


def _is_json(environ: Environ) -> bool:
    return "json" in environ.get("CONTENT_TYPE", "")


def _unknown_key(credential: Credential, environ: Environ) -> Refusal:
    """Return a service's refusal of a key that the region did not make, or of a session token, which it never makes."""
    hint = " (The region's key has no session token: unset AWS_SESSION_TOKEN.)" if credential.token else ""
    if credential.service == "ec2":
        message = f"AWS was not able to validate the provided access credentials{hint}"
        return Refusal("AuthFailure", message, status=401)
    if credential.service == "s3":
        if credential.token:
            return Refusal("InvalidToken", f"The provided token is malformed or otherwise invalid.{hint}")
        message = "The AWS Access Key Id you provided does not exist in our records."
        return Refusal("InvalidAccessKeyId", message, status=403)
    code = "UnrecognizedClientException" if _is_json(environ) else "InvalidClientTokenId"
    return Refusal(code, f"The security token included in the request is invalid.{hint}", status=403)


def _outdated(credential: Credential, environ: Environ, fault: str) -> Refusal:
    """Return a service's refusal of a signature that is not valid now."""
    if credential.service == "ec2":
        return Refusal("RequestExpired", f"Request has expired: {fault}.")
    if credential.service == "s3":
        code = "RequestTimeTooSkewed" if credential.lasts_s is None else "AccessDenied"
        return Refusal(code, f"Request has expired: {fault}.", status=403)
    if _is_json(environ):
        return Refusal("InvalidSignatureException", f"Signature expired: {fault}.")
    return Refusal("SignatureDoesNotMatch", f"Signature expired: {fault}.", status=403)


def build_region(plane: Plane) -> Region:
    """Return a new region on a plane. Call after `load_moto`."""
    from .backend import build_backend
    from .region import Region

    return Region(build_backend(plane.slot, plane.network), plane)


def call_service(
    region: Region, service: str, request: Any, lagging_action: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Let a service answer a request. EC2 and SSM have the region's own actions, the others are moto's.

    ``lagging_action`` names the EC2 action if it reads the view that lags behind the region's state, or if that view is
    to show its changes late.
    """
    if service == "s3":
        from .objects import answer_objects

        return answer_objects(region, request)
    lagging = region.replica if lagging_action and service == "ec2" else None
    with region.lock, lagging.during(lagging_action, request.form) if lagging else contextlib.nullcontext():
        if service == "ec2":
            from .ec2_actions import Ec2Actions

            status, headers, body = Ec2Actions(region).answer(request)
        else:
            status, headers, body = _answer_by_moto(region, service, request)
    headers = {str(key): str(value) for key, value in headers.items() if key.lower() != "status"}
    headers.setdefault("Content-Type", "text/xml;charset=UTF-8")
    return int(status), headers, body.encode() if isinstance(body, str) else body


def _answer_by_moto(region: Region, service: str, request: Any) -> tuple[int, dict[str, str], Any]:
    from botocore.model import OperationNotFoundError

    url = f"http://{service}.{REGION}.amazonaws.com{request.raw_path}"
    if request.query_string:
        url += f"?{request.query_string.decode()}"
    if service == "ssm":
        from .ssm_actions import SsmActions

        actions: Any = SsmActions(region)
    else:
        if service == "sts" and (action := request.values.get("Action")) != "GetCallerIdentity":
            raise unsupported(
                f"This region does not offer {action}: its only identity is the owner of its key."
            )
        if service == "monitoring":
            region.metrics.publish()
        module, name = _RESPONSES[service]
        actions = getattr(importlib.import_module(module), name)()
    try:
        answer: tuple[int, dict[str, str], Any] = actions._dispatch(request, url, dict(request.headers))
    except OperationNotFoundError as error:
        raise Refusal("InvalidAction", f"The action is not valid for this web service: {error}") from None
    return answer


def _warm_up(region: Region) -> None:
    """Answer one call each to EC2, SSM and STS before clients call: reading the service models takes a while."""
    from moto.core.request import Request

    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    json_call = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AmazonSSM.GetParameter"}
    name = next(iter(known_images().values())).ssm_parameters[0]
    for service, headers, body in (
        ("ec2", form, "Action=DescribeInstances&Version=2016-11-15"),
        ("ssm", json_call, f'{{"Name": "{name}"}}'),
        ("sts", form, "Action=GetCallerIdentity&Version=2011-06-15"),
    ):
        call_service(region, service, Request.from_primitives("POST", "http://127.0.0.1/", headers, body))


def _body(environ: Environ, most: int = _MAX_BODY_BYTES) -> bytes:
    """Return the request's body, which can be read again. Refuses a large body before reading all of it."""
    length = environ.get("CONTENT_LENGTH") or "0"
    too_large = Refusal("RequestEntityTooLarge", f"The request is larger than {most} bytes.", status=413)
    if environ.pop("wsgi.input_terminated", False):  # sent in chunks, so its length is not known yet
        body: bytes = environ["wsgi.input"].read(most + 1)
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        environ["CONTENT_LENGTH"] = str(len(body))
        if len(body) > most:
            raise too_large
    elif not length.isdigit() or int(length) > most:
        raise too_large
    else:
        body = environ["wsgi.input"].read(int(length))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _refused(service: str, environ: Environ, refusal: Refusal) -> tuple[int, dict[str, str], bytes]:
    status, content_type, body = error_answer(service, environ.get("CONTENT_TYPE", ""), refusal)
    # On a kept connection an unread body would be read as the next request.
    return status, {"Content-Type": content_type, "Connection": "close"}, body
