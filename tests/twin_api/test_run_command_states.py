"""SSM Run Command on a plane that only records: requests, states, limits, and what other calls say about commands."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from region_calls import Calls, RecordingPlane, until

from pytest_cloudbench.twin.api.images import known_images
from pytest_cloudbench.twin.api.refusal import Refusal

PROFILE = {"Name": "cloudbench"}
OPEN = ("Pending", "InProgress", "Delayed", "Cancelling")


class Commands:
    """A client of SSM, with instances that take commands."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.ssm = calls.client("ssm")

    def launch(self, count: int = 1, **more: Any) -> list[str]:
        return [self.calls.launch(IamInstanceProfile=PROFILE, **more) for _ in range(count)]

    def send(self, ids: list[str] | None, text: str = "true", **more: Any) -> str:
        asked = {"DocumentName": "AWS-RunShellScript", "Parameters": {"commands": [text]}, **more}
        if ids is not None:
            asked["InstanceIds"] = ids
        return self.ssm.send_command(**asked)["Command"]["CommandId"]

    def command(self, command_id: str) -> dict[str, Any]:
        return self.ssm.list_commands(CommandId=command_id)["Commands"][0]

    def invocation(self, command_id: str, instance_id: str) -> dict[str, Any]:
        return self.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)

    def ended(self, command_id: str) -> dict[str, Any]:
        until(lambda: self.command(command_id)["Status"] not in OPEN, f"{command_id} has ended")
        return self.command(command_id)

    def details(self, command_id: str) -> list[str]:
        found = self.ssm.list_command_invocations(CommandId=command_id)["CommandInvocations"]
        return [one["StatusDetails"] for one in found]

    def refusal(self, *args: Any, **more: Any) -> str:
        with pytest.raises(ClientError) as caught:
            self.send(*args, **more)
        return caught.value.response["Error"]["Code"]


@pytest.fixture
def commands(calls: Calls) -> Commands:
    return Commands(calls)


def test_a_command_and_its_invocation_are_described(commands: Commands, plane: RecordingPlane) -> None:
    [one] = commands.launch()
    parameters = {"commands": ["echo a", "exit 3"], "workingDirectory": ["/tmp"], "executionTimeout": ["60"]}
    sent = commands.ssm.send_command(
        DocumentName="arn:aws:ssm:us-east-1::document/AWS-RunShellScript", InstanceIds=[one],
        Parameters=parameters, Comment="a comment", TimeoutSeconds=45,
    )["Command"]  # fmt: skip
    assert (sent["Status"], sent["TargetCount"], sent["Comment"]) == ("Pending", 1, "a comment")
    assert (sent["ExpiresAfter"] - sent["RequestedDateTime"]).total_seconds() == 105
    ended = commands.ended(sent["CommandId"])
    assert (ended["Status"], ended["CompletedCount"], ended["ErrorCount"]) == ("Failed", 1, 1)
    assert plane.named("run_script") == [("run_script", one, "echo a\nexit 3\n", "/tmp", 60)]
    got = commands.invocation(sent["CommandId"], one)
    assert (got["ResponseCode"], got["Status"], got["StandardOutputContent"]) == (
        3, "Failed", "echo a\nexit 3\n",
    )  # fmt: skip
    assert got["ExecutionStartDateTime"] <= got["ExecutionEndDateTime"]
    assert got["ExecutionElapsedTime"].startswith("PT")
    [listed] = commands.ssm.list_command_invocations(InstanceId=one, Details=True)["CommandInvocations"]
    assert listed["CommandPlugins"][0]["Output"] == "echo a\nexit 3\n"
    assert listed["InstanceName"].startswith("ip-")
    [plain] = commands.ssm.list_command_invocations(CommandId=sent["CommandId"])["CommandInvocations"]
    assert plain["CommandPlugins"] == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"DocumentName": "AWS-RunPowerShellScript"}, "InvalidDocument"),
        ({"DocumentVersion": "7"}, "InvalidDocumentVersion"),
        ({"Parameters": {}}, "InvalidParameters"),
        ({"Parameters": {"commands": ["true"], "shell": ["bash"]}}, "InvalidParameters"),
        ({"Parameters": {"commands": ["true"], "executionTimeout": ["172801"]}}, "InvalidParameters"),
        ({"Parameters": {"commands": ["true"], "executionTimeout": ["1.5"]}}, "InvalidParameters"),
        ({"Parameters": {"commands": ["x" * 65537]}}, "MaxDocumentSizeExceeded"),
        ({"Parameters": {"commands": ["echo {{ssm:name}}"]}}, "UnsupportedOperation"),
        ({"CloudWatchOutputConfig": {"CloudWatchOutputEnabled": True}}, "UnsupportedOperation"),
        ({"OutputS3BucketName": "no-such-bucket"}, "InvalidOutputFolder"),
        ({"TimeoutSeconds": 2_592_001}, "ValidationException"),
        ({"MaxErrors": "half"}, "ValidationException"),
        ({"MaxConcurrency": "0"}, "ValidationException"),
        ({"Comment": "c" * 101}, "ValidationException"),
        ({"Targets": [{"Key": "tag:a", "Values": ["b"]}]}, "ValidationException"),
    ],
)
def test_what_aws_refuses_is_refused_and_runs_nothing(
    commands: Commands, plane: RecordingPlane, more: dict[str, Any], code: str
) -> None:
    assert commands.refusal(commands.launch(), **more) == code
    assert plane.named("run_script") == []
    assert commands.ssm.list_commands()["Commands"] == []


