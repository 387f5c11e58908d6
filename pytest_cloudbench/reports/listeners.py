"""Who is told what a test does while it does it: the reports that are active in this session.

A report registers itself when pytest is configured; without one, telling costs a look into an empty list.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict


class ReportIncomplete(UserWarning):
    """A report could not take in something that a test did; the test itself is not touched by it."""


class Listener:
    """A report that is told of what tests do. Each method does nothing unless it is overridden."""

    def instance(self, item: pytest.Item, instance: Any, cloud: Any) -> None:
        """The test has a new instance (a `resources.Instance`) in this control plane."""

    def step(
        self, item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
    ) -> None:
        """A step of the test has ended; times in seconds since the epoch, ``error`` is what ended it early."""

    def measurement(self, item: pytest.Item, measurement: Any) -> None:
        """The test has a new measurement."""

    def curve(self, item: pytest.Item, curve: Any) -> None:
        """The test has a new curve of latency over load; its peak is told as a measurement besides."""

    def verdict(self, item: pytest.Item, verdict: Verdict) -> None:
        """One of its measurements was judged."""

    def comparison(self, item: pytest.Item, runs: Sequence[Any], labels: Sequence[str], title: str) -> None:
        """Measurements, or curves, were set side by side; ``labels`` and ``title`` may be empty."""


_LISTENERS: pytest.StashKey[list[Listener]] = pytest.StashKey()


def add_listener(config: pytest.Config, listener: Listener) -> None:
    """Have a report told from now on."""
    config.stash.setdefault(_LISTENERS, []).append(listener)


def tell_instance(item: pytest.Item, instance: Any, cloud: Any) -> None:
    """Tell the reports of a new instance of the test."""
    _tell(item, lambda listener: listener.instance(item, instance, cloud))


def tell_measurement(item: pytest.Item, measurement: Any) -> None:
    """Tell the reports of a new measurement of the test."""
    _tell(item, lambda listener: listener.measurement(item, measurement))


def tell_curve(item: pytest.Item, curve: Any) -> None:
    """Tell the reports of a new curve of latency over load."""
    _tell(item, lambda listener: listener.curve(item, curve))


def tell_verdict(item: pytest.Item, verdict: Verdict) -> None:
    """Tell the reports how one of the test's measurements was judged."""
    _tell(item, lambda listener: listener.verdict(item, verdict))


def tell_comparison(
    item: pytest.Item, runs: Sequence[Any], labels: Sequence[str] = (), title: str = ""
) -> None:
    """Tell the reports that some of the test's measurements, or curves, were set side by side."""
    _tell(item, lambda listener: listener.comparison(item, runs, labels, title))


@contextlib.contextmanager
def step(item: pytest.Item, name: str) -> Iterator[None]:
    """Tell the reports that this was a step of the test, when it began and ended, and what ended it early."""
    if not item.config.stash.get(_LISTENERS, None):
        yield
        return
    began, error = time.time(), None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        ended, ended_by = time.time(), error
        _tell(item, lambda listener: listener.step(item, name, began, ended, ended_by))


def _tell(item: pytest.Item, tell: Callable[[Listener], None]) -> None:
    for listener in item.config.stash.get(_LISTENERS, ()):
        with unharmed(f"{type(listener).__name__} of {item.nodeid}"):
            tell(listener)


@contextlib.contextmanager
def unharmed(what: str) -> Iterator[None]:
    """An error in reporting ``what`` becomes a warning: a report must not cost anybody a measurement."""
    try:
        yield
    except Exception as error:
        warnings.warn(ReportIncomplete(f"{what}: {type(error).__name__}: {error}"), stacklevel=3)
