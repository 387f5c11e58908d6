"""Hardware of the next tests is launched ahead, that of a failed test stays, and nothing else does."""

import os
import shlex
import subprocess
import sys

import pytest
from service_clients import client_of

pytestmark = pytest.mark.embedded

BODY = """
import pytest

AHEAD = "cloudbench:ahead"

@pytest.mark.ec2_instance("m5.large")
def test_first(ec2_instance):
    assert AHEAD not in ec2_instance.launched.tags

@pytest.mark.ec2_instance("c5.large")
def test_bad(ec2_instance):
    assert AHEAD in ec2_instance.launched.tags
    ec2_instance.run(["touch", "/tmp/seen"])
    assert not "bad"

@pytest.mark.ec2_instance("r5.large")
def test_never(ec2_instance):
    pass
"""


def test_a_failed_test_keeps_its_instance_and_what_was_launched_ahead_goes(request, tmp_path):
    access = request.getfixturevalue("_cloudbench_access")
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": access.endpoint_url,
        "AWS_DEFAULT_REGION": access.region,
        "AWS_ACCESS_KEY_ID": access.access_key,
        "AWS_SECRET_ACCESS_KEY": access.secret_key,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def run(*command):
        return subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=120, check=False
        )

    def session(*options):
        return run(
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", *options
        )

    (tmp_path / "test_it.py").write_text(BODY)
    ended = session(
        "-x",
        "--cloudbench-cloud=aws",
        f"--cloudbench-ssh-from={access.ssh_from_cidr}",
        "--cloudbench-ahead=2",
        "--cloudbench-keep-failed",
        "--cloudbench-evidence=kept",
    )
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    said = dict(line.strip().split(": ", 1) for line in ended.stdout.splitlines() if ": " in line)
    words = shlex.split(said["remove"])
    run_id = words[words.index("--run") + 1]

    ec2 = client_of(access)

    def launched():
        mine = [{"Name": "tag:cloudbench:run", "Values": [run_id]}]
        reservations = ec2.describe_instances(Filters=mine)["Reservations"]
        return {
            each["InstanceType"]: each["State"]["Name"]
            for reservation in reservations
            for each in reservation["Instances"]
        }

    assert launched() == {"m5.large": "terminated", "c5.large": "running", "r5.large": "terminated"}
    login = run(*shlex.split(said["log in"]), "ls", "/tmp/seen")
    assert login.stdout == "/tmp/seen\n", login.stderr
    assert "an hour" in ended.stdout

    reaped = run(sys.executable, "-m", "pytest_cloudbench.cli", *words[1:], "--yes")
    assert reaped.returncode == 0, reaped.stderr
    assert launched()["c5.large"] == "terminated"
    assert not list((tmp_path / "state").rglob("key"))

    assert any('"keep"' in each.read_text() for each in (tmp_path / "kept").rglob("*.jsonl"))
    replayed = session("--cloudbench-replay=kept", "-x")
    assert "1 failed, 1 passed" in replayed.stdout, replayed.stdout + replayed.stderr
