"""Waits with a time limit, batched descriptions of the awaited resources, and independent calls in parallel."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pytest_cloudbench.resources.errors import CloudError

from .errors import is_temporary

T = TypeVar("T")

MAX_WORKERS = 16
_SLICE_S = 0.5

_GROWTH = 1.1
_BACK_OFF = 2.0
# The values that one filter of a Describe call takes (EC2 API Reference, "Filter").
_IDS_A_CALL = 200


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
    # How long a running instance may lack its address.
    address_s: float = 30.0
    # How long a new resource may stay invisible, and how long calls are retried that the service could not answer. EC2
    # Developer Guide, "Eventual consistency": retry for up to five minutes.
    settle_s: float = 300.0


@dataclass(frozen=True)
class Pace:
    """The pauses of a wait, in seconds: they grow from `first_s` to `longest_s`.

    After an error, such as for too many requests, they double, up to `refused_s`. Each pause is shortened by a random
    share up to `jitter`, so that parallel runs do not ask at the same moments.
    """

    first_s: float
    longest_s: float
    refused_s: float
    jitter: float = 0.0

    def next(self, pause_s: float, *, refused: bool) -> float:
        """Return the pause that follows one of `pause_s` seconds."""
        longer = pause_s * (_BACK_OFF if refused else _GROWTH)
        return max(self.first_s, min(longer, self.refused_s if refused else self.longest_s))

    def drawn(self, pause_s: float) -> float:
        """Return a pause, shortened by its random share."""
        return pause_s * random.uniform(1.0 - self.jitter, 1.0)  # noqa: S311  (not for security)


OFTEN = Pace(0.03, 3.0, 3.0)
"""For an endpoint on this machine, which answers in milliseconds."""
SELDOM = Pace(1.25, 2.0, 15.0, jitter=0.2)
"""For AWS: one request in 1 to 2 seconds, far below the limit of 20 Describe requests a second for an account."""


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


def _raise_if_cancelled() -> None:
    event = _cancelling.event
    if event is not None and event.is_set():
        raise Cancelled("the run was interrupted during this wait")


def poll(look: Callable[[], T | None], timeout_s: float, pace: Pace) -> T | None:
    """Call `look` at growing intervals until it returns a value, and return that; None after `timeout_s` seconds.

    It is called at least once, and a last time when the time is up. A temporary error of the service counts as None,
    and is raised only if the last call ended with it.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = pace.first_s
    while True:
        refusal: CloudError | None = None
        try:
            found = look()
        except CloudError as error:
            if not is_temporary(error):
                raise
            found, refusal = None, error
        if found is not None:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            if refusal is not None:
                raise refusal
            return None
        _pause(min(pace.drawn(pause_s), left))
        pause_s = pace.next(pause_s, refused=refusal is not None)


def _pause(seconds: float) -> None:
    event = _cancelling.event
    if event is None:
        time.sleep(seconds)
    else:
        event.wait(seconds)
        _raise_if_cancelled()


