"""The conditions of a measurement: on which hardware, where, and with which tools it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.evidence.reader import RecordedTest
from pytest_cloudbench.verdicts.wording import without_ids

_OF_INSTANCES = ("launch", "find_instance", "find_hosts")
"""Beginnings of the names of calls that return instances."""


@dataclass(frozen=True)
class InstanceFacts:
    """An instance of a test: its type, its zone, the name of its image, and whether earlier tests used it."""

    type: str
    zone: str
    image: str = ""
    used: bool = False

    @property
    def words(self) -> str:
        """Its type, and whether earlier tests used it, which may affect the measurement."""
        return f"{self.type} used by earlier tests" if self.used else self.type


def setup_of(measurement: Any, instances: Sequence[InstanceFacts], region: str) -> dict[str, str]:
    """Return the conditions by name, without ids. Unknown ones are absent.

    ``region`` is where the instances ran, such as "AWS eu-central-1".
    """
    versions = getattr(measurement, "tool_versions", None) or {}
    target = getattr(measurement, "target", "") or getattr(measurement, "path", "")
    known = {
        "target": without_ids(str(target)),
        "instance": _joined(instance.words for instance in instances),
        "region": region,
        "zone": _joined(instance.zone for instance in instances),
        "image": _joined(instance.image for instance in instances),
        "kernel": str(getattr(measurement, "kernel", "") or ""),
        "tool": _joined([getattr(measurement, "tool_version", ""), *versions.values()]),
    }
    return {name: value for name, value in known.items() if value}


def recorded_setup(test: RecordedTest, measurement: Any) -> dict[str, str]:
    """Return the conditions of a recorded measurement of this test."""
    calls = [entry for entry in test.of_kind("call") if entry["name"].startswith(_OF_INSTANCES)]
    launches = [entry.get("result") for entry in calls]
    instances = [
        InstanceFacts(
            each["type"],
            str(each.get("zone", "")),
            str((each.get("image") or {}).get("name", "")),
            bool(each.get("earlier_tests")),
        )
        for result in launches
        for each in (result if isinstance(result, list) else [result])
        if isinstance(each, Mapping) and "type" in each
    ]
    clouds = test.evidence.clouds
    return setup_of(measurement, instances, f"{clouds[0]['label']} {clouds[0]['region']}" if clouds else "")


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(word for word in words if word))
