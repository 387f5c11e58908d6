"""Settings of this project's own tests."""

import contextlib
import signal
from pathlib import Path

# Loaded first within a test that runs pytest, compiled parts would be taken out again with that test, and what is then
# loaded anew no longer fits them.
import cryptography.hazmat.primitives.asymmetric.ed25519
import cryptography.hazmat.primitives.serialization  # noqa: F401
import pytest
from hypothesis import HealthCheck, settings

with contextlib.suppress(ImportError):
    # Comes with a plotting library and puts itself in the place of Python's own way to find installed packages.
    # Loaded within a test that runs pytest, it is taken out again with that test, and no package is found any more.
    import importlib_metadata  # noqa: F401

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what goes on in the background with Ctrl-C ignored, and every process started from here would
    # inherit that: tests of an interrupted run would test nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing here, and on a busy or emulated machine it is anything.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """How many tests on embedded regions ``-n auto`` runs at a time: they mostly wait, unless all is emulated."""
    return 1 if "TCG" in Path("/proc/cpuinfo").read_text() else 3


@pytest.fixture(autouse=True)
def _sessions_within_are_light(request, monkeypatch):
    """Sessions that a test starts do without hypothesis, whose plugin is two thirds of their start."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # forgets the options of the session around it
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
