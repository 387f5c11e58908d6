"""Locks held while this process measures, so that other processes do not disturb the measurement."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from pytest_cloudbench.limits.region_settings import turnstile


class Measuring:
    """A lock on a file, held while any thread of this process measures; the kernel releases it with the process.

    The lock is shared with other processes, or exclusive if ``alone``.
    """

    def __init__(self, file: Path, *, alone: bool = False) -> None:
        self._file = file
        self._operation = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        self._lock = threading.Lock()
        self._running = 0
        self._descriptor = -1

    @contextlib.contextmanager
    def measurement(self) -> Iterator[None]:
        """Hold the lock during the block; if the file cannot be opened, nothing is locked."""
        with self._lock:  # other threads wait too
            if self._running == 0:
                self._take()
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    self._release()

    def _take(self) -> None:
        with contextlib.suppress(OSError), turnstile(self._file).open() as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # a boot that waits for the end of measurements goes first
        try:
            self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the region has ended, which its next call reports
            return
        try:
            fcntl.flock(self._descriptor, self._operation)
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
