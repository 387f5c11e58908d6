"""The SSM API: Run Command on the region's instances. moto answers all other actions, such as those on parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import utcnow
from moto.ssm.responses import SimpleSystemManagerResponse

from .images import known_images
from .moto_loading import ACCOUNT, REGION
from .refusal import Refusal
from .region import Region
from .run_command import Command, Invocation, state_of
from .ssm_admission import (
    DOCUMENT,
    PLUGIN,
    CommandRequest,
    admitted_command,
    admitted_command_id,
    admitted_ids,
    admitted_instance_id,
    invalid,
)

AGENT_VERSION = "3.3.3050.0"
_PAGE = 50
# Images with SSM Agent, by their family. Source: AWS Systems Manager User Guide, "Find AMIs with the SSM Agent
# preinstalled", read 2026-11: minimal images of Amazon Linux 2023 and images of Debian have none.
_PLATFORMS = {"amazon-linux-2023": ("Amazon Linux", "2023"), "ubuntu-24.04": ("Ubuntu", "24.04")}


class SsmActions(SimpleSystemManagerResponse):  # type: ignore[misc]  # moto is not typed here
    """One request to SSM. Actions defined here replace moto's own, which carry out nothing."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.home = region

    def _asked(self) -> dict[str, Any]:
        asked = json.loads(self.body or "{}")
        if not isinstance(asked, dict):
            raise Refusal("SerializationException", "The request is not a JSON object.")
        return asked

    def send_command(self) -> Any:
        request = admitted_command(self._asked())
        if request.bucket:
            from .objects import has_bucket

            if not has_bucket(self.home, request.bucket):
                raise Refusal("InvalidOutputFolder", f"The S3 bucket {request.bucket} does not exist.")
        instances = self._named(request.instance_ids) if request.instance_ids else self._selected(request)
        command = self.home.run_command.send(request, instances)
        return ActionResult({"Command": _described(command)})

    def _managed(self) -> dict[str, Any]:
        """Return the instances whose agent has registered with SSM, by id."""
        plane = self.home.plane.instances
        return {
            each.id: each
            for each in self.home.instances()
            if each.iam_instance_profile
            and known_images()[each.image_id].family in _PLATFORMS
            and each.state not in ("shutting-down", "terminated")
            and plane.agent_registered_at(each.id) is not None
        }

    def _named(self, instance_ids: tuple[str, ...]) -> list[Any]:
        managed = self._managed()
        wrong = [each for each in instance_ids if each not in managed or managed[each].state != "running"]
        if wrong:
            raise Refusal(
                "InvalidInstanceId",
                f"Instances [[{', '.join(wrong)}]] not in a valid state for account {ACCOUNT}: a command needs a "
                "running instance with an instance profile and SSM Agent, whose boot is over.",
            )
        return [managed[each] for each in instance_ids]

    def _selected(self, request: CommandRequest) -> list[Any]:
        found = []
        for instance in self._managed().values():
            tags = self._tags(instance)
            if instance.state == "running" and all(
                _has(tags, target["Key"], target["Values"], instance.id) for target in request.targets
            ):
                found.append(instance)
        return found

    def _tags(self, instance: Any) -> dict[str, str]:
        return dict(self.home.backend.tags.get(instance.id) or {})

    def _command(self, command_id: Any) -> Command:
        found = self.home.run_command.commands.get(admitted_command_id(command_id))
        if found is None:
            raise Refusal("InvalidCommandId", f"There is no command {command_id}.")
        return found

    def get_command_invocation(self) -> Any:
        asked = self._asked()
        command_id = admitted_command_id(asked.get("CommandId"))
        instance_id = admitted_instance_id(asked.get("InstanceId"))
        if asked.get("PluginName") not in (None, PLUGIN):
            raise Refusal("InvalidPluginName", f"The command has no step {asked['PluginName']}.")
        command = self.home.run_command.commands.get(command_id)
        for invocation in command.known_invocations if command is not None else ():
            if invocation.instance_id == instance_id:
                return ActionResult(_detailed(invocation))
        raise Refusal(
            "InvocationDoesNotExist", f"{instance_id} has no invocation of the command {command_id}."
        )

    def list_commands(self) -> Any:
        asked = self._asked()
        commands: list[Command] = list(reversed(self.home.run_command.commands.values()))
        if asked.get("CommandId"):
            commands = [self._command(asked["CommandId"])]
        if instance_id := asked.get("InstanceId"):
            admitted_instance_id(instance_id)
            commands = [
                each for each in commands if any(one.instance_id == instance_id for one in each.invocations)
            ]
        for each in asked.get("Filters") or []:
            passes = _command_filter(each)
            commands = [command for command in commands if passes(command, command.details)]
        return _page("Commands", [_described(each) for each in commands], asked)

    def list_command_invocations(self) -> Any:
        asked = self._asked()
        commands: Iterable[Command] = reversed(self.home.run_command.commands.values())
        if asked.get("CommandId"):
            commands = [self._command(asked["CommandId"])]
        found = [one for command in commands for one in command.known_invocations]
        if instance_id := asked.get("InstanceId"):
            admitted_instance_id(instance_id)
            found = [one for one in found if one.instance_id == instance_id]
        for each in asked.get("Filters") or []:
            if each.get("key") == "ExecutionStage":
                raise Refusal("InvalidFilterKey", "ExecutionStage is a filter of ListCommands only.")
            passes = _command_filter(each)
            found = [one for one in found if passes(one.command, one.details)]
        with_details = asked.get("Details") is True
        return _page("CommandInvocations", [_listed(one, with_details) for one in found], asked)

    def cancel_command(self) -> Any:
        asked = self._asked()
        command = self._command(asked.get("CommandId"))
        instance_ids = admitted_ids(asked.get("InstanceIds") or [])
        unknown = set(instance_ids) - {each.instance_id for each in command.invocations}
        if unknown:
            raise Refusal("InvalidInstanceId", f"The command was not sent to {', '.join(sorted(unknown))}.")
        for invocation in command.invocations:
            if not instance_ids or invocation.instance_id in instance_ids:
                self.home.run_command.cancel(invocation)
        return EmptyResult()

    def describe_instance_information(self) -> Any:
        asked = self._asked()
        filters, older = asked.get("Filters") or [], asked.get("InstanceInformationFilterList") or []
        if filters and older:
            raise invalid("Filters and InstanceInformationFilterList cannot be combined.")
        wanted = [(each.get("Key") or "", each.get("Values") or []) for each in filters]
        wanted += [(each.get("key") or "", each.get("valueSet") or []) for each in older]
        found = []
        for instance in self._managed().values():
            described, tags = self._information(instance), self._tags(instance)
            if all(_information_passes(described, tags, key, values) for key, values in wanted):
                found.append(described)
        return _page("InstanceInformationList", found, asked)

    def _information(self, instance: Any) -> dict[str, Any]:
        plane = self.home.plane.instances
        registered = datetime.fromtimestamp(plane.agent_registered_at(instance.id) or 0, timezone.utc)
        online = instance.state == "running" and plane.agent_answers(instance.id)
        name, version = _PLATFORMS[known_images()[instance.image_id].family]
        return {
            "InstanceId": instance.id,
            "PingStatus": "Online" if online else "ConnectionLost",
            "LastPingDateTime": utcnow() if online else registered,
            "AgentVersion": AGENT_VERSION,
            "IsLatestVersion": True,
            "PlatformType": "Linux",
            "PlatformName": name,
            "PlatformVersion": version,
            "ResourceType": "EC2Instance",
            "IPAddress": instance.private_ip,
            "ComputerName": instance.private_dns_name,
            "SourceId": instance.id,
            "SourceType": "AWS::EC2::Instance",
        }


