"""The least-privilege policy for a run, generated from the calls that runs made.

Which resources and condition keys an action supports: Service Authorization Reference, "Actions, resources, and
condition keys for Amazon EC2" (read 2026-11). Describe actions support neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

RUN_TAG = "cloudbench:run"
LEASE_TAG = "cloudbench:lease-until"
KEPT_TAG = "cloudbench:kept"
USED_AT_CREATION = {
    "RunInstances": (
        *("image", "subnet", "network-interface", "security-group", "key-pair", "placement-group"),
        *("capacity-reservation", "spot-instances-request", "snapshot"),
    ),
    "CreateSecurityGroup": ("vpc",),
    "CreateVolume": ("snapshot",),
}
"""What a creating call uses, or makes without tags of its own: EC2 checks a permission for each."""
OF_THE_RUN = {"CreateSnapshot": ("volume",)}
"""What a creating call uses that the run itself created."""
WITHOUT_ACCOUNT = ("image", "snapshot")
SENDING = {"ssm:SendCommand"}
IN_COMMANDS = ("Command", "Commands", "CommandInvocation")
LOOKING = ("Describe", "GetCallerIdentity", "GetProducts", "GetServiceQuota")


class Made(NamedTuple):
    """One call that was made: the service's prefix of permissions, the action, and the parameters."""

    service: str
    action: str
    asked: Mapping[str, Any]

    @property
    def permission(self) -> str:
        return f"{self.service}:{self.action}"

    @property
    def specified(self) -> list[Mapping[str, Any]]:
        return list(self.asked.get("TagSpecifications") or ())


def policy(made: Iterable[Made]) -> dict[str, Any]:
    """Return the policy that allows these calls, the changing ones only on what carries the run's tag."""
    made = list(made)
    ec2 = [each for each in made if each.service == "ec2"]
    creating = sorted({each.action for each in ec2 if each.specified})
    kinds = sorted({one["ResourceType"] for each in ec2 for one in each.specified})
    looking = sorted({each.permission for each in made if each.action.startswith(LOOKING)})
    parameters = sorted({each.permission for each in made if each.action.startswith("GetParameter")})
    commands = {each.permission for each in made if each.action.endswith(IN_COMMANDS)} - set(looking)
    objects = sorted({each.permission for each in made if each.service == "s3"})
    rest = {each.permission for each in ec2} - {f"ec2:{action}" for action in creating} - set(looking)
    tagging = rest & {"ec2:CreateTags"}
    of_the_run = {"Null": {f"aws:ResourceTag/{RUN_TAG}": "false"}}
    statements = [
        _statement("Look", looking, ["*"]),
        _statement("FindImages", parameters, ["arn:aws:ssm:*::parameter/aws/service/*"]),
        _statement(
            "CreateWithTheTagOfTheRun",
            [f"ec2:{action}" for action in creating],
            _arns(kinds),
            {"Null": {f"aws:RequestTag/{RUN_TAG}": "false"}},
        ),
        *(
            _statement(f"UseIn{action}", [f"ec2:{action}"], _arns(USED_AT_CREATION[action]))
            for action in creating
            if action in USED_AT_CREATION
        ),
        *(
            _statement(f"UseIn{action}", [f"ec2:{action}"], _arns(OF_THE_RUN[action]), of_the_run)
            for action in creating
            if action in OF_THE_RUN
        ),
        _statement(
            "TagWhatIsBeingCreated",
            ["ec2:CreateTags"],
            ["arn:aws:ec2:*:*:*/*"],
            {"StringEquals": {"ec2:CreateAction": creating}},
        ),
        _statement(
            "RenewLeases",
            sorted(tagging),
            _arns(["instance", "key-pair", "security-group"]),
            {**of_the_run, "ForAllValues:StringEquals": {"aws:TagKeys": [LEASE_TAG]}},
        ),
        _statement(
            "MarkWhatIsKept",
            sorted(tagging),
            _arns(["instance", "placement-group", "security-group", "volume"]),
            {**of_the_run, "ForAllValues:StringEquals": {"aws:TagKeys": [KEPT_TAG]}},
        ),
        _statement(
            "SendCommandsToInstancesOfTheRun", sorted(commands & SENDING), _arns(["instance"]), of_the_run
        ),
        _statement(
            "SendCommandsByThisDocument",
            sorted(commands & SENDING),
            ["arn:aws:ssm:*::document/AWS-RunShellScript"],
        ),
        _statement("LookAtCommands", sorted(commands - SENDING), ["*"]),
        _statement("ReadLongOutputs", objects, ["arn:aws:s3:::*/cloudbench/*"]),
        _statement("ChangeWhatTheRunCreated", sorted(rest - tagging), ["arn:aws:ec2:*:*:*/*"], of_the_run),
    ]
    return {"Version": "2012-10-17", "Statement": [each for each in statements if each["Action"]]}


def permissions(document: Mapping[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def _arns(kinds: Iterable[str]) -> list[str]:
    return [f"arn:aws:ec2:*:{'' if kind in WITHOUT_ACCOUNT else '*'}:{kind}/*" for kind in kinds]


def _statement(
    sid: str, actions: list[str], resources: list[str], condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return {**found, "Condition": dict(condition)} if condition else found
