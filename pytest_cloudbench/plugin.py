"""Hooks and options of the pytest plugin, and nothing else.

Nothing heavy is imported here: a test session that uses no cloudbench fixture must not feel the plugin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read what the test's markers ask for before any fixture is set up, so that nothing is opened in vain."""
    if "ec2" in getattr(item, "fixturenames", ()):
        from pytest_cloudbench import fixtures

        with _said_in_one_sentence():
            fixtures.read_wanted(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    if not fixturedef.func.__module__.startswith("pytest_cloudbench."):
        return (yield)
    with _said_in_one_sentence():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Let an inconclusive verdict skip its test where that is wanted; it fails it otherwise."""
    try:
        return (yield)
    except AssertionError as failure:
        verdict = getattr(failure, "verdict", None)
        if verdict is not None and _skips(pyfuncitem.config, verdict.machine_limited):
            pytest.skip(str(verdict))
        raise


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every verdict with its sentence, the held ones too."""
    from pytest_cloudbench.evidence.summary import write_verdicts

    write_verdicts(terminalreporter)


@contextlib.contextmanager
def _said_in_one_sentence() -> Iterator[None]:
    """Show our own errors as the sentences they are, without the traceback through the plugin."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("pytest_cloudbench."):
            raise pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False) from None
        raise


def _skips(config: pytest.Config, machine_limited: bool) -> bool:
    wanted = setting(config, "inconclusive")
    if wanted:
        return wanted == "skip"
    return machine_limited and setting(config, "cloud") == "embedded"
