"""The lease of instances: the timer in the instance, its renewal, and what ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.aws import lease
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.lease import LEASE_TAG, lease_end, timer_command
from pytest_cloudbench.aws.user_data import LARGEST_BYTES, cloud_config, new_ssh_key
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.hosts.errors import HostUnreachable
from pytest_cloudbench.limits.volumes import gp3
from pytest_cloudbench.options import parse_lease
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Launch


@given(st.floats(5, 7 * 86_400))
def test_a_lease_in_range_is_read_in_seconds(seconds):
    assert parse_lease(f"{seconds:.0f}s") == pytest.approx(seconds, abs=0.5)


@pytest.mark.parametrize("text", ["0.5s", "4s", "200h", "-1h", "1", "90", "1,5h", "soon", ""])
def test_a_lease_out_of_range_or_without_a_unit_is_refused(text):
    with pytest.raises(ValueError, match=r"lease|duration|unit"):
        parse_lease(text)


def test_every_boot_begins_a_lease():
    text = cloud_config(new_ssh_key(), ["touch /tmp/x"], lease_s=90.2)
    config = json.loads(text.partition("\n")[2])
    assert config["bootcmd"] == [timer_command(90.2)]
    assert config["bootcmd"][0][-1] == "91"
    assert len(text) < LARGEST_BYTES / 4  # the rest is for the test's commands


class Instance:
    """The timer of an instance as processes of this machine, without systemd; ``poweroff`` writes a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.off = folder / "off"
        self._command("poweroff", f"echo > {self.off}")

    def _command(self, name: str, line: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.folder / name).chmod(0o755)

    def run(self, argv: list[str]) -> None:
        here = [
            word.replace(lease._END, str(self.folder / "end")).replace(
                "/run/systemd", f"{self.folder}/systemd"
            )
            for word in argv
        ]
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        subprocess.run(here, check=True, env=environment, timeout=10)

    def wait_until_off(self, limit_s: float = 20.0) -> None:
        self.wait_for(self.off, limit_s)

    @staticmethod
    def wait_for(file: Path, limit_s: float) -> None:
        began = time.monotonic()
        while not file.exists():
            assert time.monotonic() - began < limit_s, f"no {file.name} after {limit_s:g} s"
            time.sleep(0.02)

    def timers(self) -> list[int]:
        """The ids of the processes that run the timer."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (each / "cmdline").read_bytes().split(b"\0")
                if str(self.folder / "end.timer").encode() in words and words[0].endswith(b"sh"):
                    found.append(int(each.name))
        return found

    def end(self) -> None:
        for each in self.timers():
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)

    def with_systemd(self, works: bool) -> None:
        (self.folder / "systemd" / "system").mkdir(parents=True)
        line = 'echo "$@" > "${0%/*}/unit"; while [ "$1" != /bin/sh ]; do shift; done; setsid "$@" &'
        self._command("systemd-run", line if works else "exit 1")


@pytest.fixture
def instance(tmp_path):
    instance = Instance(tmp_path)
    yield instance
    instance.end()


def test_an_instance_powers_off_when_its_lease_ends(instance):
    began = time.monotonic()
    instance.run(timer_command(2.0))
    instance.wait_until_off()
    assert time.monotonic() - began >= 0.9  # whole seconds of the uptime


def test_a_renewed_lease_ends_later(instance):
    instance.run(timer_command(2.0))
    instance.wait_for(instance.folder / "end", 10)
    renewed = time.time()
    instance.run(lease.renewal_command(4))
    instance.wait_until_off()
    assert time.time() - renewed >= 2.9


def test_a_clock_that_steps_forward_ends_no_lease(instance):
    instance._command("date", "echo 9999999999")
    began = time.monotonic()
    instance.run(timer_command(3.0))
    instance.wait_until_off()
    assert time.monotonic() - began >= 1.9  # whole seconds of the uptime


def test_a_renewal_starts_a_timer_that_does_not_run(instance):
    instance.run(lease.renewal_command(3600))
    [first] = instance.timers()
    instance.run(lease.renewal_command(3600))
    assert instance.timers() == [first]
    os.kill(first, signal.SIGKILL)
    while instance.timers():
        time.sleep(0.02)
    instance.run(lease.renewal_command(3600))
    [second] = instance.timers()
    assert second != first


def test_a_renewal_fails_if_no_timer_can_be_started(instance):
    instance._command("setsid", "exit 1")
    instance._command("sleep", ":")
    with pytest.raises(subprocess.CalledProcessError):
        instance.run(lease.renewal_command(3600))


def test_a_refused_shutdown_is_repeated_and_then_forced(instance):
    """Forced without a sync, which never ends if a disk does not answer."""
    instance._command("poweroff", f'echo "$@" >>{instance.off}; [ "$1" = -f ] && exec kill -9 $PPID; exit 1')
    instance._command("sleep", '[ "$1" -gt 2 ] || exec /bin/sleep "$1"')
    instance.run(timer_command(1.0))
    deadline = time.monotonic() + 20
    while not (instance.off.exists() and instance.off.read_text() == "\n\n\n-f -n\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("works", [True, False])
def test_the_timer_is_a_service_of_systemd_if_that_runs(instance, works):
    instance.with_systemd(works)
    instance.run(timer_command(1.0))
    instance.wait_until_off()
    assert (instance.folder / "unit").exists() == works


def test_the_timer_depends_on_neither_the_end_of_the_boot_nor_a_shutdown(instance):
    """By default systemd starts a service after sysinit.target and basic.target, and stops it at a shutdown."""
    instance.with_systemd(works=True)
    instance.run(timer_command(3600))
    unit = (instance.folder / "unit").read_text().split()
    assert {"--no-block", "--property=DefaultDependencies=no", "--property=IgnoreOnIsolate=yes"} <= {*unit}


def test_the_tag_is_a_time_in_utc():
    end = datetime.fromisoformat(lease_end(3600))
    assert end.utcoffset() == timedelta(0)
    assert abs((end - datetime.now(timezone.utc)).total_seconds() - 3600) < 5
    assert LEASE_TAG == "cloudbench:lease-until"


class Host:
    """A host that only counts the commands on it."""

    def __init__(self, seen: list[str], label: str) -> None:
        self.seen, self.label = seen, label

    def run(self, argv, **_):
        if self.label in self.seen[:1]:
            raise HostUnreachable("no answer")
        self.seen.append(f"{self.label} {argv[-1]}")

    def close(self):
        pass


@pytest.fixture
def renewed(cloud, monkeypatch):
    """The renewals on the hosts of this cloud; its leases last an hour."""
    seen = []
    monkeypatch.setattr(cloud.leases, "_open_host", lambda instance: Host(seen, instance.id))
    return seen


def test_an_instance_and_its_volumes_end_with_the_lease(cloud, ec2, asked_of):
    instance = cloud.launch("m5.large")
    volumes = cloud.create_volumes([gp3(size_gib=10)] * 3, instance=instance)
    cloud.attach_all(volumes[:2], instance)
    cloud.attach_all(volumes[2:], instance)
    described = ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    mapped = {each["Ebs"]["VolumeId"]: each["Ebs"] for each in described["BlockDeviceMappings"]}
    assert [mapped[each.id]["DeleteOnTermination"] for each in volumes] == [True] * 3
    assert (
        len(asked_of(cloud, "modify_instance_attribute")) == 2
    )  # one call for all that are attached at once
    end = datetime.fromisoformat(cloud.refresh(instance).tags[LEASE_TAG])
    assert 3500 < (end - datetime.now(timezone.utc)).total_seconds() <= 3600


def test_what_attached_beside_a_failure_ends_with_the_instance_too(cloud, ec2, faults):
    instance = cloud.launch("m5.large")
    volumes = cloud.create_volumes([gp3(size_gib=10)] * 3, instance=instance)
    faults.answer("AttachVolume", "UnauthorizedOperation", times=1)
    with pytest.raises(CloudError) as raised:
        cloud.attach_all(volumes, instance)
    assert raised.value.code == "UnauthorizedOperation"
    described = ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    mapped = {each["Ebs"]["VolumeId"]: each["Ebs"] for each in described["BlockDeviceMappings"]}
    attached = mapped.keys() & {each.id for each in volumes}
    assert len(attached) == 2
    assert all(mapped[each]["DeleteOnTermination"] for each in attached)


def test_a_volume_of_another_run_keeps_what_it_has(cloud, make_cloud, ec2, asked_of):
    instance = cloud.launch("m5.large")
    [theirs] = make_cloud().create_volumes([gp3(size_gib=10)], instance.zone)
    cloud.attach_all([theirs], instance)
    assert asked_of(cloud, "modify_instance_attribute") == []


def test_a_renewal_reaches_tag_and_timer_of_all_that_run(cloud, renewed, ec2):
    first, second, third = cloud.launch_many([Launch("m5.large")] * 3)
    cloud.stop(second)
    cloud.release([third])
    ec2.create_tags(Resources=[first.id, second.id], Tags=[{"Key": LEASE_TAG, "Value": "long ago"}])
    assert cloud.leases.renew()
    assert renewed == [f"{first.id} 3600"]
    assert all(cloud.refresh(each).tags[LEASE_TAG].startswith("20") for each in (first, second))
    cloud.start(second)
    assert cloud.leases.renew()
    assert sorted(renewed[1:]) == sorted(f"{each.id} 3600" for each in (first, second))


def test_a_failed_renewal_is_tried_again(cloud, renewed, faults):
    instance = cloud.launch("m5.large")
    faults.answer("CreateTags", "UnauthorizedOperation")
    assert cloud.leases.renew()  # the tag is for people
    renewed.insert(0, instance.id)  # its host no longer answers
    assert not cloud.leases.renew()


def test_an_instance_that_is_gone_keeps_no_tag_from_the_others(cloud, renewed, ec2):
    first, second = cloud.launch_many([Launch("m5.large")] * 2)
    cloud.leases.hold([replace(second, id="i-0123456789abcdef0")])
    ec2.create_tags(Resources=[first.id], Tags=[{"Key": LEASE_TAG, "Value": "long ago"}])
    cloud.leases.renew()
    assert cloud.refresh(first).tags[LEASE_TAG].startswith("20")


def test_what_a_run_has_without_instances_carries_its_lease_too(cloud, renewed, ec2):
    instance = cloud.launch("m5.large")
    cloud.release([instance])
    cloud.leases.renew()
    mine = [{"Name": "tag:cloudbench:run", "Values": [cloud.run_id]}]
    described = [
        *ec2.describe_key_pairs(Filters=mine)["KeyPairs"],
        *ec2.describe_security_groups(Filters=mine)["SecurityGroups"],
    ]
    tags = [{tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in described]
    assert len(tags) == 2
    for each in tags:
        end = datetime.fromisoformat(each[LEASE_TAG])
        assert 3500 < (end - datetime.now(timezone.utc)).total_seconds() <= 3600


def test_only_a_repeated_failure_is_a_warning(cloud, renewed, caplog):
    instance = cloud.launch("m5.large")
    renewed.insert(0, instance.id)
    for warnings in (0, 1):
        caplog.clear()
        with caplog.at_level("WARNING", "pytest_cloudbench.aws.lease"):
            assert not cloud.leases.renew()
        assert sum(instance.id in each.getMessage() for each in caplog.records) == warnings


def test_an_instance_that_runs_while_its_launch_waits_for_another_is_renewed(
    cloud, renewed, faults, monkeypatch
):
    """The other waits for capacity, a quota or its boot, perhaps longer than a lease."""
    monkeypatch.setattr(lease, "FIRST_RENEWAL_S", 0.1)
    waiting = threading.Event()

    def wait(params, **_):
        if params["InstanceType"] == "m5.xlarge":
            waiting.wait(20)

    faults.on("before-parameter-build", "RunInstances", wait)
    with ThreadPoolExecutor() as pool:
        launches = pool.submit(cloud.launch_many, [Launch("m5.large"), Launch("m5.xlarge")])
        began = time.monotonic()
        while not renewed and not launches.done():
            assert time.monotonic() - began < 15
            time.sleep(0.02)
        first = list(renewed)
        waiting.set()
        assert first[0] == f"{launches.result()[0].id} 3600"


def test_an_instance_that_is_not_shown_yet_delays_no_timer(cloud, renewed, monkeypatch):
    """Describe may not show new instances for five minutes, each."""
    running = cloud.launch("m5.large")
    new = [replace(running, id=f"i-0123456789abcdef{number}", state="pending") for number in range(20)]
    cloud.leases.hold(new)
    timers_set = []

    def refresh(instance):
        began = time.monotonic()
        while not renewed and time.monotonic() - began < 5:
            time.sleep(0.02)
        timers_set.append(len(renewed))
        raise CloudError("there is no such instance")

    monkeypatch.setattr(cloud.leases, "_refresh", refresh)
    cloud.leases.drop([running.id])
    cloud.leases.hold([running])  # after the new ones
    assert cloud.leases.renew()
    assert timers_set == [1] * 20


def test_a_launch_brings_the_next_renewal_forward(cloud, renewed, monkeypatch):
    """Also if a renewal was done just before: the new instance's timer is checked soon."""
    monkeypatch.setattr(lease, "FIRST_RENEWAL_S", 0.2)
    for launches in (1, 2):
        instance = cloud.launch("m5.large")
        began = time.monotonic()
        while f"{instance.id} 3600" not in renewed:
            assert time.monotonic() - began < 20, launches
            time.sleep(0.02)


