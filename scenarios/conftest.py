"""Which scenarios run beside one another if pytest-xdist gives them several workers."""

import fcntl
import tempfile
from pathlib import Path

import pytest

collect_ignore = ["over_ssm"]
"""Runs with settings of its own."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin with the light ones: while they are left, nobody waits to be alone."""
    items.sort(key=lambda item: item.get_closest_marker("light") is None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run a light scenario beside other light ones, and any other one alone."""
    worker = getattr(item.config, "workerinput", None)
    if worker is None:
        return (yield)
    path = Path(tempfile.gettempdir(), f"cloudbench-scenarios-{worker['testrunuid']}")
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if item.get_closest_marker("light") else fcntl.LOCK_EX)
        return (yield)
