from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.connection import HostConnection


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    with LocalSshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def host(sshd: LocalSshd) -> Iterator[HostConnection]:
    with sshd.connect() as connection:
        yield connection
