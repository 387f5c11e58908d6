"""What is particular to a host over SSM: the limits of its outputs, and scripts that could run twice."""

from __future__ import annotations

import base64
import getpass
import gzip
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_agent import DOCUMENT_BYTES, LocalAgent, each_way

from pytest_cloudbench.hosts.errors import ConnectionDropped, HostUnreachable, LoginRefused
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.hosts.ssm import Frame, Written, unpacked

NOISE = os.urandom(150_000)
"""It cannot be compressed, so its frame is far longer than what SSM returns."""


@pytest.fixture(autouse=True)
def _nothing_is_left(agent: LocalAgent) -> Iterator[None]:
    yield
    agent.finish()
    for directory in {
        found for each in agent.sent for found in re.findall(r"/var/tmp/cloudbench-ssm-\w{32}", each)
    }:
        assert list(Path("/var/tmp").glob(f"{Path(directory).name}*")) == []


@pytest.mark.parametrize(("bucket", "commands"), [("", 15), ("results", 7)])
def test_long_input_and_output_are_carried_whole(agent: LocalAgent, bucket: str, commands: int) -> None:
    """200,000 characters: five parts and the command, and then one that stores the output or nine pieces of it."""
    agent.bucket = bucket
    assert agent.connect().run(["cat"], stdin=NOISE).stdout_bytes == NOISE
    assert max(len(each) for each in agent.sent) < DOCUMENT_BYTES
    assert (len(agent.sent), len(agent.stored)) == (commands, 1 if bucket else 0)


def test_short_output_needs_one_command_and_no_bucket(agent: LocalAgent) -> None:
    agent.bucket = "results"
    assert agent.connect().run(["seq", "5000"]).stdout.endswith("\n5000\n")
    assert (len(agent.sent), agent.stored) == (1, [])


@each_way
def test_the_home_and_the_environment_of_a_command_are_those_of_its_user(host: ShellHost) -> None:
    said = host.run(["sh", "-c", 'pwd; echo "$HOME $USER $LOGNAME $AGENT"; umask; id -un']).stdout.split()
    home, user = os.path.expanduser("~"), getpass.getuser()
    assert said == [home, home, user, user, "0022", user]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_commands_run_as_the_login_user_and_with_sudo_as_root(agent: LocalAgent) -> None:
    host = agent.connect(user="nobody")
    asked = ["sh", "-c", "id -un; id -Gn; cat"]
    assert host.run(asked, stdin=b"text").stdout == "nobody\nnogroup\ntext"
    assert host.run(["id", "-un"], sudo=True).stdout == "root\n"


def test_a_login_user_that_does_not_exist_is_refused(agent: LocalAgent) -> None:
    with pytest.raises(LoginRefused, match="--cloudbench-user"):
        agent.connect(user="no-such-user").run(["true"])


def test_a_command_runs_once_although_the_agent_repeats_its_script(agent: LocalAgent, tmp_path: Path) -> None:
    """As it does after a restart of the host in the middle of the script."""
    agent.repeated = True
    count = tmp_path / "count"
    # A command with an output too long to be returned at once leaves its directory until that was read.
    noisy = f"echo run >> {count}; head -c 50000 /dev/urandom"
    with pytest.raises(ConnectionDropped, match="not run again"):
        agent.connect().run(["sh", "-c", noisy])
    assert count.read_text() == "run\n"


def test_a_command_is_not_repeated_unless_it_is_idempotent(agent: LocalAgent, tmp_path: Path) -> None:
    count = tmp_path / "count"
    argv = ["sh", "-c", f"echo run >> {count}"]
    agent.lost = 1
    with pytest.raises(ConnectionDropped):
        agent.connect().run(argv)
    assert count.read_text() == "run\n"
    agent.lost = 1
    agent.connect().run(argv, idempotent=True)
    assert count.read_text() == "run\n" * 3


def test_a_truncated_output_is_an_error_and_never_a_result(
    agent: LocalAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local_agent.STDOUT_CHARS", 5_000)
    with pytest.raises(ConnectionDropped, match="came damaged"):
        agent.connect().run(["head", "-c", "10000", "/dev/urandom"])


def test_a_script_without_a_result_is_reported_with_its_errors(
    agent: LocalAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "run", lambda *_, **more: Written("", "sh: not found\n"))
    with pytest.raises(ConnectionDropped, match="sh: not found"):
        agent.connect().run(["true"])


def test_a_closed_host_and_one_whose_agent_is_away_are_unreachable(agent: LocalAgent) -> None:
    host = agent.connect()
    host.close()
    with pytest.raises(HostUnreachable, match="was closed"):
        host.run(["true"])
    agent.online = False
    with pytest.raises(HostUnreachable, match="not online"):
        agent.connect().run(["true"])


def test_a_host_that_boots_may_take_longer_than_one_that_has_answered(agent: LocalAgent) -> None:
    host = agent.connect(connect_timeout_s=300.0, reconnect_timeout_s=60.0)
    for _ in range(2):
        host.run(["true"])
    host.expect_reboot()
    host.run(["true"])
    assert agent.reach_s == [300, 60, 300]


@given(st.binary(max_size=200), st.binary(max_size=200), st.data())
def test_a_frame_is_unpacked_exactly_or_refused(stdout: bytes, stderr: bytes, data: st.DataObject) -> None:
    text = base64.b64encode(gzip.compress(stdout + stderr)).decode()
    frame = Frame(0, len(stdout), len(stderr), len(text), hashlib.sha256(text.encode()).hexdigest())
    assert unpacked(frame, text, "it") == (stdout, stderr)
    changed = data.draw(st.text(alphabet="AB+/=", max_size=60) | st.just(text[:-1]) | st.just(text + "A"))
    if changed != text:
        with pytest.raises(ConnectionDropped):
            unpacked(frame, changed, "it")