def test_a_lease_that_a_launch_may_outlast_is_refused_on_aws(access, journals):
    journal = Journal.open("short", access, journals)
    there = replace(access, endpoint_url=None)
    with pytest.raises(CloudError, match=r"300 s.*10m"):
        Cloud(there, "short", journal, lease_s=300)
    Cloud(there, "short", journal, lease_s=600)
    Cloud(access, "short", journal, lease_s=5)
    journal.finish(clean=True)


@given(st.integers(-8000, 8000), st.integers(0, 8000))
def test_a_run_lives_until_its_lease_ends_or_while_it_creates(left_s, age_s):
    now = 1e9
    alive = bool(lease.why_alive([now + left_s, now - 9000], now - age_s, now))
    assert alive == (left_s > 0 or (age_s < 3600 and age_s < -left_s))
    assert bool(lease.why_alive([], now - age_s, now)) == (age_s < 3600)


def test_leases_are_renewed_in_time_and_no_more_after_the_end(access, journals, monkeypatch):
    run_id, seen = new_run_id(), []
    cloud = Cloud(
        access,
        run_id,
        Journal.open(run_id, access, journals),
        bounds=Bounds(terminated_s=10, settle_s=0.5),
        lease_s=0.4,
    )
    monkeypatch.setattr(cloud.leases, "_open_host", lambda instance: Host(seen, instance.id))
    cloud.launch("t3.micro")
    began = time.monotonic()
    while len(seen) < 3:
        assert time.monotonic() - began < 20
        time.sleep(0.02)
    cloud.close()
    cloud.leases._thread.join(10)
    assert not cloud.leases._thread.is_alive()
