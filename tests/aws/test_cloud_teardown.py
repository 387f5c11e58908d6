"""Teardown removes everything it can, even if steps fail, and names what remains."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.errors import Unreachable
from pytest_cloudbench.aws.journal import Journal, new_run_id, read_journal
from pytest_cloudbench.aws.kinds import VOLUME
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.resources.errors import CloudError, TeardownFailed
from pytest_cloudbench.resources.facts import Launch

FAST = Bounds(
    running_s=10, stopped_s=10, terminated_s=10, bare_metal_s=10, volume_s=10, group_s=5, settle_s=0.5
)


def interrupting(cloud, monkeypatch, times):
    """Raise so many KeyboardInterrupts while the removal asks the API, one each time that it looks."""
    look, interrupts = cloud.ledger.look, [KeyboardInterrupt()] * times

    def interrupted(*args, **kwargs):
        look(*args, **kwargs)
        if interrupts:
            raise interrupts.pop()

    monkeypatch.setattr(cloud.ledger, "look", interrupted)


@pytest.fixture
def said(monkeypatch, cloud):
    sentences = []
    monkeypatch.setattr(cloud, "_notify", sentences.append)
    return sentences


@pytest.mark.fault("kill", "Ctrl-C in the teardown", leak=True)
def test_ctrl_c_while_closing_still_removes_everything(cloud, monkeypatch, journals, said):
    instance = cloud.launch("t3.micro")
    cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0], instance)
    interrupting(cloud, monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        cloud.close()
    assert cloud.report.clean
    assert cloud.ledger.remaining() == ()
    assert list(journals.iterdir()) == []
    assert cloud.close() is cloud.report
    [sentence] = said
    assert "1 instance, 2 volumes, 1 security group, 1 key pair" in sentence
    assert f"cloudbench reap --run {cloud.run_id} --region us-east-1" in sentence


@pytest.mark.fault("kill", "Ctrl-C in the teardown", leak=True)
def test_a_second_ctrl_c_ends_the_removal_and_the_next_start_finishes_it(
    cloud, monkeypatch, journals, access, said
):
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    interrupting(cloud, monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        cloud.close()
    assert [left.id for left in cloud.report.remaining] == [volume.id]
    assert "interrupted twice" in cloud.report.problems[0]
    assert len(said) == 1
    monkeypatch.undo()
    [reaped] = reap(access, directory=journals)
    assert [left.id for left in reaped.removed] == [volume.id]
    assert list(journals.iterdir()) == []


@pytest.mark.fault("API", "a resource cannot be removed")
def test_what_cannot_be_removed_is_named_and_left_to_the_next_start(cloud, faults, access, journals):
    instance = cloud.launch("t3.micro")
    volume = cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0]
    calls = faults.answer(
        "DeleteVolume",
        "UnauthorizedOperation",
        "you may not",
        when=lambda asked: asked["VolumeId"] == volume.id,
    )
    report = cloud.close()
    assert len(calls) == 2, "once, and once more at the end"
    assert [left.id for left in report.remaining] == [volume.id]
    [problem] = report.problems
    assert "UnauthorizedOperation: you may not" in problem
    with pytest.raises(
        TeardownFailed, match=rf"volume {volume.id} \(available, unknown price\) still exists"
    ):
        report.raise_unless_clean()
    assert f"cloudbench reap --run {cloud.run_id} --region us-east-1" in report.sentences()[-1]
    assert cloud.close() is report
    assert cloud.journal.path.exists()

    (reaped,) = reap(access, directory=journals)
    assert [left.id for left in reaped.removed] == [volume.id]
    assert not cloud.journal.path.exists()


def test_the_hourly_cost_of_what_is_left_is_named(make_cloud, faults_of):
    cloud = make_cloud()
    asked = []
    prices = Prices.of(
        {"currency": "USD", "instance_hour": {"t3.micro": 0.0104}, "volume_month": {"gp3": {"gib": 0.08}}},
        "here",
    )
    cloud.ledger.ask_prices = lambda types: asked.append(types) or prices
    cloud.launch("t3.micro")
    cloud.create_volumes([gp3(size_gib=73)], "us-east-1a")
    hourly = {(left.kind, left.hourly) for left in cloud.ledger.remaining()}
    assert ("instance", "0.01 USD an hour") in hourly
    assert ("volume", "0.008 USD an hour") in hourly  # 73 GiB x 0.08 USD / 730 h
    assert ("key pair", "") in hourly
    assert asked == [["t3.micro"]]


def test_a_call_refused_once_is_tried_again_at_the_end(cloud, faults):
    cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    calls = faults.answer("DeleteVolume", "UnauthorizedOperation", times=1)
    began = time.monotonic()
    assert cloud.close().clean
    assert len(calls) == 1
    assert time.monotonic() - began < FAST.volume_s


@pytest.mark.fault("API", "every call is refused")
@pytest.mark.parametrize(("code", "problems"), [("ExpiredToken", 1), ("UnauthorizedOperation", 8)])
def test_refusals_of_every_call_are_no_wait_and_few_sentences(cloud, faults, code, problems):
    """Credentials that ended are one problem; of missing permissions, each call is named, and all that is left."""
    instance = cloud.launch("t3.micro")
    volumes = cloud.create_volumes([gp3(size_gib=1)] * 3, instance=instance)
    for operation in ("DescribeInstances", "DescribeVolumes", "DescribeSecurityGroups", "DescribeKeyPairs"):
        faults.answer(operation, code)
    for operation in ("TerminateInstances", "DeleteVolume", "DeleteSecurityGroup", "DeleteKeyPair"):
        faults.answer(operation, code)
    began = time.monotonic()
    report = cloud.close()
    assert time.monotonic() - began < FAST.volume_s
    assert {left.id for left in report.remaining} >= {instance.id, *(each.id for each in volumes)}
    assert len(report.problems) == problems, report.problems
    assert all(code in problem for problem in report.problems)


def test_what_cannot_be_asked_is_not_searched_for(make_cloud, faults_of, monkeypatch):
    """An answer was lost, and then the credentials expired: no listing can show what the call created."""
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud(bounds=replace(FAST, settle_s=0.1))
    faults = faults_of(cloud)
    faults.lose_answer("CreateVolume")
    with pytest.raises(Unreachable):
        cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    cloud.clients.settle_s = 300.0
    faults.answer("DescribeVolumes", "ExpiredToken")
    began = time.monotonic()
    report = cloud.close()
    assert time.monotonic() - began < 30
    assert "ExpiredToken" in report.problems[0]
    assert cloud.journal.path.exists(), "the next start finds what the call created"
    faults.none("DescribeVolumes")
    assert {left.kind for left in cloud.ledger.remaining()} == {"volume"}  # moto creates one for each attempt
    cloud.removal.run()
    assert cloud.ledger.remaining() == ()


@pytest.mark.fault("API", "the teardown is throttled", leak=True)
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError"])
def test_a_removal_outlasts_throttling_and_failures_of_the_service(make_cloud, faults_of, monkeypatch, code):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud()
    cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    faults = faults_of(cloud)
    for operation in ("DescribeVolumes", "DeleteVolume"):
        faults.answer(operation, code, status=503, times=3)
    assert cloud.close().clean
    assert cloud.ledger.remaining() == ()


def hidden(faults, operation, field, looks):
    """The next so many answers of a Describe call lack everything, as those of EC2 do for a new resource."""
    left = [None] * looks

    def hide(parsed, **_):
        if left and field in parsed:
            left.pop()
            parsed[field] = []

    faults.on("after-call", operation, hide)
    return left


@pytest.mark.fault("API", "a listing lags behind the state", leak=True)
def test_a_listing_that_lags_does_not_hide_a_volume(cloud, faults, ec2):
    """Its id is in the journal, so it is deleted although the API does not show it for a while."""
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    late = hidden(faults, "DescribeVolumes", "Volumes", 10)
    report = cloud.close()
    assert report.clean, report.sentences()
    assert not [one for one in ec2.describe_volumes()["Volumes"] if one["VolumeId"] == volume.id]
    assert len(late) < 10


def test_a_volume_that_is_neither_shown_nor_deleted_is_a_leftover(make_cloud, faults_of, journals):
    """The service does not know it yet, neither to describe nor to delete it: nothing says that it is gone."""
    cloud = make_cloud(bounds=replace(FAST, volume_s=0.3, settle_s=60))
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    faults = faults_of(cloud)
    hidden(faults, "DescribeVolumes", "Volumes", 10**6)
    faults.answer("DeleteVolume", "InvalidVolume.NotFound")
    cloud.clients.settle_s = 1.0
    began = time.monotonic()
    cloud.ledger.track(VOLUME, volume.id).created = time.time() + 3600
    report = cloud.close()
    assert time.monotonic() - began >= 1.0
    assert [left.id for left in report.remaining] == [volume.id]
    assert cloud.journal.path.exists()


def test_a_volume_whose_tags_were_removed_is_removed(cloud, ec2):
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    ec2.delete_tags(Resources=[volume.id], Tags=[{"Key": "cloudbench:run"}])
    assert cloud.close().clean
    assert volume.id not in {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]}


def test_a_volume_shown_once_and_then_not_is_deleted_all_the_same(cloud, faults, ec2):
    """A stale answer that lacks a resource says nothing about it before its deletion was accepted."""
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    assert volume.id in {left.id for left in cloud.ledger.remaining()}
    hidden(faults, "DescribeVolumes", "Volumes", 10**6)
    assert cloud.close().clean
    assert volume.id not in {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]}


def test_a_volume_that_is_being_deleted_is_waited_for(cloud, faults):
    """The service says "deleting" for a while after it accepted the deletion."""
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    looks = deleted_slowly(cloud, faults, volume.id, 4)
    assert cloud.close().clean
    assert looks == []


def test_the_wait_for_a_volume_that_is_being_deleted_is_bounded(make_cloud, faults_of):
    cloud = make_cloud(bounds=replace(FAST, volume_s=0.3))
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    deleted_slowly(cloud, faults_of(cloud), volume.id, 10**6)
    report = cloud.close()
    assert [(left.id, left.state) for left in report.remaining] == [(volume.id, "deleting")]
    assert report.problems == ()


def deleted_slowly(cloud, faults, volume_id, times):
    """The next so many descriptions show the volume as "deleting" after its deletion, as EC2 does for a moment."""
    looks, deleted = [None] * times, []
    faults.on("after-call", "DeleteVolume", lambda **_: deleted.append(volume_id))

    def show(parsed, **_):
        if deleted and looks and not parsed["Volumes"]:
            looks.pop()
            tags = [{"Key": "cloudbench:run", "Value": cloud.run_id}]
            parsed["Volumes"] = [{"VolumeId": volume_id, "State": "deleting", "Tags": tags}]

    faults.on("after-call", "DescribeVolumes", show)
    return looks


def test_one_protected_instance_does_not_prevent_the_end_of_the_others(cloud, ec2, journals):
    first, second = cloud.launch_many([Launch("t3.micro")] * 2)
    ec2.modify_instance_attribute(InstanceId=first.id, DisableApiTermination={"Value": True})
    report = cloud.close()
    assert [left.id for left in report.remaining if left.kind == "instance"] == [first.id]
    assert any(first.id in problem for problem in report.problems)
    assert cloud.refresh(second).state == "terminated"
    ec2.modify_instance_attribute(InstanceId=first.id, DisableApiTermination={"Value": False})
    [reaped] = reap(cloud.access, directory=journals)
    assert reaped.left == ()
    assert cloud.ledger.remaining() == ()


def test_a_security_group_still_in_use_is_tried_again(cloud, faults):
    cloud.launch("t3.micro")
    calls = faults.answer("DeleteSecurityGroup", "DependencyViolation", times=3)
    assert cloud.close().clean
    assert len(calls) == 3


@pytest.mark.fault("API", "the answer of a creating call is lost", leak=True)
@pytest.mark.parametrize(
    "operation", ["RunInstances", "CreateVolume", "ImportKeyPair", "CreateSecurityGroup"]
)
def test_what_a_call_created_whose_answer_was_lost_is_found_by_its_tag(
    make_cloud, faults_of, monkeypatch, operation
):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud()
    faults_of(cloud).lose_answer(operation)
    with pytest.raises(Unreachable):
        cloud.create_volumes([gp3(size_gib=1)], cloud.launch("t3.micro").zone)
    assert [one.action for one in cloud.journal.intentions if one.unresolved] == [
        {
            "RunInstances": "run_instances",
            "CreateVolume": "create_volume",
            "ImportKeyPair": "import_key_pair",
        }.get(operation, "create_security_group")
    ]
    assert cloud.ledger.remaining() != ()
    assert cloud.close().clean
    assert cloud.ledger.remaining() == ()


@pytest.mark.parametrize("operation", ["ImportKeyPair", "CreateSecurityGroup"])
def test_a_lost_answer_does_not_block_the_next_launch(make_cloud, faults_of, monkeypatch, operation):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud()
    faults = faults_of(cloud)
    faults.lose_answer(operation)
    with pytest.raises(Unreachable):
        cloud.launch("t3.micro")
    faults.none(operation)
    assert cloud.launch("t3.micro").state == "running"


def test_closing_a_run_that_created_nothing_asks_nothing(cloud, heard):
    assert cloud.close().clean
    assert not heard


def test_the_context_manager_closes_on_success_and_failure(access, journals):
    run_id = new_run_id()
    with Cloud(access, run_id, Journal.open(run_id, access, journals)) as cloud:
        cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    assert cloud.ledger.remaining() == ()
    run_id = new_run_id()
    kept = []

    def fails():
        with Cloud(access, run_id, Journal.open(run_id, access, journals)) as cloud:
            kept.append(cloud)
            cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert kept[0].ledger.remaining() == ()


def test_what_release_could_not_terminate_is_left_to_close(cloud, faults):
    """It is an error only if it is refused again at the end: one report, not one per test."""
    instance = cloud.launch("t3.micro")
    calls = faults.answer("TerminateInstances", "UnauthorizedOperation", times=1)
    cloud.release([instance])
    assert len(calls) == 1
    assert cloud.close().clean
    assert cloud.refresh(instance).state == "terminated"


def test_the_journal_says_what_is_gone(cloud):
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    cloud.release([volume])
    cloud.removal.wait_for_released(10)
    assert read_journal(cloud.journal.path).gone == [volume.id]


def test_ctrl_c_during_a_launch_ends_its_waits(cloud, monkeypatch):
    """The interruption reaches the main thread while workers poll for a state that never comes."""
    import os
    import signal
    import threading
    import time

    polling = threading.Event()
    watcher = cloud.instances._watcher
    original = watcher._describe

    def pending(ids):
        polling.set()
        return {one: {**now, "State": {"Name": "pending"}} for one, now in original(ids).items()}

    monkeypatch.setattr(watcher, "_describe", pending)

    def interrupt():
        polling.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        cloud.launch("t3.micro")
    took_s = time.monotonic() - began
    thread.join()
    assert took_s < 30, "a launch waits for five minutes"
    monkeypatch.undo()
    assert cloud.close().clean
    assert cloud.ledger.remaining() == ()


def test_errors_of_the_service_pass_through_release_of_volumes_to_close(cloud, faults):
    volume = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")[0]
    faults.answer("DeleteVolume", "UnauthorizedOperation", times=1)
    cloud.release([volume])
    assert cloud.close().clean
    with pytest.raises(CloudError, match="no longer exists"):
        cloud.volumes.refresh(volume)
