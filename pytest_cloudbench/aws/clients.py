"""boto3 clients, made when first needed and shared by all threads, and one way to call them."""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from pytest_cloudbench.resources.facts import Answer, Identity

from .access import CloudAccess, resolve_region
from .errors import no_credentials, translate

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
MAX_ATTEMPTS = 4
# Thirty volumes are created and attached side by side.
MAX_CONNECTIONS = 32

# Never kept, wherever they appear: private keys come in KeyMaterial, host keys go out in UserData.
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
    """Return the loader of the service models, which then reads each from disk once."""
    from botocore.loaders import create_loader

    return create_loader()


def _without_profile() -> Any:
    """Return a botocore session for given keys: it ignores AWS_PROFILE and the profile that this names."""
    import botocore.session

    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    session.register_component("data_loader", _service_models())
    return session


def preload() -> None:
    """Load boto3 and the service models: 0.3 s of work that can be done while an embedded region starts."""
    import boto3  # noqa: F401

    for service in ("ec2", "ssm", "sts"):
        _without_profile().create_client(
            service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none"  # noqa: S106
        )


class Secret(str):
    """A text that shows itself to nobody who prints it, as tracebacks print arguments."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(secret)'"


def without_secrets(value: Any) -> Any:
    """A copy of a request or an answer without the fields that hold secrets."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if key not in _SECRET_FIELDS}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


class Answers:
    """Thread-safe keeper of answers. Repeated identical Describe calls keep only the last answer.

    ``listener``, where it is not None, is told of every answer as it comes, in the thread that asked.
    """

    listener: Callable[[Answer], None] | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Answer] = {}
        self._count = 0

    def keep(self, service: str, operation: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep one answer."""
        question = without_secrets(asked)
        entry = Answer(
            time=_now(),
            service=service,
            operation=operation,
            asked=question,
            answer=without_secrets(answer),
        )
        with self._lock:
            self._count += 1
            key = f"{service} {operation} {json.dumps(question, sort_keys=True, default=str)}"
            if not operation.startswith(("describe_", "get_")):
                key += f" {self._count}"
            self._kept.pop(key, None)
            self._kept[key] = entry
        self._tell(entry)

    def refused(
        self, service: str, operation: str, asked: Mapping[str, Any], error: Mapping[str, Any]
    ) -> None:
        """Tell of a call that the service answered with an error, ``{"Code": ..., "Message": ...}``."""
        self._tell(
            Answer(_now(), service, operation, without_secrets(asked), {"Error": without_secrets(error)})
        )

    def _tell(self, answer: Answer) -> None:
        if self.listener is not None:
            self.listener(answer)

    def all(self) -> tuple[Answer, ...]:
        """What was kept, in the order of the last answers."""
        with self._lock:
            return tuple(self._kept.values())


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Clients:
    """The clients of one access. `call` translates every failure into a CloudError."""

    def __init__(self, access: CloudAccess) -> None:
        self.access = access
        self.answers = Answers()
        self._lock = threading.RLock()
        self._session: Any = None
        self._region: str | None = None
        self._clients: dict[str, Any] = {}
        self._identity: Identity | None = None

    @property
    def region(self) -> str:
        """The region in use. Raises NoRegion when none is given or configured."""
        self._open_session()
        assert self._region is not None
        return self._region

    def client(self, service: str) -> Any:
        """The boto3 client of `service` ("ec2", "ssm", "sts"), made once."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    @property
    def endpoint(self) -> str:
        """The EC2 endpoint in use, wherever it was configured."""
        return str(self.client("ec2").meta.endpoint_url)

    def call(
        self, asked: str, service: str, operation: str, *, secret: bool = False, **parameters: Any
    ) -> dict[str, Any]:
        """Make one call and keep its answer.

        `asked` completes "could not ..." in the error: "launch c5.18xlarge". `secret` keeps botocore's own
        debug log of this call silent. What the access's `check_region` raises takes the place of any answer.
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
                self.answers.refused(service, operation, parameters, error.response.get("Error", {}))
            # The frames of a call that carries a secret must not appear in anybody's traceback.
            raise translate(error, asked) from (None if secret else error)
        self.answers.keep(service, operation, parameters, answer)
        return answer

    def check_region(self) -> None:
        """Raise when the region is known to have ended."""
        if self.access.check_region is not None:
            self.access.check_region()

    def pages(
        self, asked: str, service: str, operation: str, key: str, **parameters: Any
    ) -> list[dict[str, Any]]:
        """All items under `key` over all pages of a Describe call."""
        items: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            more: dict[str, Any] = {"NextToken": token} if token else {}
            answer = self.call(asked, service, operation, **parameters, **more)
            items.extend(answer.get(key, []))
            token = answer.get("NextToken")
            if not token:
                return items

    def identity(self) -> Identity:
        """Who the credentials belong to; asked once. Raises NoCredentials before any request where there are none."""
        with self._lock:
            if self._identity is None:
                self._check_credentials()
                answer = self.call("find out whose the credentials are", "sts", "get_caller_identity")
                self._identity = Identity(account=answer["Account"], arn=answer["Arn"])
            return self._identity

    def secrets(self) -> tuple[str, ...]:
        """The secret halves of the credentials in use, for whoever must keep them out of what is written."""
        found = self._open_session().get_credentials()
        if found is None:
            return ()
        frozen = found.get_frozen_credentials()
        return tuple(each for each in (frozen.access_key, frozen.secret_key, frozen.token) if each)

    def _check_credentials(self) -> None:
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
        config = Config(
            retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=MAX_CONNECTIONS,
        )
        if self.access.is_loopback:
            # A proxy from the environment cannot reach this machine's own loopback address.
            config = config.merge(Config(proxies={}))
        try:
            made = session.client(
                service, region_name=self._region, endpoint_url=self.access.endpoint_url, config=config
            )
        except (botocore.exceptions.BotoCoreError, ValueError) as error:
            raise translate(error, f"make a client for {service}") from error
        _guard_logs()
        return made