def _has(tags: Mapping[str, str], key: str, values: list[str], instance_id: str) -> bool:
    """Return True if one key of targets or filters selects an instance."""
    if key == "tag-key":
        return any(value in tags for value in values)
    if key.startswith("tag:"):
        return tags.get(key.removeprefix("tag:")) in values
    return instance_id in values


def _information_passes(
    described: Mapping[str, Any], tags: Mapping[str, str], key: str, values: list[str]
) -> bool:
    if key == "tag-key" or key.startswith("tag:") or key == "InstanceIds":
        return _has(tags, key, values, described["InstanceId"])
    name = {"PlatformTypes": "PlatformType", "SourceIds": "SourceId", "SourceTypes": "SourceType"}.get(
        key, key
    )
    if name not in ("AgentVersion", "PingStatus", "PlatformType", "ResourceType", "SourceId", "SourceType"):
        raise Refusal("InvalidFilterKey", f"This region has no instance filter {key!r}.")
    return described[name] in values


def _command_filter(asked: Mapping[str, Any]) -> Callable[[Command, str], bool]:
    """Return a predicate of a command and a detailed state, its own or an invocation's. Raises Refusal if invalid."""
    key, value = asked.get("key"), str(asked.get("value"))
    if key == "Status":
        return lambda _, details: value in (details, state_of(details))
    if key == "DocumentName":
        return lambda _command, _details: value == DOCUMENT
    if key == "ExecutionStage":
        return lambda command, _: value == ("Executing" if command.is_open else "Complete")
    if key in ("InvokedAfter", "InvokedBefore"):
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise Refusal(
                "InvalidFilterValue", f"{value!r} is not a time such as 2026-11-01T00:00:00Z."
            ) from None
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
        after = key == "InvokedAfter"
        return lambda command, _: command.requested > moment if after else command.requested < moment
    raise Refusal("InvalidFilterKey", f"This region has no command filter {key!r}.")


