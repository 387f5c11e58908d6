"""The two implementations of the law and of the loop, and instances of a region's plane."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from paced_instance import Instance
from virtual_time import Bench

from pytest_cloudbench.twin.plane import Plane
from pytest_cloudbench.twin.regions import sweep_slot
from pytest_cloudbench.twin.slots import take_slot
from pytest_cloudbench.twin.volumes import pacer, request_loop

try:
    from pytest_cloudbench.twin.volumes import compiled
except ImportError as error:
    compiled, WHY = None, str(error)


@pytest.fixture(scope="session")
def python():
    return SimpleNamespace(Pacer=pacer.Pacer, RequestLoop=request_loop.RequestLoop)


@pytest.fixture(scope="session")
def core():
    if compiled is None:
        pytest.skip(f"no compiled core: {WHY}")
    return SimpleNamespace(Pacer=compiled.Pacer, RequestLoop=compiled.RequestLoop)


@pytest.fixture(scope="session", params=["python", "core"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def bench(engine):
    return Bench(engine)


@pytest.fixture(scope="module")
def plane():
    slot = take_slot(sweep_slot)
    try:
        plane = Plane(slot)
        try:
            yield plane
        finally:
            plane.close()
    finally:
        slot.release()


@pytest.fixture
def instance(plane, request):
    instance = Instance(plane, f"i-{abs(hash(request.node.name)) % 10**8}")
    try:
        yield instance
    finally:
        instance.close()
