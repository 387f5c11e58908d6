"""The control plane of a run and placement groups, against the region's API over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from region_calls import Calls, RecordingPlane, until
from service_faults import Faults

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.errors import Unreachable
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.resources.errors import (
    CloudError,
    NotOffered,
    PlacementRefused,
    WaitTimeout,
    ZoneMismatch,
)
from pytest_cloudbench.resources.facts import Answer, Launch

FAST = Bounds(
    running_s=10, stopped_s=10, terminated_s=10, bare_metal_s=10, volume_s=10, group_s=5, settle_s=0.5
)


@pytest.fixture
def make_cloud(access: CloudAccess, tmp_path: Path) -> Iterator[Callable[[], Cloud]]:
    made: list[Cloud] = []

    def make() -> Cloud:
        run_id = new_run_id()
        made.append(Cloud(access, run_id, Journal.open(run_id, access, tmp_path), bounds=FAST))
        return made[-1]

    yield make
    for cloud in made:
        cloud.close()


@pytest.fixture
def cloud(make_cloud: Callable[[], Cloud]) -> Cloud:
    return make_cloud()


def groups(calls: Calls) -> list[str]:
    return [one["GroupName"] for one in calls.ec2.describe_placement_groups()["PlacementGroups"]]


def nothing_was_created(cloud: Cloud) -> bool:
    return cloud.journal.intentions == ()


def test_a_pair_in_a_cluster_lives_and_leaves_nothing(
    cloud: Cloud, calls: Calls, plane: RecordingPlane, tmp_path: Path
) -> None:
    group = cloud.create_placement_group(name="test_flow")
    assert (group.strategy, group.state) == ("cluster", "available")
    assert group.tags["cloudbench:run"] == cloud.run_id
    assert group.tags["Name"] == "cloudbench test_flow"
    client, server = cloud.launch_many(
        [Launch("c5.18xlarge", name="test_flow"), Launch("c5.large", name="test_flow")], placement_group=group
    )
    assert (client.type, server.type) == ("c5.18xlarge", "c5.large")
    assert client.zone == server.zone
    assert client.placement_group == server.placement_group == group.name
    assert plane.plans[server.id].placement_group == group.name
    assert {left.kind for left in cloud.ledger.remaining()} >= {"instance", "placement group"}
    report = cloud.close()
    assert report.clean, report.sentences()
    assert groups(calls) == []
    assert calls.instance(client.id)["State"]["Name"] == "terminated"
    assert list(tmp_path.iterdir()) == []


def test_the_creating_call_is_tagged_and_journalled_before(cloud: Cloud) -> None:
    seen: list[tuple[str, ...]] = []
    Faults(cloud).on(
        "before-send",
        "CreatePlacementGroup",
        lambda **_: seen.append(tuple(line for line in cloud.journal.path.read_text().splitlines())),
    )
    heard: list[Answer] = []
    cloud.listen(heard.append)
    cloud.create_placement_group()
    [before] = seen
    assert '"action": "create_placement_group"' in before[-1]
    assert '"record": "intend"' in before[-1]
    [asked] = [each.asked for each in heard if each.operation == "create_placement_group"]
    [specification] = asked["TagSpecifications"]
    assert specification["ResourceType"] == "placement-group"
    tags = {tag["Key"]: tag["Value"] for tag in specification["Tags"]}
    assert tags["cloudbench:run"] == cloud.run_id


def test_groups_of_one_run_have_names_of_their_own(cloud: Cloud) -> None:
    first, second = cloud.create_placement_group(), cloud.create_placement_group("spread")
    assert first.name != second.name
    assert first.id != second.id
    assert second.strategy == "spread"


def test_a_run_without_groups_asks_for_none(cloud: Cloud) -> None:
    heard: list[Answer] = []
    cloud.listen(heard.append)
    cloud.launch("c5.large")
    assert cloud.close().clean
    assert "describe_placement_groups" not in {each.operation for each in heard}


def test_the_group_may_be_another_ones_by_name(cloud: Cloud, calls: Calls) -> None:
    calls.ec2.create_placement_group(GroupName="ours for years", Strategy="cluster")
    instance = cloud.launch("c5.large", placement_group="ours for years")
    assert instance.placement_group == "ours for years"
    assert cloud.close().clean
    assert groups(calls) == ["ours for years"]


def test_refusals_come_before_anything_is_created(cloud: Cloud) -> None:
    with pytest.raises(CloudError, match=r"'near'.* cluster, partition, spread"):
        cloud.create_placement_group("near")
    with pytest.raises(PlacementRefused, match="no placement group 'none' in us-east-1"):
        cloud.launch("c5.large", placement_group="none")
    for launches in ([Launch("t2.micro")], [Launch("c5.large"), Launch("t2.micro")]):
        with pytest.raises(
            PlacementRefused,
            match=r"t2\.micro cannot be in a cluster placement group, only in partition or spread ones",
        ):
            cloud.check_launches(launches, strategy="cluster")
    apart = [Launch("c5.large", zone="us-east-1a"), Launch("c5.large", zone="us-east-1b")]
    with pytest.raises(ZoneMismatch, match=r"lies in one availability zone, .*us-east-1a and us-east-1b"):
        cloud.check_launches(apart, strategy="cluster")
    cloud.check_launches(apart)
    cloud.check_launches(apart, strategy="spread")
    cloud.check_launches([Launch("t2.micro")], strategy="spread")
    assert nothing_was_created(cloud)


def test_refusals_of_a_group_that_is_there(cloud: Cloud) -> None:
    group = cloud.create_placement_group()
    known = len(cloud.journal.intentions)
    with pytest.raises(PlacementRefused, match=r"t2\.micro cannot"):
        cloud.launch("t2.micro", placement_group=group)
    apart = [Launch("c5.large", zone="us-east-1a"), Launch("c5.large", zone="us-east-1b")]
    with pytest.raises(ZoneMismatch, match="one availability zone"):
        cloud.launch_many(apart, placement_group=group.name)
    assert len(cloud.journal.intentions) == known
    first = cloud.launch("c5.large", zone="us-east-1b", placement_group=group)
    with pytest.raises(ZoneMismatch, match=r"has instances in us-east-1b already, and us-east-1a "):
        cloud.launch("c5.large", zone="us-east-1a", placement_group=group)
    assert cloud.launch("c5.large", placement_group=group).zone == first.zone == "us-east-1b"


def only_in(monkeypatch: pytest.MonkeyPatch, cloud: Cloud, **zones: tuple[str, ...]) -> None:
    """Have the region offer some types in some zones only."""
    offered = cloud.catalog.places.zones_offering
    told = {name.replace("_", "."): where for name, where in zones.items()}
    monkeypatch.setattr(
        cloud.catalog.places, "zones_offering", lambda name: told[name] if name in told else offered(name)
    )


def test_both_go_where_both_are_offered(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    only_in(monkeypatch, cloud, c5_large=("us-east-1b", "us-east-1c"), m5_large=("us-east-1c", "us-east-1d"))
    pair = [Launch("c5.large"), Launch("m5.large")]
    assert [one.zone for one in cloud.launch_many(pair)] == ["us-east-1c"] * 2
    beside = [Launch("c5.large"), Launch("m4.large", zone="us-east-1b")]
    assert [one.zone for one in cloud.launch_many(beside)] == ["us-east-1b"] * 2


def test_types_without_a_common_zone(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    only_in(monkeypatch, cloud, c5_large=("us-east-1b",), m5_large=("us-east-1c",))
    pair = [Launch("c5.large"), Launch("m5.large")]
    with pytest.raises(
        NotOffered,
        match=r"offers c5\.large and m5\.large together: c5\.large is in us-east-1b; m5\.large is in us-east-1c",
    ):
        cloud.launch_many(pair)
    with pytest.raises(NotOffered, match=r"m5\.large is not offered in us-east-1b; it is in us-east-1c"):
        cloud.check_launches([Launch("c5.large", zone="us-east-1b"), Launch("m5.large")])
    assert nothing_was_created(cloud)


def test_one_that_fails_takes_the_other_with_it(cloud: Cloud, calls: Calls, plane: RecordingPlane) -> None:
    group = cloud.create_placement_group()
    boot = plane.instances.boot

    def boot_one(plan: Any, *more: Any) -> None:
        if plan.instance_type == "c5.large":
            raise RuntimeError("no such luck")
        boot(plan, *more)

    plane.instances.boot = boot_one  # type: ignore[method-assign]
    with pytest.raises(CloudError, match="no such luck"):
        cloud.launch_many(
            [Launch(each, zone="us-east-1a") for each in ("c5.18xlarge", "c5.large")], placement_group=group
        )
    reservations = calls.ec2.describe_instances()["Reservations"]
    assert len(reservations) == 2
    for reservation in reservations:
        calls.wait_state(reservation["Instances"][0]["InstanceId"], "terminated")
    assert groups(calls) == [group.name]
    assert cloud.close().clean
    assert groups(calls) == []


def test_release_lets_the_group_go_when_its_instances_have_ended(
    cloud: Cloud, calls: Calls, plane: RecordingPlane
) -> None:
    group = cloud.create_placement_group()
    pair = cloud.launch_many([Launch("c5.large")] * 2, placement_group=group)
    plane.gates["terminate"] = threading.Event()
    refusals = count_refusals(cloud)
    cloud.release([*pair, group])
    until(lambda: plane.gates["terminate"] and groups(calls), "the instances are ending")
    assert groups(calls) == [group.name]
    plane.gates["terminate"].set()
    until(lambda: groups(calls) == [], "the group is gone")
    assert refusals == [], "nobody asked before its instances had ended"
    assert cloud.close().clean


def count_refusals(cloud: Cloud) -> list[str]:
    refusals: list[str] = []

    def note(parsed: dict[str, Any], **_: Any) -> None:
        if code := parsed.get("Error", {}).get("Code"):
            refusals.append(code)

    Faults(cloud).on("after-call", "DeletePlacementGroup", note)
    return refusals


def test_a_group_released_without_its_instance_is_left_to_close(cloud: Cloud, calls: Calls) -> None:
    group = cloud.create_placement_group()
    instance = cloud.launch("c5.large", placement_group=group)
    refusals = count_refusals(cloud)
    cloud.release([group])
    until(lambda: refusals, "the group is refused to go")
    assert set(refusals) == {"InvalidPlacementGroup.InUse"}
    assert cloud.refresh(instance).state == "running"
    assert cloud.close().clean
    assert groups(calls) == []


def test_a_group_that_somebody_holds_is_named_and_the_rest_goes(
    cloud: Cloud, calls: Calls, access: CloudAccess, tmp_path: Path
) -> None:
    held, free = cloud.create_placement_group(), cloud.create_placement_group("spread")
    instance = cloud.launch("c5.large", placement_group=free)
    strangers = calls.launch(Placement={"GroupName": held.name})
    cloud.run = cloud.run._replace(bounds=replace(cloud.run.bounds, group_s=0.3))
    report = cloud.close()
    assert [str(left) for left in report.remaining] == [f"placement group {held.name} (available)"]
    [problem] = report.problems
    assert problem.startswith(f"could not delete placement group {held}")
    assert "is in use and may not be deleted" in problem
    assert calls.instance(instance.id)["State"]["Name"] == "terminated"
    assert groups(calls) == [held.name]
    calls.ec2.terminate_instances(InstanceIds=[strangers])
    [reaped] = reap(access, directory=tmp_path, bounds=FAST)
    assert [left.id for left in reaped.removed] == [held.name]
    assert groups(calls) == []


def test_errors_of_several_groups_are_all_told(cloud: Cloud) -> None:
    faults = Faults(cloud)
    first, second = cloud.create_placement_group(), cloud.create_placement_group()
    faults.answer("DeletePlacementGroup", "UnauthorizedOperation", "you may not")
    [problem] = cloud.close().problems
    assert problem.startswith(f"could not delete placement group {first}: the service said Unauthorized")
    assert str(second) in problem
    faults.none("DeletePlacementGroup")
    cloud.removal.run()
    assert cloud.ledger.remaining() == ()


def test_a_group_whose_answer_was_lost_is_found_by_its_tag(
    cloud: Cloud, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    Faults(cloud).lose_answer("CreatePlacementGroup")
    with pytest.raises(Unreachable):
        cloud.create_placement_group()
    assert [one.action for one in cloud.journal.intentions if one.unresolved] == ["create_placement_group"]
    assert [left.kind for left in cloud.ledger.remaining()] == ["placement group"]
    assert cloud.close().clean
    assert groups(calls) == []


def test_a_call_that_is_tried_again_takes_the_group_that_the_first_try_made(
    cloud: Cloud, calls: Calls
) -> None:
    from botocore.exceptions import ConnectionClosedError
    from botocore.httpsession import URLLib3Session

    lost: list[str] = []

    def lose_once(request: Any, **_: Any) -> None:
        if not lost:
            URLLib3Session().send(request)
            lost.append(request.url)
            raise ConnectionClosedError(endpoint_url=request.url)

    Faults(cloud).on("before-send", "CreatePlacementGroup", lose_once)
    group = cloud.create_placement_group()
    assert lost
    assert groups(calls) == [group.name]
    assert group.state == "available"


def test_a_group_is_requested_again_after_a_passing_error(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    calls = Faults(cloud).answer("CreatePlacementGroup", "RequestLimitExceeded", status=503, times=2)
    assert cloud.create_placement_group().state == "available"
    assert len(calls) == 2


def test_a_name_that_somebody_else_has_is_not_taken(cloud: Cloud, calls: Calls) -> None:
    calls.ec2.create_placement_group(GroupName=f"cloudbench-{cloud.run_id}-1", Strategy="cluster")
    with pytest.raises(CloudError, match=r"InvalidPlacementGroup\.Duplicate"):
        cloud.create_placement_group()
    assert cloud.close().clean
    assert len(groups(calls)) == 1


def test_a_group_that_stays_pending(cloud: Cloud, calls: Calls) -> None:
    states = iter(["pending", "pending"])

    def still_pending(parsed: dict[str, Any], **_: Any) -> None:
        state = next(states, None)
        for group in parsed.get("PlacementGroups", []):
            group["State"] = state or group["State"]

    Faults(cloud).on("after-call", "DescribePlacementGroups", still_pending)
    assert cloud.create_placement_group().state == "available"
    states = iter(["pending"] * 10**4)
    cloud._placement_groups._run = cloud.run._replace(bounds=Bounds(group_s=0.2))
    with pytest.raises(WaitTimeout, match=r"did not become available in 0 s; it is pending"):
        cloud.create_placement_group()
    states = iter([])
    assert cloud.close().clean
    assert groups(calls) == []


def test_a_group_that_is_not_yet_known_everywhere_is_asked_for_again(cloud: Cloud) -> None:
    faults = Faults(cloud)
    group = cloud.create_placement_group()
    for code in ("InvalidPlacementGroup.Unknown", "InvalidPlacementGroup.InUse"):
        calls = faults.answer("RunInstances", code, "in another availability zone: null", times=1)
        assert cloud.launch("c5.large", placement_group=group).state == "running"
        assert len(calls) == 1
        faults.none("RunInstances")


def test_no_capacity_in_a_cluster_is_told_with_its_reason(cloud: Cloud, calls: Calls) -> None:
    group = cloud.create_placement_group()
    asked = Faults(cloud).answer("RunInstances", "InsufficientInstanceCapacity", "not enough")
    pair = [Launch("c5.18xlarge", zone="us-east-1b"), Launch("c5.large")]
    with pytest.raises(CloudError, match="close together") as caught:
        cloud.launch_many(pair, placement_group=group)
    assert caught.value.code == "InsufficientInstanceCapacity"
    assert f"cluster placement group {group.name}" in str(caught.value)
    assert len(asked) == 2
    assert calls.ec2.describe_instances()["Reservations"] == []


def test_a_cluster_moves_to_the_next_zone_as_a_whole(
    cloud: Cloud, calls: Calls, plane: RecordingPlane
) -> None:
    group = cloud.create_placement_group()
    first = cloud.catalog.places.find("c5.large").subnet_id
    asked = Faults(cloud).answer(
        "RunInstances",
        "InsufficientInstanceCapacity",
        when=lambda asked: (asked["InstanceType"], asked["SubnetId"]) == ("c5.18xlarge", first),
    )
    pair = cloud.launch_many([Launch("c5.large"), Launch("c5.18xlarge")], placement_group=group)
    assert [one.zone for one in pair] == ["us-east-1b"] * 2
    assert len(asked) == 1
    ended = [
        one["InstanceId"]
        for reservation in calls.ec2.describe_instances()["Reservations"]
        for one in reservation["Instances"]
        if one["State"]["Name"] == "terminated"
    ]
    assert len(ended) == 1
    assert not {one.id for one in pair} & set(ended)


def test_the_time_and_the_network_of_the_machine_are_read_from_tags(
    cloud: Cloud, calls: Calls, plane: RecordingPlane
) -> None:
    from pytest_cloudbench.limits.ceilings import MachineLimits
    from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput

    instance = cloud.launch("c5.large")
    assert instance.time_compression == 1.0
    assert instance.machine_limits is None
    plane.limits = MachineLimits(Iops(60_000), Throughput(2_000_000_000))
    plane.carried = Throughput.from_gbit(12.5)
    plane.time_compression = 60.0
    calls.front.region().measure_machine()
    cloud.launch("c5.large")

    def told() -> Any:
        nonlocal instance
        instance = cloud.refresh(instance)
        return instance.machine_limits and instance.machine_limits.network

    until(told, "the machine's network is published")
    assert instance.time_compression == 60.0
    assert instance.machine_limits is not None
    assert instance.machine_limits.network == Bandwidth.from_gbit(12.5)
    assert "machine-network" in instance.machine_limits.source


RUN = """
import os, signal, sys, time
from pathlib import Path
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.resources.facts import Launch

