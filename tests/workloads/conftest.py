from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The local sshd lives with the tests of the hosts room.
sys.path.insert(0, str(Path(__file__).parent.parent / "hosts"))

from host_targets import HostTarget
from local_sshd import LocalSshd

from pytest_cloudbench.hosts.ssh import SshHost


@pytest.fixture(scope="session")
def fio_path() -> str:
    path = shutil.which("fio")
    if path is None:
        pytest.skip("fio is not installed on this machine")
    return path


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSshd]:
    with LocalSshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def host(sshd: LocalSshd, fio_path: str) -> Iterator[SshHost]:
    with sshd.connect() as connection:
        yield connection


@pytest.fixture
def directory(host: SshHost, tmp_path: Path) -> HostTarget:
    """A directory of the test as a target; its files go with it."""
    return HostTarget(host, "directory", (str(tmp_path),))
