"""The boto3 clients of a run, shared by all its threads, and the one way to call them."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from pytest_cloudbench.evidence.journal import utc_now
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Answer, Identity

from .access import CloudAccess, resolve_region
from .errors import Unreachable, is_temporary, no_credentials, translate
from .waits import OFTEN, SELDOM, Bounds, Pace, retry_while

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
MAX_ATTEMPTS = 4
# Thirty volumes are created and attached side by side.
MAX_CONNECTIONS = 32
_LOOPBACK_SETTLE_S = 20.0
"""An endpoint on this machine shows what it created within this time, also with the weather of AWS."""

# Removed wherever they appear: KeyMaterial has private keys, UserData has host keys.
_SECRET_FIELDS = frozenset({"KeyMaterial", "UserData", "ResponseMetadata"})

_secret_call = threading.local()


class _HideSecretCalls(logging.Filter):
    """Drops botocore's debug records of calls that carry a private key, in the thread that makes the call."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_secret_call, "active", False) or record.levelno >= logging.WARNING


_hide_secret_calls = _HideSecretCalls()


def _guard_logs() -> None:
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] in ("boto3", "botocore", "urllib3"):
            logging.getLogger(name).addFilter(_hide_secret_calls)


@contextmanager
def _secrets_unlogged() -> Iterator[None]:
    _guard_logs()
    _secret_call.active = True
    try:
        yield
    finally:
        _secret_call.active = False


@functools.cache
def _service_models() -> Any:
    """Return the one loader of service models, which reads each model from disk once."""
    from botocore.loaders import create_loader

    return create_loader()


def _without_profile() -> Any:
    """Return a botocore session for explicit keys: it ignores AWS_PROFILE."""
    import botocore.session

    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    session.register_component("data_loader", _service_models())
    return session


def _retries(session: Any) -> Any:
    """Return how botocore retries a call: in standard mode, up to MAX_ATTEMPTS times, unless the user configured it.

    Users configure it by AWS_RETRY_MODE and AWS_MAX_ATTEMPTS, or by retry_mode and max_attempts in the profile.
    Settings of a client would take precedence over these.
    """
    profile = session._session.get_scoped_config()
    retries: dict[str, Any] = {}
    if not os.environ.get("AWS_RETRY_MODE") and "retry_mode" not in profile:
        retries["mode"] = "standard"
    if not os.environ.get("AWS_MAX_ATTEMPTS") and "max_attempts" not in profile:
        retries["total_max_attempts"] = MAX_ATTEMPTS
    return retries


_ASKED_ONCE: Any = {"total_max_attempts": 1}
"""For SSM: a repeated SendCommand would run a command twice. `repeat` retries the calls that may be repeated."""


def preload() -> None:
    """Load boto3 and the service models: 0.3 s of work that can be done while an embedded region starts."""
    import boto3  # noqa: F401

    for service in ("ec2", "ssm", "sts"):
        _without_profile().create_client(
            service,
            "us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106
        )


class Secret(str):
    """A text whose repr does not show it, because tracebacks print arguments."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(secret)'"


def without_secrets(value: Any) -> Any:
    """Return a copy of a request or an answer without the fields that hold secrets."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if key not in _SECRET_FIELDS}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def settle_s(access: CloudAccess, bounds: Bounds) -> float:
    """Return how long a new resource may stay invisible at this endpoint, in seconds."""
    return min(bounds.settle_s, _LOOPBACK_SETTLE_S) if access.is_loopback else bounds.settle_s


