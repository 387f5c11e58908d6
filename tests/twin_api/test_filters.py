"""Filters of describe actions: EC2's names and wildcards, over everything that is described."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from region_calls import Calls, until

from pytest_cloudbench.twin.api.filters import _pattern

ZONE = "us-east-1b"


@dataclass
class Furnished:
    """A region with two instances and two volumes; only ``first`` has a data volume and tags."""

    calls: Calls
    first: dict[str, Any]
    second: dict[str, Any]
    data: str
    spare: str

    def instances(self, name: str, *values: str) -> list[str]:
        answer = self.calls.ec2.describe_instances(Filters=[{"Name": name, "Values": list(values)}])
        found = [one["InstanceId"] for each in answer["Reservations"] for one in each["Instances"]]
        names = {self.first["InstanceId"]: "first", self.second["InstanceId"]: "second"}
        return [names[one] for one in found]

    def volumes(self, name: str, *values: str) -> set[str]:
        found = self.calls.ec2.describe_volumes(Filters=[{"Name": name, "Values": list(values)}])["Volumes"]
        return {one["VolumeId"] for one in found}


@pytest.fixture(scope="module")
def furnished(module_calls: Calls) -> Furnished:
    calls = module_calls
    first = calls.launch(
        "m5.large",
        Placement={"AvailabilityZone": ZONE},
        ClientToken="token of the first",
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "star * here"}]},
        ],
        MetadataOptions={"HttpTokens": "required"},
    )
    second = calls.launch("c5.xlarge")
    data = calls.volume(ZONE, Size=7, Encrypted=True)
    spare = calls.volume(ZONE, Size=8)
    calls.ec2.attach_volume(VolumeId=data, InstanceId=first, Device="/dev/sdf")
    until(lambda: calls.described_volume(data)["State"] == "in-use", "attached")
    return Furnished(calls, calls.instance(first), calls.instance(second), data, spare)


BOTH = ["first", "second"]
# A filter, its values as functions of the first instance, and what passes.
INSTANCES: list[tuple[str, Callable[[dict[str, Any]], list[str]], list[str]]] = [
    ("instance-type", lambda _: ["m5.*"], ["first"]),
    ("instance-type", lambda _: ["?5.*large"], BOTH),
    ("instance-type", lambda _: ["m5"], []),
    ("instance-type", lambda _: ["M5.large"], []),
    ("instance-type", lambda _: ["t2.micro", "c5.xlarge"], ["second"]),
    ("availability-zone", lambda _: [ZONE], ["first"]),
    ("availability-zone-id", lambda one: [one["Placement"]["AvailabilityZoneId"]], ["first"]),
    ("platform-details", lambda _: ["Linux*"], BOTH),
    ("usage-operation", lambda _: ["RunInstances"], BOTH),
    ("client-token", lambda _: ["token of*"], ["first"]),
    ("block-device-mapping.device-name", lambda _: ["/dev/sdf"], ["first"]),
    ("block-device-mapping.volume-id", lambda one: [_data_of(one)], ["first"]),
    ("block-device-mapping.delete-on-termination", lambda _: ["false"], ["first"]),
    ("block-device-mapping.status", lambda _: ["attached"], BOTH),
    ("block-device-mapping.attach-time", lambda _: ["20*Z"], BOTH),
    ("instance-state-code", lambda _: ["16"], BOTH),
    ("instance-state-name", lambda _: ["running", "stopped"], BOTH),
    ("launch-time", lambda one: [one["LaunchTime"].strftime("%Y-%m-%d*")], BOTH),
    ("launch-index", lambda _: ["0"], BOTH),
    ("reservation-id", lambda _: ["r-*"], BOTH),
    ("owner-id", lambda _: ["123456789012"], BOTH),
    ("root-device-name", lambda one: [one["RootDeviceName"]], BOTH),
    ("root-device-type", lambda _: ["ebs"], BOTH),
    ("tenancy", lambda _: ["default"], BOTH),
    ("tenancy", lambda _: ["dedicated"], []),
    ("network-interface.network-interface-id", lambda one: [_card(one)["NetworkInterfaceId"]], ["first"]),
    ("network-interface.addresses.private-ip-address", lambda one: [one["PrivateIpAddress"]], ["first"]),
    ("network-interface.attachment.device-index", lambda _: ["0"], BOTH),
    ("network-interface.subnet-id", lambda one: [one["SubnetId"]], ["first"]),
    ("network-interface.group-name", lambda _: ["default"], BOTH),
    ("instance.group-name", lambda _: ["default"], BOTH),
    ("metadata-options.http-tokens", lambda _: ["required"], ["first"]),
    ("monitoring-state", lambda _: ["disabled"], BOTH),
    ("ebs-optimized", lambda _: ["false"], BOTH),
    ("vpc-id", lambda one: [one["VpcId"]], BOTH),
    ("private-ip-address", lambda one: [one["PrivateIpAddress"]], ["first"]),
    ("tag:Name", lambda _: [r"star \* *"], ["first"]),
    ("tag:Name", lambda _: [r"star \? *"], []),
    ("tag-key", lambda _: ["Na?e"], ["first"]),
    ("tag-value", lambda _: ["star*"], ["first"]),
]


def _data_of(instance: dict[str, Any]) -> str:
    mapped = {one["DeviceName"]: one["Ebs"]["VolumeId"] for one in instance["BlockDeviceMappings"]}
    return str(mapped["/dev/sdf"])


def _card(instance: dict[str, Any]) -> dict[str, Any]:
    return dict(instance["NetworkInterfaces"][0])


@pytest.mark.parametrize(("name", "values", "passing"), INSTANCES)
def test_instances(furnished: Furnished, name: str, values: Any, passing: list[str]) -> None:
    assert furnished.instances(name, *values(furnished.first)) == passing


def test_all_filters_must_match(furnished: Furnished) -> None:
    answer = furnished.calls.ec2.describe_instances(
        Filters=[
            {"Name": "instance-type", "Values": ["m5.*"]},
            {"Name": "availability-zone", "Values": ["us-east-1a"]},
        ]
    )
    assert answer["Reservations"] == []


def test_a_filter_named_twice_must_match_twice(furnished: Furnished) -> None:
    def found(*values: str) -> list[dict[str, Any]]:
        asked = [{"Name": "instance-type", "Values": [value]} for value in values]
        found: list[dict[str, Any]] = furnished.calls.ec2.describe_instances(Filters=asked)["Reservations"]
        return found

    assert len(found("m5.*", "*.large")) == 1
    assert found("m5.*", "c5.*") == []


def test_instances_of_one_reservation_are_filtered_apart(module_calls: Calls) -> None:
    asked = {"ImageId": module_calls.image(), "MinCount": 3, "MaxCount": 3, "InstanceType": "r5.large"}
    ids = [one["InstanceId"] for one in module_calls.ec2.run_instances(**asked)["Instances"]]
    [found] = module_calls.ec2.describe_instances(
        Filters=[{"Name": "launch-index", "Values": ["2"]}, {"Name": "instance-type", "Values": ["r5.*"]}]
    )["Reservations"]
    assert [one["InstanceId"] for one in found["Instances"]] == ids[2:]
    assert len(module_calls.ec2.describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"]) == 3
    for one in ids:
        module_calls.wait_state(one, "running")
    module_calls.ec2.terminate_instances(InstanceIds=ids)
    for one in ids:
        module_calls.wait_state(one, "terminated")


def test_volumes(furnished: Furnished) -> None:
    data, spare = furnished.data, furnished.spare
    assert furnished.volumes("attachment.instance-id", furnished.first["InstanceId"]) > {data}
    assert furnished.volumes("attachment.device", "/dev/sdf") == {data}
    assert furnished.volumes("attachment.status", "attached") >= {data}
    assert spare not in furnished.volumes("attachment.delete-on-termination", "false")
    assert data in furnished.volumes("attachment.delete-on-termination", "false")
    assert furnished.volumes("encrypted", "true") == {data}
    assert spare in furnished.volumes("encrypted", "false")
    assert furnished.volumes("size", "7", "8") >= {data, spare}
    assert furnished.volumes("status", "available") == {spare}
    assert spare in furnished.volumes("multi-attach-enabled", "false")
    assert furnished.volumes("volume-type", "gp?") >= {data, spare}
    assert furnished.volumes("create-time", "2*") >= {data, spare}


def test_zones(furnished: Furnished) -> None:
    ec2 = furnished.calls.ec2

    def only(name: str, value: str) -> list[dict[str, str]]:
        return [{"Name": name, "Values": [value]}]

    zones = ec2.describe_availability_zones(Filters=only("opt-in-status", "opt-in-not-required"))
    ids = {each["ZoneName"]: each["ZoneId"] for each in zones["AvailabilityZones"]}
    assert len(ids) == 4
    here = only("availability-zone-id", ids[ZONE])
    assert furnished.volumes("availability-zone-id", ids[ZONE]) >= {furnished.data, furnished.spare}
    [status] = ec2.describe_instance_status(Filters=here)["InstanceStatuses"]
    assert status["InstanceId"] == furnished.first["InstanceId"]
    [card] = ec2.describe_network_interfaces(Filters=here)["NetworkInterfaces"]
    assert card["Attachment"]["InstanceId"] == furnished.first["InstanceId"]


def test_images(module_calls: Calls) -> None:
    def found(name: str, value: str) -> int:
        return len(module_calls.ec2.describe_images(Filters=[{"Name": name, "Values": [value]}])["Images"])

    every = len(module_calls.ec2.describe_images()["Images"])
    assert found("block-device-mapping.volume-type", "gp3") == every
    assert found("block-device-mapping.volume-type", "io1") == 0
    assert found("block-device-mapping.encrypted", "false") == every
    assert 0 < found("owner-alias", "amazon") < every
    assert found("is-public", "true") == every
    assert 0 < found("architecture", "arm*") < every


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize(
    ("action", "name"),
    [
        ("describe_instances", "instance-typ"),
        ("describe_instances", "placement"),
        ("describe_volumes", "volume-types"),
        ("describe_images", "names"),
        ("describe_tags", "tag-keys"),
        ("describe_snapshots", "x"),
        ("describe_security_groups", "vpc"),
        ("describe_subnets", "zone"),
        ("describe_key_pairs", "key"),
        ("describe_instance_types", "vcpus"),
        ("describe_volumes_modifications", "state"),
        ("describe_volume_status", "status"),
    ],
)
def test_unknown_filters_are_refused(module_calls: Calls, action: str, name: str) -> None:
    call = getattr(module_calls.ec2, action)
    code, message = refused(lambda: call(Filters=[{"Name": name, "Values": ["x"]}]))
    assert (code, message) == ("InvalidParameterValue", f"The filter '{name}' is invalid")


@pytest.mark.parametrize(
    "name", ["network-interface.addresses.association.allocation-id", "maintenance-options.auto-recovery"]
)
def test_filters_of_ec2_that_the_region_lacks_say_so(module_calls: Calls, name: str) -> None:
    code, message = refused(
        lambda: module_calls.ec2.describe_instances(Filters=[{"Name": name, "Values": ["x"]}])
    )
    assert code == "UnsupportedOperation"
    assert name in message


def test_a_filter_needs_values_and_has_at_most_200(module_calls: Calls) -> None:
    def ask(values: list[str]) -> Any:
        return module_calls.ec2.describe_volumes(Filters=[{"Name": "size", "Values": values}])

    assert refused(lambda: ask([]))[0] == "InvalidParameterValue"
    assert ask(["1"] * 200)["Volumes"] == []
    assert refused(lambda: ask(["1"] * 201))[0] == "FilterLimitExceeded"


def test_tags_have_their_own_filters(furnished: Furnished) -> None:
    def found(*filters: tuple[str, str]) -> list[tuple[str, str, str]]:
        asked = [{"Name": name, "Values": [value]} for name, value in filters]
        tags = furnished.calls.ec2.describe_tags(Filters=asked)["Tags"]
        return [(one["ResourceId"], one["Key"], one["Value"]) for one in tags]

    mine = [(furnished.first["InstanceId"], "Name", "star * here")]
    assert found(("key", "Name")) == mine
    assert found(("tag:Name", "star*")) == mine
    assert found(("resource-type", "instance"), ("value", "star*")) == mine
    assert found(("resource-id", furnished.data)) == []


@given(st.text("ab*?\\.\n[", max_size=8), st.text("ab*?\\.\n[", max_size=8))
def test_wildcards(pattern: str, text: str) -> None:
    """Compare with a matcher that follows the pattern one character at a time."""

    def matches(rest: str, at: str) -> bool:
        if not rest:
            return not at
        if rest[0] == "*":
            return any(matches(rest[1:], at[skip:]) for skip in range(len(at) + 1))
        if rest[0] == "\\" and len(rest) > 1:
            return bool(at) and at[0] == rest[1] and matches(rest[2:], at[1:])
        return bool(at) and (rest[0] in ("?", at[0])) and matches(rest[1:], at[1:])

    assert bool(_pattern(pattern).fullmatch(text)) == matches(pattern, text)
    assert re.fullmatch(_pattern(re.sub(r"([*?\\])", r"\\\1", text)), text)


def test_a_value_with_many_wildcards_takes_no_time() -> None:
    """A pattern that tries each * against each other one would not end."""
    assert not _pattern("*a" * 60 + "b").fullmatch("a" * 255)
