"""A real EC2 endpoint over HTTP for the control plane's tests: moto's server on loopback, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from service_clients import client_of
from service_faults import Faults

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.resources.facts import Answer

FAST = Bounds(
    running_s=10,
    stopped_s=10,
    terminated_s=10,
    bare_metal_s=10,
    volume_s=10,
    group_s=5,
    address_s=0.5,
    settle_s=0.5,
)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve moto from a process of its own: in this one an embedded region's API may have taken its images."""
    command = [sys.executable, Path(__file__).with_name("moto_endpoint.py")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MOTO_")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), "moto does not start"
        yield url
        # Leaving closes its input, which ends it.


@pytest.fixture(scope="session")
def _service() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def endpoint_url(_service: str) -> Iterator[str]:
    """Each module finds the service as new: moto keeps all that was terminated, and answers ever more slowly."""
    yield _service
    request = urllib.request.Request(f"{_service}/moto-api/reset", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


@pytest.fixture(scope="session")
def service_of_all_regions() -> Iterator[str]:
    """An endpoint in whose regions no other test leaves anything."""
    with served() as url:
        yield url


@pytest.fixture
def access(endpoint_url: str) -> CloudAccess:
    return CloudAccess(
        endpoint_url=endpoint_url,
        region="us-east-1",
        access_key="AKIAEXAMPLE",
        secret_key="the-secret-access-key",
        ssh_from_cidr="203.0.113.7/32",
    )


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def heard() -> list[Answer]:
    """Every answer to the clouds of this test."""
    return []


@pytest.fixture
def make_cloud(access: CloudAccess, journals: Path, heard: list[Answer]) -> Iterator[Callable[..., Cloud]]:
    made: list[Cloud] = []

    def make(using: CloudAccess = access, bounds: Bounds = FAST) -> Cloud:
        run_id = new_run_id()
        cloud = Cloud(using, run_id, Journal.open(run_id, using, journals), bounds=bounds)
        cloud.listen(heard.append)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        cloud.close()


@pytest.fixture
def cloud(make_cloud: Callable[..., Cloud]) -> Cloud:
    return make_cloud()


@pytest.fixture
def ec2(access: CloudAccess) -> Any:
    """A client of its own, to look at the region from outside."""
    return client_of(access)


@pytest.fixture
def faults_of() -> Callable[[Cloud], Faults]:
    return Faults


@pytest.fixture
def faults(cloud: Cloud) -> Faults:
    return Faults(cloud)


@pytest.fixture
def asked_of(heard: list[Answer]) -> Callable[[Cloud, str], list[dict[str, Any]]]:
    """The parameters of every call of an operation that was not refused."""

    def asked(_cloud: Cloud, operation: str) -> list[dict[str, Any]]:
        return [
            dict(each.asked) for each in heard if each.operation == operation and "Error" not in each.answer
        ]

    return asked
