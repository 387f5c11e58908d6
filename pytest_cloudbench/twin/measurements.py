"""Work that must not disturb a measurement: it waits until no test session holds the lock of those that measure."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

OWN_PROCESSOR = 4
"""With so many processors, a boot has one of its own beside the load, its server of volumes and the test session."""
_LOOK_S = 0.05


class BetweenMeasurements:
    """Lets a region work while no session measures on it, and no session begin to measure meanwhile.

    `record` is the file that sessions lock. Work that begins while other such work goes on joins it.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._running = 0
        self._descriptor = -1

    @contextlib.contextmanager
    def work(self, needed: Callable[[], bool]) -> Iterator[None]:
        """Run the block between measurements.

        It runs at once if it is no longer `needed`, and on a machine that has a processor for it.
        """
        if len(os.sched_getaffinity(0)) >= OWN_PROCESSOR:
            yield
            return
        while not (joined := self._joined()) and needed():
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            if joined:
                self._leave()

    def _joined(self) -> bool:
        """Begin to work; return False if a session measures."""
        with self._lock:
            if self._running == 0 and not self._take():
                return False
            self._running += 1
            return True

    def _take(self) -> bool:
        try:
            descriptor = os.open(self._record, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # no session can hold it
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