def test_only_instances_with_a_registered_agent_take_commands(
    commands: Commands, plane: RecordingPlane
) -> None:
    calls = commands.calls
    [one] = commands.launch()
    without_profile = calls.launch()
    debian = next(each.id for each in known_images().values() if each.family == "debian-12")
    without_agent = calls.launch(ImageId=debian, IamInstanceProfile=PROFILE)
    plane.registered.discard(booting := calls.launch(IamInstanceProfile=PROFILE))
    stopped = calls.launch(IamInstanceProfile=PROFILE)
    calls.ec2.stop_instances(InstanceIds=[stopped])
    calls.wait_state(stopped, "stopped")
    for wrong in (without_profile, without_agent, booting, stopped, "i-00000000000000000"):
        assert commands.refusal([one, wrong]) == "InvalidInstanceId"
    assert commands.refusal([one, one]) == "DuplicateInstanceId"
    assert commands.refusal(["i-1"]) == "ValidationException"
    found = commands.ssm.describe_instance_information()["InstanceInformationList"]
    assert {each["InstanceId"]: each["PingStatus"] for each in found} == {
        one: "Online", stopped: "ConnectionLost",
    }  # fmt: skip
    assert found[0]["PlatformType"] == "Linux"
    filters = [{"Key": "PingStatus", "Values": ["Online"]}, {"Key": "InstanceIds", "Values": [one, stopped]}]
    [online] = commands.ssm.describe_instance_information(Filters=filters)["InstanceInformationList"]
    assert online["InstanceId"] == one
    with pytest.raises(ClientError, match="InvalidFilterKey"):
        commands.ssm.describe_instance_information(Filters=[{"Key": "Colour", "Values": ["red"]}])


def test_the_instance_profile_of_a_launch_is_described(calls: Calls) -> None:
    arn = "arn:aws:iam::123456789012:instance-profile/team/cloudbench"
    instance = calls.launch(IamInstanceProfile={"Arn": arn})
    described = calls.instance(instance)["IamInstanceProfile"]
    assert described["Arn"] == arn
    assert described["Id"].startswith("AIPA")
    assert calls.instance(calls.launch(IamInstanceProfile=PROFILE))["IamInstanceProfile"]["Arn"].endswith(
        "123456789012:instance-profile/cloudbench"
    )
    assert "IamInstanceProfile" not in calls.instance(calls.launch())
    [association] = calls.ec2.describe_iam_instance_profile_associations(
        Filters=[{"Name": "instance-id", "Values": [instance]}]
    )["IamInstanceProfileAssociations"]
    assert association["IamInstanceProfile"]["Arn"] == arn
    for wrong in ({"Name": "a b"}, {"Arn": "arn:aws:iam::1:role/x"}, {**PROFILE, "Arn": arn}):
        with pytest.raises(ClientError, match="InvalidParameter"):
            calls.launch(IamInstanceProfile=wrong)


def test_targets_select_instances_by_their_tags(commands: Commands) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "role", "Value": "db"}]}]
    [one] = commands.launch(TagSpecifications=tags)
    [other] = commands.launch()
    for targets, expected in (
        ([{"Key": "tag:role", "Values": ["web", "db"]}], [one]),
        ([{"Key": "tag-key", "Values": ["role"]}], [one]),
        ([{"Key": "InstanceIds", "Values": [one, other]}], [one, other]),
        ([{"Key": "tag:role", "Values": ["db"]}, {"Key": "InstanceIds", "Values": [other]}], []),
    ):
        command = commands.send(None, Targets=targets)
        ended = commands.ended(command)
        assert (ended["Status"], ended["TargetCount"]) == ("Success", len(expected))
        found = commands.ssm.list_command_invocations(CommandId=command)["CommandInvocations"]
        assert [each["InstanceId"] for each in found] == expected
        assert ended["StatusDetails"] == ("Success" if expected else "NoInstancesInTag")