access = CloudAccess(endpoint_url=sys.argv[1], region="us-east-1", access_key=sys.argv[2],
                     secret_key=sys.argv[3], ssh_from_cidr="198.18.0.1/32")
run_id = new_run_id()
cloud = Cloud(access, run_id, Journal.open(run_id, access, Path(sys.argv[4])))
if sys.argv[5] == "pair":
    cloud.launch_many([Launch("c5.large")] * 2, placement_group=cloud.create_placement_group())
    print(run_id, flush=True)
    time.sleep(60)
# The service has made the group; we die before its answer is noted.
events = cloud.clients.client("ec2").meta.events
events.register("after-call.ec2.CreatePlacementGroup", lambda **_: os.kill(os.getpid(), signal.SIGKILL))
print(run_id, flush=True)
cloud.create_placement_group()
"""


@pytest.mark.parametrize("when", ["pair", "between"])
def test_kill_9_and_one_new_start_leave_no_group(
    calls: Calls, access: CloudAccess, tmp_path: Path, when: str
) -> None:
    key = calls.front.access_key
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, calls.front.url, key.key_id, key.secret, str(tmp_path), when],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        run_id = process.stdout.readline().strip()
        assert run_id
        if when == "pair":
            os.kill(process.pid, signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert groups(calls) == [f"cloudbench-{run_id}-1"]
    [reaped] = reap(access, directory=tmp_path, bounds=FAST)
    assert reaped.problems == ()
    kinds = [left.kind for left in reaped.removed]
    assert kinds.count("placement group") == 1
    assert kinds.count("instance") == (2 if when == "pair" else 0)
    assert groups(calls) == []
    assert list(tmp_path.iterdir()) == []
