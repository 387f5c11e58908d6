"""Modifications of volumes: which are admitted, what each changes, and its progress."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.elastic_block_store import VolumeModification

from pytest_cloudbench.limits.volume_types import VOLUME_TYPES
from pytest_cloudbench.limits.volumes import VolumeSpec

from . import volume_admission
from .backend import RegionVolume, described_figures
from .refusal import Refusal, incorrect_state, invalid_value, unsupported

_DAY_S = 24 * 3600
OPTIMIZING_S = 0.5
"""How long a modification is described as optimizing. The service takes from minutes to a day, by size."""


class RegionModification(VolumeModification):  # type: ignore[misc]  # moto is not typed here
    """A modification: modifying until the disk has its new figures, optimizing for a moment, then completed."""

    def __init__(self, volume: RegionVolume, spec: VolumeSpec) -> None:
        super().__init__(volume=volume, target_size=spec.size_gib)
        for name, target in described_figures(spec).items():
            setattr(self, f"original_{name}", getattr(volume, name))
            setattr(self, f"target_{name}", target)
        self.original_multi_attach_enabled = self.target_multi_attach_enabled = False
        self.end_time = None
        self._applied_at: float | None = None

    def applied(self) -> None:
        """Record that the disk has its new figures."""
        self._applied_at = time.monotonic()

    @property
    def modification_state(self) -> str:
        if self._applied_at is None:
            return "modifying"
        if time.monotonic() - self._applied_at < OPTIMIZING_S:
            return "optimizing"
        if self.end_time is None:
            self.end_time = utcnow()
        return "completed"

    @property
    def progress(self) -> int:
        if self._applied_at is None:
            return 0
        return min(100, int((time.monotonic() - self._applied_at) * 100 / OPTIMIZING_S))


def admitted_target(volume: RegionVolume, params: dict[str, Any]) -> VolumeSpec:
    """Return the spec that a ModifyVolume request describes."""
    requested = {key: params.get(key) for key in ("Size", "VolumeType", "Iops", "Throughput")}
    if not any(requested.values()):
        raise invalid_value("ModifyVolume must name at least one of Size, VolumeType, Iops and Throughput.")
    if volume.backs_root:
        raise unsupported(f"{volume.id} is a root volume: this region cannot modify those.")
    size = requested["Size"] or volume.size
    if size < volume.size:
        raise invalid_value(
            f"New size cannot be smaller than existing size: volume {volume.id} has {volume.size} GiB, {size} GiB were "
            "requested."
        )
    kept, target_type = volume.spec, requested["VolumeType"] or volume.volume_type
    same_type = target_type == volume.volume_type
    # Between types that require IOPS the service keeps the figure.
    keeps_iops = same_type or (_requires_iops(target_type) and _requires_iops(volume.volume_type))
    iops = requested["Iops"] or (kept.requested_iops if keeps_iops else None)
    throughput = requested["Throughput"] or (kept.requested_throughput_mib if same_type else None)
    spec = volume_admission.admitted_spec(
        target_type, size, iops, throughput, kept.counted_in, first_touch=kept.first_touch
    )
    return replace(spec, large_writes=kept.large_writes)


def _requires_iops(volume_type: str) -> bool:
    kind = VOLUME_TYPES.get(volume_type)
    return kind is not None and kind.takes_iops and kind.iops_default is None


def refuse_modification(volume: RegionVolume) -> None:
    """Refuse a modification while another one is in progress, or more than four in 24 hours."""
    if volume.status not in ("available", "in-use"):
        raise incorrect_state(f"The volume '{volume.id}' is in the '{volume.status}' state.")
    now = utcnow()
    recent = [entry for entry in volume.modifications if (now - entry.start_time).total_seconds() < _DAY_S]
    if len(recent) >= volume_admission.MODIFICATIONS_A_DAY:
        raise Refusal(
            "VolumeModificationRateExceeded",
            f"You've reached the maximum modification rate per volume limit: {volume.id} was modified "
            f"{len(recent)} times in 24 hours. Wait, or create a new volume.",
        )
    state = volume.modifications[-1].modification_state if volume.modifications else "completed"
    if state != "completed":
        raise Refusal(
            "IncorrectModificationState",
            f"You cannot modify volume {volume.id} while its last modification is in state '{state}'.",
        )
