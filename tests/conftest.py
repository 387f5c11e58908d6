"""Settings of this project's own tests."""

import contextlib
import functools
import gc
import importlib
import importlib.metadata
import os
import pkgutil
import re
import shutil
import signal
from pathlib import Path

# Tests that run pytest in this process drop the modules that it loaded first. Compiled parts do not survive that, and
# keys of a module that was loaded twice never compare as equal.
import fabric  # noqa: F401
import pytest
from hypothesis import HealthCheck, settings

import pytest_cloudbench

with contextlib.suppress(ImportError):
    # A plotting library brings it. It replaces the search for installed packages; dropped with a test that runs
    # pytest, it would leave no package to be found.
    import importlib_metadata  # noqa: F401

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with Ctrl-C ignored. Every process started here would inherit that, and tests of an
    # interrupted run would test nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example depends on the machine, which may be busy or emulated.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


# As in .ci/part.
WAY_IN = []
if os.environ.get("CLOUDBENCH_TEST_ACCESS") == "ssm":
    WAY_IN = ["--cloudbench-access=ssm", "--cloudbench-instance-profile=tests"]
    os.environ["PYTEST_ADDOPTS"] = " ".join(WAY_IN)  # of sessions that fixtures of modules start
"""Options of all sessions on the embedded region: how they reach its hosts."""


MARKED = re.compile(r"mark\.(embedded|timed|alone)|shown_test")
"""How .ci/part finds the files of the parts "waiting" and "alone"."""


def pytest_collection_modifyitems(items):
    """Skip the tests that need SSH if hosts are reached by SSM. Refuse files that .ci/part would not find."""
    parts = ("embedded", "timed", "alone")
    for path in {item.path for item in items if any(item.get_closest_marker(part) for part in parts)}:
        if not MARKED.search(path.read_text(encoding="utf-8")):
            raise pytest.UsageError(
                f"{path} has tests marked {', '.join(parts)} but does not write mark.NAME"
            )
    if WAY_IN:
        for item in items:
            if item.get_closest_marker("ssh"):
                item.add_marker(pytest.mark.skip(reason="needs SSH"))
    if any("pytester" in item.fixturenames for item in items):
        load_for_sessions_within()
        importlib.metadata.distributions = remembered(importlib.metadata.distributions)
    gc.collect()
    gc.freeze()  # what is loaded stays: no later search for garbage goes through it


def load_for_sessions_within():
    """Load what a session inside a test loads late: loaded there, its classes would exist twice after the test."""
    with contextlib.suppress(ImportError):
        importlib.import_module("matplotlib.backends.backend_agg")
        importlib.import_module("matplotlib.backends.backend_svg")
    importlib.import_module("msgspec")
    for module in pkgutil.walk_packages(pytest_cloudbench.__path__, "pytest_cloudbench."):
        if not module.name.startswith(("pytest_cloudbench.twin", "pytest_cloudbench.cli")):
            importlib.import_module(module.name)


class Distribution:
    """An installed package whose metadata is read once."""

    def __init__(self, distribution):
        self._read = distribution

    def __getattr__(self, name):
        return getattr(self._read, name)

    @functools.cached_property
    def entry_points(self):
        return self._read.entry_points

    @functools.cached_property
    def files(self):
        return self._read.files


def remembered(distributions):
    """Return a search for installed packages that remembers them: each session in this process looks for plugins."""
    found = [Distribution(each) for each in distributions()]
    return lambda **context: distributions(**context) if context else iter(found)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return how many tests on embedded regions run at a time with ``-n auto``: they wait, unless all is emulated."""
    return 1 if "TCG" in Path("/proc/cpuinfo").read_text() else 5


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Evidence that an earlier version recorded."""
    folder = tmp_path_factory.mktemp("kept")
    shutil.unpack_archive(Path(__file__).parent / "evidence" / "kept" / "0.1.tar.xz", folder)
    return folder / "evidence"


@pytest.fixture(autouse=True)
def _sessions_within_are_light(request, monkeypatch):
    """Start the sessions inside tests without hypothesis, whose plugin takes two thirds of their start."""
    if "pytester" in request.fixturenames:
        request.getfixturevalue("pytester")  # clears the options of the outer session
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(["-p no:hypothesispytest", *WAY_IN]))
