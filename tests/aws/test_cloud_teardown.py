"""Teardown removes everything it can, even if steps fail, and names what remains."""

from __future__ import annotations

import pytest

from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.errors import Unreachable
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.reap import reap
from pytest_cloudbench.aws.removal import RunResources
from pytest_cloudbench.aws.teardown import Teardown
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.errors import CloudError, TeardownFailed
from pytest_cloudbench.resources.facts import Launch


def test_steps_run_last_in_first_out_and_once():
    ran = []
    teardown = Teardown()
    for name in "abc":
        teardown.push(name, lambda name=name: ran.append(name))
    assert teardown.run() == ()
    assert teardown.run() == ()
    assert ran == ["c", "b", "a"]


def test_a_failing_step_is_reported_and_the_others_run():
    ran = []
    teardown = Teardown()
    teardown.push("do one", lambda: ran.append(1))
    teardown.push("do two", lambda: 1 / 0)
    teardown.push("do three", lambda: ran.append(3))
    teardown.push("do four", [].pop)
    assert teardown.run() == ("could not do four: pop from empty list", "could not do two: division by zero")
    assert ran == [3, 1]


def test_steps_added_by_a_step_run_next():
    ran = []
    teardown = Teardown()
    teardown.push("last", lambda: ran.append("last"))

    def more():
        ran.append("more")
        teardown.push_all([("y", lambda: ran.append("y")), ("x", lambda: ran.append("x"))])

    teardown.push("more", more)
    teardown.run()
    assert ran == ["more", "x", "y", "last"]


@pytest.mark.parametrize(("interrupts", "problems"), [(1, []), (2, ["could not stop: interrupted twice"])])
def test_an_interrupted_step_runs_again_and_the_interrupt_is_raised_at_the_end(interrupts, problems):
    ran = []
    teardown = Teardown()
    teardown.push("end", lambda: ran.append("end"))

    def stop():
        ran.append("stop")
        if ran.count("stop") <= interrupts:
            raise KeyboardInterrupt

    teardown.push("stop", stop)
    with pytest.raises(KeyboardInterrupt):
        teardown.run()
    assert ran == ["stop", "stop", "end"]
    assert teardown.problems == problems
    assert teardown.run() == tuple(problems)


