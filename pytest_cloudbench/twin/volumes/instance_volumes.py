"""The pacing of one instance's volumes: its limits, its credits, and the process, started with the first volume."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from pytest_cloudbench.twin.volumes.figures import StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.shared_pages import VolumeState
from pytest_cloudbench.twin.volumes.volume_process import (
    PacedFile,
    VolumeProcess,
    VolumeProcessEnded,
    measure_path,
)
from pytest_cloudbench.twin.workshop import Workshop


@dataclass(frozen=True)
class Ground:
    """What every instance's volumes of a region share.

    ``directory`` is on a file system that only the region sees and that allows device nodes; ``records`` is the
    slot's directory.
    """

    workshop: Workshop
    directory: Path
    records: Path


class InstanceVolumes:
    """Paces the volumes of one instance, whether it runs or not. Methods may be called from any thread.

    ``name`` is the instance's, for errors. The time that an I/O takes in any case is measured at each start.
    """

    def __init__(self, name: str, figures: StageFigures, ground: Ground) -> None:
        self._name = name
        self._figures = figures
        self._ground = ground
        self._state_descriptor = VolumeState.create()
        self._state = VolumeState(self._state_descriptor)
        self._lock = threading.Lock()
        self._process: VolumeProcess | None = None
        self._path_s = 0.0
        self._paced = True

    @property
    def process(self) -> VolumeProcess | None:
        """The process, if there is one."""
        return self._process

    def attach(self, size: int, figures: VolumeFigures, *, backing: int, page: int, state: int) -> PacedFile:
        """Pace a volume, by a new process if there is none or it was killed. See `VolumeProcess.attach`.

        Raises `VolumeProcessError` and OSError.
        """
        with self._lock:
            if self._process is None or not self._process.alive:
                if self._process is not None:
                    self._process.close()
                self._process = self._start(backing)
            process = self._process
        path_s = 0.0 if figures.service is None else self._path_s
        return process.attach(size, figures, backing=backing, page=page, state=state, path_s=path_s)

    def _start(self, backing: int) -> VolumeProcess:
        ground = self._ground
        process = VolumeProcess(
            self._name,
            workshop=ground.workshop,
            directory=ground.directory / f"{self._name}.volumes",
            records=ground.records,
        )
        try:
            self._path_s = ground.workshop.run(
                lambda: measure_path(process, backing=backing, nodes=ground.directory)
            )
            process.limit(self._figures, self._state_descriptor)
            process.pace(self._paced)
        except BaseException:
            process.close()
            raise
        return process

    def pace(self, paced: bool) -> None:
        """Hold the limits, or answer everything at once: an instance that goes down writes its data quickly."""
        self._paced = paced
        if self._process is not None:
            with contextlib.suppress(VolumeProcessEnded):
                self._process.pace(paced)

    def balances(self, now: float) -> tuple[float | None, float | None]:
        """Return the instance's credits of I/Os and of bytes in percent of a full bucket; None if it has none."""
        as_of, levels = self._state.levels
        bursts = self._figures.iops.burst, self._figures.bytes.burst
        iops, size = (
            None if burst is None else burst.percent(as_of, level, now)
            for burst, level in zip(bursts, levels, strict=True)
        )
        return iops, size

    def close(self) -> None:
        """End the process; its volumes must have been detached, or fail from now on."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self._state.close()
        os.close(self._state_descriptor)
