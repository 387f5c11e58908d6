"""Labels of a test in Allure (epic, feature, story, severity), and readable parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

MARKER = "cloudbench_report"
"""``@pytest.mark.cloudbench_report(epic=..., feature=..., story=..., severity=...)``."""
LABELS = ("epic", "feature", "story", "severity")
SEVERITIES = ("blocker", "critical", "normal", "minor", "trivial")
EPIC = "Cloud performance promises"

OUR_FIXTURES = frozenset(
    {"ec2", "ec2_instance", "ec2_pair", "ebs_volume", "ebs_volumes", "instance_store", "fio", "iperf3"}
    | {"create_files", "sweep"}
)


def uses_cloudbench(item: pytest.Item) -> bool:
    """Return whether the test requests any of the plugin's fixtures."""
    return not OUR_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def marked_labels(item: pytest.Item) -> dict[str, str]:
    """Return the labels of the test's markers; the closest marker wins. Raises ValueError for a bad marker."""
    said: dict[str, str] = {}
    for marker in item.iter_markers(name=MARKER):
        if marker.args or set(marker.kwargs) - set(LABELS):
            raise ValueError(
                f"@pytest.mark.{MARKER} of {item.nodeid}: unknown argument: use {', '.join(LABELS)}, by name"
            )
        severity = marker.kwargs.get("severity", "normal")
        if severity not in SEVERITIES:
            raise ValueError(
                f"@pytest.mark.{MARKER} of {item.nodeid}: unknown severity {severity!r}: "
                f"use one of {', '.join(SEVERITIES)}"
            )
        for name, value in marker.kwargs.items():
            said.setdefault(name, str(value))
    return said


def default_labels(item: pytest.Item, instances: Sequence[Any], *, judged: bool) -> dict[str, str]:
    """Return labels derived from the test's markers and fixtures, else from the instances that it launched.

    A test that judges a promise is critical, one that only measures is normal.
    """
    volumes = _volumes(item, instances)
    types = _instance_types(item, instances)
    labels = {"epic": EPIC, "severity": "critical" if judged else "normal"}
    if feature := _feature(item, volumes):
        labels["feature"] = feature
    if story := " on ".join(" and ".join(words) for words in (volumes, types) if words):
        labels["story"] = story
    return labels


def _feature(item: pytest.Item, volumes: Sequence[str]) -> str | None:
    used = set(getattr(item, "fixturenames", ()))
    if used & {"iperf3", "ec2_pair"}:
        return "Network"
    if "create_files" in used:
        return "File creation"
    kinds = dict.fromkeys(volume.rpartition(" x ")[2].split()[0] for volume in volumes)
    if kinds:
        return f"EBS {', '.join(kinds)}"
    if "instance_store" in used:
        return "Instance store"
    return "Storage" if "fio" in used else None


def _volumes(item: pytest.Item, instances: Sequence[Any]) -> list[str]:
    found = []
    for name, default in (("ebs_volume", 1), ("ebs_volumes", None)):
        if (marker := _configuring(item, name)) is not None:
            spec = marker.args[0] if marker.args else marker.kwargs.get("spec")
            count = marker.kwargs.get("count") or default
            found.append(f"{count} x {spec}" if count not in (None, 1) else str(spec))
    if not found:
        specs = [str(volume.spec) for instance in instances for volume in instance.volumes]
        for spec in dict.fromkeys(specs):
            count = specs.count(spec)
            found.append(f"{count} x {spec}" if count > 1 else spec)
    return found


def _configuring(item: pytest.Item, name: str) -> pytest.Mark | None:
    """Return the marker that configures a fixture of the test; None without one, or if a parameter does."""
    by_parameter = name in getattr(getattr(item, "callspec", None), "params", ())
    used = name in getattr(item, "fixturenames", ())
    return item.get_closest_marker(name) if used and not by_parameter else None


def _instance_types(item: pytest.Item, instances: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for name in ("ec2_instance", "ec2_pair"):
        if (marker := _configuring(item, name)) is not None:
            words = [str(word) for word in (*marker.args, *_named(marker.kwargs)) if word is not None]
            found += dict.fromkeys(words)
    # A host without an API has no instance type: use its name.
    return found or list(dict.fromkeys(str(each.type if each.zone else each.launched) for each in instances))


def _named(arguments: Mapping[str, Any]) -> Iterable[Any]:
    return (arguments[name] for name in ("type", "client_type", "server_type") if name in arguments)


def _has_own_words(kind: type) -> bool:
    return any("__str__" in vars(each) for each in kind.__mro__[:-1])


def readable(value: Any) -> str:
    """Return a parameter as a person would write it: 16k and not '16k', a specification by its text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{readable(key)}={readable(item)}" for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return ", ".join(readable(item) for item in items)
    kind = type(value)
    if not _has_own_words(kind) and callable(value):
        return str(getattr(value, "__qualname__", kind.__qualname__))
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not _has_own_words(kind):
        return str(getattr(value, "label", value))
    return str(value)
