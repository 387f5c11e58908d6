"""Independent calls side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from .waits import cancel_waits_on, cancelling_event

T = TypeVar("T")

MAX_WORKERS = 16
_SLICE_S = 0.5


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
