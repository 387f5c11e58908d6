"""What a failed test keeps: it stays with its volumes and its way in, and only a request for it removes it."""

import shlex
import stat
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pytest_cloudbench.aws.journal import read_journal
from pytest_cloudbench.aws.keeping import logins_of
from pytest_cloudbench.aws.kinds import KINDS, PLACEMENT_GROUP
from pytest_cloudbench.aws.lease import LEASE_TAG
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.reap_command import NOTHING_LEFT, Choice, reap_command
from pytest_cloudbench.aws.run import KEPT_TAG
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.errors import CloudError

SOON = Bounds(settle_s=0.5, terminated_s=10, volume_s=10, group_s=5)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def extended(cloud, monkeypatch):
    """The instances whose lease was extended, and whether that succeeds; moto's have no host."""
    leases = []

    def extend(instance, lease_s):
        leases.append((instance.id, lease_s))
        return extend.succeeds

    extend.succeeds = True
    extend.leases = leases
    monkeypatch.setattr(cloud.leases, "extend", extend)
    return extend


@pytest.fixture
def failed(cloud, extended):
    """An instance with a volume, kept."""
    instance = cloud.launch("t3.micro", name="test_bad")
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    cloud.attach(volume, instance)
    [kept] = cloud.keep([instance], test="test_bad")
    return instance, volume, kept


@pytest.fixture
def reaping(access, monkeypatch):
    """Reap in a region without placement groups and a price list, as that of moto has none."""

    def no_price_list(*_):
        raise CloudError("there is none")

    kinds = tuple(kind for kind in KINDS if kind is not PLACEMENT_GROUP)
    for module in ("survey", "ledger"):
        monkeypatch.setattr(f"pytest_cloudbench.aws.{module}.KINDS", kinds)
    monkeypatch.setattr("pytest_cloudbench.aws.price_list.PriceList.prices", no_price_list)
    return lambda choice: reap_command(choice, access=access, bounds=SOON, ask=lambda _: "y")


def described(ec2, instance_id):
    [one] = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    return one["Instances"][0]


def state_of(ec2, instance_id):
    return described(ec2, instance_id)["State"]["Name"]


def kept_ids(ec2):
    found = ec2.describe_tags(Filters=[{"Name": "key", "Values": [KEPT_TAG]}])["Tags"]
    return {each["ResourceId"] for each in found}


def test_it_stays_after_the_run_with_its_volumes_and_its_group_and_the_rest_goes(cloud, ec2, failed):
    instance, volume, kept = failed
    other = cloud.launch("t3.micro", name="test_good")
    cloud.release([instance, volume])
    report = cloud.close()
    assert report.clean, report.sentences()
    assert report.kept == (kept,)
    assert state_of(ec2, instance.id) == "running"
    assert state_of(ec2, other.id) == "terminated"
    [group] = described(ec2, instance.id)["SecurityGroups"]
    root = next(m["Ebs"]["VolumeId"] for m in described(ec2, instance.id)["BlockDeviceMappings"])
    assert {instance.id, volume.id, group["GroupId"], root} <= kept_ids(ec2)


def test_its_login_needs_nothing_of_the_run(cloud, failed):
    instance, _, kept = failed
    words = shlex.split(kept.login)
    assert words[0] == "ssh"
    assert words[-1] == f"{instance.login_user}@{instance.address}"
    key = Path(words[words.index("-i") + 1])
    assert key.read_text() == instance.private_key
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    [known] = [word.partition("=")[2] for word in words if word.startswith("UserKnownHostsFile=")]
    assert Path(known).read_text() == f"{instance.address} {instance.host_public_key}\n"
    assert "StrictHostKeyChecking=yes" in words


def test_ssm_needs_no_key(cloud, extended):
    instance = cloud.launch("t3.micro")
    cloud.clients.access = replace(cloud.access, way_in="ssm")
    [kept] = cloud.keep([instance], test="test_bad")
    assert kept.login.startswith(f"aws ssm start-session --target {instance.id} --region us-east-1")
    assert not (logins_of(cloud.run_id) / "key").exists()


