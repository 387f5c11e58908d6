"""Queues of work on hosts: one step after another for each instance, side by side across instances."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class OperationQueues:
    """A first-in, first-out queue per key. A queue has a thread only while it has work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, collections.deque[tuple[Future[Any], Callable[[], None]]]] = {}
        self._closed = False

    def submit(self, key: str, operation: Callable[[], T]) -> Future[T]:
        """Run ``operation`` after everything submitted before under ``key``. Raises RuntimeError once closed."""
        future: Future[T] = Future()

        def step() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(operation())
            except BaseException as error:  # the future raises it
                future.set_exception(error)

        with self._lock:
            if self._closed:
                raise RuntimeError("the region is shutting down")
            if key in self._waiting:
                self._waiting[key].append((future, step))
                return future
            self._waiting[key] = collections.deque([(future, step)])
        threading.Thread(target=self._work, args=(key,), name=f"work {key}", daemon=True).start()
        return future

    def run(self, key: str, operation: Callable[[], T]) -> T:
        """Submit an operation, wait for it, and return its result or raise its error."""
        return self.submit(key, operation).result()

    def close(self) -> None:
        """Cancel waiting operations and accept no more. Running operations continue."""
        with self._lock:
            self._closed = True
            for waiting in self._waiting.values():
                for future, _step in waiting:
                    future.cancel()
                waiting.clear()

    def _work(self, key: str) -> None:
        while True:
            with self._lock:
                waiting = self._waiting[key]
                if not waiting:
                    del self._waiting[key]
                    return
                _future, step = waiting.popleft()
            step()
