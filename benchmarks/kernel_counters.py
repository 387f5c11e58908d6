"""What disks really served, read from outside while a load runs: the kernel's own counters, twenty times a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

SETTLING_S = 3.0
_SECTOR = 512
_EVERY_S = 0.05

Sample = tuple[float, int, int]
"""Seconds of a monotonic clock, I/Os and bytes of all disks together."""


class DiskWatch:
    """The counters of some disks, named "MAJOR:MINOR", while `watching`."""

    def __init__(self, devices: Iterable[str]) -> None:
        self._files = [Path(f"/sys/dev/block/{device}/stat") for device in devices]
        self.samples: list[Sample] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[DiskWatch]:
        """Read them until the block ends."""
        self.samples = []
        end = threading.Event()

        def watch() -> None:
            while not end.wait(_EVERY_S):
                self.samples.append((time.monotonic(), *self._sums()))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield self
        finally:
            end.set()
            thread.join()

    def _sums(self) -> tuple[int, int]:
        ios = size = 0
        for file in self._files:
            fields = file.read_text().split()
            ios += int(fields[0]) + int(fields[4])
            size += (int(fields[2]) + int(fields[6])) * _SECTOR
        return ios, size

    def moving(self) -> list[Sample]:
        """The samples that saw more than the one before."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return [now for before, now in pairs if now[1] > before[1]]

    def rates(self, seconds: float, *, size: bool, settling_s: float = SETTLING_S) -> list[float]:
        """The rate (I/Os a second, or MiB/s) of every window of that length at steady load."""
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