@pytest.mark.parametrize(("extends", "lives"), [(True, timedelta(days=1)), (False, timedelta(hours=1))])
def test_it_ends_by_itself_after_a_day_or_its_own_lease(cloud, extended, extends, lives):
    extended.succeeds = extends
    instance = cloud.launch("t3.micro")
    [kept] = cloud.keep([instance], test="test_bad")
    assert extended.leases == [(instance.id, 86_400)]
    assert abs(kept.until - datetime.now(timezone.utc) - lives) < timedelta(minutes=5)


def test_what_cannot_be_marked_is_not_kept(cloud, ec2, faults, extended):
    instance = cloud.launch("t3.micro")
    faults.answer("CreateTags", "UnauthorizedOperation")
    with pytest.raises(CloudError, match="UnauthorizedOperation"):
        cloud.keep([instance], test="test_bad")
    assert cloud.close().clean
    assert state_of(ec2, instance.id) == "terminated"


def test_the_next_start_leaves_it_alone_even_if_the_run_was_killed(cloud, ec2, access, journals, failed):
    instance, volume, _ = failed
    other = cloud.launch("t3.micro", name="test_killed")
    ec2.delete_tags(Resources=[volume.id], Tags=[{"Key": KEPT_TAG}])
    cloud.leases.close()
    cloud.journal.finish(clean=False)
    assert {instance.id, volume.id} <= set(read_journal(cloud.journal.path).kept)
    reap(access, directory=journals, bounds=SOON)
    assert state_of(ec2, instance.id) == "running"
    assert state_of(ec2, other.id) == "terminated"
    assert not cloud.journal.path.exists()


def test_reap_removes_it_only_on_request_with_its_key(cloud, ec2, reaping, failed, capsys):
    instance, volume, kept = failed
    cloud.close()
    of_run = Choice(runs=(cloud.run_id,))
    assert reaping(of_run) == NOTHING_LEFT
    assert kept.removal in capsys.readouterr().out
    assert state_of(ec2, instance.id) == "running"
    assert logins_of(cloud.run_id).exists()
    # A run that may be going on would be left alone: the lease of a kept instance is not a sign of that.
    assert reaping(replace(of_run, kept=True)) == NOTHING_LEFT
    assert state_of(ec2, instance.id) == "terminated"
    assert volume.id not in {each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]}
    assert not logins_of(cloud.run_id).exists()


def test_the_next_start_after_its_end_removes_its_group_its_volumes_and_its_key(
    cloud, ec2, access, journals, failed
):
    instance, volume, _ = failed
    [group] = described(ec2, instance.id)["SecurityGroups"]
    cloud.close()
    assert reap(access, directory=journals, bounds=SOON) == ()
    assert state_of(ec2, instance.id) == "running"
    assert logins_of(cloud.run_id).exists()
    ec2.terminate_instances(InstanceIds=[instance.id])  # as its lease does
    assert reap(replace(access, region="eu-west-1"), directory=journals, bounds=SOON) == ()
    [reaped] = reap(access, directory=journals, bounds=SOON)
    assert (reaped.run_id, reaped.left, reaped.problems) == (cloud.run_id, (), ())
    assert group["GroupId"] not in {
        each["GroupId"] for each in ec2.describe_security_groups()["SecurityGroups"]
    }
    assert volume.id not in {each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]}
    assert not logins_of(cloud.run_id).exists()
    assert reap(access, directory=journals, bounds=SOON) == ()


def test_its_lease_is_renewed_no_more(cloud, ec2, failed):
    instance, _, _ = failed
    before = {tag["Key"]: tag["Value"] for tag in described(ec2, instance.id)["Tags"]}[LEASE_TAG]
    cloud.leases.drop([instance.id])
    cloud.leases.renew()
    after = {tag["Key"]: tag["Value"] for tag in described(ec2, instance.id)["Tags"]}[LEASE_TAG]
    assert after == before
