"""The next start removes what a killed run left, by its tag, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import pytest

from pytest_cloudbench.aws.clients import Clients
from pytest_cloudbench.aws.journal import Journal, boot_id, read_journal
from pytest_cloudbench.aws.lease import LEASE_TAG, lease_end
from pytest_cloudbench.aws.reap import Elsewhere, ledger_of, reap
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.resources.errors import CloudError

RUN = """
import os, signal, sys, time
from pathlib import Path
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.limits.volumes import gp3

access = CloudAccess(endpoint_url=sys.argv[1], region="us-east-1", access_key="AKIAEXAMPLE",
                     secret_key="s", ssh_from_cidr="203.0.113.7/32")
run_id = new_run_id()
cloud = Cloud(access, run_id, Journal.open(run_id, access, Path(sys.argv[2])))
instance = cloud.launch("t3.micro")
cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0], instance)
print(run_id, flush=True)
if sys.argv[3] == "between":
    # The service has created the volume; we die before its answer is noted.
    events = cloud.clients.client("ec2").meta.events
    events.register("after-call.ec2.CreateVolume", lambda **_: os.kill(os.getpid(), signal.SIGKILL))
    cloud.create_volumes([gp3(size_gib=2)], instance=instance)
time.sleep(60)
"""


def killed_run(access, journals, when):
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, access.endpoint_url, str(journals), when],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        run_id = process.stdout.readline().strip()
        assert run_id
        alive = reap(access, directory=journals) if when == "after" else ()
        if when == "after":
            process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert alive == ()
    return run_id


def living(ec2):
    """The ids of all instances and volumes of the region."""
    reservations = ec2.describe_instances()["Reservations"]
    for one in (instance for reservation in reservations for instance in reservation["Instances"]):
        if one["State"]["Name"] != "terminated":
            yield one["InstanceId"]
    yield from (volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"])


@pytest.mark.fault("kill", "a run is killed, and the next start reaps", leak=True)
@pytest.mark.parametrize("when", ["after", "between"])
def test_kill_9_and_one_new_start_leave_nothing(cloud, access, journals, ec2, when):
    run_id = killed_run(access, journals, when)
    journal = journals / f"{run_id}.jsonl"
    left = ledger_of(cloud.clients, run_id, read_journal(journal), ask_prices=lambda _: None).remaining()
    sizes = {one.kind for one in left}
    assert sizes == {"instance", "volume", "security group", "key pair"}
    assert [one.kind for one in left].count("volume") == (3 if when == "between" else 2), (
        "one is the root volume"
    )
    tokens = [json.loads(line) for line in journal.read_text().splitlines()]
    intended = {r["token"] for r in tokens if r["record"] == "intend"}
    answered = {r["token"] for r in tokens if r["record"] in ("done", "refused")}
    assert len(intended - answered) == (1 if when == "between" else 0)

    (reaped,) = reap(access, directory=journals, bounds=Bounds(settle_s=0.5))
    assert reaped.run_id == run_id
    assert reaped.problems == ()
    assert {one.id for one in reaped.removed} == {one.id for one in left}
    assert str(reaped).startswith(f"removed what run {run_id} left: instance i-")
    assert not {one.id for one in left} & set(living(ec2))
    assert not journal.exists()
    assert reap(access, directory=journals) == ()
    assert cloud.journal.path.exists()


def dead_journal(
    access,
    journals,
    *,
    endpoint=None,
    account="123456789012",
    region="us-east-1",
    run_id="dead-1",
    volume_id="vol-0",
):
    journal = Journal.open(run_id, access, journals)
    journal.bind(endpoint or access.endpoint_url, region, account)
    with journal.creating("create_volume", "x") as intention:
        intention.done([volume_id])
    journal.finish(clean=False)
    return journal.path


def test_a_journal_of_an_endpoint_that_no_longer_exists_is_deleted_silently(access, journals):
    path = dead_journal(access, journals, endpoint="http://127.0.0.1:9")
    assert reap(access, directory=journals) == ()
    assert not path.exists()


@pytest.mark.parametrize(
    ("lease_s", "is_alive"),
    [(600, True), (-600, False), (None, True)],  # without a lease: its last call is younger than an hour
)
def test_a_run_of_another_boot_is_alive_while_its_lease_lasts(
    access, journals, ec2, monkeypatch, lease_s, is_alive
):
    """In a home directory that machines share, its lock may be invisible here."""
    monkeypatch.setattr("pytest_cloudbench.aws.reap._endpoint_is_gone", lambda _: False)
    then = datetime.now(timezone.utc) - timedelta(seconds=1200 if lease_s else 0)
    tags = {"cloudbench:run": "there-1"} | ({LEASE_TAG: lease_end(lease_s)} if lease_s else {})
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    group = ec2.create_security_group(
        GroupName=f"there{lease_s}", Description="x",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": pairs}],
    )["GroupId"]  # fmt: skip
    path = dead_journal(access, journals, run_id="there-1")
    lines = [json.loads(line) for line in path.read_text().replace(boot_id(), "another").splitlines()]
    path.write_text("".join(json.dumps({**each, "time": then.isoformat()}) + "\n" for each in lines))
    try:
        reap(access, directory=journals, bounds=Bounds(settle_s=0.5))
        assert path.exists() == is_alive
    finally:
        ec2.delete_security_group(GroupId=group)


def test_a_journal_of_a_loopback_endpoint_of_an_earlier_boot_is_deleted_too(access, journals):
    path = dead_journal(access, journals)
    assert boot_id() in path.read_text()
    path.write_text(path.read_text().replace(boot_id(), "another-boot"))
    assert reap(access, directory=journals) == ()
    assert not path.exists()


@pytest.mark.parametrize(
    "difference",
    [
        {"account": "999999999999"},
        {"region": "eu-west-1"},
        {"endpoint": "https://ec2.us-east-1.amazonaws.com"},
    ],
)
def test_journals_of_other_accounts_regions_and_endpoints_are_reported_and_left_alone(
    access, journals, difference
):
    path = dead_journal(access, journals, **difference)
    [elsewhere] = reap(access, directory=journals)
    assert isinstance(elsewhere, Elsewhere)
    assert str(elsewhere).startswith("1 killed run may have left resources elsewhere")
    for value in ("dead-1", *difference.values()):
        assert value in str(elsewhere)
    assert path.exists()


def test_a_journal_without_creating_calls_is_deleted_without_a_request(access, journals):
    journal = Journal.open("dead-2", access, journals)
    journal.finish(clean=False)
    assert reap(access, directory=journals) == ()
    assert not journal.path.exists()


def test_no_journals_no_requests(access, tmp_path):
    assert reap(access, directory=tmp_path / "none") == ()


def test_what_cannot_be_removed_keeps_the_journal(access, journals, ec2, monkeypatch):
    volume_id = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    path = dead_journal(access, journals, volume_id=volume_id)
    with monkeypatch.context() as patched:
        patched.setattr(Clients, "call", refusing(Clients.call, "delete_volume"))
        (reaped,) = reap(access, directory=journals)
    assert [one.id for one in reaped.left] == [volume_id]
    assert "you may not" in reaped.problems[0]
    assert path.exists()
    (reaped,) = reap(access, directory=journals)
    assert [one.id for one in reaped.removed] == [volume_id], "by the id in the journal: it has no tag"
    assert not path.exists()


def refusing(call, refused):
    def instead(self, asked, service, operation, **parameters):
        if operation == refused:
            raise CloudError("you may not", code="UnauthorizedOperation")
        return call(self, asked, service, operation, **parameters)

    return instead


def test_what_the_run_had_removed_is_not_searched_for(access, journals):
    """It is written in the journal that its volume is gone: the new start asks once, and waits for nothing."""
    path = dead_journal(access, journals)
    with path.open("a") as stream:
        stream.write(json.dumps({"record": "gone", "ids": ["vol-0"]}) + "\n")
    began = time.monotonic()
    assert reap(access, directory=journals, bounds=Bounds(settle_s=20)) == ()
    assert time.monotonic() - began < 15
    assert not path.exists()


def test_two_starts_at_once_do_not_reap_the_same_run(access, journals):
    path = dead_journal(access, journals)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert reap(access, directory=journals) == ()
        assert path.exists()
    finally:
        os.close(descriptor)
