"""SSM Run Command on real instances: what a script sees and returns, its limits, and how it is ended."""

from __future__ import annotations

import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from region_calls import Calls, until

from pytest_cloudbench.twin.hosts.run_command import RunningScript, Script
from pytest_cloudbench.twin.linux import CAP_MKNOD

pytestmark = pytest.mark.embedded
LEFT = "sleep 4321.987"  # a process that a script leaves behind
OPEN = ("Pending", "InProgress", "Delayed", "Cancelling")


class Shell:
    """The instances of a region, and commands on them."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.ssm = calls.client("ssm")
        self.s3 = calls.client("s3")
        self.one, self.other = (
            calls.launch("t3.micro", IamInstanceProfile={"Name": "cloudbench"}, wait=False) for _ in range(2)
        )
        for each in (self.one, self.other):
            calls.wait_state(each, "running")

    def send(self, *commands: str, to: list[str] | None = None, **more: Any) -> str:
        parameters = {"commands": list(commands), **more.pop("parameters", {})}
        sent = self.ssm.send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=to or [self.one], Parameters=parameters, **more
        )
        return sent["Command"]["CommandId"]

    def got(self, command: str, instance: str | None = None) -> dict[str, Any]:
        return self.ssm.get_command_invocation(CommandId=command, InstanceId=instance or self.one)

    def ended(self, command: str, instance: str | None = None) -> dict[str, Any]:
        until(lambda: self.got(command, instance)["Status"] not in OPEN, f"{command} has ended", 30)
        return self.got(command, instance)

    def run(self, *commands: str, **more: Any) -> dict[str, Any]:
        return self.ended(self.send(*commands, **more))

    def start(self, text: str, **more: Any) -> RunningScript:
        """Start a script past the API, with limits that the API does not have."""
        plane = self.calls.front.region().plane
        return plane.instances.run_script(self.one, Script(str(uuid.uuid4()), text, **more), "us-east-1")

    def is_running(self, pattern: str) -> bool:
        """Return True if a program of this command line runs in the instance."""
        return self.run(f"pgrep -xf '{pattern}' || true")["StandardOutputContent"] != ""


@pytest.fixture(scope="module")
def shell(real_calls: Calls) -> Shell:
    return Shell(real_calls)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After the region has ended, which is after this module's other fixtures."""
    yield
    found = subprocess.run(["pgrep", "-xf", LEFT], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_a_script_runs_as_root_in_its_instance(shell: Shell) -> None:
    done = shell.run(
        "id -u; pwd; hostname; echo ${HOME:-none}; echo $AWS_SSM_INSTANCE_ID; umask", "nproc >&2"
    )
    root, directory, hostname, home, instance, umask = done["StandardOutputContent"].split()
    assert (root, directory, home, instance, umask) == ("0", "/usr/bin", "none", shell.one, "0022")
    assert hostname == "ip-" + shell.calls.instance(shell.one)["PrivateIpAddress"].replace(".", "-")
    assert hostname != socket.gethostname()
    assert (done["Status"], done["ResponseCode"]) == ("Success", 0)
    assert done["StandardErrorContent"].strip().isdigit()
    bounds = int(shell.run("sed -n 's/^CapBnd://p' /proc/self/status")["StandardOutputContent"], 16)
    assert bounds & 1 << CAP_MKNOD == 0  # as for every other program of an instance
    seen = shell.run("ls /sys/class/net")["StandardOutputContent"]
    assert "eth0" in seen.split()


def test_the_last_command_decides_and_stderr_has_its_code(shell: Shell) -> None:
    done = shell.run("false", "x=1", "exit $((x + 4))")
    assert (done["Status"], done["ResponseCode"]) == ("Failed", 5)
    assert done["StandardErrorContent"] == "failed to run commands: exit status 5"
    assert shell.run("false", "true")["Status"] == "Success"
    missing = shell.run("no-such-program")
    assert missing["ResponseCode"] == 127
    assert "no-such-program: not found" in missing["StandardErrorContent"]
    bash = shell.run("#!/bin/bash", "a=(1 2)", "echo ${#a[@]} käse")
    assert bash["StandardOutputContent"] == "2 käse\n"
    assert shell.run("pwd", parameters={"workingDirectory": ["/tmp"]})["StandardOutputContent"] == "/tmp\n"
    nowhere = shell.run("pwd", parameters={"workingDirectory": ["/no/where"]})
    assert nowhere["Status"] == "Failed"
    assert "/no/where" in nowhere["StandardErrorContent"]


def test_long_output_is_cut_and_s3_has_all_of_it(shell: Shell) -> None:
    shell.s3.create_bucket(Bucket="long-outputs")
    done = shell.run(
        "i=0; while [ $i -lt 3000 ]; do echo 0123456789; echo error line >&2; i=$((i + 1)); done",
        OutputS3BucketName="long-outputs",
        OutputS3KeyPrefix="some/prefix",
    )
    out, errors = done["StandardOutputContent"], done["StandardErrorContent"]
    assert (len(out), len(errors)) == (24_000, 8_000)
    assert out.endswith("--output truncated--")
    assert errors.endswith("--output truncated--")
    folder = f"some/prefix/{done['CommandId']}/{shell.one}/awsrunShellScript/0.awsrunShellScript/"
    assert done["StandardOutputUrl"] == f"https://s3.us-east-1.amazonaws.com/long-outputs/{folder}stdout"
    whole = {
        name: shell.s3.get_object(Bucket="long-outputs", Key=folder + name)["Body"].read()
        for name in ("stdout", "stderr")
    }
    assert whole == {"stdout": b"0123456789\n" * 3000, "stderr": b"error line\n" * 3000}
    [listed] = shell.ssm.list_command_invocations(CommandId=done["CommandId"], Details=True)[
        "CommandInvocations"
    ]
    short = listed["CommandPlugins"][0]["Output"]
    assert len(short) == 2_500
    assert "---Output truncated---" in short
    silent = shell.run("true", OutputS3BucketName="long-outputs")
    found = shell.s3.list_objects_v2(Bucket="long-outputs", Prefix=silent["CommandId"])
    assert found["KeyCount"] == 0  # nothing was printed


def test_a_time_limit_kills_the_process_group(shell: Shell) -> None:
    end = shell.start("echo before; sleep 777 & sleep 777", timeout_s=0.5).wait()
    with end.stdout, end.stderr:
        assert (end.ending, end.code) == ("timed out", 137)
        assert end.stdout.read() == b"before\n"
    busy = shell.start("while :; do echo y; done", timeout_s=0.3).wait()
    with busy.stdout, busy.stderr:
        assert busy.ending == "timed out"
    until(lambda: not shell.is_running("sleep 777"), "the sleepers have ended")


def test_the_shortest_execution_timeout(shell: Shell) -> None:
    done = shell.run("sleep 778", parameters={"executionTimeout": ["5"]})
    assert (done["Status"], done["StatusDetails"], done["ResponseCode"]) == (
        "TimedOut", "ExecutionTimedOut", 137,
    )  # fmt: skip
    assert done["ExecutionElapsedTime"].startswith("PT5")


def test_cancelling_kills_the_process_group(shell: Shell) -> None:
    command = shell.send("echo started; sleep 779")
    until(lambda: shell.is_running("sleep 779"), "the script runs")
    shell.ssm.cancel_command(CommandId=command)
    done = shell.ended(command)
    assert (done["Status"], done["ResponseCode"], done["StandardOutputContent"]) == ("Cancelled", 137, "")
    until(lambda: not shell.is_running("sleep 779"), "the sleeper has ended")


def test_detached_processes_outlive_their_command(shell: Shell) -> None:
    """As on AWS: a command ends when nothing has its output open, and only its process group is ever killed."""
    assert shell.run(f"setsid {LEFT} >/dev/null 2>&1 </dev/null &")["Status"] == "Success"
    assert shell.is_running(LEFT)
    holding = shell.send("sleep 0.5 &", "echo the shell has ended")
    assert shell.got(holding)["Status"] in ("Pending", "InProgress")
    assert shell.ended(holding)["ExecutionElapsedTime"] >= "PT0.5"


def test_two_instances_run_a_command_at_once(shell: Shell) -> None:
    """Each waits for the other's message over the network, so one after the other would never end."""
    address = {each: shell.calls.instance(each)["PrivateIpAddress"] for each in (shell.one, shell.other)}
    script = (
        f"peer={address[shell.one]}; [ $AWS_SSM_INSTANCE_ID = {shell.one} ] && peer={address[shell.other]}",
        "python3 - $peer <<'END'",
        "import socket, sys",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7001)); s.settimeout(0.1)",
        "for _ in range(100):",
        "    s.sendto(b'here', (sys.argv[1], 7001))",
        "    try: s.recv(9); s.sendto(b'here', (sys.argv[1], 7001)); sys.exit(0)",
        "    except TimeoutError: pass",
        "    except OSError: pass",
        "sys.exit(1)",
        "END",
    )
    command = shell.send(*script, to=[shell.one, shell.other])
    assert [shell.ended(command, each)["StatusDetails"] for each in (shell.one, shell.other)] == [
        "Success"
    ] * 2


