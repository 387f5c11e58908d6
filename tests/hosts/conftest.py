from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_sshd import LocalSshd, find_sshd

from pytest_cloudbench.hosts.connection import HostConnection


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    find_sshd()
    server = LocalSshd.prepare(tmp_path_factory.mktemp("sshd"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def host(sshd: LocalSshd) -> Iterator[HostConnection]:
    with sshd.connect() as connection:
        yield connection
