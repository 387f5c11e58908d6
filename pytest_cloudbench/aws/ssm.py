"""SSM Run Command as the way to the hosts of a run: scripts are sent, waited for and cancelled by its API."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from pytest_cloudbench.hosts.errors import ConnectionDropped, HostError, HostUnreachable
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.hosts.ssm import SsmHost, Written
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import LaunchedInstance

from .errors import THROTTLED, is_temporary
from .run import Run
from .waits import Cancelled, Pace, Watcher, poll

T = TypeVar("T")

DOCUMENT = "AWS-RunShellScript"
_OFTEN = Pace(0.02, 0.25, 3.0)
"""For an endpoint on this machine, whose answers take processor time from the measurements."""
_SELDOM = Pace(1.0, 2.0, 15.0, jitter=0.2)
# SSM API Reference, SendCommand and DescribeInstanceInformation.
_SHORTEST_DELIVERY_S = 30
# The document's executionTimeout; the agent treats a shorter one as a mistake, and uses an hour.
_SHORTEST_RUN_S, _LONGEST_RUN_S = 5, 172_800
_IDS_A_CALL = 50
_ENDS_LATE_S = 15.0
"""How long after a command's timeout SSM may report its end."""
_ALIVE_S = 60.0
"""How often a wait for a long command checks that its agent is still online."""
_REAPPEARS_S = 20.0
_FOUND_WITHIN_S = 15.0
"""How long a command may be missing in the list of commands after it was sent."""
_STORED_WITHIN_S = 30.0
_WAITING = ("Pending", "Delayed")
_GOING = (*_WAITING, "InProgress", "Cancelling")
_NEVER_BEGAN = -1  # the ResponseCode of such a command
_NOT_STORED = ("NoSuchKey", "404", "AccessDenied")  # without s3:ListBucket a missing object is AccessDenied


class SystemsManager:
    """Creates the hosts of a run over SSM, and describes all their agents together. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.agents = Watcher(self._described, run.clients.pace)

    def host(
        self,
        instance: LaunchedInstance,
        *,
        connect_timeout_s: float,
        boot_s: float | None,
        when_booted: Callable[[Host], None] | None,
    ) -> Host:
        """Return the instance as a host over SSM; no request is made before its first use."""
        host = SsmHost(
            str(instance),
            InstanceCommands(self, instance),
            address=instance.address or "",
            user=instance.login_user,
            connect_timeout_s=connect_timeout_s,
            boot_s=boot_s,
            when_booted=when_booted,
        )
        host.installs_tools = self.run.clients.access.install_tools or not instance.existing
        return host

    def _described(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return what SSM knows of the agents on these instances, by instance; those without an agent are left out."""
        found: dict[str, Mapping[str, Any]] = {}
        for start in range(0, len(ids), _IDS_A_CALL):
            some = list(ids[start : start + _IDS_A_CALL])
            agents = self.run.clients.pages(
                f"look for the SSM agents of {', '.join(some[:3])}{' and others' if len(some) > 3 else ''}",
                "ssm",
                "describe_instance_information",
                "InstanceInformationList",
                Filters=[{"Key": "InstanceIds", "Values": some}],
            )
            found.update((each["InstanceId"], each) for each in agents)
        return found


