"""Phases of a host before a measurement, such as an installation, for displays of progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

_SHOWN_BY: ContextVar[Callable[[str], AbstractContextManager[object]] | None] = ContextVar(
    "phases_shown_by", default=None
)


def phase(name: str) -> AbstractContextManager[object]:
    """Return a context that shows ``name`` while it lasts, if `phases_shown_by` is active in this thread."""
    show = _SHOWN_BY.get()
    return contextlib.nullcontext() if show is None else show(name)


@contextlib.contextmanager
def phases_shown_by(show: Callable[[str], AbstractContextManager[object]]) -> Iterator[None]:
    """Let ``show`` show the phases within the block."""
    token = _SHOWN_BY.set(show)
    try:
        yield
    finally:
        _SHOWN_BY.reset(token)
