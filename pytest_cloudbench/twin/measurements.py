"""Work that must not disturb a measurement: it waits until no test session holds the measurement lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_cloudbench.limits.region_settings import turnstile

OWN_PROCESSOR = 4
"""With this many processors, a boot has its own, beside the load, the process that serves volumes, and the session."""
_LOOK_S = 0.05


class BetweenMeasurements:
    """Runs a region's work while no session measures on it, and prevents measurements meanwhile.

    `record` is the file that sessions lock. Several pieces of work may run at the same time. Waiting work goes before
    all measurements that have not begun.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._running = 0
        self._descriptor = -1

    @contextlib.contextmanager
    def work(self, needed: Callable[[], bool]) -> Iterator[None]:
        """Run the block between measurements.

        It runs at once if `needed` returns False, or if the machine has a processor for it.
        """
        if len(os.sched_getaffinity(0)) >= OWN_PROCESSOR:
            yield
            return
        joined = self._joined()
        if not joined and needed():
            with self._turnstile() as gate:
                while not (joined := self._joined()) and needed():
                    _locked(gate, fcntl.LOCK_SH)  # a session holds it for a moment only
                    time.sleep(_LOOK_S)
        try:
            yield
        finally:
            if joined:
                self._leave()

    @contextlib.contextmanager
    def _turnstile(self) -> Iterator[int]:
        """Yield a file to lock: while waiting work holds the lock, no session begins to measure."""
        descriptor = os.open(turnstile(self._record), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o644)  # sessions may be those of other users
            yield descriptor
        finally:
            os.close(descriptor)

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
        if not _locked(descriptor, fcntl.LOCK_EX):
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


def _locked(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