def _page(name: str, entries: list[Any], asked: Mapping[str, Any]) -> ActionResult:
    token, size = asked.get("NextToken"), asked.get("MaxResults") or _PAGE
    start = (token or "page-0").removeprefix("page-")
    if not start.isdigit():
        raise Refusal("InvalidNextToken", f"The token {token!r} is not valid.")
    if not isinstance(size, int) or not 1 <= size <= _PAGE:
        raise invalid(f"Value '{size}' at 'maxResults' failed to satisfy constraint: 1 to {_PAGE}.")
    end = int(start) + size
    more = {"NextToken": f"page-{end}"} if end < len(entries) else {}
    return ActionResult({name: entries[int(start) : end], **more})


def _described(command: Command) -> dict[str, Any]:
    request, details = command.request, command.details
    return {
        "CommandId": command.id,
        "DocumentName": DOCUMENT,
        "DocumentVersion": request.document_version,
        "Comment": request.comment,
        "ExpiresAfter": command.expires,
        "Parameters": request.parameters,
        "InstanceIds": list(request.instance_ids),
        "Targets": list(request.targets),
        "RequestedDateTime": command.requested,
        "Status": state_of(details),
        "StatusDetails": details,
        "OutputS3Region": REGION,
        "OutputS3BucketName": request.bucket,
        "OutputS3KeyPrefix": request.key_prefix,
        "MaxConcurrency": request.concurrency,
        "MaxErrors": request.errors,
        "TargetCount": len(command.invocations),
        "CompletedCount": sum(not each.is_open for each in command.invocations),
        "ErrorCount": command.error_count,
        "DeliveryTimedOutCount": sum(each.details == "DeliveryTimedOut" for each in command.invocations),
        "TimeoutSeconds": request.timeout_s,
    }


def _detailed(invocation: Invocation) -> dict[str, Any]:
    """Return an invocation as GetCommandInvocation does. stdout is shown after success or failure only."""
    command, details = invocation.command, invocation.details
    has_output = details in ("Success", "Failed")
    started, ended = invocation.started, invocation.ended
    return {
        "CommandId": command.id,
        "InstanceId": invocation.instance_id,
        "Comment": command.request.comment,
        "DocumentName": DOCUMENT,
        "DocumentVersion": command.request.document_version,
        "PluginName": PLUGIN,
        "ResponseCode": invocation.code,
        "ExecutionStartDateTime": _time(started),
        "ExecutionElapsedTime": elapsed((ended - started).total_seconds()) if started and ended else "",
        "ExecutionEndDateTime": _time(ended) if started else "",
        "Status": state_of(details),
        "StatusDetails": details,
        "StandardOutputContent": invocation.stdout if has_output else "",
        "StandardOutputUrl": invocation.url("stdout"),
        "StandardErrorContent": invocation.stderr if not invocation.is_open else "",
        "StandardErrorUrl": invocation.url("stderr"),
        "CloudWatchOutputConfig": {"CloudWatchLogGroupName": "", "CloudWatchOutputEnabled": False},
    }


def _listed(invocation: Invocation, with_details: bool) -> dict[str, Any]:
    command, details = invocation.command, invocation.details
    urls = {"StandardOutputUrl": invocation.url("stdout"), "StandardErrorUrl": invocation.url("stderr")}
    plugin = {
        "Name": PLUGIN,
        "Status": state_of(details),
        "StatusDetails": details,
        "ResponseCode": invocation.code,
        "ResponseStartDateTime": invocation.started,
        "ResponseFinishDateTime": invocation.ended,
        "Output": invocation.output,
        **urls,
        "OutputS3Region": REGION,
        "OutputS3BucketName": command.request.bucket,
        "OutputS3KeyPrefix": command.request.key_prefix,
    }
    return {
        "CommandId": command.id,
        "InstanceId": invocation.instance_id,
        "InstanceName": invocation.instance_name,
        "Comment": command.request.comment,
        "DocumentName": DOCUMENT,
        "DocumentVersion": command.request.document_version,
        "RequestedDateTime": command.requested,
        "Status": state_of(details),
        "StatusDetails": details,
        **urls,
        "CommandPlugins": [plugin] if with_details else [],
    }


def _time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z" if moment is not None else ""


def elapsed(seconds: float) -> str:
    """Return a duration in the form of ISO 8601, such as "PT1H0.271S"."""
    hours, rest = divmod(round(seconds * 1000), 3_600_000)
    minutes, milliseconds = divmod(rest, 60_000)
    text = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    if milliseconds or not text:
        text += f"{milliseconds / 1000:g}S"
    return f"PT{text}"
