"""Every describe action that the region offers, by botocore's own paginators and waiters; and the table of them.

A newly offered action is covered by itself: the tests take the actions, their paginators and their waiters from the
code and from botocore.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.waiter import WaiterModel
from offered_tables import documented_table
from region_calls import Calls, until

from pytest_cloudbench.twin.api.listing import listing_of
from pytest_cloudbench.twin.api.moto_loading import load_moto
from pytest_cloudbench.twin.api.offered import ACTIONS, OFFERED

PAGE = Path(__file__).parents[2] / "docs" / "region.md"
load_moto()


@pytest.fixture(scope="module")
def furnished(module_calls: Calls) -> dict[str, list[str]]:
    """One or more resources of each kind, by the parameter that names them."""
    calls, ec2 = module_calls, module_calls.ec2
    asked = {"ImageId": calls.image(), "InstanceType": "m5.large", "MinCount": 6, "MaxCount": 6}
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    instances = [one["InstanceId"] for one in ec2.run_instances(**asked)["Instances"]]
    spots = [one["InstanceId"] for one in ec2.run_instances(**asked, **spot)["Instances"]]
    volumes = [calls.volume() for _ in range(6)]
    for one in [*instances, *spots]:
        calls.wait_state(one, "running")
    snapshots = [ec2.create_snapshot(VolumeId=one)["SnapshotId"] for one in volumes]
    used = calls.volume()
    ec2.attach_volume(VolumeId=used, InstanceId=instances[0], Device="/dev/sdf")
    for one in volumes:
        ec2.modify_volume(VolumeId=one, Size=11)
        ec2.create_tags(Resources=[one], Tags=[{"Key": "n", "Value": "v"}])
    for number in range(6):
        ec2.create_security_group(GroupName=f"g{number}", Description="d")
        ec2.create_launch_template(
            LaunchTemplateName=f"template{number}", LaunchTemplateData={"InstanceType": "m5.large"}
        )
        ec2.create_capacity_reservation(
            InstanceType="m5.large",
            InstancePlatform="Linux/UNIX",
            AvailabilityZone="us-east-1a",
            InstanceCount=1,
        )
    ec2.create_key_pair(KeyName="k")
    ec2.create_placement_group(GroupName="p", Strategy="cluster")
    stopped, ended = instances[1], instances[2]
    ec2.stop_instances(InstanceIds=[stopped])
    ec2.terminate_instances(InstanceIds=[ended])
    calls.wait_state(stopped, "stopped")
    calls.wait_state(ended, "terminated")
    until(lambda: calls.described_volume(used)["State"] == "in-use", "attached")
    requests = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    return {
        "InstanceIds": instances[3:4],
        "stopped": [stopped],
        "terminated": [ended],
        "VolumeIds": volumes,
        "in use": [used],
        "SnapshotIds": snapshots,
        "ImageIds": [asked["ImageId"]],
        "KeyNames": ["k"],
        "GroupIds": [ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        "SubnetIds": [ec2.describe_subnets()["Subnets"][0]["SubnetId"]],
        "VpcIds": [ec2.describe_vpcs()["Vpcs"][0]["VpcId"]],
        "NetworkInterfaceIds": [calls.instance(instances[3])["NetworkInterfaces"][0]["NetworkInterfaceId"]],
        "SpotInstanceRequestIds": [one["SpotInstanceRequestId"] for one in requests],
    }


# What an action requires besides its page.
REQUIRED: dict[str, dict[str, Any]] = {
    "DescribeLaunchTemplateVersions": {"LaunchTemplateName": "template0"},
}


def snake(name: str) -> str:
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def paginated() -> list[str]:
    return sorted(one for one in ACTIONS if (listing := listing_of(one)) is not None and listing.has_pages)


@pytest.mark.parametrize("action", paginated())
def test_paginator(module_calls: Calls, furnished: dict[str, list[str]], action: str) -> None:
    """Pages of the smallest size hold what one answer holds, each item once."""
    ec2 = module_calls.ec2
    assert ec2.can_paginate(snake(action)), f"botocore has no paginator of {action}"
    paginator = ec2.get_paginator(snake(action))
    key = paginator.result_keys[0].expression
    members = ec2.meta.service_model.operation_model(action).input_shape.members
    smallest = members["MaxResults"].metadata.get("min", 5)
    asked = REQUIRED.get(action, {})
    every = paginator.paginate(**asked).build_full_result()[key]
    pages = list(paginator.paginate(**asked, PaginationConfig={"PageSize": smallest}))
    assert all(len(_flat(page[key])) <= smallest for page in pages)
    paged = [item for page in pages for item in _flat(page[key])]
    assert [_identity(item) for item in paged] == [_identity(item) for item in _flat(every)]
    assert len(pages) == max(1, -(-len(paged) // smallest))


def _flat(items: list[Any]) -> list[Any]:
    """Return the instances in reservations; other items as they are."""
    return [inner for one in items for inner in one.get("Instances", [one])]


def _identity(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of an item, which do not change between two calls as progress does."""
    return sorted(
        (name, value) for name, value in item.items() if isinstance(value, str) and "State" not in name
    )


