"""Modifying volumes and waiting for the modifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.volume_rules import RuleBroken
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import InvalidSpec, VolumeSpec
from pytest_cloudbench.resources.errors import CloudError, ResourceFailed, WaitTimeout
from pytest_cloudbench.resources.facts import CreatedVolume, ModificationState

from .run import Run
from .waits import Watcher

_REACHED = {"optimizing": ("optimizing", "completed"), "completed": ("completed",)}
_ACTIVE = ("modifying", "optimizing")
_ALREADY = "IncorrectModificationState"


class Modifications:
    """The modifications of volumes. Thread-safe."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._clients = run.clients
        self._watcher = Watcher(self._describe, run.clients.pace)

    def modify(
        self, volume: CreatedVolume, spec: VolumeSpec, *, until: ModificationState, timeout_s: float
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
        asked.update(_new_figures(volume.spec, spec))
        if not asked:
            return volume
        try:
            self._clients.repeat_call(
                f"modify {volume} to {spec}", "modify_volume", VolumeId=volume.id, **asked
            )
        except CloudError as error:
            if error.code != _ALREADY or not self._is_under_way(volume, asked):
                raise
        self._wait(volume, spec, asked, until, timeout_s)
        return replace(volume, spec=spec, size=Size.from_gib(spec.size_gib))

    def _is_under_way(self, volume: CreatedVolume, asked: Mapping[str, Any]) -> bool:
        """Return True if the modification that is in progress is this one: the answer to its request was lost."""

        def look(latest: Mapping[str, Any] | None) -> bool | None:
            if latest is None or latest["ModificationState"] not in _ACTIVE:
                return None  # an older description
            return _is_for(latest, asked)

        return bool(self._watcher.wait(volume.id, look, self._clients.settle_s))

    def _wait(
        self,
        volume: CreatedVolume,
        spec: VolumeSpec,
        asked: Mapping[str, Any],
        until: ModificationState,
        timeout_s: float,
    ) -> None:
        state, progress = "", None

        def look(latest: Mapping[str, Any] | None) -> bool | None:
            nonlocal state, progress
            if latest is None or not _is_for(latest, asked):
                return None  # it is invisible right after its request
            state, progress = latest["ModificationState"], latest.get("Progress")
            if state == "failed":
                said = latest.get("StatusMessage")
                raise ResourceFailed(
                    f"the modification of {volume} to {spec} failed{f': {said}' if said else ''}"
                )
            return True if state in _REACHED[until] else None

        if self._watcher.wait(volume.id, look, timeout_s) is None:
            how_far = f" at {progress} %" if progress is not None else ""
            raise WaitTimeout(
                f"the modification of {volume} to {spec} was not {until!r} in {timeout_s:.0f} s; it is {state!r}"
                f"{how_far}"
            )

    def _describe(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the latest modification of each volume."""
        found = self._clients.pages(
            f"describe the modifications of {', '.join(ids)}",
            "ec2",
            "describe_volumes_modifications",
            "VolumesModifications",
            Filters=[{"Name": "volume-id", "Values": list(ids)}],
        )
        return {one["VolumeId"]: one for one in sorted(found, key=lambda one: one["StartTime"])}


def _new_figures(old: VolumeSpec, new: VolumeSpec) -> dict[str, int]:
    """Return the figures that differ, for a ModifyVolume request.

    The type's defaults are included: a request without figures keeps those of the volume.
    """
    kind = VOLUME_TYPES.get(new.type)
    iops = new.iops if kind and kind.takes_iops else new.requested_iops
    throughput = new.throughput_mib if kind and kind.takes_throughput else new.requested_throughput_mib
    asked: dict[str, int] = {}
    if iops is not None and iops != old.iops:
        asked["Iops"] = iops
    if throughput is not None and throughput != old.throughput_mib:
        asked["Throughput"] = int(throughput)
    return asked


def _is_for(modification: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return True if a modification has the targets of a ModifyVolume request."""
    return all(modification.get(f"Target{name}", value) == value for name, value in asked.items())


_SOURCE = "Amazon EBS User Guide, requirements for EBS volume modifications"
_DATE = "2026-11"
