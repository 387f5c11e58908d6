"""One modification of a volume: what it changes, and how far it is."""

from __future__ import annotations

import copy
import time
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.elastic_block_store import VolumeModification

from pytest_cloudbench.limits.volumes import VolumeSpec

from .backend import RegionVolume

OPTIMIZING_S = 0.5
"""How long a modification is described as optimizing. The service takes from minutes to a day, by size."""


class RegionModification(VolumeModification):  # type: ignore[misc]  # moto is not typed here
    """Modifying until the disk has its new figures, optimizing for a moment, then completed."""

    def __init__(self, volume: RegionVolume, spec: VolumeSpec) -> None:
        super().__init__(volume=volume, target_size=spec.size_gib)
        target = RegionVolume(
            volume.ec2_backend, volume_id=volume.id, size=spec.size_gib, zone=volume.zone, spec=spec
        )
        target.take_spec(spec)
        for name in ("size", "volume_type", "iops", "throughput"):
            setattr(self, f"original_{name}", getattr(volume, name))
            setattr(self, f"target_{name}", getattr(target, name))
        self.original_multi_attach_enabled = self.target_multi_attach_enabled = False
        self.end_time = None
        self._applied_at: float | None = None
        self._answered: str | None = None

    def applied(self) -> None:
        """The disk has its new figures."""
        self._applied_at = time.monotonic()

    def as_answered(self) -> Any:
        """The modification as ModifyVolume answers: it has only begun."""
        answer = copy.copy(self)
        answer._answered = "modifying"
        return answer

    @property
    def modification_state(self) -> str:
        """modifying, optimizing or completed."""
        if self._answered is not None:
            return self._answered
        if self._applied_at is None:
            return "modifying"
        if time.monotonic() - self._applied_at < OPTIMIZING_S:
            return "optimizing"
        if self.end_time is None:
            self.end_time = utcnow()
        return "completed"

    @property
    def progress(self) -> int:
        """In percent."""
        if self._answered is not None or self._applied_at is None:
            return 0
        return min(100, int((time.monotonic() - self._applied_at) * 100 / OPTIMIZING_S))

    def get_filter_value(self, filter_name: str) -> Any:
        """What filters of DescribeVolumesModifications compare."""
        if filter_name == "modification-state":
            return self.modification_state
        return super().get_filter_value(filter_name)
