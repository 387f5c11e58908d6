"""Call the hooks of `pytest_cloudbench.hookspecs` for a test; an error in a report does not affect the test."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest


class ReportIncomplete(UserWarning):
    """A report failed to process what a test did. The test itself is not affected."""


def call_hook(item: pytest.Item, name: str, /, **arguments: Any) -> None:
    """Call ``pytest_cloudbench_<name>`` for a test, with the conftest files that apply to it.

    An error in an implementation becomes a warning. The plugin's own reports run first (``tryfirst``), so that a
    faulty plugin affects neither the evidence nor the report.
    """
    with unharmed(f"pytest_cloudbench_{name} of {item.nodeid}"):
        getattr(item.ihook, f"pytest_cloudbench_{name}")(item=item, **arguments)


@contextlib.contextmanager
def step(item: pytest.Item, name: str) -> Iterator[None]:
    """Report the block as a step of the test: its begin, its end, and the exception that ended it, if any."""
    started_s, error = time.time(), None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        call_hook(item, "step", name=name, started_s=started_s, ended_s=time.time(), error=error)


@contextlib.contextmanager
def unharmed(what: str) -> Iterator[None]:
    """Turn an error in reporting ``what`` into a `ReportIncomplete` warning."""
    try:
        yield
    except Exception as error:
        warnings.warn(ReportIncomplete(f"{what}: {type(error).__name__}: {error}"), stacklevel=3)