class Clients:
    """The clients for one access. `call` turns every failure into a CloudError.

    settle_s: how long a new resource may stay invisible, and how long `repeat` repeats a call; at most 20 s for an
    endpoint on this machine. listener: called with each answer, in the thread that made the call.
    """

    listener: Callable[[Answer], None] | None = None

    def __init__(self, access: CloudAccess, bounds: Bounds | None = None) -> None:
        self.access = access
        self.settle_s = settle_s(access, bounds or Bounds())
        self._answered = False
        self._lock = threading.RLock()
        self._session: Any = None
        self._region: str | None = None
        self._clients: dict[str, Any] = {}
        self._identity: Identity | None = None

    @property
    def region(self) -> str:
        """The region in use. Raises NoRegion if none is given or configured."""
        self._open_session()
        assert self._region is not None
        return self._region

    def client(self, service: str) -> Any:
        """Return the boto3 client of `service` ("ec2", "ssm", "sts"); the first call creates it."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    @property
    def endpoint(self) -> str:
        """The EC2 endpoint in use, wherever it was configured."""
        return str(self.client("ec2").meta.endpoint_url)

    def call(
        self,
        asked: str,
        service: str,
        operation: str,
        *,
        secret: bool = False,
        heard: bool = True,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Make one call and return its answer.

        `asked` completes "could not ..." in the error, such as "launch c5.18xlarge". `secret` silences botocore's debug
        log for this call; without `heard` the listener does not get its answer. Raises CloudError, or what the access's
        `check_region` raises.
        """
        import botocore.exceptions

        self.check_region()
        method = getattr(self.client(service), operation)
        try:
            if secret:
                with _secrets_unlogged():
                    answer: dict[str, Any] = method(**parameters)
            else:
                answer = method(**parameters)
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            if not isinstance(error, botocore.exceptions.ClientError):
                self.check_region()
            else:
                self._report(
                    service, operation, parameters, {"Error": error.response.get("Error", {})}, heard
                )
            # No traceback may show the frames of a call that carries a secret.
            raise translate(error, asked) from (None if secret else error)
        self._report(service, operation, parameters, answer, heard)
        return answer

    def _report(
        self, service: str, operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any], heard: bool
    ) -> None:
        self._answered = True
        if heard and self.listener is not None:
            self.listener(
                Answer(utc_now(), service, operation, without_secrets(asked), without_secrets(answer))
            )

    @property
    def pace(self) -> Pace:
        """How often waits poll this endpoint."""
        return OFTEN if self.access.is_loopback else SELDOM

    def check_region(self) -> None:
        """Raise if the region is known to have ended."""
        if self.access.check_region is not None:
            self.access.check_region()

    def pages(
        self, asked: str, service: str, operation: str, key: str, **parameters: Any
    ) -> list[dict[str, Any]]:
        """Return the items under `key` on all pages of a Describe call."""
        items: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            more: dict[str, Any] = {"NextToken": token} if token else {}
            answer = self.call(asked, service, operation, **parameters, **more)
            items.extend(answer.get(key, []))
            token = answer.get("NextToken")
            if not token:
                return items

    def repeat(self, ask: Callable[[], T], codes: Collection[str] = ()) -> T:
        """Call `ask`, retry after temporary errors and errors with one of `codes`, and return its result.

        Only for calls that may be made twice. Raises the last error after `settle_s` seconds, or at once if the
        endpoint has never answered: its address or the network is wrong.
        """
        try:
            return ask()
        except CloudError as error:
            never = isinstance(error, Unreachable) and not self._answered
            if never or not (is_temporary(error) or error.code in codes):
                raise
        return retry_while(codes, ask, self.settle_s, self.pace)

    def repeat_call(
        self,
        asked: str,
        operation: str,
        *,
        codes: Collection[str] = (),
        service: str = "ec2",
        **parameters: Any,
    ) -> dict[str, Any]:
        """Make one call as `call` does, and repeat it as `repeat` does."""
        return self.repeat(partial(self.call, asked, service, operation, **parameters), codes)

    def repeat_pages(self, asked: str, operation: str, key: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the items of an EC2 Describe call as `pages` does, repeated as `repeat` does."""
        return self.repeat(partial(self.pages, asked, "ec2", operation, key, **parameters))

    def identity(self) -> Identity:
        """Return whose credentials are in use; queried once. Raises NoCredentials if there are none."""
        with self._lock:
            if self._identity is None:
                self.check_credentials()
                answer = self.repeat_call(
                    "find out whose the credentials are", "get_caller_identity", service="sts"
                )
                self._identity = Identity(account=answer["Account"], arn=answer["Arn"])
            return self._identity

    def secrets(self) -> tuple[str, ...]:
        """Return the credentials in use, which recorded evidence must not contain."""
        found = self._open_session().get_credentials()
        if found is None:
            return ()
        frozen = found.get_frozen_credentials()
        return tuple(each for each in (frozen.access_key, frozen.secret_key, frozen.token) if each)

    def credentials_end(self) -> datetime | None:
        """Return when the credentials expire if nothing renews them; None if unknown, or if they are renewed.

        The time is known only for those from the environment, with AWS_CREDENTIAL_EXPIRATION. botocore renews those of
        a role, SSO or a process.
        """
        found = self._open_session().get_credentials()
        end = getattr(found, "_expiry_time", None)
        return end if isinstance(end, datetime) and found.method == "env" else None

    def check_credentials(self) -> None:
        """Raise NoCredentials if none are configured, NoRegion if no region is."""
        import botocore.exceptions

        session = self._open_session()
        try:
            found = session.get_credentials()
        except botocore.exceptions.BotoCoreError as error:
            raise translate(error, "read the AWS credentials") from error
        if found is None:
            raise no_credentials("none were found")

    def _open_session(self) -> Any:
        import boto3
        import botocore.exceptions

        with self._lock:
            if self._session is None:
                access = self.access
                try:
                    session = boto3.session.Session(
                        botocore_session=None if access.access_key is None else _without_profile(),
                        aws_access_key_id=access.access_key,
                        aws_secret_access_key=access.secret_key,
                        aws_session_token=access.session_token,
                        region_name=access.region,
                    )
                    self._region = resolve_region(access.region, session.region_name)
                except botocore.exceptions.BotoCoreError as error:
                    raise translate(error, "read the AWS configuration") from error
                self._session = session
            return self._session

    def _make(self, service: str) -> Any:
        import botocore.exceptions
        from botocore.config import Config

        session = self._open_session()
        try:
            config = Config(
                retries=_ASKED_ONCE if service == "ssm" else _retries(session),
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                max_pool_connections=MAX_CONNECTIONS,
            )
            if self.access.is_loopback:
                # A proxy from the environment cannot reach this machine's own loopback address.
                config = config.merge(Config(proxies={}))
            made = session.client(
                service, region_name=self._region, endpoint_url=self.access.endpoint_url, config=config
            )
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise translate(error, f"make a client for {service}") from error
        _guard_logs()
        return made
