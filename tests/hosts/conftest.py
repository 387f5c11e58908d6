from __future__ import annotations

from collections.abc import Iterator

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
    """This machine as a host by SSH, or as `local_agent.each_way` says."""
    if getattr(request, "param", "ssh") == "ssm":
        yield request.getfixturevalue("agent").connect()
        return
    with request.getfixturevalue("sshd").connect() as connection:
        yield connection
