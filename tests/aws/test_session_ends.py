"""How a session of pytest ends on a region that goes on: closed terminal, signals, Ctrl-C, refused removals."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFTEST = """
import os
from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.clients import Clients
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.fixtures.ending import say
from pytest_cloudbench.resources.errors import CloudError

call = Clients.call
def refusing(self, asked, service, operation, **parameters):
    if operation == os.environ.get("REFUSED"):
        raise CloudError(f"could not {asked}: you may not", code="UnauthorizedOperation")
    return call(self, asked, service, operation, **parameters)
Clients.call = refusing

def pytest_cloudbench_provider_names(config):
    return ["there"]

def pytest_cloudbench_provider(config, name):
    def opened():
        access = CloudAccess(endpoint_url=os.environ["ENDPOINT"], region="us-east-1", access_key="AKIAEXAMPLE",
                             secret_key="s", ssh_from_cidr="203.0.113.7/32")
        run_id = new_run_id()
        return Cloud(access, run_id, Journal.open(run_id, access), notify=lambda text: say(config, text))
    return opened
"""
CREATES = """
import pathlib, time
from pytest_cloudbench import gp3

def test_it(ec2, request):
    cloud = request.getfixturevalue("_cloudbench_cloud")
    instance = cloud.launch("t3.micro")
    [volume] = cloud.create_volumes([gp3(size_gib=7)], instance=instance)
    pathlib.Path("created.new").write_text(f"{instance.id} {volume.id}")
    pathlib.Path("created.new").rename("created")
    time.sleep(float(pathlib.Path("sleep").read_text()))
"""
AGAIN = """
import os, signal
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    os.kill(os.getpid(), signal.SIGHUP)
"""
LIMIT_S = 60


class Session:
    """A session of pytest in a process of its own."""

    def __init__(self, folder: Path, endpoint_url: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "ENDPOINT": endpoint_url,
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTEST_ADDOPTS": "",
        }
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(CREATES)

    def start(self, *options: str, sleep_s: float = 0, prefix: tuple[str, ...] = (), **streams: int) -> None:
        (self.folder / "sleep").write_text(str(sleep_s))
        without = ("cacheprovider", "randomly", "benchmark", "allure_pytest", "hypothesispytest")
        quiet = (*(f"-pno:{plugin}" for plugin in without), "--cloudbench-evidence=off")
        heeds = ("env", "--default-signal=HUP")  # tests that run under nohup ignore it, and so would this
        self.process = subprocess.Popen(
            [*heeds, *prefix, sys.executable, "-m", "pytest", "--cloudbench-cloud=there", *quiet, *options],
            cwd=self.folder,
            env=self.environment,
            text=True,
            **(streams or {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}),
        )

    def created(self) -> list[str]:
        """Wait until the test has its hardware; return the ids."""
        deadline = time.monotonic() + LIMIT_S
        while not (self.folder / "created").exists():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < deadline, "the test created nothing"
            time.sleep(0.02)
        return (self.folder / "created").read_text().split()

    def end(self) -> str:
        return self.process.communicate(timeout=LIMIT_S)[0]

    def journals(self) -> list[Path]:
        return list((self.folder / "state" / "cloudbench" / "journal").iterdir())


@pytest.fixture
def session(tmp_path, endpoint_url):
    started = Session(tmp_path, endpoint_url)
    yield started
    with contextlib.suppress(ProcessLookupError):
        started.process.kill()
    started.process.wait()
    if started.process.stdout:
        started.process.stdout.close()


def living(ec2, ids):
    """Those of these instances and volumes that still exist."""
    reservations = ec2.describe_instances()["Reservations"]
    instances = {
        one["InstanceId"]
        for reservation in reservations
        for one in reservation["Instances"]
        if one["State"]["Name"] != "terminated"
    }
    return (instances | {one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]}) & set(ids)


@pytest.mark.fault("kill", "the terminal is closed", leak=True)
def test_a_closed_terminal_ends_the_run_and_leaves_nothing(session, ec2):
    master, slave = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
    session.start(sleep_s=600, prefix=("setsid", "--ctty"), **streams)
    os.close(slave)
    ids = session.created()
    assert living(ec2, ids) == set(ids)
    os.close(master)  # the kernel sends SIGHUP, and the terminal takes no more output
    assert session.process.wait(LIMIT_S) == 2
    assert living(ec2, ids) == set()
    assert session.journals() == []


@pytest.mark.fault("kill", "a session is interrupted in a test")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_says_what_it_removed(session, ec2, number):
    session.start(sleep_s=600)
    ids = session.created()
    session.process.send_signal(number)
    output = session.end()
    assert session.process.returncode == 2, output
    assert living(ec2, ids) == set()
    assert re.search(r"cloudbench: interrupted; removing the resources of run \S+\n", output)
    [sentence] = re.findall(r"cloudbench: removed .*", output)
    for count in ("1 instance", "volume", "1 security group", "1 key pair", "nothing is left"):
        assert count in sentence


@pytest.mark.fault("kill", "a session is interrupted twice")
def test_a_second_signal_after_the_removal_does_not_cut_the_end_short(session, ec2):
    (session.folder / "again.py").write_text(AGAIN)
    session.start("-p", "again", sleep_s=600)
    ids = session.created()
    session.process.send_signal(signal.SIGHUP)
    output = session.end()
    assert session.process.returncode == 2, output
    assert living(ec2, ids) == set()


def test_nohup_is_respected(session, ec2):
    session.start(sleep_s=1.5, prefix=("nohup",))
    ids = session.created()
    session.process.send_signal(signal.SIGHUP)
    output = session.end()
    assert session.process.returncode == 0, output
    assert living(ec2, ids) == set()


@pytest.mark.parametrize(("option", "code"), [("fail", 1), ("report", 0)])
def test_what_is_left_fails_the_session_in_one_report(session, ec2, option, code):
    session.environment["REFUSED"] = "terminate_instances"
    session.start(f"--cloudbench-leftovers={option}")
    instance, volume = session.created()
    output = session.end()
    assert session.process.returncode == code, output
    assert living(ec2, [instance, volume]) == {instance}, output
    # Where CI is set, pytest repeats the whole error in its summary.
    assert output.partition("short test summary")[0].count("you may not") == 1, output
    assert f"instance {instance} (running, unknown price) still exists" in output
    [journal] = session.journals()
    assert f"cloudbench reap --run {journal.stem} --region us-east-1" in output
    assert "Traceback" not in output
    assert "ExceptionGroup" not in output
    ec2.terminate_instances(InstanceIds=[instance])
