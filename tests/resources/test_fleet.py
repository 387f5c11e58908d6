"""Fleets and groups of pairs: what is launched together, what limits them, and what is refused before that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_pair import NamedHost

from pytest_cloudbench import FleetStorage, TargetError, gp3
from pytest_cloudbench.hosts import network_counters
from pytest_cloudbench.hosts.network_counters import AllowanceSnapshot
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import CreatedVolume
from pytest_cloudbench.resources.fleet import Fleet
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.markers import BadMarker
from pytest_cloudbench.resources.pair import Pair, PairGroup
from pytest_cloudbench.resources.volumes import Volume


@pytest.fixture
def ec2(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> Ec2:
    monkeypatch.setattr(Instance, "connect_ahead", lambda self: None)
    return Ec2(cloud, test_name="test_it", image="ami-run")


def instances(cloud: Any, launched_as: Callable[..., Any], *types: str) -> list[Instance]:
    made = [Instance(cloud, launched_as(name, number), 1.0) for number, name in enumerate(types, 1)]
    for each in made:
        each._host = NamedHost(8)  # type: ignore[assignment]
    return made


def volume(instance: Instance, number: int) -> Volume:
    return Volume(
        instance,
        CreatedVolume(f"vol-{number:017x}", gp3(size_gib=10), "us-east-1a", Size.from_gib(10), "in-use"),
    )


def test_a_fleet_is_checked_first_and_launched_in_one_go(ec2: Ec2, cloud: Any) -> None:
    fleet = ec2.fleet("m5.2xlarge", count=3, commands=["true"])
    assert [call for call, _ in cloud.calls] == ["check", "launch"]
    launches, group = cloud.calls[1][1]
    assert [(launch.type, launch.image, launch.commands) for launch in launches] == [
        ("m5.2xlarge", "ami-run", ("true",))
    ] * 3
    assert group is None
    assert len({instance.id for instance in fleet}) == len(fleet) == 3
    assert fleet.label == "3 x m5.2xlarge"


def test_a_cluster_holds_all_of_a_fleet(ec2: Ec2, cloud: Any) -> None:
    fleet = ec2.fleet("c5.18xlarge", count=2, placement="cluster")
    assert [call for call, _ in cloud.calls] == ["check", "group", "launch"]
    assert all(pair.cluster for pair in fleet.all_to_all())
    ec2.close()
    assert len(cloud.released) == 3


def test_pairs_are_launched_in_one_go(ec2: Ec2, cloud: Any) -> None:
    pairs = ec2.pairs("t2.medium", "m5.2xlarge", count=2)
    assert [launch.type for launch in cloud.calls[-1][1][0]] == ["t2.medium", "m5.2xlarge"] * 2
    assert [(pair.client.type, pair.server.type) for pair in pairs] == [("t2.medium", "m5.2xlarge")] * 2
    assert pairs.label == "t2.medium -> m5.2xlarge (2 pairs)"


@pytest.mark.parametrize("count", [0, -1, True, 2.0, "4", None])
def test_a_count_that_is_none_is_refused_before_anything(ec2: Ec2, cloud: Any, count: Any) -> None:
    for launch in (ec2.fleet, ec2.pairs):
        with pytest.raises(BadMarker, match="count"):
            launch("m5.2xlarge", count=count)
    assert cloud.calls == []


def test_what_a_launch_does_not_take_is_refused(ec2: Ec2, cloud: Any) -> None:
    for unknown in ({"colour": "red"}, {"scope": "class"}, {"existing": None}, {"placement": "spread"}):
        with pytest.raises(BadMarker, match=next(iter(unknown))):
            ec2.fleet("m5.2xlarge", 2, **unknown)  # type: ignore[arg-type]
    cloud.refuses = CloudError("no room")
    with pytest.raises(CloudError):
        ec2.fleet("m5.2xlarge", 2)
    assert [call for call, _ in cloud.calls] == ["check"]


def test_an_instance_in_several_pairs_is_limited_once(
    ec2: Ec2, cloud: Any, launched_as: Callable[..., Any]
) -> None:
    fleet = Fleet(ec2, instances(cloud, launched_as, *["m5.2xlarge"] * 3))
    paths = fleet.all_to_all()
    assert len(paths) == 6
    assert paths.label == "3 x m5.2xlarge, all to all (6 pairs)"
    found = paths.envelope(streams=2)
    limits = {ceiling.label: found.bandwidth_of(ceiling).gbit for ceiling in found.ceilings}
    assert limits == {"a single flow's limit": 6 * 2 * 5, "3 x m5.2xlarge network bandwidth": 3 * 10}
    with pytest.raises(ValueError, match="one instance"):
        Fleet(ec2, fleet[:1]).all_to_all()


def test_unequal_ends_are_summed_apart(cloud: Any, launched_as: Callable[..., Any]) -> None:
    a, b, c, d = instances(cloud, launched_as, "m5.2xlarge", "c5.18xlarge", "m5.2xlarge", "c5.18xlarge")
    found = PairGroup([Pair(a, b), Pair(c, d)]).envelope(streams=8)
    ends = {ceiling.detail: ceiling.limit.gbit for ceiling in found.ceilings if ceiling.scope == "instance"}  # type: ignore[union-attr]
    assert ends == {"the client's end": 20, "the server's end": 50}
    (unknown,) = instances(cloud, launched_as, "t2.medium")
    ends = [one.detail for one in PairGroup([Pair(a, b), Pair(unknown, d)]).envelope(streams=1).ceilings]
    assert "the client's end" not in ends


def test_the_counters_of_each_instance_are_read_once(
    ec2: Ec2, cloud: Any, launched_as: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(host: Any, address: str) -> AllowanceSnapshot:
        asked.append(address)
        packets = {"bw_out_exceeded": len(asked)}
        return AllowanceSnapshot(float(len(asked) > 3), packets)

    monkeypatch.setattr(network_counters, "read_allowances", read)
    paths = Fleet(ec2, instances(cloud, launched_as, *["m5.2xlarge"] * 3)).all_to_all()
    before, after = paths.counters(), paths.counters()
    assert len(asked) == 6
    assert before is not None
    assert after is not None
    gained = after.since(before)
    assert [pair.client.bw_out_exceeded for pair in gained if pair.client is not None] == [3] * 6
    monkeypatch.setattr(network_counters, "read_allowances", lambda *_: None)
    assert paths.counters() is None


def test_storage_of_a_fleet_is_one_target(cloud: Any, launched_as: Callable[..., Any]) -> None:
    hosts = instances(cloud, launched_as, "m5.2xlarge", "m5.2xlarge")
    disks = [volume(host, number) for number, host in enumerate(hosts)]
    storage = FleetStorage(disks)
    assert (storage.kind, storage.hosts_label) == ("block", "2 x m5.2xlarge")
    assert storage.addresses == ("198.18.0.1", "198.18.0.2")
    assert storage.iops.limit == 6_000
    assert storage.envelope(Size(4096), sequential=False).limit_iops == 6_000
    for name in ("host", "path", "paths"):
        with pytest.raises(TargetError, match="only fio"):
            getattr(storage, name)


def test_two_storages_of_one_instance_are_no_fleet(cloud: Any, launched_as: Callable[..., Any]) -> None:
    (host,) = instances(cloud, launched_as, "m5.2xlarge")
    with pytest.raises(TargetError, match="beside"):
        FleetStorage([volume(host, 1), volume(host, 2)])
    with pytest.raises(ValueError):
        FleetStorage([])
