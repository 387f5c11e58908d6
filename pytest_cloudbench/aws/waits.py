"""Waiting with a time limit, and independent calls side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from pytest_cloudbench.resources.errors import CloudError

T = TypeVar("T")

MAX_WORKERS = 16
_SLICE_S = 0.5

FIRST_PAUSE_S = 0.03
LONGEST_PAUSE_S = 3.0
_GROWTH = 1.25


@dataclass(frozen=True)
class Bounds:
    """The time limit of each kind of wait, in seconds. Bare metal boots and stops far more slowly."""

    running_s: float = 300.0
    stopped_s: float = 300.0
    terminated_s: float = 900.0
    bare_metal_s: float = 1800.0
    volume_s: float = 180.0
    group_s: float = 180.0
    # The first snapshot of a volume copies everything that was written to it.
    snapshot_s: float = 3600.0
    # How long a new resource may stay invisible to the next call.
    settle_s: float = 5.0


class Cancelled(CloudError):
    """A wait ended early because its caller was interrupted."""


class _Cancelling(threading.local):
    event: threading.Event | None = None


_cancelling = _Cancelling()


def cancel_waits_on(event: threading.Event | None) -> None:
    """End the waits of this thread with Cancelled when `event` is set."""
    _cancelling.event = event


def cancelling_event() -> threading.Event | None:
    """Return the event that ends the waits of this thread, or None."""
    return _cancelling.event


def poll(look: Callable[[], T | None], timeout_s: float) -> T | None:
    """Call `look` at growing intervals until it returns a value, and return that; None after `timeout_s` seconds.

    It is called at least once, and a last time when the time is up.
    """
    deadline = time.monotonic() + timeout_s
    pause = FIRST_PAUSE_S
    while True:
        found = look()
        if found is not None:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        _pause(min(pause, left))
        pause = min(pause * _GROWTH, LONGEST_PAUSE_S)


def _pause(seconds: float) -> None:
    event = _cancelling.event
    if event is None:
        time.sleep(seconds)
    elif event.wait(seconds):
        raise Cancelled("the run was interrupted during this wait")


def retry_while(codes: Collection[str], call: Callable[[], T], timeout_s: float) -> T:
    """Repeat `call` while it raises a CloudError with one of `codes`, such as for a resource not visible yet.

    Raises the last error after `timeout_s` seconds.
    """
    refusals: list[CloudError] = []

    def attempt() -> tuple[T] | None:
        try:
            return (call(),)
        except CloudError as error:
            if error.code not in codes:
                raise
            refusals.append(error)
            return None

    result = poll(attempt, timeout_s)
    if result is None:
        raise refusals[-1]
    return result[0]


def gather(tasks: Sequence[Callable[[], T]], max_workers: int = MAX_WORKERS) -> list[T | Exception]:
    """Run all tasks in threads. Return the result or the exception of each, in their order.

    If the calling thread is interrupted, tasks that have not begun are dropped and waits inside running ones end; the
    interrupt is raised once no task runs.
    """
    if not tasks:
        return []
    # A gather within a task of another gather is cancelled with that.
    cancel = cancelling_event() or threading.Event()

    def guarded(task: Callable[[], T]) -> T | Exception:
        cancel_waits_on(cancel)
        try:
            return task()
        except Exception as error:
            return error

    pool = ThreadPoolExecutor(max_workers=min(max_workers, len(tasks)), thread_name_prefix="cloudbench")
    try:
        futures = [pool.submit(guarded, task) for task in tasks]
        # In slices: this thread sees a signal that another one received only when it runs again.
        while wait(futures, timeout=_SLICE_S).not_done:
            pass
        return [future.result() for future in futures]
    except BaseException:
        cancel.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def all_of(tasks: Sequence[Callable[[], T]], max_workers: int = MAX_WORKERS) -> list[T]:
    """Run all tasks as `gather` does, and return their results. Raises the first exception once all have ended."""
    results: list[T] = []
    for result in gather(tasks, max_workers):
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results
