"""Hooks and options of the pytest plugin, and nothing else.

Nothing heavy is imported here: a test session that uses no cloudbench fixture must not feel the plugin.
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

import pytest

from pytest_cloudbench.settings import OPTIONS, setting

MARKERS = (
    "ec2_instance(type, *, zone=None, image=None, user=None, commands=()): the EC2 instance the ec2_instance "
    "fixture launches",
    "ebs_volume(spec, *, zone=None): the EBS volume the ebs_volume fixture creates and attaches to ec2_instance",
    "ebs_volumes(spec, *, count, zone=None): the EBS volumes the ebs_volumes fixture creates and attaches to "
    "ec2_instance, side by side",
)

_MACHINERY = frozenset({"pytest_cloudbench", "_pytest", "pluggy", "contextlib"})
"""What lies between a test and our error; none of it is the user's."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cloudbench", "cloud performance promises")
    for option in OPTIONS:
        group.addoption(
            option.flag,
            default=None,
            choices=option.choices,
            metavar="|".join(option.choices) if option.choices else option.name.upper(),
            help=option.help,
        )
        parser.addini(option.ini, f"default of {option.flag}", default=option.default)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    from pytest_cloudbench import fixtures

    config.pluginmanager.register(fixtures, "cloudbench-fixtures")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read what the test's markers ask for before any fixture is set up, so that nothing is opened in vain."""
    if "ec2" in getattr(item, "fixturenames", ()):
        from pytest_cloudbench import fixtures

        fixtures.read_wanted(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Show our own errors as the sentences they are, where the user's code met them; all with --full-trace."""
    if call.excinfo is None or item.config.getoption("fulltrace"):
        return
    error: BaseException = call.excinfo.value
    if not type(error).__module__.startswith("pytest_cloudbench."):
        return
    if met := _users_frames(error.__traceback__):
        # What caused it is in its sentence already.
        error.__cause__, error.__suppress_context__ = None, True
        error = error.with_traceback(met)
    else:
        sentence = pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False)
        error = sentence.with_traceback(error.__traceback__)
    call.excinfo = pytest.ExceptionInfo.from_exception(error)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Let an inconclusive verdict skip its test where that is wanted; it fails it otherwise."""
    try:
        return (yield)
    except AssertionError as failure:
        verdict = getattr(failure, "verdict", None)
        if verdict is not None and _skips(pyfuncitem.config, verdict.machine_limited):
            # At the test's own line, not at this one.
            raise pytest.skip.Exception(str(verdict), _use_item_location=True) from None
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every verdict with its sentence, the held ones too."""
    from pytest_cloudbench.evidence.summary import write_verdicts

    write_verdicts(terminalreporter)


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Relink a traceback to hold the frames of the user's own code only; None where there are none."""
    first = last = None
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _MACHINERY:
            if last is None:
                first = traceback
            else:
                last.tb_next = traceback
            last = traceback
        traceback = traceback.tb_next
    if last is not None:
        last.tb_next = None
    return first


def _skips(config: pytest.Config, machine_limited: bool) -> bool:
    wanted = setting(config, "inconclusive")
    if wanted:
        return wanted == "skip"
    return machine_limited and setting(config, "cloud") == "embedded"