def test_ctrl_c_while_closing_still_removes_everything(cloud, monkeypatch, journals):
    instance = cloud.launch("t3.micro")
    cloud.attach(cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0], instance)
    drop = cloud.resources.drop_volumes
    interrupts = [KeyboardInterrupt()]

    def interrupted(*args, **kwargs):
        if interrupts:
            raise interrupts.pop()
        return drop(*args, **kwargs)

    monkeypatch.setattr(cloud.resources, "drop_volumes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cloud.close()
    assert cloud.report.clean
    assert cloud.resources.remaining() == ()
    assert list(journals.iterdir()) == []
    assert cloud.close() is cloud.report


def test_what_cannot_be_removed_is_named_and_left_to_the_next_start(cloud, faults, access, journals):
    instance = cloud.launch("t3.micro")
    volume = cloud.create_volumes([gp3(size_gib=1)], instance=instance)[0]
    faults.answer("DeleteVolume", "UnauthorizedOperation", "you may not")
    ran = []
    cloud._teardown.push("say goodbye", lambda: ran.append(1 / 0))
    report = cloud.close()
    assert [left.id for left in report.remaining] == [volume.id]
    assert len(report.problems) == 2
    assert "could not say goodbye: division by zero" in report.problems
    assert any("UnauthorizedOperation: you may not" in problem for problem in report.problems)
    with pytest.raises(TeardownFailed, match=rf"volume {volume.id} \(available\) still exists"):
        report.raise_unless_clean()
    assert cloud.close() is report
    assert cloud.journal.path.exists()

    (reaped,) = reap(access, directory=journals)
    assert [left.id for left in reaped.removed] == [volume.id]
    assert not cloud.journal.path.exists()


def deleted_slowly(resources, monkeypatch, looks):
    """A service that says "deleting" for so many looks after a volume was deleted, as EC2 does for a moment."""
    volumes, seen = resources.volumes, []

    def of_service():
        seen.append(None)
        gone = {"VolumeId": "vol-0123", "State": "deleting", "Tags": []}
        return [*volumes(), gone] if len(seen) <= looks else volumes()

    monkeypatch.setattr(resources, "volumes", of_service)
    monkeypatch.setattr(resources, "remove_volumes", lambda: None)
    return seen


def test_a_volume_that_is_being_deleted_is_waited_for(cloud, monkeypatch):
    cloud.create_volumes([gp3(size_gib=1)], zone="us-east-1a")
    cloud.resources.remove_volumes()
    looks = deleted_slowly(cloud.resources, monkeypatch, 3)
    assert cloud.close().clean
    assert len(looks) == 4


def test_the_wait_for_a_volume_that_is_being_deleted_is_bounded(make_cloud, monkeypatch):
    cloud = make_cloud(bounds=Bounds(volume_s=0.3, settle_s=0.5))
    cloud.create_volumes([gp3(size_gib=1)], zone="us-east-1a")
    cloud.resources.remove_volumes()
    deleted_slowly(cloud.resources, monkeypatch, 10**6)
    report = cloud.close()
    assert [str(left) for left in report.remaining] == ["volume vol-0123 (deleting)"]


def test_one_protected_instance_does_not_prevent_the_end_of_the_others(cloud, faults, ec2):
    first, second = cloud.launch_many([Launch("t3.micro")] * 2)
    ec2.modify_instance_attribute(InstanceId=first.id, DisableApiTermination={"Value": True})
    report = cloud.close()
    assert [left.id for left in report.remaining if left.kind == "instance"] == [first.id]
    assert any(first.id in problem for problem in report.problems)
    assert cloud.refresh(second).state == "terminated"
    ec2.modify_instance_attribute(InstanceId=first.id, DisableApiTermination={"Value": False})
    for step in reversed(cloud.resources.removal_steps()):
        step[1]()
    assert cloud.resources.remaining() == ()


def test_a_security_group_still_in_use_is_tried_again(cloud, faults):
    cloud.launch("t3.micro")
    calls = faults.answer("DeleteSecurityGroup", "DependencyViolation", times=3)
    assert cloud.close().clean
    assert len(calls) == 3


@pytest.mark.parametrize(
    "operation", ["RunInstances", "CreateVolume", "CreateKeyPair", "CreateSecurityGroup"]
)
def test_what_a_call_created_whose_answer_was_lost_is_found_by_its_tag(
    make_cloud, faults_of, monkeypatch, operation
):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud()
    faults_of(cloud).lose_answer(operation)
    with pytest.raises(Unreachable):
        cloud.create_volumes([gp3(size_gib=1)], cloud.launch("t3.micro").zone)
    assert [one.action for one in cloud.journal.unresolved] == [
        {
            "RunInstances": "run_instances",
            "CreateVolume": "create_volume",
            "CreateKeyPair": "create_key_pair",
        }.get(operation, "create_security_group")
    ]
    assert cloud.remaining() != ()
    assert cloud.close().clean
    assert cloud.resources.remaining() == ()


@pytest.mark.parametrize("operation", ["CreateKeyPair", "CreateSecurityGroup"])
def test_a_lost_answer_does_not_block_the_next_launch(make_cloud, faults_of, monkeypatch, operation):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud()
    faults = faults_of(cloud)
    faults.lose_answer(operation)
    with pytest.raises(Unreachable):
        cloud.launch("t3.micro")
    faults.none(operation)
    assert cloud.launch("t3.micro").state == "running"


def test_closing_a_run_that_created_nothing_asks_nothing(cloud):
    assert cloud.close().clean
    assert cloud.clients.answers.all() == ()


def test_the_context_manager_closes_on_success_and_failure(access, journals):
    run_id = new_run_id()
    with Cloud(access, run_id, Journal.open(run_id, access, journals)) as cloud:
        cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    assert cloud.resources.remaining() == ()
    run_id = new_run_id()

    def fails():
        with Cloud(access, run_id, Journal.open(run_id, access, journals)) as cloud:
            cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert RunResources(cloud.clients, run_id, announced=tuple).remaining() == ()


def test_release_reports_a_protected_instance(cloud, faults):
    instance = cloud.launch("t3.micro")
    faults.answer("TerminateInstances", "UnauthorizedOperation", times=1)
    with pytest.raises(TeardownFailed, match="lack the permission"):
        cloud.release([instance])
    assert cloud.close().clean


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
    assert cloud.resources.remaining() == ()


def test_errors_of_the_service_pass_through_release_of_volumes_to_close(cloud, faults):
    volume = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")[0]
    faults.answer("DeleteVolume", "UnauthorizedOperation", times=1)
    cloud.release([volume])
    assert cloud.close().clean
    with pytest.raises(CloudError, match="no longer exists"):
        cloud.volumes.refresh(volume)
