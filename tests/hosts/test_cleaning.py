"""What a test started on a host is ended after it, and nothing else."""

import os
import subprocess
import time

import pytest

from pytest_cloudbench.hosts.cleaning import clean
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.shell_host import ShellHost

MARK = f"CLOUDBENCH_TEST=of-the-tests-{os.getpid()}"


class ThisMachine(ShellHost):
    def execute(self, command):
        ended = subprocess.run(["sh", "-c", command.line], check=False, capture_output=True, timeout=30)
        return command.result(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def host():
    return ThisMachine("this machine")


def start(host, *script):
    """Start a process in the background, which outlives its command, and return its id."""
    text = "; ".join(script)
    away = f"setsid sh -c '{text}' >/dev/null 2>&1 </dev/null & echo $!"
    return int(host.run(["sh", "-c", away]).stdout)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_marked_processes_end_and_others_stay(host):
    other = start(host, "sleep 60")
    host.mark = MARK
    marked = [start(host, "sleep 60"), start(host, "trap : TERM", "while :; do sleep 0.1; done")]
    try:
        clean(host, MARK, ours=False)
        assert [lives(each) for each in marked] == [False, False], "the second needs SIGKILL"
        assert lives(other)
        assert host.mark == MARK
    finally:
        os.kill(other, 9)


def test_a_host_without_anything_marked_is_clean_at_once(host):
    began = time.monotonic()
    clean(host, MARK, ours=False)
    assert time.monotonic() - began < 10


def test_a_failure_is_told(host):
    host.execute = lambda command: command.result(1, b"", b"processes survive SIGKILL: 12\n")
    with pytest.raises(HostError, match="processes survive SIGKILL: 12"):
        clean(host, MARK, ours=False)
