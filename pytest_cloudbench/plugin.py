"""Hooks and options of the pytest plugin, and nothing else.

Nothing heavy is imported here: a test session that uses no cloudbench fixture must not feel the plugin.
"""

from __future__ import annotations

from collections.abc import Generator
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


def _skips(config: pytest.Config, machine_limited: bool) -> bool:
    wanted = setting(config, "inconclusive")
    if wanted:
        return wanted == "skip"
    return machine_limited and setting(config, "cloud") == "embedded"
