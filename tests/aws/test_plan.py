"""What a plan asks EC2, and what it reports of the answers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from service_faults import Faults

from pytest_cloudbench import gp3
from pytest_cloudbench.aws import plan
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.plan import Planner, RequestedSet, quota_of
from pytest_cloudbench.resources.facts import Launch
from pytest_cloudbench.resources.markers import RequestedVolumes


@pytest.mark.parametrize(
    ("type_name", "on_demand", "spot"),
    [
        ("c5.18xlarge", "L-1216C47A", "L-34B43A08"),
        ("im4gn.large", "L-1216C47A", "L-34B43A08"),
        ("t3.micro", "L-1216C47A", "L-34B43A08"),
        ("trn1.2xlarge", "L-2C3B7624", "L-6B0D517C"),
        ("inf2.xlarge", "L-1945791B", "L-B5D1601B"),
        ("dl1.24xlarge", "L-6E869C2A", "L-85EED4F7"),
        ("g6e.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("x2idn.16xlarge", "L-7295265B", "L-E3A00192"),
        ("hpc7a.96xlarge", "L-F7808C92", None),
        ("p5.48xlarge", "L-417A185B", None),
        ("u-6tb1.metal", "L-43DA4232", None),
        ("mac2.metal", None, None),
    ],
)
def test_the_quota_follows_from_the_family_and_the_market(type_name, on_demand, spot):
    assert quota_of(type_name, None) == on_demand
    assert quota_of(type_name, "spot") == spot


@pytest.fixture
def planner(cloud):
    return Planner(cloud, lambda types: None)


@pytest.fixture
def dry_runs(cloud):
    """The parameters of each dry run, by its operation."""
    made = []

    def note(params, model, **_):
        if params.get("DryRun"):
            made.append((model.name, dict(params)))

    cloud.clients.client("ec2").meta.events.register("provide-client-params.ec2.*", note)
    return made


def launches(*types, **options):
    return RequestedSet(tuple(Launch(each, **options) for each in types))


def test_a_throttled_dry_run_is_asked_again(planner, faults, cloud):
    faults.answer("RunInstances", "RequestLimitExceeded", status=503, times=5)
    refused, _ = planner.refusals([planner.plan(launches("c5.large"))])
    assert refused == []


def test_what_stays_throttled_is_unknown_and_not_refused(planner, faults, cloud):
    cloud.clients.settle_s = 0.2
    faults.answer("RunInstances", "RequestLimitExceeded", status=503)
    refused, unknown = planner.refusals([planner.plan(launches("c5.large"))])
    assert refused == []
    assert any("RequestLimitExceeded" in each for each in unknown)


def test_the_quota_of_each_group_of_families_counts_for_itself(planner, monkeypatch):
    monkeypatch.setattr(
        plan, "read_quota", lambda clients, code: {"L-1216C47A": 8.0, "L-34B43A08": 1.0}[code]
    )
    both = RequestedSet((Launch("c5.xlarge"), Launch("m5.xlarge"), Launch("c5.large", market="spot")))
    refused, _ = planner.refusals([planner.plan(both), planner.plan(launches("c5.large"))])
    [spot] = refused
    assert "L-34B43A08" in spot
    assert "1 vCPUs" in spot
    assert "needs 2" in spot


def test_the_quota_of_an_alternative_counts_too(planner, monkeypatch):
    monkeypatch.setattr(
        plan, "read_quota", lambda clients, code: {"L-1216C47A": 8.0, "L-DB2E81BA": 4.0}[code]
    )
    pair = [Launch("c5.large", alternatives=(Launch("g4dn.xlarge"),)) for _ in range(2)]
    refused, _ = planner.refusals([planner.plan(RequestedSet(tuple(pair)))])
    [graphics] = refused
    assert "L-DB2E81BA" in graphics
    assert "needs 8" in graphics


NOT_ALLOWED = ("DescribeVolumes", "DescribeInstanceTypes", "CreateVolume", "DescribeCapacityReservations")


def test_every_missing_permission_is_named_at_once(planner, faults, cloud, monkeypatch):
    monkeypatch.setattr(cloud.catalog.places, "in_reservation", in_zone_c)
    volumes = (RequestedVolumes(gp3(size_gib=10)),)
    reserved = Launch("c5.large", capacity_reservation="cr-0123")
    planned = planner.plan(RequestedSet((reserved,), volumes))
    for action in NOT_ALLOWED:
        faults.answer(action, "UnauthorizedOperation", status=403)
    refused, unknown = planner.refusals([planned])
    assert {f"ec2:{action}" for action in NOT_ALLOWED} == set(re.findall(r"ec2:\w+", refused[-1]))
    assert len(refused) == 2, "the sentence of the creating call says what it would create"
    assert "gp3 10 GiB" in refused[0]
    assert not any("UnauthorizedOperation" in each for each in unknown)


def test_what_every_run_reads_is_asked_for_although_no_test_could_be_planned(planner, faults):
    faults.answer("DescribeInstanceTypes", "UnauthorizedOperation", status=403)
    faults.answer("DescribeImages", "RequestLimitExceeded", status=503, times=3)
    refused, _ = planner.refusals([])
    assert [re.findall(r"ec2:\w+", each) for each in refused] == [["ec2:DescribeInstanceTypes"]]


def test_a_read_without_an_answer_is_unknown_and_not_allowed(planner, faults, cloud):
    cloud.clients.settle_s = 0.2
    faults.lose_answer("DescribeVolumes")
    refused, unknown = planner.refusals([])
    assert refused == []
    assert any("describe volumes" in each for each in unknown)


@pytest.mark.parametrize("key_name", [None, "own"])
def test_a_run_with_an_own_key_pair_reads_no_key_pairs(make_cloud, access, key_name):
    settings = AccountSettings(key_name=key_name, private_key="")
    cloud = make_cloud(replace(access, settings=settings))
    Faults(cloud).answer("DescribeKeyPairs", "UnauthorizedOperation", status=403)
    refused, _ = Planner(cloud, lambda types: None).refusals([])
    assert bool(refused) == (key_name is None)


def test_each_different_call_is_asked_once(planner, dry_runs):
    volumes = (RequestedVolumes(gp3(size_gib=10), 2),)
    options = ({}, {"name": "another test"}, {"tenancy": "dedicated"}, {"market": "spot"})
    sets = [RequestedSet((Launch("c5.large", **each),), volumes) for each in options]
    planner.refusals([planner.plan(each) for each in sets])
    names = [name for name, _ in dry_runs if not name.startswith("Describe")]
    assert sorted(names) == sorted(
        ["ImportKeyPair", "CreateSecurityGroup", "CreateVolume", *["RunInstances"] * 3]
    )


def test_an_instance_in_a_capacity_reservation_is_planned_in_its_zone(planner, cloud, monkeypatch):
    monkeypatch.setattr(cloud.catalog.places, "in_reservation", in_zone_c)
    [instance] = planner.plan(launches("c5.large", capacity_reservation="cr-0123")).instances
    assert instance.place.zone == "us-east-1c"


def test_alternatives_are_asked_too(planner, dry_runs):
    other = Launch("c5.xlarge")
    planner.refusals([planner.plan(launches("c5.large", alternatives=(other,)))])
    assert [asked["InstanceType"] for name, asked in dry_runs if name == "RunInstances"] == [
        "c5.large",
        "c5.xlarge",
    ]


def test_a_dry_run_asks_for_what_the_launch_asks_for(planner, dry_runs, cloud):
    asked = []
    cloud.clients.client("ec2").meta.events.register(
        "provide-client-params.ec2.RunInstances", lambda params, **_: asked.append(dict(params))
    )
    planner.refusals([planner.plan(launches("c5.large", tenancy="dedicated"))])
    cloud.launch("c5.large", tenancy="dedicated")
    dry, real = asked
    assert {*dry} - {"DryRun"} == {*real} - {"KeyName", "ClientToken", "SecurityGroupIds"}
    for name in {*dry} - {"DryRun", "TagSpecifications", "UserData"}:
        assert dry[name] == real[name], name


def test_what_was_not_asked_is_named(planner):
    _, unknown = planner.refusals([planner.plan(launches("c5.large"))])
    assert any("remove" in each for each in unknown)


def in_zone_c(launch: Launch) -> Launch:
    return replace(launch, zone="us-east-1c") if launch.capacity_reservation else launch
