"""One step after another for each key, side by side across keys."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from pytest_cloudbench.twin.api.region import OperationQueues


def test_steps_of_one_key_keep_their_order() -> None:
    queues, seen = OperationQueues(), []
    for number in range(50):
        last = queues.submit("a", lambda number=number: seen.append(number))
    last.result(10)
    assert seen == list(range(50))


def test_keys_do_not_wait_for_each_other() -> None:
    queues, gate = OperationQueues(), threading.Event()
    held = queues.submit("a", lambda: gate.wait(10))
    assert queues.run("b", lambda: "done") == "done"
    gate.set()
    assert held.result(10)


def test_error_belongs_to_its_step_only() -> None:
    queues = OperationQueues()

    def fail() -> None:
        raise ValueError("no")

    failed, after = queues.submit("a", fail), queues.submit("a", lambda: "after")
    with pytest.raises(ValueError, match="no"):
        failed.result(10)
    assert after.result(10) == "after"


def test_closing_cancels_waiting_steps_and_not_running_ones() -> None:
    queues, gate, begun = OperationQueues(), threading.Event(), threading.Event()

    def step() -> str:
        begun.set()
        gate.wait(10)
        return "ended"

    running, waiting = queues.submit("a", step), queues.submit("a", lambda: "never")
    assert begun.wait(10)
    queues.close()
    gate.set()
    assert running.result(10) == "ended"
    with pytest.raises(CancelledError):
        waiting.result(10)
    with pytest.raises(RuntimeError, match="shutting down"):
        queues.submit("a", lambda: None)
