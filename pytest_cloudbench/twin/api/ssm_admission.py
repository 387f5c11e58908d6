"""Checks of requests to SSM Run Command, which refuse what the real service refuses before anything runs.

Pure functions of plain values. Limits: AWS Systems Manager API Reference, SendCommand, and the document
AWS-RunShellScript, read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .refusal import Refusal, unsupported

DOCUMENT = "AWS-RunShellScript"
PLUGIN = "aws:runShellScript"
_INSTANCE_ID = re.compile(r"i-(\w{8}|\w{17})")
_COMMAND_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONCURRENCY = re.compile(r"[1-9][0-9]*|[1-9][0-9]%|[1-9]%|100%")
_ERRORS = re.compile(r"[1-9][0-9]*|0|[1-9][0-9]%|[0-9]%|100%")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REFERENCE = re.compile(r"\{\{\s*ssm(-secure)?:")
_MAX_INSTANCES = 50
_MAX_TARGETS = 5
_MAX_DOCUMENT_BYTES = 64 * 1024
_MAX_EXECUTION_S = 172_800
_LEAST_EXECUTION_S = 5  # SSM Agent treats less as a mistake and uses the default
_DEFAULT_S = 3600
_PARAMETERS = ("commands", "workingDirectory", "executionTimeout")
_TYPES: dict[str, type] = {
    "Comment": str,
    "DocumentName": str,
    "DocumentVersion": str,
    "InstanceIds": list,
    "OutputS3BucketName": str,
    "OutputS3KeyPrefix": str,
    "Parameters": dict,
    "Targets": list,
}
_ABSENT = (
    "AlarmConfiguration",
    "CloudWatchOutputConfig",
    "DocumentHash",
    "NotificationConfig",
    "ServiceRoleArn",
)


@dataclass(frozen=True)
class CommandRequest:
    """An admitted SendCommand request. ``instance_ids`` is empty if ``targets`` select the instances."""

    instance_ids: tuple[str, ...]
    targets: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, list[str]]
    script: str
    directory: str
    execution_s: int
    timeout_s: int
    comment: str
    document_version: str
    bucket: str
    key_prefix: str
    concurrency: str
    errors: str

    def max_concurrency(self, targets: int) -> int:
        """Return on how many of ``targets`` instances the command may run at a time."""
        return max(1, _figure(self.concurrency, targets))

    def max_errors(self, targets: int) -> int:
        """Return how many of ``targets`` invocations may fail; after one more, no new ones are started."""
        return _figure(self.errors, targets)


def _figure(text: str, total: int) -> int:
    return int(text) if not text.endswith("%") else total * int(text[:-1]) // 100


def invalid(message: str) -> Refusal:
    return Refusal("ValidationException", message)


def admitted_command(params: Mapping[str, Any]) -> CommandRequest:
    """Read a SendCommand request. Raises Refusal for the first rule that it breaks."""
    for name, kind in _TYPES.items():
        if not isinstance(params.get(name) or kind(), kind):
            raise Refusal("SerializationException", f"The parameter {name} has another type than the API's.")
    for name in _ABSENT:
        if params.get(name):
            raise unsupported(f"This region does not support the parameter {name} of SendCommand.")
    _refuse_other_documents(params.get("DocumentName") or "")
    version = params.get("DocumentVersion") or "$DEFAULT"
    if version not in ("$DEFAULT", "$LATEST", "1"):
        raise Refusal("InvalidDocumentVersion", f"Document {DOCUMENT} has no version {version}.")
    instance_ids, targets = _admitted_targets(params)
    parameters = params.get("Parameters") or {}
    script, directory, execution_s = _admitted_parameters(parameters)
    comment = params.get("Comment") or ""
    if len(comment) > 100:
        raise invalid("Value at 'comment' failed to satisfy constraint: at most 100 characters.")
    bucket, prefix = params.get("OutputS3BucketName") or "", params.get("OutputS3KeyPrefix") or ""
    if bucket and not _BUCKET.fullmatch(bucket):
        raise Refusal("InvalidOutputFolder", f"The S3 bucket name {bucket!r} is not valid.")
    if len(prefix) > 500:
        raise invalid("Value at 'outputS3KeyPrefix' failed to satisfy constraint: at most 500 characters.")
    timeout_s = params.get("TimeoutSeconds", _DEFAULT_S)
    if not isinstance(timeout_s, int) or not 30 <= timeout_s <= 2_592_000:
        raise invalid(
            f"Value '{timeout_s}' at 'timeoutSeconds' failed to satisfy constraint: 30 to 2592000 seconds."
        )
    return CommandRequest(
        instance_ids,
        targets,
        parameters,
        script,
        directory,
        execution_s,
        timeout_s,
        comment,
        version,
        bucket,
        prefix,
        _matched(params.get("MaxConcurrency") or "50", _CONCURRENCY, "maxConcurrency"),
        _matched(params.get("MaxErrors") or "0", _ERRORS, "maxErrors"),
    )


def _refuse_other_documents(name: str) -> None:
    own = re.fullmatch(r"(?:arn:aws[a-z-]*:ssm:[a-z0-9-]*:[0-9]*:document/)?(.+)", name)
    if own is None or own[1] != DOCUMENT:
        raise Refusal(
            "InvalidDocument", f"Document with name {name} does not exist; this region has {DOCUMENT}."
        )


def _admitted_targets(params: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Mapping[str, Any], ...]]:
    instance_ids, targets = params.get("InstanceIds") or [], params.get("Targets") or []
    if bool(instance_ids) == bool(targets):
        raise invalid("Specify either InstanceIds or Targets.")
    if len(instance_ids) > _MAX_INSTANCES or len(targets) > _MAX_TARGETS:
        raise invalid(f"At most {_MAX_INSTANCES} InstanceIds or {_MAX_TARGETS} Targets can be specified.")
    for target in targets:
        key = str(target.get("Key")) if isinstance(target, dict) else ""
        if key != "tag-key" and key.lower() != "instanceids" and not re.fullmatch("tag:.+", key):
            raise unsupported(f"This region has no target key {key!r}: use InstanceIds, tag:NAME or tag-key.")
        if not target.get("Values") or not isinstance(target["Values"], list):
            raise invalid(f"The target {key} needs a list of values.")
    return admitted_ids(instance_ids), tuple(targets)


def admitted_ids(instance_ids: list[str]) -> tuple[str, ...]:
    """Return the ids of instances. Raises Refusal if one is malformed or given twice."""
    for instance_id in instance_ids:
        admitted_instance_id(instance_id)
    if len(set(instance_ids)) < len(instance_ids):
        raise Refusal("DuplicateInstanceId", "An instance ID can be specified only once.")
    return tuple(instance_ids)


def admitted_instance_id(instance_id: Any) -> str:
    if not isinstance(instance_id, str) or not _INSTANCE_ID.fullmatch(instance_id):
        raise invalid(f"Value '{instance_id}' at 'instanceId' is not an id such as i-0123456789abcdef0.")
    return instance_id


def admitted_command_id(command_id: Any) -> str:
    if not isinstance(command_id, str) or not _COMMAND_ID.fullmatch(command_id):
        raise Refusal("InvalidCommandId", f"Value '{command_id}' is not a command ID.")
    return command_id


def _admitted_parameters(parameters: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the script, the working directory and the execution timeout."""
    for name, values in parameters.items():
        if name not in _PARAMETERS:
            raise Refusal("InvalidParameters", f"Document {DOCUMENT} has no parameter {name}.")
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise Refusal("InvalidParameters", f"The parameter {name} is a list of strings.")
        if name != "commands" and len(values) > 1:
            raise Refusal("InvalidParameters", f"The parameter {name} has one value.")
    commands = parameters.get("commands") or []
    if not commands:
        raise Refusal("InvalidParameters", f"Document {DOCUMENT} requires the parameter commands.")
    script = ("\n".join(commands) + "\n").encode(errors="replace").decode()
    if "\0" in script:
        raise Refusal("InvalidParameters", "The parameter commands contains a NUL character.")
    if _REFERENCE.search(script):
        raise unsupported("This region does not insert SSM parameters ({{ssm:...}}) into commands.")
    if len(script.encode()) > _MAX_DOCUMENT_BYTES:
        raise Refusal(
            "MaxDocumentSizeExceeded", f"The commands exceed the size limit of {_MAX_DOCUMENT_BYTES} bytes."
        )
    directory = "".join(parameters.get("workingDirectory") or [])
    if len(directory) > 4096 or "\0" in directory:
        raise Refusal("InvalidParameters", "The parameter workingDirectory has at most 4096 characters.")
    return script, directory, _execution_s("".join(parameters.get("executionTimeout") or []))


def _execution_s(text: str) -> int:
    if not text:
        return _DEFAULT_S
    if not re.fullmatch("[1-9][0-9]{0,5}", text) or int(text) > _MAX_EXECUTION_S:
        raise Refusal(
            "InvalidParameters",
            f"Value '{text}' of executionTimeout is not a number of seconds from 1 to {_MAX_EXECUTION_S}.",
        )
    return int(text) if int(text) >= _LEAST_EXECUTION_S else _DEFAULT_S


def _matched(text: Any, pattern: re.Pattern[str], name: str) -> str:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise invalid(f"Value '{text}' at '{name}' is neither a number nor a percentage such as 10%.")
    return text
