"""One description per interval for all waits, temporary errors of the service, and answers that were lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.clients import Clients
from pytest_cloudbench.aws.errors import Unreachable, is_temporary
from pytest_cloudbench.aws.waits import (
    OFTEN,
    SELDOM,
    Bounds,
    Cancelled,
    Pace,
    Watcher,
    cancel_waits_on,
    gather,
    poll,
    retry_while,
)
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.resources.errors import CloudError, ResourceFailed

QUICK = Pace(0.02, 0.02, 0.02)
THROTTLED = CloudError("too many requests", code="RequestLimitExceeded")


class Service:
    """Describes each resource as ready after so many looks at it, and notes which ids each call had."""

    def __init__(self, looks=3):
        self.looks = looks
        self.calls: list[tuple[float, tuple[str, ...]]] = []
        self.errors: list[Exception] = []
        self._seen = Counter()

    def describe(self, ids):
        self.calls.append((time.monotonic(), tuple(ids)))
        if self.errors:
            raise self.errors.pop(0)
        self._seen.update(ids)
        return {one: {"State": "ready" if self._seen[one] >= self.looks else "new"} for one in ids}


def ready(description):
    return description["State"] if description and description["State"] == "ready" else None


def test_forty_waits_share_one_call_per_interval():
    service = Service(looks=5)
    watcher = Watcher(service.describe, Pace(0.1, 0.1, 0.1))
    waits = [lambda one=f"vol-{number}": watcher.wait(one, ready, 20) for number in range(40)]
    assert gather(waits, max_workers=40) == ["ready"] * 40
    assert len(service.calls) <= 5 + 3, "five looks, and a few before all threads had begun"
    starts = [at for at, _ in service.calls]
    assert all(later - earlier >= 0.099 for earlier, later in itertools.pairwise(starts))
    assert max(len(ids) for _, ids in service.calls) == 40


def test_more_ids_than_one_filter_takes_are_asked_for_by_several_calls():
    service = Service(looks=1)
    watcher = Watcher(service.describe, QUICK)
    for number in range(450):
        watcher._watched[f"vol-{number:04}"] += 1
    assert watcher.wait("vol-0001", ready, 5) == "ready"
    assert [len(ids) for _, ids in service.calls] == [200, 200, 50]


def test_a_wait_uses_no_answer_to_a_question_from_before_it_began():
    begun, answer = threading.Event(), threading.Event()
    states = iter(["old", "new"])

    def describe(ids):
        state = next(states)
        if state == "old":
            begun.set()
            answer.wait(10)
        return {one: {"State": state} for one in ids}

    watcher = Watcher(describe, QUICK)
    first = threading.Thread(target=watcher.wait, args=("i-1", lambda now: now, 10))
    first.start()
    assert begun.wait(10)
    seen = []
    second = threading.Thread(target=lambda: seen.append(watcher.wait("i-1", lambda now: now, 10)))
    second.start()
    time.sleep(0.1)
    answer.set()
    first.join(10)
    second.join(10)
    assert seen == [{"State": "new"}]


def test_temporary_errors_mean_ask_again_and_others_end_all_waits():
    service = Service(looks=1)
    service.errors = [THROTTLED, Unreachable("no answer"), CloudError("oops", code="InternalError")]
    watcher = Watcher(service.describe, QUICK)
    assert watcher.wait("i-1", ready, 10) == "ready"
    assert len(service.calls) == 4
    service.errors = [CloudError("you may not", code="UnauthorizedOperation")]
    with pytest.raises(CloudError, match="you may not"):
        watcher.wait("i-1", ready, 10)


def test_an_error_of_the_last_look_is_raised_at_the_deadline():
    service = Service()
    service.errors = [THROTTLED] * 1000
    with pytest.raises(CloudError, match="too many requests"):
        Watcher(service.describe, QUICK).wait("i-1", ready, 0.1)
    with pytest.raises(CloudError, match="too many requests"):
        poll(lambda: service.describe(["i-1"]) and None, 0.1, QUICK)


def test_what_was_never_shown_may_be_new():
    there = []
    watcher = Watcher(lambda ids: {one: {} for one in ids if one in there}, QUICK)
    threading.Timer(0.2, there.append, ["i-1"]).start()
    assert watcher.find("i-1", settle_s=10) == {}
    assert watcher.find("i-2", settle_s=0.05) is None


def test_a_new_resource_may_be_missing_again_and_an_old_one_is_gone():
    answers = [{"i-1": {}}, {}, {}, {"i-1": {}}]
    watcher = Watcher(lambda ids: answers.pop(0) if answers else {}, QUICK)
    assert watcher.find("i-1", settle_s=10) == {}
    assert watcher.find("i-1", settle_s=10) == {}
    assert answers == []
    began = time.monotonic()
    assert watcher.find("i-1", settle_s=0.01) is None
    assert time.monotonic() - began < 5
    assert watcher.unsettled_s("i-1", 0.01) == 0.0
    assert 5 < watcher.unsettled_s("i-1", 10) <= 10


def test_a_cancelled_thread_ends_its_wait_and_leaves_the_others():
    event = threading.Event()
    watcher = Watcher(Service(looks=10**9).describe, QUICK)
    ended = []

    def wait():
        cancel_waits_on(event)
        try:
            watcher.wait("i-1", ready, 60)
        except Cancelled:
            ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    event.set()
    thread.join(10)
    assert ended == [True]
    assert watcher.wait("i-2", lambda now: now, 5) == {"State": "new"}
    assert set(watcher._watched) == set()


@given(st.lists(st.booleans(), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_pauses_stay_between_their_bounds(refusals):
    for pace in (OFTEN, SELDOM):
        pause_s = pace.first_s
        for refused in refusals:
            drawn = pace.drawn(pause_s)
            assert pace.first_s * (1 - pace.jitter) <= drawn <= max(pace.longest_s, pace.refused_s)
            longer = pace.next(pause_s, refused=refused)
            if refused:
                assert longer >= min(pause_s * 2, pace.refused_s)
            else:
                assert longer <= pace.longest_s
            pause_s = longer


def test_aws_is_asked_once_in_one_to_two_seconds_and_a_region_on_this_machine_often(cloud):
    assert cloud.clients.pace == OFTEN
    assert SELDOM.first_s * (1 - SELDOM.jitter) >= 1.0
    assert SELDOM.longest_s <= 2.0


@pytest.mark.parametrize(
    ("code", "temporary"),
    [
        ("RequestLimitExceeded", True),
        ("Unavailable", True),
        ("503", True),
        ("VolumeInUse", False),
        ("", False),
    ],
)
def test_which_errors_are_temporary(code, temporary):
    assert is_temporary(CloudError("x", code=code)) is temporary


def test_a_repeated_call_ends_with_its_last_refusal():
    calls = []

    def refuse():
        calls.append(1)
        raise CloudError("not yet", code="InvalidGroup.NotFound")

    with pytest.raises(CloudError, match="not yet"):
        retry_while(["InvalidGroup.NotFound"], refuse, 0.1, QUICK)
    assert len(calls) >= 2
    calls.clear()
    with pytest.raises(CloudError, match="not yet"):
        retry_while(["Other"], refuse, 5, QUICK)
    assert calls == [1]


# Lost answers


def lose_first(faults, operation, monkeypatch):
    """Carry out the first call of an operation and lose its answer; botocore does not repeat it."""
    from botocore.exceptions import ConnectionClosedError
    from botocore.httpsession import URLLib3Session

    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    calls = []

    def lose(request, **_):
        calls.append(request.url)
        if len(calls) == 1:
            URLLib3Session().send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

    faults.on("before-send", operation, lose)
    return calls


@pytest.mark.fault("API", "the answer of a creating call is lost")
@pytest.mark.parametrize("operation", ["RunInstances", "CreateVolume", "CreateSnapshot"])
def test_a_creating_call_whose_answer_was_lost_creates_one_thing(
    make_cloud, faults_of, monkeypatch, ec2, operation, heard
):
    cloud = make_cloud(bounds=Bounds(settle_s=30))
    calls = lose_first(faults_of(cloud), operation, monkeypatch)
    if operation == "RunInstances":
        cloud.launch("t3.micro")
    else:
        [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
        if operation == "CreateSnapshot":
            cloud.create_snapshot(volume)
    assert calls
    own = [{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}]
    if operation == "CreateSnapshot":
        assert len(ec2.describe_snapshots(Filters=own)["Snapshots"]) == 1
    else:
        tokens = {
            one.token for one in cloud.journal.intentions if one.action in ("run_instances", "create_volume")
        }
        assert len(tokens) == 1
        asked = [a.asked["ClientToken"] for a in heard if "ClientToken" in a.asked]
        assert set(asked) == tokens
    assert not [one for one in cloud.journal.intentions if one.unresolved]


def test_an_attachment_whose_answer_was_lost_is_found_on_its_own_instance(cloud, faults, ec2):
    instance = cloud.launch("t3.micro")
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=instance)

    def attached(**_):
        ec2.attach_volume(VolumeId=volume.id, InstanceId=instance.id, Device="/dev/sdf")

    faults.on("before-call", "AttachVolume", attached)
    calls = faults.answer("AttachVolume", "VolumeInUse", "is already attached to an instance")
    now = cloud.attach(volume, instance)
    assert (now.state, now.attachment.instance_id, len(calls)) == ("in-use", instance.id, 1)


def test_a_volume_on_another_instance_is_in_use(cloud, faults):
    here, there = (cloud.launch("t3.micro", zone="us-east-1a") for _ in range(2))
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=there)
    cloud.attach(volume, there)
    faults.answer("AttachVolume", "VolumeInUse")
    with pytest.raises(CloudError, match="VolumeInUse"):
        cloud.attach(volume, here)


@pytest.mark.parametrize("operation", ["CreateSecurityGroup", "AuthorizeSecurityGroupIngress"])
def test_the_way_in_is_made_once_although_an_answer_was_lost(make_cloud, faults_of, monkeypatch, operation):
    cloud = make_cloud(bounds=Bounds(settle_s=30))
    calls = lose_first(faults_of(cloud), operation, monkeypatch)
    assert cloud.launch("t3.micro").state == "running"
    assert len(calls) >= 2
    assert [left.kind for left in cloud.ledger.remaining()].count("key pair") == 1
    assert [left.kind for left in cloud.ledger.remaining()].count("security group") == 1
    assert cloud.close().clean


@pytest.mark.parametrize("code", ["IncorrectState", "InvalidAttachment.NotFound"])
def test_a_detachment_whose_answer_was_lost_has_happened(cloud, faults, ec2, code):
    instance = cloud.launch("t3.micro")
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    attached = cloud.attach(volume, instance)

    def detached(**_):
        faults.none("DetachVolume", "before-call")
        ec2.detach_volume(VolumeId=volume.id, InstanceId=instance.id)

    faults.on("before-call", "DetachVolume", detached)
    faults.answer("DetachVolume", code, times=1)
    assert cloud.detach(attached).state == "available"


def test_a_modification_whose_answer_was_lost_is_this_one(cloud, faults):
    [volume] = cloud.create_volumes([gp3(size_gib=10)], "us-east-1a")
    active = {
        "VolumeId": volume.id,
        "ModificationState": "optimizing",
        "StartTime": "2026-11-01",
        "TargetSize": 20,
    }
    watcher = cloud._modifications._watcher
    watcher._describe = lambda ids: {volume.id: active}
    faults.answer("ModifyVolume", "IncorrectModificationState")
    assert cloud.modify_volume(volume, gp3(size_gib=20), until="optimizing").size.gib == 20
    with pytest.raises(CloudError, match="IncorrectModificationState"):
        cloud.modify_volume(volume, gp3(size_gib=30), until="optimizing")


@pytest.mark.fault("API", "passing errors while waiting")
def test_passing_errors_end_no_wait(cloud, faults, monkeypatch):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    calls = faults.answer("DescribeVolumes", "Unavailable", status=503, times=3)
    described = faults.answer("DescribeInstances", "RequestLimitExceeded", status=503, times=3)
    instance = cloud.launch("t3.micro")
    [volume] = cloud.create_volumes([gp3(size_gib=1)], instance=instance)
    assert cloud.attach(volume, instance).state == "in-use"
    assert (len(calls), len(described)) == (3, 3)


def test_a_volume_that_never_appears_no_longer_exists(cloud):
    [volume] = cloud.create_volumes([gp3(size_gib=1)], "us-east-1a")
    cloud.volumes._watcher._describe = lambda ids: {}
    with pytest.raises(ResourceFailed, match="no longer exists"):
        cloud.volumes.refresh(volume)


def test_an_instance_that_one_answer_lacks_has_not_terminated(make_cloud):
    cloud = make_cloud(bounds=Bounds(settle_s=20))
    instance = cloud.launch("t3.micro")
    states = ["running", None, "terminated"]

    def describe(ids):
        state = states.pop(0)
        return {instance.id: described(instance, state)} if state else {}

    cloud.instances._watcher._describe = describe
    assert cloud.instances.wait_until_ended(instance).state == "terminated"
    assert states == []


def described(instance, state, **more):
    return {"InstanceId": instance.id, "State": {"Name": state}, "PrivateIpAddress": "10.0.0.9", **more}


def test_a_start_is_over_when_a_later_launch_runs(cloud):
    """An answer from before the stop has the former address."""
    stopped = cloud.stop(cloud.launch("t3.micro"))
    stopped = replace(stopped, launched=stopped.launched - timedelta(minutes=5))
    old = described(stopped, "running", PublicIpAddress="192.0.2.1", LaunchTime=stopped.launched)
    later = {"LaunchTime": stopped.launched + timedelta(seconds=1)}
    answers = [
        old,
        described(stopped, "pending", **later),
        old,
        described(stopped, "running", **later),
        old,
        described(stopped, "running", PublicIpAddress="192.0.2.2", **later),
    ]
    cloud.instances._watcher._describe = lambda ids: {stopped.id: answers.pop(0)}
    assert cloud.instances.start(stopped).address == "192.0.2.2"
    assert answers == []


def test_a_start_within_the_second_of_the_launch_ends(cloud):
    stopped = cloud.stop(cloud.launch("t3.micro"))
    running = described(stopped, "running", PublicIpAddress="192.0.2.1", LaunchTime=stopped.launched)
    cloud.instances._watcher._describe = lambda ids: {stopped.id: running}
    now = datetime.now(timezone.utc)
    assert cloud.instances.start(replace(stopped, launched=now)).state == "running"


def test_a_start_of_an_instance_that_runs_ends_at_once(cloud):
    running = cloud.launch("t3.micro")
    assert cloud.start(running).launched == running.launched


@pytest.mark.parametrize(
    ("code", "asked"), [("InternalError", 1), ("RequestLimitExceeded", 3), ("UnauthorizedOperation", 1)]
)
def test_a_reboot_is_asked_for_again_only_if_it_was_refused(make_cloud, faults_of, monkeypatch, code, asked):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud(bounds=Bounds(settle_s=20))
    instance = cloud.launch("t3.micro")
    calls = faults_of(cloud).answer("RebootInstances", code, status=500, times=asked)
    if code == "UnauthorizedOperation":
        with pytest.raises(CloudError, match=code):
            cloud.reboot(instance)
    else:
        assert cloud.reboot(instance).state == "running"
    assert len(calls) == asked


READS_OF_A_LAUNCH = (
    "GetCallerIdentity",
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
    "DescribeSubnets",
    "DescribeImages",
    "DescribeInstances",
)


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Unavailable"])
def test_the_questions_of_a_launch_outlast_passing_errors(make_cloud, faults_of, monkeypatch, code):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud(bounds=Bounds(settle_s=20))
    faults = faults_of(cloud)
    calls = [faults.answer(each, code, status=503, times=3) for each in READS_OF_A_LAUNCH]
    cloud.launch("c5.large")
    assert [len(each) for each in calls] == [3] * len(calls)


def test_what_lasts_ends_a_repetition_after_the_settle_time(make_cloud, faults_of, monkeypatch):
    monkeypatch.setattr("pytest_cloudbench.aws.clients.MAX_ATTEMPTS", 1)
    cloud = make_cloud(bounds=Bounds(settle_s=0.2))
    calls = faults_of(cloud).answer("DescribeSubnets", "RequestLimitExceeded", status=503)
    with pytest.raises(CloudError, match="RequestLimitExceeded"):
        cloud.launch("c5.large")
    assert len(calls) >= 3


def test_an_endpoint_on_this_machine_settles_within_20_s(access):
    assert Clients(access).settle_s == 20
    assert Clients(access, Bounds(settle_s=5)).settle_s == 5
    assert Clients(CloudAccess(region="us-east-1")).settle_s == 300


# The user's retries


@pytest.fixture
def config_of(monkeypatch, tmp_path, access):
    from pytest_cloudbench.aws.clients import Clients

    for name in ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    def retries(profile="", **variables):
        (tmp_path / "config").write_text(f"[default]\n{profile}")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return Clients(access).client("ec2").meta.config.retries

    return retries


def test_retries_are_ours_unless_the_user_configured_them(config_of):
    assert config_of() == {"mode": "standard", "total_max_attempts": 4}
    assert config_of("max_attempts = 7\nretry_mode = adaptive\n") == {
        "mode": "adaptive",
        "total_max_attempts": 7,
    }
    assert config_of(AWS_MAX_ATTEMPTS="9") == {"mode": "standard", "total_max_attempts": 9}
    assert config_of(AWS_RETRY_MODE="adaptive") == {"mode": "adaptive", "total_max_attempts": 9}
