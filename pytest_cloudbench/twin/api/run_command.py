"""SSM Run Command: commands, their invocations, and the threads that carry them out.

A command has one invocation for each of its instances. Threads, at most as many as MaxConcurrency allows, deliver the
invocations, run them on the plane and record how they ended. Callers of all functions hold the region's lock; the
threads take it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING, Any

from moto.core.utils import utcnow

from pytest_cloudbench.twin.hosts.run_command import RunningScript, Script, ScriptEnd
from pytest_cloudbench.twin.inventory import PlaneError

from .moto_loading import REGION
from .ssm_admission import CommandRequest

if TYPE_CHECKING:
    from .region import Region

log = logging.getLogger(__name__)

# AWS Systems Manager API Reference, GetCommandInvocation and CommandPlugin, read 2026-11. The notices are those of
# SSM Agent (github.com/aws/amazon-ssm-agent).
STDOUT_CHARACTERS = 24_000
STDERR_CHARACTERS = 8_000
OUTPUT_CHARACTERS = 2_500
TRUNCATED = "--output truncated--"
_STDOUT_CUT = "\n---Output truncated---"
_STDERR_CUT = "\n---Error truncated----"
_STDERR_TITLE = "\n----------ERROR-------\n"

# Detailed states whose state differs. Source: AWS Systems Manager User Guide, "Understanding command statuses".
_STATES = {
    "DeliveryTimedOut": "TimedOut",
    "ExecutionTimedOut": "TimedOut",
    "Incomplete": "Failed",
    "NoInstancesInTag": "Success",
    "Terminated": "Cancelled",
    "Undeliverable": "Failed",
}
_OPEN = ("Pending", "InProgress", "Delayed", "Cancelling")
_LOOK_S = 0.05  # how often a delivery checks whether the instance is reachable again


def state_of(details: str) -> str:
    """Return the state, such as TimedOut, of a detailed state, such as ExecutionTimedOut."""
    return _STATES.get(details, details)


@dataclass
class Invocation:
    """A command on one instance. ``code`` is -1 until a script has ended; texts are cut to what calls show."""

    command: Command
    instance_id: str
    instance_name: str
    details: str = "Pending"
    code: int = -1
    started: datetime | None = None
    ended: datetime | None = None
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    running: RunningScript | None = None

    @property
    def is_open(self) -> bool:
        return self.details in _OPEN

    def key(self, stream: str) -> str:
        """Return the key of the S3 object that has the whole of one output stream."""
        request = self.command.request
        prefix = f"{request.key_prefix.strip('/')}/" if request.key_prefix.strip("/") else ""
        return f"{prefix}{self.command.id}/{self.instance_id}/awsrunShellScript/0.awsrunShellScript/{stream}"

    def url(self, stream: str) -> str:
        """Return the URL of that object as AWS states it; "" without a bucket."""
        bucket = self.command.request.bucket
        return f"https://s3.{REGION}.amazonaws.com/{bucket}/{self.key(stream)}" if bucket else ""


@dataclass
class Command:
    """A command that was sent.

    ``sent`` and ``hidden_until``, when calls begin to show its invocations, are times of the monotonic clock.
    """

    request: CommandRequest
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    requested: datetime = field(default_factory=utcnow)
    invocations: list[Invocation] = field(default_factory=list)
    sent: float = field(default_factory=time.monotonic)
    hidden_until: float = 0.0

    @property
    def expires(self) -> datetime:
        return self.requested + timedelta(seconds=self.request.timeout_s + self.request.execution_s)

    @property
    def known_invocations(self) -> list[Invocation]:
        """The invocations that calls show now."""
        return self.invocations if time.monotonic() >= self.hidden_until else []

    @property
    def is_open(self) -> bool:
        return any(each.is_open for each in self.invocations)

    @property
    def error_count(self) -> int:
        return sum(each.details in ("Failed", "ExecutionTimedOut") for each in self.invocations)

    @property
    def details(self) -> str:
        """The detailed state of the command as a whole."""
        count = Counter(each.details for each in self.invocations)
        total = len(self.invocations)
        if not total:
            return "NoInstancesInTag"
        if count["Pending"] == total:
            return "Pending"
        if self.is_open:
            return "Cancelling" if count["Cancelling"] else "InProgress"
        if count["Success"] == total:
            return "Success"
        for details in ("Failed", "ExecutionTimedOut", "DeliveryTimedOut"):
            if count[details] >= max(1, self.request.max_errors(total)):
                return details
        return "Cancelled" if count["Cancelled"] else "Incomplete"


class RunCommand:
    """The commands of one region."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self.commands: dict[str, Command] = {}

    def send(self, request: CommandRequest, instances: list[Any]) -> Command:
        """Record a command for these instances and start it."""
        command = Command(request)
        command.invocations = [
            Invocation(command, each.id, each.private_dns_name or "") for each in instances
        ]
        self.commands[command.id] = command
        delay = self._region.delay("command_delay", "SendCommand")
        command.hidden_until = command.sent + delay / 2
        waiting = iter(list(command.invocations))
        for _ in range(min(len(instances), request.max_concurrency(len(instances)))):
            threading.Thread(
                target=self._work, args=(command, waiting, delay), name=f"command {command.id}", daemon=True
            ).start()
        return command

    def cancel(self, invocation: Invocation) -> None:
        """Cancel an invocation, unless it has ended."""
        if not invocation.is_open:
            return
        if invocation.running is None:
            _end(invocation, "Cancelled")
        else:
            invocation.details = "Cancelling"
            invocation.running.cancel()

    def _work(self, command: Command, waiting: Iterator[Invocation], delay: float) -> None:
        """Carry out one invocation after another, until none waits or too many have failed."""
        region = self._region
        while True:
            with region.lock:
                invocation = next(waiting, None)
                if invocation is None:
                    return
                if not invocation.is_open:  # cancelled
                    continue
                if command.error_count > command.request.max_errors(len(command.invocations)):
                    _end(invocation, "Terminated")
                    continue
            try:
                if self._is_delivered(invocation, delay):
                    self._run(invocation)
            except Exception:
                log.exception("%s on %s", command.id, invocation.instance_id)
                with region.lock:
                    _end(invocation, "Undeliverable")

    def _is_delivered(self, invocation: Invocation, delay: float) -> bool:
        """Wait until the instance can run a command; return False if the invocation ends first."""
        region, instance_id, command = self._region, invocation.instance_id, invocation.command
        region.closing.wait(delay)
        while not region.closing.is_set():
            with region.lock:
                if not invocation.is_open:
                    return False
                if time.monotonic() > command.sent + command.request.timeout_s:
                    _end(invocation, "DeliveryTimedOut")
                    return False
                state = next((each.state for each in region.instances() if each.id == instance_id), "")
                if state == "running" and region.plane.instances.agent_answers(instance_id):
                    return True
                if state in ("", "shutting-down", "terminated"):
                    _end(invocation, "Undeliverable")
                    return False
                invocation.details = "Delayed"
            region.closing.wait(_LOOK_S)
        return False

    def _run(self, invocation: Invocation) -> None:
        region, request = self._region, invocation.command.request
        script = Script(
            invocation.command.id, request.script, request.directory, timeout_s=request.execution_s
        )
        started = utcnow()
        try:
            running = region.plane.instances.run_script(invocation.instance_id, script, REGION)
        except (PlaneError, OSError) as error:
            log.warning("%s: %s", invocation.command.id, error)
            with region.lock:
                _end(invocation, "Undeliverable")
            return
        with region.lock:
            invocation.running, invocation.started = running, started
            if invocation.is_open:
                invocation.details = "InProgress"
            else:  # cancelled meanwhile
                running.cancel()
        end = running.wait()
        with end.stdout, end.stderr:
            self._keep_output(invocation, end)
        details = {"timed out": "ExecutionTimedOut", "cancelled": "Cancelled"}.get(
            end.ending, "Failed" if end.code else "Success"
        )
        with region.lock:
            invocation.code = end.code
            _end(invocation, details)

    def _keep_output(self, invocation: Invocation, end: ScriptEnd) -> None:
        for stream, file in (("stdout", end.stdout), ("stderr", end.stderr)):
            if bucket := invocation.command.request.bucket:
                self._upload(bucket, invocation.key(stream), file)
        stdout, stderr = _start_of(end.stdout), _start_of(end.stderr)
        invocation.stdout = shortened(stdout, STDOUT_CHARACTERS)
        invocation.stderr = shortened(stderr, STDERR_CHARACTERS)
        invocation.output = combined(stdout, stderr)

    def _upload(self, bucket: str, key: str, file: IO[bytes]) -> None:
        """Put a file into S3. As with the agent, an empty file is left out and a failure is only logged."""
        content = file.read()
        file.seek(0)
        if not content:
            return
        from .objects import put_object

        try:
            put_object(self._region, bucket, key, content)
        except Exception:  # the bucket may be gone
            log.exception("the output %s was not put into the bucket %s", key, bucket)


def _end(invocation: Invocation, details: str) -> None:
    if invocation.is_open:  # otherwise it was cancelled before
        invocation.details, invocation.ended = details, utcnow()
    invocation.running = None


def _start_of(file: IO[bytes]) -> str:
    """Return the start of a file, a little more than any call shows."""
    return file.read(4 * (STDOUT_CHARACTERS + 1)).decode(errors="replace")


def shortened(text: str, limit: int, notice: str = TRUNCATED) -> str:
    """Return the text, or its start with a notice that more was cut."""
    return text if len(text) <= limit else text[: limit - len(notice)] + notice


def combined(stdout: str, stderr: str) -> str:
    """Return both outputs in one text of at most OUTPUT_CHARACTERS, each with a notice if it was cut.

    Each has half of the room, or more if the other needs less.
    """
    title = _STDERR_TITLE if stderr else ""
    room = OUTPUT_CHARACTERS - len(title)
    if len(stdout) + len(stderr) <= room:
        return stdout + title + stderr
    for_stdout = max(room // 2, room - len(stderr))
    for_stderr = max(room - room // 2, room - len(stdout))
    return shortened(stdout, for_stdout, _STDOUT_CUT) + title + shortened(stderr, for_stderr, _STDERR_CUT)
