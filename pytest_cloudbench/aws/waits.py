"""Bounded waiting for a state, with a readable end."""

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
    """How long each kind of wait may take, in seconds. Bare metal boots and stops far more slowly."""

    running_s: float = 300.0
    stopped_s: float = 300.0
    terminated_s: float = 900.0
    bare_metal_s: float = 1800.0
    volume_s: float = 180.0
    group_s: float = 180.0
    # The first snapshot of a volume copies all that was ever written to it.
    snapshot_s: float = 3600.0
    # How long what a call has created may stay invisible to the next call.
    settle_s: float = 5.0


class Cancelled(CloudError):
    """A wait was given up because its caller was interrupted."""


class _Cancelling(threading.local):
    event: threading.Event | None = None


_cancelling = _Cancelling()


def cancel_waits_on(event: threading.Event | None) -> None:
    """From now on the waits of this thread end with Cancelled when `event` is set."""
    _cancelling.event = event


def cancelling_event() -> threading.Event | None:
    """The event that ends the waits of this thread, if there is one."""
    return _cancelling.event


def poll(look: Callable[[], T | None], timeout_s: float) -> T | None:
    """Call `look` until it returns something, at growing intervals; None after `timeout_s` seconds.

    It is called at least once, and once more when the time is up.
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
        raise Cancelled("the wait was given up: the run was interrupted")


def retry_while(codes: Collection[str], call: Callable[[], T], timeout_s: float) -> T:
    """Repeat `call` while the service answers with one of `codes`, e.g. because it does not see yet what it made.

    The last refusal is raised after `timeout_s` seconds.
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
    """Run all tasks in threads; each one's result or the exception it raised, in the order of the tasks.

    When the calling thread is interrupted, tasks not yet begun are dropped, waits inside running ones end,
    and the interruption goes on once no call is under way any more.
    """
    if not tasks:
        return []
    # A gather inside a task of another one is cancelled with it.
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
        # In slices: a signal that another thread caught is seen only when this one runs again.
        while wait(futures, timeout=_SLICE_S).not_done:
            pass
        return [future.result() for future in futures]
    except BaseException:
        cancel.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def all_of(tasks: Sequence[Callable[[], T]], max_workers: int = MAX_WORKERS) -> list[T]:
    """Like `gather`, but raises the first task's exception once all have ended."""
    results: list[T] = []
    for result in gather(tasks, max_workers):
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results