# The resources with which a waiter ends, if not those of its parameter.
STATES = {
    "InstanceStopped": ("InstanceIds", "stopped"),
    "InstanceTerminated": ("InstanceIds", "terminated"),
    "VolumeInUse": ("VolumeIds", "in use"),
    "VolumeDeleted": ("VolumeIds", None),
    "NetworkInterfaceAvailable": None,  # interfaces of this region are always those of an instance
    "InternetGatewayExists": ("InternetGatewayIds", "InternetGatewayIds"),
}


def waiters() -> list[str]:
    from botocore.loaders import Loader

    model = WaiterModel(Loader().load_service_model("ec2", "waiters-2"))
    return sorted(name for name in model.waiter_names if model.get_waiter(name).operation in ACTIONS)


@pytest.mark.parametrize("name", waiters())
def test_waiter(module_calls: Calls, furnished: dict[str, list[str]], name: str) -> None:
    """Each waiter ends with success for resources in its state."""
    waiter = module_calls.ec2.get_waiter(snake(name))
    operation = module_calls.ec2.meta.service_model.operation_model(waiter.config.operation)
    if name in STATES and STATES[name] is None:
        return
    if name == "InternetGatewayExists":
        gateway = module_calls.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        furnished = {**furnished, "InternetGatewayIds": [gateway]}
    parameter, state = STATES.get(name) or (_naming(operation, furnished), "")
    if name == "VolumeDeleted":
        gone = module_calls.volume()
        module_calls.ec2.delete_volume(VolumeId=gone)
        ids = [gone]
    else:
        ids = furnished[state or parameter]
    waiter.wait(**{parameter: ids}, WaiterConfig={"Delay": 1, "MaxAttempts": 3})


def _naming(operation: Any, furnished: dict[str, list[str]]) -> str:
    found = [name for name in operation.input_shape.members if name in furnished]
    assert found, f"this test has no resource for a waiter of {operation.name}"
    return str(found[0])


def test_a_waiter_notices_what_is_missing(module_calls: Calls) -> None:
    with pytest.raises(ClientError, match=r"InvalidVolume\.NotFound"):
        module_calls.ec2.describe_volumes(VolumeIds=["vol-00000000000000000"])


def test_offered_actions_exist(module_calls: Calls) -> None:
    from moto.core.utils import camelcase_to_underscores

    from pytest_cloudbench.twin.api.ec2_actions import Ec2Actions

    names = set(module_calls.ec2.meta.service_model.operation_names)
    assert names >= ACTIONS
    assert all(hasattr(Ec2Actions, camelcase_to_underscores(action)) for action in ACTIONS)
    assert len(ACTIONS) == sum(map(len, OFFERED.values())), "an action is listed twice"


def test_the_documented_table_is_that_of_the_code() -> None:
    """`python tests/twin_api/offered_tables.py docs/region.md` writes it."""
    assert documented_table() in PAGE.read_text(encoding="utf-8")
