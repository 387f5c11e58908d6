"""The pacing of one instance's volumes: limits, credits, and a process that starts with the first volume."""

from __future__ import annotations

import contextlib
import threading

from pytest_cloudbench.twin.region_parts import RegionParts
from pytest_cloudbench.twin.volumes.figures import StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.shared_pages import VolumePage, VolumeState
from pytest_cloudbench.twin.volumes.volume_process import (
    PacedFile,
    VolumeProcess,
    VolumeProcessEnded,
    measure_path,
)


class InstanceVolumes:
    """Paces the volumes of one instance, whether it runs or not. Methods may be called from any thread.

    ``name`` is the instance's, for errors. For each new process, the time of an I/O without any limit is measured.
    """

    def __init__(self, name: str, figures: StageFigures, parts: RegionParts) -> None:
        self._name = name
        self._figures = figures
        self._parts = parts
        self._state = VolumeState.create()
        self._lock = threading.Lock()
        self.process: VolumeProcess | None = None
        self._path_s = 0.0
        self._paced = True

    def attach(
        self, size: int, figures: VolumeFigures, backing: int, page: VolumePage, state: VolumeState
    ) -> PacedFile:
        """Pace a volume, in a new process if none is alive. See `VolumeProcess.attach`.

        Raises `VolumeProcessError` and OSError.
        """
        with self._lock:
            if self.process is None or not self.process.alive:
                if self.process is not None:
                    self.process.close()
                self.process = self._start(backing)
            process = self.process
        path_s = 0.0 if figures.service is None else self._path_s
        return process.attach(size, figures, backing, page, state, path_s=path_s)

    def _start(self, backing: int) -> VolumeProcess:
        parts = self._parts
        process = VolumeProcess(
            self._name,
            workshop=parts.workshop,
            directory=parts.store.roots / f"{self._name}.volumes",
            records=parts.slot.directory,
        )
        try:
            self._path_s = parts.workshop.run(
                lambda: measure_path(process, backing=backing, nodes=parts.store.roots)
            )
            process.limit(self._figures, self._state)
            process.pace(self._paced)
        except BaseException:
            process.close()
            raise
        return process

    def pace(self, paced: bool) -> None:
        """Apply the limits, or suspend them so that an instance that shuts down writes its data quickly."""
        self._paced = paced
        if self.process is not None:
            with contextlib.suppress(VolumeProcessEnded):
                self.process.pace(paced)

    def balances(self, now: float) -> tuple[float | None, float | None]:
        """Return the instance's credits of I/Os and of bytes in percent of a full bucket; None if it has none."""
        return self._figures.balances(self._state, now)

    def close(self) -> None:
        """End the process. Volumes that are still attached fail from now on."""
        if self.process is not None:
            self.process.close()
            self.process = None
        self._state.close()
