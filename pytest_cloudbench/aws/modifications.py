"""Modifying a volume and waiting for the modification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_rules import RuleBroken
from pytest_cloudbench.limits.volumes import InvalidSpec, VolumeSpec
from pytest_cloudbench.resources.errors import ResourceFailed, WaitTimeout
from pytest_cloudbench.resources.facts import CreatedVolume, ModificationState

from .clients import Clients
from .waits import poll

_REACHED = {"optimizing": ("optimizing", "completed"), "completed": ("completed",)}


def modify(
    clients: Clients, volume: CreatedVolume, spec: VolumeSpec, *, until: ModificationState, timeout_s: float
) -> CreatedVolume:
    """Modify a volume to `spec`, wait until the modification is in the state `until`, and return the volume.

    Raises InvalidSpec, before any call, for a spec that breaks a rule or shrinks the volume.
    """
    if spec.size_gib < volume.spec.size_gib:
        rule = "a volume cannot become smaller"
        message = f"{volume.spec.size_gib} GiB cannot become {spec.size_gib} GiB: {rule}"
        raise InvalidSpec(spec, [RuleBroken("InvalidParameterValue", message, rule, _SOURCE, _DATE)])
    spec.check()
    asked: dict[str, Any] = {}
    if spec.size_gib != volume.spec.size_gib:
        asked["Size"] = spec.size_gib
    if spec.type != volume.spec.type:
        asked["VolumeType"] = spec.type
    if spec.requested_iops is not None and spec.iops != volume.spec.iops:
        asked["Iops"] = spec.requested_iops
    if spec.requested_throughput_mib is not None and spec.throughput_mib != volume.spec.throughput_mib:
        asked["Throughput"] = spec.requested_throughput_mib
    if not asked:
        return volume
    clients.call(f"modify {volume} to {spec}", "ec2", "modify_volume", VolumeId=volume.id, **asked)
    _wait(clients, volume, spec, until, timeout_s)
    return replace(volume, spec=spec, size=Size.from_gib(spec.size_gib))


def _wait(
    clients: Clients, volume: CreatedVolume, spec: VolumeSpec, until: ModificationState, timeout_s: float
) -> None:
    state, progress = "", None

    def look() -> bool | None:
        nonlocal state, progress
        answer = clients.call(
            f"describe the modification of {volume}",
            "ec2",
            "describe_volumes_modifications",
            VolumeIds=[volume.id],
        )
        found = max(answer["VolumesModifications"], key=lambda one: one["StartTime"], default=None)
        if found is None:
            return None
        state, progress = found["ModificationState"], found.get("Progress")
        if state == "failed":
            said = found.get("StatusMessage")
            raise ResourceFailed(
                f"the modification of {volume} to {spec} failed{f': {said}' if said else ''}"
            )
        return True if state in _REACHED[until] else None

    if poll(look, timeout_s) is None:
        how_far = f" at {progress} %" if progress is not None else ""
        raise WaitTimeout(
            f"the modification of {volume} to {spec} was not {until!r} in {timeout_s:.0f} s; it is {state!r}{how_far}"
        )


_SOURCE = "Amazon EBS User Guide, requirements for EBS volume modifications"
_DATE = "2026-11"
