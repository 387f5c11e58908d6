"""The lease of instances: the timer in the instance, its renewal, and what ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import time
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

    def with_systemd(self, works: bool) -> None:
        (self.folder / "systemd" / "system").mkdir(parents=True)
        line = 'echo "$@" > "${0%/*}/unit"; while [ "$1" != /bin/sh ]; do shift; done; setsid "$@" &'
        self._command("systemd-run", line if works else "exit 1")


@pytest.fixture
def instance(tmp_path):
    return Instance(tmp_path)


def test_an_instance_powers_off_when_its_lease_ends(instance):
    began = time.time()
    instance.run(timer_command(1.0))
    instance.wait_until_off()
    assert time.time() - began >= 0.9  # whole seconds of the clock


def test_a_renewed_lease_ends_later(instance):
    instance.run(timer_command(2.0))
    instance.wait_for(instance.folder / "end", 10)
    renewed = time.time()
    instance.run(["sh", "-c", lease._RENEW, "sh", "4"])
    instance.wait_until_off()
    assert time.time() - renewed >= 2.9


@pytest.mark.parametrize("works", [True, False])
def test_the_timer_is_a_service_of_systemd_if_that_runs(instance, works):
    instance.with_systemd(works)
    instance.run(timer_command(1.0))
    instance.wait_until_off()
    assert (instance.folder / "unit").exists() == works


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
