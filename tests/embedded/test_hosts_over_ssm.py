"""Hosts over SSM Run Command on the embedded region: commands, their ends, workloads and restarts, without any port."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from pytest_cloudbench import gp3
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.account_settings import AccountSettings
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.hosts.errors import CommandTimedOut, ConnectionDropped, HostError, HostUnreachable
from pytest_cloudbench.hosts.ssm import SsmHost
from pytest_cloudbench.resources.ec2 import Ec2
from pytest_cloudbench.resources.errors import CloudError

pytestmark = pytest.mark.embedded

BUCKET = "long-outputs"
NOISE = os.urandom(60_000)


@pytest.fixture
def clouds(
    _cloudbench_access: CloudAccess, _cloudbench_cloud: object, tmp_path: Path
) -> Iterator[Callable[..., Cloud]]:
    """Runs on the region of this session whose hosts are reached by SSM."""
    with contextlib.ExitStack() as opened:

        def open_cloud(profile: str | None = "tests", **changes: Any) -> Cloud:
            settings = AccountSettings(instance_profile=profile)
            access = dataclasses.replace(_cloudbench_access, way_in="ssm", settings=settings, **changes)
            run_id = new_run_id()
            return opened.enter_context(Cloud(access, run_id, Journal.open(run_id, access, tmp_path)))

        yield open_cloud


@pytest.fixture
def cloud(clouds: Callable[..., Cloud]) -> Cloud:
    return clouds()


@pytest.fixture
def ec2(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[Ec2]:
    factory = Ec2(cloud, test_name=request.node.name)
    with contextlib.closing(factory):
        yield factory


def test_no_port_is_open_and_no_key_is_there(ec2: Ec2, cloud: Cloud) -> None:
    instance = ec2.launch("m5.large")
    assert isinstance(instance.host, SsmHost)
    api = cloud.clients.client("ec2")
    [described] = api.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"]
    assert "KeyName" not in described
    [group] = api.describe_security_groups(
        GroupIds=[each["GroupId"] for each in described["SecurityGroups"]]
    )["SecurityGroups"]
    [rule] = group["IpPermissions"]
    assert (rule["IpProtocol"], rule["IpRanges"]) == ("-1", [])
    assert [each["GroupId"] for each in rule["UserIdGroupPairs"]] == [group["GroupId"]]
    cloud.leases.renew()
    assert instance.run(["pgrep", "-f", "cloudbench-lease.timer"], sudo=True).stdout.strip()


def test_commands_end_as_by_ssh(ec2: Ec2, cloud: Cloud) -> None:
    host = ec2.launch("m5.large").host
    ended = host.run(["sh", "-c", "cat; id -un; echo oops >&2; exit 7"], stdin=b"in\n", check=False)
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("in\nec2-user\n", "oops\n", 7)
    assert host.run(["id", "-un"], sudo=True).stdout == "root\n"
    assert host.run(["cat"], stdin=NOISE).stdout_bytes == NOISE
    with pytest.raises(CommandTimedOut):
        host.run(["sleep", "321"], timeout_s=1)
    _interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        host.run(["sleep", "321"])
    _until(lambda: host.run(["pgrep", "-f", "sleep 321"], check=False).exit_code == 1)
    _until(
        lambda: host.run(["sh", "-c", "ls -d /var/tmp/cloudbench-ssm-*"], sudo=True).stdout.count("\n") == 1
    )
    assert all("sleep" not in each["Comment"] for each in _commands(cloud))


def test_a_command_that_is_refused_and_whose_answer_is_lost_runs_once(ec2: Ec2, cloud: Cloud) -> None:
    host = ec2.launch("m5.large").host
    sent: list[str] = []

    def throttle_and_lose(request: Any, **_: Any) -> AWSResponse | None:
        sent.append(request.url)
        if len(sent) == 1:
            body = b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'
            return AWSResponse(request.url, 400, {"content-type": "application/x-amz-json-1.1"}, _Raw(body))
        if len(sent) == 2:
            URLLib3Session().send(request)
            raise ConnectionClosedError(endpoint_url=request.url)
        return None

    cloud.clients.client("ssm").meta.events.register("before-send.ssm.SendCommand", throttle_and_lose)
    assert host.run(["sh", "-c", "echo run >> count; cat count"]).stdout == "run\n"
    assert len(sent) == 2
    assert host.run(["cat", "count"]).stdout == "run\n"


def test_the_end_of_the_instance_ends_the_wait_for_a_command(
    ec2: Ec2, cloud: Cloud, monkeypatch: Any
) -> None:
    """Also if SSM goes on to show the command as running, as it does on AWS."""
    monkeypatch.setattr("pytest_cloudbench.aws.ssm._ALIVE_S", 0.5)
    monkeypatch.setattr("pytest_cloudbench.aws.ssm._REAPPEARS_S", 0.1)
    instance = ec2.launch("m5.large")
    host = instance.host
    running = {"Status": "InProgress", "StatusDetails": "InProgress", "ResponseCode": -1}

    def never_ended(parsed: dict[str, Any], **_: Any) -> None:
        parsed.update(running)

    cloud.clients.client("ssm").meta.events.register("after-call.ssm.GetCommandInvocation", never_ended)
    ending = threading.Timer(0.5, cloud.stop, (instance.launched,))
    ending.start()
    with pytest.raises(ConnectionDropped, match="went away while a command ran"):
        host.run(["sleep", "60"])
    ending.join()


def test_an_existing_instance_is_reached_and_nothing_is_created(
    ec2: Ec2, clouds: Callable[..., Cloud]
) -> None:
    instance = ec2.launch("m5.large")
    other = clouds(profile=None)
    with contextlib.closing(Ec2(other, test_name="existing")) as factory:
        assert factory.existing(instance.id).run(["id", "-un"]).stdout == "ec2-user\n"
    assert not other.journal.intentions


def test_a_command_that_others_cancel_is_neither_a_result_nor_run_again(ec2: Ec2, cloud: Cloud) -> None:
    instance = ec2.launch("m5.large")
    api = cloud.clients.client("ssm")

    def cancel() -> None:
        _until(lambda: [each for each in _commands(cloud) if each["Status"] == "InProgress"])
        for each in _commands(cloud):
            if each["Status"] == "InProgress":
                api.cancel_command(CommandId=each["CommandId"])

    host = instance.host
    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(ConnectionDropped, match="Cancelled"):
        host.run(["sleep", "60"])
    canceller.join()


def test_long_output_comes_through_the_bucket_and_is_deleted_there(clouds: Callable[..., Cloud]) -> None:
    cloud = clouds(ssm_bucket=BUCKET)
    objects = cloud.clients.client("s3")
    objects.create_bucket(Bucket=BUCKET)
    with contextlib.closing(Ec2(cloud, test_name="bucket")) as ec2:
        host = ec2.launch("m5.large").host
        stored: list[str] = []
        objects.meta.events.register(
            "provide-client-params.s3.GetObject", lambda params, **_: stored.append(params["Key"])
        )
        sent = len(_commands(cloud))
        assert host.run(["cat"], stdin=NOISE).stdout_bytes == NOISE
        assert len(_commands(cloud)) - sent <= 5, "the input, the command, the output, and the removal of it"
        assert stored
        assert all(each.startswith(f"cloudbench/{cloud.run_id}/") for each in stored)
        assert objects.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    objects.delete_bucket(Bucket=BUCKET)


def test_fio_on_a_file_system_and_on_a_stripe(ec2: Ec2, fio: Any) -> None:
    instance = ec2.launch("m5.xlarge")
    volumes = ec2.create_volumes(gp3(size_gib=1), instance, count=2)
    job = {"rw": "randread", "bs": "4k", "iodepth": 4, "runtime": 3, "ramp_time": 1}
    on_files = fio(volumes[0].mounted("xfs"), size="32m", rate_iops=300, **job)
    assert 285 < on_files.iops < 315
    assert on_files.counters is not None
    volumes[0].unmount()
    assert 285 < fio(volumes.striped("64k", overwrite=True), rate_iops=300, **job).iops < 315


def test_iperf3_between_two(ec2: Ec2, iperf3: Any) -> None:
    run = iperf3(ec2.pair("m5.large"), duration=3, bitrate="100 Mbit/s")
    assert run.throughput_gbit == pytest.approx(0.1, rel=0.1)


def test_a_reboot_and_a_stop_are_seen(ec2: Ec2) -> None:
    instance = ec2.launch("m5.large")
    instance.run(["touch", "kept"])
    instance.reboot()
    instance.run(["ls", "kept"])
    instance.stop()
    instance.start()
    instance.run(["ls", "kept"])


def test_an_agent_that_is_away_is_an_unreachable_host_with_what_it_needs(ec2: Ec2, cloud: Cloud) -> None:
    instance = ec2.launch("m5.large")
    cloud.stop(instance.launched)
    host = cloud.host(instance.launched, connect_timeout_s=0.5)
    with pytest.raises(HostUnreachable, match=r"was not online within 0\.5 s"):
        host.connect()
    assert "AmazonSSMManagedInstanceCore" in cloud.unreachable_hint(instance.launched)


def test_without_an_instance_profile_nothing_is_created(clouds: Callable[..., Cloud]) -> None:
    cloud = clouds(profile=None)
    with pytest.raises(CloudError, match="--cloudbench-access=ssm needs --cloudbench-instance-profile"):
        cloud.launch("m5.large")
    assert not cloud.journal.intentions


def test_a_bucket_that_the_host_cannot_write_to_is_named(
    clouds: Callable[..., Cloud], monkeypatch: Any
) -> None:
    monkeypatch.setattr("pytest_cloudbench.aws.ssm._STORED_WITHIN_S", 0.2)
    cloud = clouds(ssm_bucket="no-such-bucket")
    with contextlib.closing(Ec2(cloud, test_name="no bucket")) as ec2:
        host = ec2.launch("m5.large").host
        with pytest.raises(HostError, match="no-such-bucket"):
            host.run(["head", "-c", "60000", "/dev/urandom"])


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


def _commands(cloud: Cloud) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloud.clients.client("ssm").list_commands()["Commands"]
    return [each for each in found if cloud.run_id in each["Comment"]]


def _interrupt_soon() -> None:
    threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