def test_many_commands_at_a_time(shell: Shell) -> None:
    sent = [shell.send(f"echo {number}; exit {number}") for number in range(12)]
    assert [shell.ended(command)["ResponseCode"] for command in sent] == list(range(12))


def test_the_end_of_an_instance_ends_its_commands(shell: Shell) -> None:
    calls = shell.calls
    command = shell.send("sleep 780", to=[shell.other])
    sleeps = ["pgrep", "-xf", "sleep 780"]
    until(
        lambda: subprocess.run(sleeps, stdout=subprocess.DEVNULL, check=False).returncode == 0,
        "the script runs",
    )
    calls.ec2.stop_instances(InstanceIds=[shell.other])
    done = shell.ended(command, shell.other)
    assert (done["Status"], done["ResponseCode"]) == ("Failed", -1)
    assert "signal: " in done["StandardErrorContent"]
    calls.wait_state(shell.other, "stopped")
    with pytest.raises(ClientError, match="InvalidInstanceId"):
        shell.send("true", to=[shell.other])
    information = shell.ssm.describe_instance_information()["InstanceInformationList"]
    assert {each["InstanceId"]: each["PingStatus"] for each in information} == {
        shell.one: "Online", shell.other: "ConnectionLost",
    }  # fmt: skip
    calls.ec2.start_instances(InstanceIds=[shell.other])
    calls.wait_state(shell.other, "running")
    assert shell.ended(shell.send("true", to=[shell.other]), shell.other)["Status"] == "Success"
    command = shell.send("sleep 781", to=[shell.other])
    until(lambda: shell.got(command, shell.other)["Status"] == "InProgress", "the script runs")
    calls.ec2.terminate_instances(InstanceIds=[shell.other])
    assert shell.ended(command, shell.other)["Status"] == "Failed"
    calls.wait_state(shell.other, "terminated")
    with pytest.raises(ClientError, match="InvalidInstanceId"):
        shell.send("true", to=[shell.other])


def test_cancel_and_end_at_the_same_moment(shell: Shell) -> None:
    for _ in range(5):
        running = shell.start("true")
        threads = [threading.Thread(target=running.cancel) for _ in range(4)]
        for thread in threads:
            thread.start()
        end = running.wait()
        end.stdout.close()
        end.stderr.close()
        running.cancel()
        for thread in threads:
            thread.join()
        assert end.ending in ("exited", "cancelled")
