"""docs/network.md is true: options, attributes, errors, and how long bursts last."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

import pytest_cloudbench.workloads.iperf3.errors as errors
from pytest_cloudbench.limits.network_credits import BURST_MINUTES, LONGEST_BURST_MINUTES
from pytest_cloudbench.workloads.iperf3.job import Iperf3Job
from pytest_cloudbench.workloads.network_measurement import NetworkMeasurement

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "network.md").read_text()
FIELDS = {field.name for field in dataclasses.fields(NetworkMeasurement)}


def _options() -> list[str]:
    table = DOCS.partition("## The load")[2].partition("## What a run holds")[0]
    return re.findall(
        r"`(\w+=[^`]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if "|" in line)
    )


@pytest.mark.parametrize("option", _options())
def test_every_documented_option_exists(option: str) -> None:
    [keyword] = ast.parse(f"iperf3({option})", mode="eval").body.keywords  # type: ignore[attr-defined]
    given = {keyword.arg: ast.literal_eval(keyword.value)}
    needs = {"udp": {"bitrate": "1 Gbit/s"}, "omit": {"duration": 10}, "processes": {"streams": 4}}
    Iperf3Job.of(**needs.get(keyword.arg, {}), **given)


def test_all_options_are_documented() -> None:
    documented = {option.partition("=")[0] for option in _options()}
    known = {field.name for field in dataclasses.fields(Iperf3Job)} | {"udp"}
    assert documented == known - {"protocol"}


def test_documented_attributes_exist() -> None:
    documented = set(re.findall(r"`run\.(\w+)`", DOCS))
    assert len(documented) > 15
    assert {
        name for name in documented if name not in FIELDS and not hasattr(NetworkMeasurement, name)
    } == set()


def test_documented_errors_exist() -> None:
    for name in re.findall(r"`(Iperf3\w+|PortBusy)`", DOCS):
        assert issubclass(getattr(errors, name), errors.Iperf3Error)


def test_bursts_last_as_long_as_documented() -> None:
    rows = re.findall(r"^\| (\d+|more) \| (\d+) \|$", DOCS, re.MULTILINE)
    assert rows == [
        *((str(vcpus), f"{minutes:.0f}") for vcpus, minutes in BURST_MINUTES),
        ("more", f"{LONGEST_BURST_MINUTES:.0f}"),
    ]


def test_the_example_is_python() -> None:
    [example] = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    assert "iperf3" in ast.dump(ast.parse(example))