def test_concurrency_is_limited(commands: Commands, plane: RecordingPlane) -> None:
    ids = commands.launch(4)
    gate = plane.gates["script"] = threading.Event()
    command = commands.send(ids, MaxConcurrency="50%")
    until(lambda: len(plane.named("run_script")) == 2, "two run")
    assert commands.command(command)["StatusDetails"] == "InProgress"
    gate.set()
    assert commands.ended(command)["StatusDetails"] == "Success"
    assert plane.most_running_scripts == 2


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ("0", ["Failed", "Terminated", "Terminated"]),
        ("1", ["Failed", "Failed", "Terminated"]),
        ("5", ["Failed"] * 3),
    ],
)
def test_too_many_errors_start_no_more_invocations(
    commands: Commands, errors: str, expected: list[str]
) -> None:
    command = commands.send(commands.launch(3), "exit 1", MaxConcurrency="1", MaxErrors=errors)
    ended = commands.ended(command)
    assert commands.details(command) == expected
    assert ended["Status"] == "Failed"
    assert ended["StatusDetails"] == ("Incomplete" if errors == "5" else "Failed")


def test_an_execution_that_timed_out_shows_no_output(commands: Commands) -> None:
    [one] = commands.launch()
    command = commands.send([one], "time out")
    assert commands.ended(command)["Status"] == "TimedOut"
    got = commands.invocation(command, one)
    assert (got["Status"], got["StatusDetails"], got["ResponseCode"]) == (
        "TimedOut", "ExecutionTimedOut", 137,
    )  # fmt: skip
    assert got["StandardOutputContent"] == ""


def test_cancelling_ends_what_runs_and_what_waits(commands: Commands, plane: RecordingPlane) -> None:
    running, waiting = ids = commands.launch(2)
    plane.gates["script"] = threading.Event()
    command = commands.send(ids, MaxConcurrency="1")
    until(lambda: commands.details(command) == ["InProgress", "Pending"], "one runs")
    with pytest.raises(ClientError, match="InvalidInstanceId"):
        commands.ssm.cancel_command(CommandId=command, InstanceIds=["i-00000000000000000"])
    commands.ssm.cancel_command(CommandId=command, InstanceIds=[waiting])
    assert commands.details(command) == ["InProgress", "Cancelled"]
    commands.ssm.cancel_command(CommandId=command)
    assert commands.ended(command)["Status"] == "Cancelled"
    assert (commands.invocation(command, running)["ResponseCode"]) == 137
    never_ran = commands.invocation(command, waiting)
    assert (never_ran["ResponseCode"], never_ran["ExecutionStartDateTime"]) == (-1, "")
    commands.ssm.cancel_command(CommandId=command)  # has no effect any more
    assert len(plane.named("run_script")) == 1


def test_a_command_waits_for_a_rebooting_instance_and_ends_with_a_terminated_one(
    commands: Commands, plane: RecordingPlane
) -> None:
    rebooting, terminated = commands.launch(2)
    plane.silent_agents |= {rebooting, terminated}
    command = commands.send([rebooting, terminated])
    until(lambda: commands.details(command) == ["Delayed"] * 2, "both are delayed")
    commands.calls.ec2.terminate_instances(InstanceIds=[terminated])
    plane.silent_agents.clear()
    ended = commands.ended(command)
    assert commands.details(command) == ["Success", "Undeliverable"]
    assert (ended["Status"], ended["StatusDetails"]) == ("Failed", "Incomplete")
    assert commands.invocation(command, terminated)["Status"] == "Failed"


def test_a_command_that_is_not_delivered_in_time_does_not_run(
    commands: Commands, plane: RecordingPlane
) -> None:
    [one] = commands.launch()
    plane.silent_agents.add(one)
    command = commands.send([one], TimeoutSeconds=30)
    until(lambda: commands.details(command) == ["Delayed"], "it is delayed")
    commands.calls.front.region().run_command.commands[command].sent -= 31
    ended = commands.ended(command)
    assert (ended["Status"], ended["DeliveryTimedOutCount"]) == ("TimedOut", 1)
    assert commands.details(command) == ["DeliveryTimedOut"]
    assert plane.named("run_script") == []


def test_a_plane_that_cannot_start_a_script_is_undeliverable(
    commands: Commands, plane: RecordingPlane
) -> None:
    [one] = commands.launch()
    plane.failures["run_script"] = OSError("no process can be made")
    command = commands.send([one])
    commands.ended(command)
    assert commands.invocation(command, one)["StatusDetails"] == "Undeliverable"


