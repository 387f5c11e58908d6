from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.ssh import SshHost


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    with LocalSshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def host(sshd: LocalSshd) -> Iterator[SshHost]:
    with sshd.connect() as connection:
        yield connection
