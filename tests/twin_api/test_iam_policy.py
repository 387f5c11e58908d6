"""docs/iam-policy.json is generated from the calls that runs make here, and its conditions hold for each of them.

To write the file again:

    WRITE_IAM_POLICY=1 python -m pytest tests/twin_api/test_iam_policy.py
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError
from iam_policy import RUN_TAG, Made, permissions, policy
from service_clients import client_of
from service_faults import Faults

from pytest_cloudbench import gp3
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.clients import Clients
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.lease import Leases
from pytest_cloudbench.aws.plan import Planner, RequestedSet
from pytest_cloudbench.aws.price_list import PriceList
from pytest_cloudbench.aws.reap_command import Choice, reap_command
from pytest_cloudbench.aws.ssm import InstanceCommands, SystemsManager
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.hosts.errors import ConnectionDropped
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch
from pytest_cloudbench.resources.markers import RequestedVolumes

ROOT = Path(__file__).resolve().parents[2]
POLICY = ROOT / "docs" / "iam-policy.json"
PREFIXES = {"service-quotas": "servicequotas"}
CREATING = frozenset(
    {
        *("RunInstances", "CreateVolume", "CreateSnapshot"),
        *("ImportKeyPair", "CreateSecurityGroup", "CreatePlacementGroup"),
    }
)
IDS = re.compile(r"\b(?:i|vol|snap|sg|key)-[0-9a-f]{8,}\b")
FAST = Bounds(
    running_s=10, stopped_s=10, terminated_s=10, bare_metal_s=10, volume_s=10, group_s=5, settle_s=0.5
)


class Recorded(list[Made]):
    """Every call that the code made, and the ids of what it created."""

    def __init__(self) -> None:
        super().__init__()
        self.created: set[str] = set()


@pytest.fixture
def made(calls, tmp_path, monkeypatch) -> Recorded:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = Recorded()
    make = Clients._make

    def listening(self: Clients, service: str) -> Any:
        client = make(self, service)

        def asked(params: dict[str, Any], model: Any, **_: Any) -> None:
            found.append(Made(PREFIXES.get(service, service), model.name, dict(params)))

        def answered(parsed: Any, model: Any, **_: Any) -> None:
            if model.name in CREATING:
                found.created.update(IDS.findall(str(parsed)))

        client.meta.events.register("provide-client-params.*.*", asked)
        client.meta.events.register("after-call.*.*", answered)
        return client

    monkeypatch.setattr(Clients, "_make", listening)
    return found


def live(access: CloudAccess, tmp_path: Path) -> None:
    """Do all that a run can do: plan, launch, measure, restart, copy, modify, fail, end, and be reaped."""
    run_id = new_run_id()
    cloud = Cloud(access, run_id, Journal.open(run_id, access), bounds=FAST)
    launches = [Launch("c5.large", name="one"), Launch("c5.large", name="other")]
    planned = Planner(cloud, lambda types: PriceList(access, cloud.region, tmp_path / "prices").prices(types))
    requested = RequestedSet(tuple(launches), (RequestedVolumes(gp3(size_gib=1), 1),), cluster=True)
    planned.refusals([planned.plan(requested)])
    with suppress(CloudError):  # the embedded region has none; the call was made
        cloud.launch("c5.large", capacity_reservation="cr-0123456789abcdef0")
    # As if the answer of an earlier call had been lost: what it created is looked for.
    faults = Faults(cloud)
    faults.answer("CreateSecurityGroup", "InvalidGroup.Duplicate", times=1)
    with suppress(CloudError):
        cloud.launch("c5.large")
    group = cloud.create_placement_group()
    one, _ = cloud.launch_many(launches, placement_group=group)
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=one)
    [volume] = cloud.attach_all([volume], one)
    volume = cloud.modify_volume(volume, gp3(size_gib=2))
    snapshot = cloud.create_snapshot(volume)
    cloud.create_volumes([gp3(size_gib=2)], instance=one, snapshot=snapshot)
    cloud.detach(volume)
    cloud.unreachable_hint(one)
    cloud.instances.end_metadata(one, "first boot")
    cloud.reboot(one)
    cloud.start(cloud.stop(one))
    cloud.leases.renew()
    cloud.keep([one], test="test_that_failed")
    assert cloud.close().clean
    kept = Choice(runs=(run_id,), yes=True, kept=True)
    assert reap_command(kept, access=access, bounds=FAST) == 0
    other_id = new_run_id()
    with Cloud(access, other_id, Journal.open(other_id, access), bounds=FAST) as other:
        other.create_volumes([gp3(size_gib=1)], zone="us-east-1a")
        assert (
            reap_command(Choice(runs=(other_id,), all_regions=True, yes=True), access=access, bounds=FAST)
            == 0
        )


def live_over_ssm(access: CloudAccess) -> None:
    """Launch without a key and a port; run commands, with a long output, a lost answer and an end by Ctrl-C."""
    run_id = new_run_id()
    settings = AccountSettings(instance_profile="tests")
    access = replace(access, way_in="ssm", ssm_bucket="outputs", settings=settings)
    with Cloud(access, run_id, Journal.open(run_id, access), bounds=FAST) as cloud:
        instance = cloud.launch("c5.large")
        client_of(access, "s3").create_bucket(Bucket="outputs")
        commands = InstanceCommands(SystemsManager(cloud.run), instance)
        commands.wait_until_online(10)
        assert commands.run("long", timeout_s=10, reach_s=10, through_bucket=True).stdout.strip() == "long"
        sending = cloud.clients.client("ssm").meta.events
        sending.register("before-send.ssm.SendCommand", _lost)
        with suppress(ConnectionDropped):
            commands.run("lost", timeout_s=10, reach_s=10)
        sending.unregister("before-send.ssm.SendCommand", _lost)
        sending.register("provide-client-params.ssm.GetCommandInvocation", _interrupt)
        with suppress(KeyboardInterrupt):
            commands.run("interrupted", timeout_s=10, reach_s=10)


def _lost(request: Any, **_: Any) -> None:
    raise ConnectionClosedError(endpoint_url=request.url)


def _interrupt(**_: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def lived(access, made, tmp_path, monkeypatch) -> Recorded:
    monkeypatch.setattr(Leases, "_set_timer", lambda *_: None)  # the instances have no sshd
    monkeypatch.setattr("pytest_cloudbench.aws.ssm._FOUND_WITHIN_S", 0.2)
    live(access, tmp_path)
    live_over_ssm(access)
    return made


def test_the_policy_allows_the_calls_that_were_made_and_no_others(lived):
    generated = policy(lived)
    if os.environ.get("WRITE_IAM_POLICY"):
        POLICY.write_text(json.dumps(generated, indent=2) + "\n")
    assert json.loads(POLICY.read_text()) == generated
    assert permissions(generated) == set(re.findall(r"\b[a-z0-9]+:[A-Z]\w+", _permissions_section()))
    _only_its_own(lived)
    metadata = [
        each.asked["HttpEndpoint"] for each in lived if each.action == "ModifyInstanceMetadataOptions"
    ]
    assert metadata == ["disabled", "enabled", "enabled"], "after the boot, and before a reboot and a start"


def _only_its_own(lived: Recorded) -> None:
    """Check that what was created has the run's tag, and that what was changed or removed was created here."""
    allowed = {
        action: statement["Sid"]
        for statement in policy(lived)["Statement"]
        for action in statement["Action"]
        if statement["Sid"] in ("CreateWithTheTagOfTheRun", "ChangeWhatTheRunCreated", "RenewLeases")
    }
    assert {allowed[f"ec2:{action}"] for action in CREATING} == {"CreateWithTheTagOfTheRun"}
    for each in lived:
        sid = allowed.get(each.permission)
        if sid == "CreateWithTheTagOfTheRun":
            assert each.specified
            for one in each.specified:
                assert RUN_TAG in {tag["Key"] for tag in one["Tags"]}, each
        elif sid is not None:
            ids = set(IDS.findall(str(each.asked)))
            name = each.asked.get("GroupName") or each.asked.get("KeyName") or ""
            assert ids or name.startswith("cloudbench-"), each
            assert ids <= lived.created, each


def _permissions_section() -> str:
    section = (ROOT / "docs" / "aws.md").read_text().partition("## Permissions")[2].partition("\n## ")[0]
    return "\n".join(re.findall(r"^    .*$", section, re.MULTILINE))