def test_unknown_commands_and_invocations(commands: Commands) -> None:
    one, other = commands.launch(2)
    command = commands.send([one])
    unknown = "00000000-0000-4000-8000-000000000000"
    for command_id, instance_id in ((unknown, one), (command, other)):
        with pytest.raises(ClientError, match="InvocationDoesNotExist"):
            commands.invocation(command_id, instance_id)
    for call in (
        commands.ssm.list_commands,
        commands.ssm.cancel_command,
        commands.ssm.list_command_invocations,
    ):
        with pytest.raises(ClientError, match="InvalidCommandId"):
            call(CommandId=unknown)
    with pytest.raises(ClientError, match="InvalidPluginName"):
        commands.ssm.get_command_invocation(CommandId=command, InstanceId=one, PluginName="other")


def test_lists_are_filtered_and_paged(commands: Commands) -> None:
    [one] = commands.launch()
    sent = [commands.send([one], text) for text in ("true", "exit 1", "true")]
    for command in sent:
        commands.ended(command)
    first = commands.ssm.list_commands(MaxResults=2)
    second = commands.ssm.list_commands(MaxResults=2, NextToken=first["NextToken"])
    newest_first = [each["CommandId"] for each in first["Commands"] + second["Commands"]]
    assert newest_first == sent[::-1]
    assert "NextToken" not in second

    def ids(*filters: tuple[str, str]) -> list[str]:
        asked = [{"key": key, "value": value} for key, value in filters]
        found = commands.ssm.list_commands(Filters=asked, InstanceId=one)
        return [each["CommandId"] for each in found["Commands"]]

    assert ids(("Status", "Failed")) == [sent[1]]
    assert ids(("ExecutionStage", "Executing")) == []
    assert ids(("InvokedAfter", "2020-01-01T00:00:00Z"), ("Status", "Success")) == [sent[2], sent[0]]
    assert ids(("InvokedBefore", "2020-01-01T00:00:00Z")) == []
    with pytest.raises(ClientError, match="InvalidNextToken"):
        commands.ssm.list_commands(NextToken="next")


@pytest.mark.parametrize("weather", ["command-delay=30s,speed=10"])
def test_under_weather_a_command_arrives_later_and_is_unknown_at_first(
    commands: Commands, plane: RecordingPlane
) -> None:
    [one] = commands.launch()
    command = commands.send([one])
    with pytest.raises(ClientError, match="InvocationDoesNotExist"):
        commands.invocation(command, one)
    assert plane.named("run_script") == []
    assert commands.ended(command)["Status"] == "Success"
    assert commands.invocation(command, one)["Status"] == "Success"


@pytest.mark.parametrize("weather", ["deny=SendCommand"])
def test_the_weather_denies_a_command(commands: Commands) -> None:
    assert commands.refusal(commands.launch()) == "AccessDeniedException"


def test_profiles_cannot_be_added_later(commands: Commands) -> None:
    instance = commands.calls.launch()
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        commands.calls.ec2.associate_iam_instance_profile(InstanceId=instance, IamInstanceProfile=PROFILE)


@given(
    stdout=st.text(max_size=40), stderr=st.text(max_size=40), lengths=st.tuples(*[st.integers(1, 400)] * 2)
)
def test_the_short_form_of_an_output_keeps_its_limit(
    stdout: str, stderr: str, lengths: tuple[int, int]
) -> None:
    from pytest_cloudbench.twin.api.run_command import OUTPUT_CHARACTERS, combined

    stdout, stderr = stdout * lengths[0], stderr * lengths[1]
    text = combined(stdout, stderr)
    assert len(text) <= OUTPUT_CHARACTERS
    whole = stdout + ("\n----------ERROR-------\n" if stderr else "") + stderr
    if len(whole) <= OUTPUT_CHARACTERS:
        assert text == whole
    else:
        assert ("---Output truncated---" in text) or ("---Error truncated----" in text)


_VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=5),
    st.lists(st.one_of(st.text(max_size=5), st.dictionaries(st.just("Key"), st.text(max_size=5)))),
    st.dictionaries(st.sampled_from(("commands", "executionTimeout")), st.lists(st.text(), max_size=2)),
)
_IN_ORDER = {
    "DocumentName": "AWS-RunShellScript",
    "InstanceIds": ["i-0123456789abcdef0"],
    "Parameters": {"commands": ["true"]},
}
_NAMES = (
    *_IN_ORDER,
    "Targets",
    "TimeoutSeconds",
    "MaxErrors",
    "Comment",
    "OutputS3BucketName",
    "DocumentVersion",
)


@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=3))
def test_any_request_is_admitted_or_refused(params: dict[str, Any]) -> None:
    from pytest_cloudbench.twin.api.ssm_admission import admitted_command

    with contextlib.suppress(Refusal):
        request = admitted_command({**_IN_ORDER, **params})
        assert request.script.endswith("\n")
        assert 5 <= request.execution_s <= 172_800
