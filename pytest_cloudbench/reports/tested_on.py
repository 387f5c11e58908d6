"""The facts of a session for reports: region, instance types, volumes, tools."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_cloudbench import __version__
from pytest_cloudbench.limits.region_settings import EBS

Facts = dict[str, list[str]]

_CLOUDS = {"aws": "AWS", "embedded": "embedded region", "hosts": "none: hosts that were there before"}


def add(known: Facts, new: Mapping[str, Sequence[str]]) -> None:
    """Add facts that are not known yet, in their order."""
    for name, values in new.items():
        have = known.setdefault(name, [])
        have += [value for value in values if value and value not in have]


def of_run(*, cloud: str, pace: str, replayed: str = "") -> Facts:
    """Return the facts of the whole run; ``cloud`` is the option that chose the cloud, such as "aws" or "embedded".

    ``replayed`` is the run that this one replays, if any; the times in the report are then the replay's, not those of
    the measurement.
    """
    return {
        **({"replayed": [replayed]} if replayed else {}),
        "cloud": [_CLOUDS.get(cloud, cloud)],
        "pace": [pace],
        "python": [platform.python_version()],
        "pytest": [f"{pytest.__version__}, pytest-cloudbench {__version__}"],
        "run.from": [f"{platform.system()} {platform.release()} {platform.machine()}"],
    }


def of_instance(instance: Any, cloud: Any) -> Facts:
    """Return the facts of an instance, as the API describes it."""
    launched = instance.launched
    region = getattr(cloud, "region", None)
    image = launched.image
    facts = {
        "region": [region] if isinstance(region, str) else [],
        "zone": [str(instance.zone)],
        "instance": [str(instance.type if instance.zone else launched)],
        "image": [str(getattr(image, "name", "") or getattr(image, "id", ""))],
    }
    machine = launched.machine_limits
    if machine is not None:
        facts["machine"] = [f"{machine.iops}, {machine.throughput}"]
    if (factor := float(launched.time_compression)) != 1:
        facts["time"] = [f"compressed {factor:g} times"]
    if launched.modelled_latency is not None:
        facts["storage.latency"] = ["modelled" if launched.modelled_latency == EBS else "not modelled"]
    return facts


def of_measurement(measurement: Any) -> Facts:
    """Return the tools of a measurement."""
    tools = getattr(measurement, "tool_versions", None)
    version = getattr(measurement, "tool_version", None)
    return {
        "tools": sorted(set(tools.values())) if isinstance(tools, dict) else [str(version)] if version else []
    }


def parameters(instances: Sequence[Any]) -> Facts:
    """Return the instances and volumes of one test, for its parameters: without ids, which differ from run to run."""
    facts: Facts = {}
    for instance in instances:
        where = f"{instance.type} in {instance.zone}" if instance.zone else str(instance.launched)
        add(facts, {"instance": [where]})
        specs = [str(volume.spec) for volume in instance.volumes]
        counted = (f"{specs.count(spec)} x {spec}" if specs.count(spec) > 1 else spec for spec in specs)
        add(facts, {"volumes": list(dict.fromkeys(counted))})
    return facts
