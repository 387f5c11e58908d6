"""Snapshots and modifications of volumes on a real EC2 endpoint: tagged, journalled, waited for, removed."""

from __future__ import annotations

import pytest

from pytest_cloudbench.aws.kinds import VOLUME
from pytest_cloudbench.aws.modifications import Modifications
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.waits import OFTEN
from pytest_cloudbench.limits.volumes import InvalidSpec, gp2, gp3, io2
from pytest_cloudbench.resources.errors import CloudError, ResourceFailed, WaitTimeout


def test_a_snapshot_is_created_and_removed_with_the_run(cloud, ec2, asked_of):
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a", name="test_it")[0]
    snapshot = cloud.create_snapshot(volume, name="test_it")
    assert (snapshot.state, snapshot.volume_id, snapshot.size) == ("completed", volume.id, volume.size)
    assert snapshot.tags["cloudbench:run"] == cloud.run_id
    assert [one.action for one in cloud.journal.intentions].count("create_snapshot") == 1
    [copy] = cloud.create_volumes([gp3(size_gib=12)], "us-east-1a", snapshot=snapshot)
    assert copy.snapshot_id == snapshot.id
    assert asked_of(cloud, "create_volume")[-1]["SnapshotId"] == snapshot.id
    assert "snapshot" in {left.kind for left in cloud.ledger.remaining()}
    report = cloud.close()
    assert report.clean, report.sentences()
    own = [{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}]
    assert ec2.describe_snapshots(Filters=own)["Snapshots"] == []


def test_a_released_snapshot_is_gone_at_the_end_and_no_run_without_one_asks(cloud, make_cloud, asked_of):
    other = make_cloud()
    other.create_volumes([gp3(size_gib=10)], "us-east-1a")
    assert other.close().clean
    assert asked_of(other, "describe_snapshots") == []
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0]
    cloud.release([cloud.create_snapshot(volume), volume])
    assert cloud.close().clean


def test_what_a_killed_run_left_is_reaped(access, make_cloud, journals):
    killed = make_cloud()
    killed.create_snapshot(killed.create_volumes([gp3(size_gib=10)], "us-east-1a")[0])
    killed.journal._stream.close()  # as when its process dies
    [reaped] = reap(access, directory=journals)
    assert {left.kind for left in reaped.removed} == {"volume", "snapshot"}
    assert reaped.problems == ()
    assert killed.ledger.remaining() == ()


def test_a_volume_smaller_than_its_snapshot_is_refused_before_any_call(cloud, asked_of):
    snapshot = cloud.create_snapshot(cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0])
    before = len(asked_of(cloud, "create_volume"))
    with pytest.raises(InvalidSpec, match=r"9 GiB .*snapshot snap-\w+ of vol-\w+ needs 10 GiB"):
        cloud.create_volumes([gp3(size_gib=9)], "us-east-1a", snapshot=snapshot)
    assert len(asked_of(cloud, "create_volume")) == before


def test_a_volume_is_modified(cloud, asked_of):
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0]
    larger = cloud.modify_volume(volume, io2(size_gib=20, iops=5_000))
    assert (larger.spec.type, larger.size.gib, larger.spec.iops) == ("io2", 20, 5_000)
    asked = asked_of(cloud, "modify_volume")
    assert {name: asked[0][name] for name in ("Size", "VolumeType", "Iops")} == {
        "Size": 20, "VolumeType": "io2", "Iops": 5_000,
    }  # fmt: skip
    assert cloud.modify_volume(larger, larger.spec) is larger
    assert len(asked_of(cloud, "modify_volume")) == 1


def test_an_impossible_modification_is_refused_before_any_call(cloud, asked_of):
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0]
    with pytest.raises(InvalidSpec, match="10 GiB cannot become 9 GiB: a volume cannot become smaller"):
        cloud.modify_volume(volume, gp3(size_gib=9))
    with pytest.raises(InvalidSpec, match="50,000"):
        cloud.modify_volume(volume, gp3(size_gib=10, iops=50_000))
    assert asked_of(cloud, "modify_volume") == []


@pytest.mark.parametrize(
    ("old", "new", "figures"),
    [
        (gp3(size_gib=100, iops=6_000), gp3(size_gib=100), {"Iops": 3_000}),
        (
            gp3(size_gib=100, iops=6_000, throughput_mib=500),
            gp3(size_gib=100, iops=6_000),
            {"Throughput": 125},
        ),
        (gp3(size_gib=100, iops=6_000), gp3(size_gib=200, iops=6_000), {"Size": 200}),
        (gp3(size_gib=100, iops=6_000), gp2(size_gib=100), {"VolumeType": "gp2"}),
        (gp2(size_gib=100), gp2(size_gib=200), {"Size": 200}),
    ],
    ids=str,
)
def test_a_modification_to_the_defaults_of_a_type_requests_them(cloud, asked_of, old, new, figures):
    volume = cloud.create_volumes([old], "us-east-1a")[0]
    assert cloud.modify_volume(volume, new).spec == new
    (asked,) = asked_of(cloud, "modify_volume")
    assert {name: value for name, value in asked.items() if name != "VolumeId"} == figures


def test_snapshots_that_others_share_are_left_out(cloud, asked_of):
    cloud.create_snapshot(cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")[0])
    cloud.ledger.remaining()
    asked = asked_of(cloud, "describe_snapshots")
    assert len(asked) >= 2
    assert all(each["OwnerIds"] == ["self"] for each in asked)


def test_an_error_names_few_of_the_resources_that_were_asked_about(cloud, faults):
    faults.answer("DescribeVolumes", "UnauthorizedOperation")
    with pytest.raises(CloudError, match=r"vol-0, .*vol-4 and 195 more") as caught:
        VOLUME.described(cloud.clients, [f"vol-{number}" for number in range(200)])
    assert "vol-5" not in str(caught.value)


def modification(state, progress=7, message=""):
    entry = {"ModificationState": state, "Progress": progress, "StartTime": "2026-11-01"}
    return [{**entry, "StatusMessage": message} if message else entry]


class Modifying:
    """Clients of a service that accepts every modification and describes it as prepared."""

    pace = OFTEN

    def __init__(self, volume, described):
        self.described = [{"VolumeId": volume.id, **one} for one in described]

    def repeat_call(self, what, operation, **asked):
        return {}

    def pages(self, what, service, operation, key, **asked):
        return self.described


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (modification("failed", message="no capacity"), ResourceFailed, "failed: no capacity"),
        (modification("optimizing"), WaitTimeout, "was not 'completed' in 0 s; it is 'optimizing' at 7 %"),
        ([], WaitTimeout, "was not 'completed'"),
    ],
)
def test_a_modification_that_fails_or_takes_too_long(cloud, answer, error, words):
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0]
    modifications = Modifications(cloud.run._replace(clients=Modifying(volume, answer)))
    with pytest.raises(error, match=words) as caught:
        modifications.modify(volume, gp3(size_gib=11), until="completed", timeout_s=0.0)
    assert isinstance(caught.value, CloudError)


def test_until_optimizing_does_not_wait_for_completed(cloud):
    volume = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")[0]
    modifications = Modifications(cloud.run._replace(clients=Modifying(volume, modification("optimizing"))))
    larger = modifications.modify(volume, gp3(size_gib=11), until="optimizing", timeout_s=0.0)
    assert larger.size.gib == 11