class InstanceCommands:
    """Run Command for one instance, as `hosts.ssm.RunCommand` describes it. Thread-safe."""

    def __init__(self, manager: SystemsManager, instance: LaunchedInstance) -> None:
        self._manager = manager
        self._run = manager.run
        self._clients = manager.run.clients
        self._instance = instance
        self._pace = _OFTEN if self._clients.access.is_loopback else _SELDOM

    @property
    def bucket(self) -> str:
        return self._clients.access.ssm_bucket or ""

    def wait_until_online(self, timeout_s: float) -> None:
        try:
            online = self._is_online(timeout_s)
        except Cancelled:
            raise
        except CloudError as error:
            raise HostUnreachable(str(error)) from error
        if not online:
            raise HostUnreachable(f"the SSM agent of {self._instance} was not online within {timeout_s:g} s")

    def _is_online(self, within_s: float) -> bool:
        """Return True as soon as the agent is online, False if it is not within `within_s` seconds."""

        def look(agent: Mapping[str, Any] | None) -> bool | None:
            return True if agent is not None and agent.get("PingStatus") == "Online" else None

        return self._manager.agents.wait(self._instance.id, look, within_s) is True

    def run(self, script: str, *, timeout_s: float, reach_s: float, through_bucket: bool = False) -> Written:
        command_id = self._send(script, timeout_s, reach_s, through_bucket=through_bucket)
        try:
            ended = self._ended(command_id, timeout_s, reach_s)
        except (HostError, TimeoutError):
            raise
        except Cancelled:
            self._cancel(command_id)
            raise
        except CloudError as error:
            raise ConnectionDropped(
                f"it is unknown how command {command_id} on {self._instance} ended: {error}"
            ) from error
        except BaseException:
            self._cancel(command_id)
            raise
        if through_bucket:
            return Written(self._stored(ended), "")
        return Written(ended.get("StandardOutputContent", ""), ended.get("StandardErrorContent", ""))

    def start(self, script: str) -> None:
        with suppress(ConnectionDropped):
            self._send_once(script, _LONGEST_RUN_S, _SHORTEST_DELIVERY_S)

    # Sending

    def _send(self, script: str, timeout_s: float, reach_s: float, *, through_bucket: bool) -> str:
        """Send a script, retry while SSM does not know the instance, and return the command's id."""
        refusal: CloudError | None = None

        def attempt() -> str | None:
            nonlocal refusal
            try:
                return self._send_once(script, timeout_s, reach_s, through_bucket=through_bucket)
            except CloudError as error:
                if error.code != "InvalidInstanceId":
                    raise
                refusal = error  # the instance restarts, or its agent's registration has not propagated
                return None

        try:
            sent = poll(attempt, reach_s, self._clients.pace)
        except Cancelled:
            raise
        except CloudError as error:
            raise HostUnreachable(str(error)) from error
        if sent is None:
            raise HostUnreachable(str(refusal)) from refusal
        return sent

    def _send_once(
        self, script: str, timeout_s: float, reach_s: float, *, through_bucket: bool = False
    ) -> str:
        """Send a script. SendCommand takes no client token: a possibly sent script is looked up, never sent again."""
        token = uuid.uuid4().hex
        stored = {"OutputS3BucketName": self.bucket, "OutputS3KeyPrefix": f"cloudbench/{self._run.run_id}"}
        try:
            answer = self._clients.call(
                f"run a command on {self._instance} by SSM",
                "ssm",
                "send_command",
                secret=True,
                heard=False,
                InstanceIds=[self._instance.id],
                DocumentName=DOCUMENT,
                Comment=f"cloudbench {self._run.run_id} {token}",
                TimeoutSeconds=max(_SHORTEST_DELIVERY_S, math.ceil(reach_s)),
                Parameters={
                    "commands": [script],
                    "executionTimeout": [
                        str(min(_LONGEST_RUN_S, max(_SHORTEST_RUN_S, math.ceil(timeout_s))))
                    ],
                },
                **(stored if through_bucket else {}),
            )
        except CloudError as error:
            if error.code in THROTTLED or not is_temporary(error):
                raise
            if (found := self._find(token)) is None:
                raise ConnectionDropped(
                    f"it is unknown whether a command on {self._instance} was run: {error}"
                ) from error
            return found
        return str(answer["Command"]["CommandId"])

    def _find(self, token: str) -> str | None:
        """Return the id of the command with this token in its comment; None if SSM shows none."""

        def look() -> str | None:
            answer = self._clients.call(
                f"look for a command on {self._instance}",
                "ssm",
                "list_commands",
                heard=False,
                InstanceId=self._instance.id,
                MaxResults=50,
            )
            for each in answer["Commands"]:
                if each.get("Comment", "").endswith(token):
                    return str(each["CommandId"])
            return None

        try:
            return poll(look, _FOUND_WITHIN_S, self._clients.pace)
        except Cancelled:
            raise
        except CloudError:
            return None

    # Waiting

    def _ended(self, command_id: str, timeout_s: float, reach_s: float) -> Mapping[str, Any]:
        """Wait for the end of a command, and return how it ended.

        Raises TimeoutError, HostUnreachable if it did not begin, ConnectionDropped if something else ended it.
        """
        look = partial(self._look, command_id)
        seen = poll(partial(look, until_not=_WAITING), reach_s, self._pace)
        if seen is None:
            self._cancel(command_id)
            seen = poll(look, _ENDS_LATE_S, self._pace)
            if seen is None or seen.get("ResponseCode") == _NEVER_BEGAN:
                raise HostUnreachable(
                    f"the SSM agent of {self._instance} did not take a command within {reach_s:g} s"
                )
        if seen["Status"] in _GOING:
            seen = poll(self._while_alive(look), timeout_s + _ENDS_LATE_S, self._pace)
        if seen is None:
            self._cancel(command_id)
            raise TimeoutError
        status = seen["Status"]
        details = str(seen.get("StatusDetails") or status).replace(" ", "")
        if details in ("DeliveryTimedOut", "Undeliverable"):
            raise HostUnreachable(f"the SSM agent of {self._instance} did not take a command: {details}")
        if status == "TimedOut":
            raise TimeoutError
        if status not in ("Success", "Failed"):
            raise ConnectionDropped(f"SSM ended a command on {self._instance} before its end: {details}")
        return seen

    def _while_alive(self, look: Callable[[], T | None]) -> Callable[[], T | None]:
        """Return `look`, extended to raise ConnectionDropped once the agent is offline.

        SSM keeps showing a command as running after its instance has ended.
        """
        due_s = time.monotonic() + _ALIVE_S

        def look_again() -> T | None:
            nonlocal due_s
            seen = look()
            if seen is None and time.monotonic() >= due_s:
                if not self._is_online(_REAPPEARS_S):
                    raise ConnectionDropped(
                        f"the SSM agent of {self._instance} went away while a command ran"
                    )
                due_s = time.monotonic() + _ALIVE_S
            return seen

        return look_again

    def _look(self, command_id: str, until_not: Sequence[str] = _GOING) -> Mapping[str, Any] | None:
        """Return the command as SSM describes it, None while its state is one of `until_not`."""
        try:
            found = self._clients.call(
                f"look at command {command_id} on {self._instance}",
                "ssm",
                "get_command_invocation",
                heard=False,
                CommandId=command_id,
                InstanceId=self._instance.id,
            )
        except CloudError as error:
            if error.code == "InvocationDoesNotExist":  # right after it was sent
                return None
            raise
        return None if found["Status"] in until_not else found

    def _cancel(self, command_id: str) -> None:
        with suppress(CloudError):
            self._clients.call(
                f"cancel command {command_id} on {self._instance}",
                "ssm",
                "cancel_command",
                heard=False,
                CommandId=command_id,
                InstanceIds=[self._instance.id],
            )

    # Long output

    def _stored(self, ended: Mapping[str, Any]) -> str:
        """Return the output of a command that SSM stored in the bucket, and delete it there.

        Raises HostError if it is not there, ConnectionDropped if it could not be read.
        """
        key = stored_key(str(ended.get("StandardOutputUrl") or ""), self.bucket)
        place: dict[str, Any] = {"Bucket": self.bucket, "Key": key}
        refusal: CloudError | None = None

        def read() -> str | None:
            nonlocal refusal
            try:
                return self._object(place)
            except CloudError as error:
                if error.code not in _NOT_STORED:
                    raise
                refusal = error
                return None

        try:
            found = poll(read, _STORED_WITHIN_S, self._clients.pace)
        finally:
            with suppress(CloudError):
                self._clients.call(f"delete s3://{self.bucket}/{key}", "s3", "delete_object", **place)
        if found is None:
            raise HostError(
                f"the output of a command on {self._instance} is not in s3://{self.bucket}/{key} ({refusal}): its "
                "instance profile must allow s3:PutObject there, and these credentials s3:GetObject"
            )
        return found

    def _object(self, place: Mapping[str, Any]) -> str:
        import botocore.exceptions

        answer = self._clients.call(
            f"read s3://{place['Bucket']}/{place['Key']}", "s3", "get_object", heard=False, **place
        )
        try:
            return str(answer["Body"].read().decode("ascii", "replace"))
        except (botocore.exceptions.BotoCoreError, OSError) as error:
            raise ConnectionDropped(
                f"s3://{place['Bucket']}/{place['Key']} was cut off while it was read: {error}"
            ) from error


def stored_key(url: str, bucket: str) -> str:
    """Return the key in an output's URL, whose bucket is in its host or its path. Raises HostError without a key."""
    path = unquote(urlsplit(url).path).lstrip("/")
    key = path.removeprefix(f"{bucket}/")
    if not key:
        raise HostError(f"SSM names no place in bucket {bucket!r} for the output of a command: {url!r}")
    return key
