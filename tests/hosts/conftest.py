from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_agent import LocalAgent
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.shell_host import ShellHost


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    with LocalSshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def agent() -> Iterator[LocalAgent]:
    model = LocalAgent()
    yield model
    model.finish()


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Iterator[ShellHost]:
    """This machine as a host by SSH, or as `local_agent.each_way` or CLOUDBENCH_TEST_ACCESS says."""
    if getattr(request, "param", os.environ.get("CLOUDBENCH_TEST_ACCESS")) == "ssm":
        yield request.getfixturevalue("agent").connect()
        return
    with request.getfixturevalue("sshd").connect() as connection:
        yield connection


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ~/.ssh of a user who has nothing in it, and no agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    folder = tmp_path / ".ssh"
    folder.mkdir()
    return folder


@pytest.fixture
def ssh_agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An ssh-agent without keys; its socket is in the environment."""
    socket = home / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    while not socket.exists():
        assert process.poll() is None
    yield socket
    process.kill()
    process.wait()
