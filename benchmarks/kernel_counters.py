"""Sample the I/O of disks twenty times a second during a load, by the kernel's counters or the region's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cloudbench.twin.plane import Plane
    from pytest_cloudbench.twin.volumes.shared_pages import Figures

SETTLING_S = 3.0
_SECTOR = 512
_EVERY_S = 0.05
_WRITTEN_S = 0.001

Sample = tuple[float, int, int]
"""Monotonic time in seconds; I/Os and bytes of all disks together."""


class Watch:
    """Samples of some disks, taken inside `watching`."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def sample(self) -> Sample | None:
        """Return the totals so far; None if they are unchanged."""
        raise NotImplementedError

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """Take samples until the block ends."""
        self.samples = []
        end = threading.Event()

        def watch() -> None:
            while not end.wait(_EVERY_S):
                sample = self.sample()
                if sample is not None:
                    self.samples.append(sample)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield self
        finally:
            end.set()
            thread.join()

    def moving(self) -> list[Sample]:
        """Return the samples with more I/Os than the previous one."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return [now for before, now in pairs if now[1] > before[1]]

    def rates(self, seconds: float, *, size: bool, settling_s: float = SETTLING_S) -> list[float]:
        """Return the rate (IOPS, or MiB/s if ``size``) of every window of this length at steady load."""
        which = 2 if size else 1
        moving = self.moving()
        start, end = moving[0][0] + settling_s, moving[-1][0] - 0.2
        steady = [sample for sample in self.samples if start <= sample[0] <= end]
        rates = []
        for first in steady:
            last = next((sample for sample in steady if sample[0] >= first[0] + seconds), None)
            if last is None:
                break
            rates.append((last[which] - first[which]) / (last[0] - first[0]) / (1024**2 if size else 1))
        return rates


class DiskWatch(Watch):
    """The kernel's counters of some disks, named "MAJOR:MINOR"."""

    def __init__(self, devices: Iterable[str]) -> None:
        super().__init__()
        self._files = [Path(f"/sys/dev/block/{device}/stat") for device in devices]

    def sample(self) -> Sample:
        """Read the counters."""
        ios = size = 0
        for file in self._files:
            fields = file.read_text().split()
            ios += int(fields[0]) + int(fields[4])
            size += (int(fields[2]) + int(fields[6])) * _SECTOR
        return time.monotonic(), ios, size


class RegionWatch(Watch):
    """The counters that an instance's pacing process publishes, with their time."""

    def __init__(self, plane: Plane, instance_id: str) -> None:
        super().__init__()
        self._plane = plane
        self._instance_id = instance_id
        self._paced = plane._inventory.instances[instance_id].paced
        self._seen: list[tuple[float, float, float]] = []

    def sample(self) -> Sample | None:
        """Read the latest published counters. The process writes its volumes' pages first and the time last."""
        at, done = self._moment(), self._done()
        time.sleep(_WRITTEN_S)
        if at != self._moment() or (self.samples and at <= self.samples[-1][0]):
            return None
        self._seen.append((at, sum(each.modelled_s for each in done), sum(each.late_s for each in done)))
        return (
            at,
            sum(each.read_ops + each.write_ops for each in done),
            sum(each.read_bytes + each.write_bytes for each in done),
        )

    def _moment(self) -> float:
        return self._paced._state.levels[0]

    def _done(self) -> list[Figures]:
        volumes, _ = self._plane.volumes.storage_activity()
        return [each.done for each in volumes if each.instance_id == self._instance_id]

    def machine_share(self, settling_s: float = SETTLING_S) -> float:
        """Return the share of the I/Os' time that this machine added, over the same steady load as `rates`."""
        start, end = self.moving()[0][0] + settling_s, self.moving()[-1][0] - 0.2
        steady = [seen for seen in self._seen if start <= seen[0] <= end]
        modelled, late = (steady[-1][which] - steady[0][which] for which in (1, 2))
        return late / (modelled + late)