def retry_while(codes: Collection[str], call: Callable[[], T], timeout_s: float, pace: Pace) -> T:
    """Repeat `call` after temporary errors, and after a CloudError with one of `codes`, and return its result.

    Only for calls that may be repeated even if an attempt succeeded and only its answer was lost. Raises the last error
    after `timeout_s` seconds.
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

    result = poll(attempt, timeout_s, pace)
    if result is None:
        raise refusals[-1]
    return result[0]


Description = Mapping[str, Any]


class Watcher:
    """Describes, by one call per interval, all resources of one kind that any thread waits for. Thread-safe.

    One of the waiting threads makes the call and the others use its answer. `describe` takes ids and returns the
    descriptions of those that the service shows, by id. It must use filters: an unknown id fails the whole call.
    """

    def __init__(self, describe: Callable[[Sequence[str]], Mapping[str, Description]], pace: Pace) -> None:
        self._describe = describe
        self._pace = pace
        self._changed = threading.Condition()
        self._watched: Counter[str] = Counter()
        self._first_shown_s: dict[str, float] = {}
        self._asking = False
        # Rounds are numbered, so that no wait uses the answer to a request from before the wait.
        self._started = self._answered = 0
        self._answer: Mapping[str, Description] | Exception = {}
        self._pause_s = pace.first_s
        self._last_s, self._wait_s = time.monotonic(), 0.0

    def unsettled_s(self, resource_id: str, settle_s: float) -> float:
        """Return for how long an answer may still lack this resource although it exists, in seconds.

        Answers come from replicas: a resource may be missing again, until `settle_s` after it was first shown.
        """
        with self._changed:
            first_s = self._first_shown_s.get(resource_id)
        return settle_s if first_s is None else max(0.0, first_s + settle_s - time.monotonic())

    def wait(
        self, resource_id: str, look: Callable[[Description | None], T | None], timeout_s: float
    ) -> T | None:
        """Call `look` with each new description until it returns a value; return that, or None after `timeout_s`.

        The description is None while the service does not show the resource. Temporary errors of the service are
        raised only if the last round ended with one.
        """
        deadline = time.monotonic() + timeout_s
        with self._watching(resource_id) as begun:
            seen = begun
            while True:
                last = time.monotonic() >= deadline
                seen, answer = self._next_answer(seen, deadline)
                if isinstance(answer, Exception):
                    if last or not is_temporary(answer):
                        raise answer
                    continue
                found = look(answer.get(resource_id))
                if found is not None or last:
                    return found

    def find(self, resource_id: str, settle_s: float) -> Description | None:
        """Return the current description; None if the resource is gone. A new one may be missing for `settle_s`."""
        return self.wait(
            resource_id, lambda description: description, self.unsettled_s(resource_id, settle_s)
        )

    @contextmanager
    def _watching(self, resource_id: str) -> Iterator[int]:
        with self._changed:
            self._watched[resource_id] += 1
            if not isinstance(self._answer, Exception):
                # A new resource changes soon: look soon, but not more often than the pace says.
                self._pause_s = self._pace.first_s
                self._wait_s = min(self._wait_s, self._pace.drawn(self._pause_s))
            seen = self._started
        try:
            yield seen
        finally:
            with self._changed:
                self._watched[resource_id] -= 1
                self._watched += Counter()  # drops what nobody waits for

    def _next_answer(self, seen: int, deadline: float) -> tuple[int, Mapping[str, Description] | Exception]:
        """Return the number and the answer of the first round after `seen`; ask if the round is due."""
        with self._changed:
            while self._answered <= seen:
                _raise_if_cancelled()
                left = min(self._last_s + self._wait_s, deadline) - time.monotonic()
                if not self._asking and left <= 0:
                    break
                self._changed.wait(_SLICE_S if self._asking else min(left, _SLICE_S))
            else:
                return self._answered, self._answer
            self._asking = True
            self._started += 1
            number, ids = self._started, sorted(self._watched)
        answer: Mapping[str, Description] | Exception | None = None
        try:
            answer = self._ask(ids)
            return number, answer
        finally:
            with self._changed:
                self._asking = False
                if answer is not None:  # None: this thread was interrupted, and another one asks
                    self._note(number, answer)
                self._changed.notify_all()

    def _ask(self, ids: Sequence[str]) -> Mapping[str, Description] | Exception:
        found: dict[str, Description] = {}
        try:
            for start in range(0, len(ids), _IDS_A_CALL):
                found.update(self._describe(ids[start : start + _IDS_A_CALL]))
        except Exception as error:
            return error
        return found

    def _note(self, number: int, answer: Mapping[str, Description] | Exception) -> None:
        self._answered, self._answer = number, answer
        if not isinstance(answer, Exception):
            now_s = time.monotonic()
            for resource_id in answer:
                self._first_shown_s.setdefault(resource_id, now_s)
        self._last_s, self._wait_s = time.monotonic(), self._pace.drawn(self._pause_s)
        self._pause_s = self._pace.next(self._pause_s, refused=isinstance(answer, Exception))


def gather(tasks: Sequence[Callable[[], T]], max_workers: int = MAX_WORKERS) -> list[T | Exception]:
    """Run all tasks in threads. Return the result or the exception of each, in their order.

    If the calling thread is interrupted, tasks that have not begun are dropped and waits inside running ones end; the
    interrupt is raised once no task runs.
    """
    if not tasks:
        return []
    # A gather within a task of another gather is cancelled with the outer one.
    cancel = cancelling_event() or threading.Event()

    def guarded(task: Callable[[], T]) -> T | Exception:
        cancel_waits_on(cancel)
        try:
            return task()
        except Exception as error:
            return error

    # The tasks are work of the calling thread; a recording recognises it by the thread's name.
    caller = threading.current_thread().name
    prefix = caller if caller.startswith("cloudbench") else "cloudbench"
    pool = ThreadPoolExecutor(max_workers=min(max_workers, len(tasks)), thread_name_prefix=prefix)
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


def all_of(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run all tasks as `gather` does, and return their results. Raises the first exception once all have ended."""
    results: list[T] = []
    for result in gather(tasks):
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results
