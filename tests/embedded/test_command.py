"""The `cloudbench` command on this machine: a region that is kept, used by any client and by pytest, and ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from inner_runs import HEAD, start_pytest, wait_until

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

USES_THE_KEPT_REGION = """
    import pytest

    @pytest.mark.ec2_instance("t3.micro")
    def test_it(ec2_instance, _cloudbench_access):
        print("endpoint", _cloudbench_access.endpoint_url)
"""

OUTLIVES_ITS_LEASE = f"""{HEAD}
import time

def test_it(ebs_volume):
    ebs_volume.instance.run(["sleep", "6.5"])
    pathlib.Path("renewed").touch()
    time.sleep(600)
"""


def cloudbench(*arguments, env=None):
    command = [sys.executable, "-m", "pytest_cloudbench.cli", *arguments]
    env = {**os.environ, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=env)


def environment_in(printed):
    return dict(re.findall(r"^export (\w+)=(\S+)$", printed, re.MULTILINE))


@pytest.fixture(scope="module")
def kept():
    """The environment of a region that is kept for these tests."""
    up = cloudbench("twin", "up")
    assert up.returncode == 0, up.stderr
    environment = environment_in(up.stdout)
    yield environment
    down = cloudbench("twin", "down", env=environment)
    assert down.returncode == 0, down.stderr


@pytest.fixture
def in_its_environment(kept, monkeypatch):
    for name, value in kept.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def client(kept):
    """A client of the kept region, as any tool makes one."""
    import boto3

    return boto3.client(
        "ec2",
        endpoint_url=kept["AWS_ENDPOINT_URL"],
        region_name=kept["AWS_DEFAULT_REGION"],
        aws_access_key_id=kept["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=kept["AWS_SECRET_ACCESS_KEY"],
    )


# Before the tests that keep another region.
def test_a_region_kept_with_compressed_time_is_used_by_whoever_asks_for_the_same(pytester, monkeypatch):
    up = cloudbench("twin", "up", "--time", "60")
    assert up.returncode == 0, up.stderr
    for name, value in environment_in(up.stdout).items():
        monkeypatch.setenv(name, value)
    try:
        assert "pytest --cloudbench-twin-time=60" in up.stdout
        assert "time compressed 60 times" in cloudbench("twin", "status").stdout
        assert cloudbench("twin", "up").stdout.startswith("# the region was already up")
        refused = cloudbench("twin", "up", "--time", "2")
        assert refused.returncode == 3
        assert "runs with a factor of time of 60, not 2" in refused.stderr
        pytester.makepyfile(USES_THE_KEPT_REGION)
        result = pytester.runpytest_subprocess("-s")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["RegionUnavailable: *runs with a factor of time of 60, not 1*"])
        result = pytester.runpytest_subprocess("-s", "--cloudbench-twin-time=60")
        result.assert_outcomes(passed=1)
        [endpoint] = re.findall(r"AWS_ENDPOINT_URL=(\S+)", up.stdout)
        result.stdout.fnmatch_lines([f"*endpoint {endpoint}"])
    finally:
        down = cloudbench("twin", "down")
    assert down.returncode == 0, down.stderr


@pytest.mark.usefixtures("in_its_environment")
def test_after_kill_9_nothing_costs_money_one_lease_later(client, tmp_path):
    process = start_pytest(tmp_path, OUTLIVES_ITS_LEASE, "--cloudbench-lease=5s")
    wait_until(lambda: (tmp_path / "renewed").exists() or process.poll() is not None, "the end of a lease")
    assert process.poll() is None, process.communicate()[0]

    def instances():
        found = [one for each in client.describe_instances()["Reservations"] for one in each["Instances"]]
        return [one for one in found if one["State"]["Name"] != "terminated"]

    [instance] = instances()
    assert len(client.describe_volumes()["Volumes"]) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not instances() and not client.describe_volumes()["Volumes"], "the end of all")
    [ended] = client.describe_instances(InstanceIds=[instance["InstanceId"]])["Reservations"][0]["Instances"]
    assert ended["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"


@pytest.mark.usefixtures("in_its_environment")
def test_any_client_talks_to_a_kept_region_and_pytest_uses_it(kept, client, pytester):
    volume = client.create_volume(Size=1, VolumeType="gp3", AvailabilityZone="us-east-1a")["VolumeId"]
    assert client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Iops"] == 3_000
    pytester.makepyfile(USES_THE_KEPT_REGION)
    result = pytester.runpytest_subprocess("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*endpoint {kept['AWS_ENDPOINT_URL']}"])
    assert client.describe_volumes(VolumeIds=[volume])["Volumes"], "the run must leave what is not its own"
    client.delete_volume(VolumeId=volume)
    up_again = cloudbench("twin", "up")
    assert up_again.stdout.startswith("# the region was already up")
    assert "kept" in cloudbench("twin", "status").stdout
    slot = re.search(r"slot (\d+)", up_again.stdout)[1]
    assert environment_in(cloudbench("twin", "env", slot).stdout) == kept


def test_down_ends_no_region_that_the_environment_does_not_name(kept):
    down = cloudbench("twin", "down")
    assert down.returncode == 1
    assert re.search(r"slot \d+: still up.*cloudbench twin down \d+", down.stderr)
    assert environment_in(cloudbench("twin", "up", env=kept).stdout) == kept


def test_the_doctor_lists_what_this_machine_can_do():
    asked = cloudbench("twin", "doctor", "--json")
    assert asked.returncode == 0, asked.stdout
    checks = json.loads(asked.stdout)
    text = json.dumps(checks)
    for what in ("loop", "fuse", "namespace", "fio", "sshd", "memory"):
        assert what in text.lower(), what
    spoken = cloudbench("twin", "doctor")
    assert spoken.returncode == 0
    assert "fio" in spoken.stdout
