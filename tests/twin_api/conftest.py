"""A front over real HTTP with a plane that only records its calls; nothing in the kernel is tested."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from region_calls import Calls, RecordingPlane

from pytest_cloudbench.aws.access import CloudAccess
from pytest_cloudbench.aws.cloud import Cloud
from pytest_cloudbench.aws.journal import Journal, new_run_id
from pytest_cloudbench.aws.waits import Bounds
from pytest_cloudbench.limits.instances import OVERRIDES
from pytest_cloudbench.limits.weather import parse_weather
from pytest_cloudbench.twin.api.front import Front
from pytest_cloudbench.twin.api.moto_loading import ACCOUNT, REGION, load_moto
from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.regions import sweep_slot
from pytest_cloudbench.twin.slots import take_slot


@contextlib.contextmanager
def moto_restored() -> Iterator[None]:
    """Restore moto afterwards: the front restricts it to one region, and other tests may use it too."""
    variables = {name: os.environ.get(name) for name in ("MOTO_EC2_LOAD_DEFAULT_AMIS", "MOTO_ACCOUNT_ID")}
    session = {
        name: getattr(boto3.Session, name) for name in ("get_available_regions", "get_available_partitions")
    }
    load_moto()
    from moto.ec2 import utils
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
    from moto.ec2.models.instance_types import INSTANCE_TYPES, InstanceTypeBackend
    from moto.ssm.models import ssm_backends

    zones = RegionsAndZonesBackend.zones[REGION]
    added = OVERRIDES.keys() - INSTANCE_TYPES.keys()
    tables = (utils.EC2_RESOURCE_TO_PREFIX, utils.EC2_PREFIX_TO_RESOURCE, utils.filter_dict_attribute_mapping)
    kept = [(table, dict(table)) for table in tables]
    backends = [(known, known[ACCOUNT].pop(REGION, None)) for known in (ec2_backends, ssm_backends)]
    yield
    if objects := sys.modules.get("moto.s3.models"):
        objects.s3_backends[ACCOUNT]["aws"].reset()
    for known, before in backends:
        known[ACCOUNT].pop(REGION, None)
        if before is not None:
            known[ACCOUNT][REGION] = before
    RegionsAndZonesBackend.zones[REGION] = zones
    for table, entries in kept:
        table.clear()
        table.update(entries)
    for name in added:
        INSTANCE_TYPES.pop(name, None)
    InstanceTypeBackend.instance_types[:] = [
        one for one in InstanceTypeBackend.instance_types if one["InstanceType"] in INSTANCE_TYPES
    ]
    for name, value in session.items():
        setattr(boto3.Session, name, value)
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture
def moto_left_alone() -> Iterator[None]:
    with moto_restored():
        yield


@pytest.fixture(scope="module")
def real_calls() -> Iterator[Calls]:
    """A region whose plane is real, in this process."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with contextlib.ExitStack() as stack:
        stack.enter_context(moto_restored())
        slot = take_slot(sweep_slot)
        stack.callback(slot.release)
        front = Front()
        front.start()
        plane = Plane(slot)
        stack.callback(plane.close)
        stack.callback(front.close)
        front.open(plane)
        yield Calls(front)


@pytest.fixture(scope="module")
def module_calls() -> Iterator[Calls]:
    """A region that the tests of a module share; its plane is a `RecordingPlane`."""
    with moto_restored():
        front = Front()
        front.start()
        front.open(RecordingPlane())  # type: ignore[arg-type]
        try:
            yield Calls(front)
        finally:
            front.close()


@pytest.fixture
def plane() -> RecordingPlane:
    return RecordingPlane()


@pytest.fixture
def weather() -> str:
    """The weather of the region; tests override it by parametrization."""
    return ""


@pytest.fixture
def calls(plane: RecordingPlane, weather: str, moto_left_alone: None) -> Iterator[Calls]:
    front = Front(parse_weather(weather))
    front.start()
    front.open(plane)  # type: ignore[arg-type]
    try:
        yield Calls(front)
    finally:
        for gate in plane.gates.values():
            gate.set()
        front.close()


@pytest.fixture
def access(calls: Calls) -> CloudAccess:
    return CloudAccess(
        endpoint_url=calls.front.url,
        region=REGION,
        access_key=calls.front.access_key.key_id,
        secret_key=calls.front.access_key.secret,
        ssh_from_cidr="198.18.0.1/32",
    )


@pytest.fixture
def cloud(access: CloudAccess, tmp_path: Path) -> Iterator[Cloud]:
    """A run on the front, whose waits are short."""
    run_id = new_run_id()
    bounds = Bounds(
        running_s=10, stopped_s=10, terminated_s=10, bare_metal_s=10, volume_s=10, group_s=5, settle_s=0.5
    )
    made = Cloud(access, run_id, Journal.open(run_id, access, tmp_path), bounds=bounds)
    yield made
    made.close()
