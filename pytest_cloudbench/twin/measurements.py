"""Work that must not disturb a measurement: it waits until no test session holds the lock of those that measure."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

OWN_PROCESSOR = 4
"""With so many processors, a boot has one of its own beside the load, its server of volumes and the test session."""
_LOOK_S = 0.05


@contextlib.contextmanager
def between_measurements(record: Path, needed: Callable[[], bool]) -> Iterator[None]:
    """Run the block while no session measures, and let none begin meanwhile.

    `record` is the file that sessions lock. The block runs at once if it is no longer `needed`, if the file is missing,
    and on a machine that has a processor for it; otherwise one at a time.
    """
    if len(os.sched_getaffinity(0)) >= OWN_PROCESSOR:
        yield
        return
    try:
        descriptor = os.open(record, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        while needed() and not _locked(descriptor):
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
