"""A real EC2 endpoint over HTTP for the control plane's tests: moto's server on loopback, one per session."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
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


@pytest.fixture(scope="session")
def endpoint_url() -> Iterator[str]:
    from moto.core.utils import utcnow
    from moto.ec2.models.instances import Instance
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    start = Instance.start

    def start_with_a_new_launch_time(instance: Any) -> Any:
        """Start as EC2 does: moto leaves the LaunchTime of the first launch."""
        before = start(instance)
        if before.name == "stopped":
            instance.launch_time = utcnow()
        return before

    patched = pytest.MonkeyPatch()
    patched.setattr(Instance, "start", start_with_a_new_launch_time)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    # Two of moto's answers written at once now and then end in a 500 ("dictionary changed size during iteration").
    dispatch, one_at_a_time = DomainDispatcherApplication.__call__, threading.Lock()

    def answer(application: Any, environ: Any, start_response: Any) -> Any:
        with one_at_a_time:
            return dispatch(application, environ, start_response)

    patched.setattr(DomainDispatcherApplication, "__call__", answer)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    patched.undo()


@pytest.fixture(scope="session")
def service_of_all_regions() -> Iterator[str]:
    """An endpoint in a process of its own: in this one the embedded region may have left moto one region only."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    serving = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert serving.poll() is None
                assert time.monotonic() < deadline, "moto does not listen within 60 s"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        serving.kill()
        serving.wait()


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
    import boto3

    return boto3.client(
        "ec2",
        endpoint_url=access.endpoint_url,
        region_name=access.region,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
    )


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
