"""The conditions of a measurement: on which hardware, where, and with which tools it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.evidence.reader import RecordedTest
from pytest_cloudbench.verdicts.wording import without_ids


@dataclass(frozen=True)
class InstanceFacts:
    """An instance of a test: its type, its zone, and the name of its image."""

    type: str
    zone: str
    image: str = ""


def setup_of(measurement: Any, instances: Sequence[InstanceFacts], region: str) -> dict[str, str]:
    """Return the conditions by name, without ids. Unknown ones are absent.

    ``region`` is where the instances ran, such as "AWS eu-central-1".
    """
    versions = getattr(measurement, "tool_versions", None) or {}
    target = getattr(measurement, "target", "") or getattr(measurement, "path", "")
    known = {
        "target": without_ids(str(target)),
        "instance": _joined(instance.type for instance in instances),
        "region": region,
        "zone": _joined(instance.zone for instance in instances),
        "image": _joined(instance.image for instance in instances),
        "kernel": str(getattr(measurement, "kernel", "") or ""),
        "tool": _joined([getattr(measurement, "tool_version", ""), *versions.values()]),
    }
    return {name: value for name, value in known.items() if value}


def recorded_setup(test: RecordedTest, measurement: Any) -> dict[str, str]:
    """Return the conditions of a recorded measurement of this test."""
    launches = [entry.get("result") for entry in test.of_kind("call") if entry["name"].startswith("launch")]
    instances = [
        InstanceFacts(each["type"], str(each.get("zone", "")), str((each.get("image") or {}).get("name", "")))
        for result in launches
        for each in (result if isinstance(result, list) else [result])
        if isinstance(each, Mapping) and "type" in each
    ]
    clouds = test.evidence.clouds
    return setup_of(measurement, instances, f"{clouds[0]['label']} {clouds[0]['region']}" if clouds else "")


def _joined(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(word for word in words if word))
