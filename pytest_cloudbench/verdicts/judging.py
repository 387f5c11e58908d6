"""Since when a verdict is being drawn, for reports that show how long that took."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_V = TypeVar("_V")

_SINCE: ContextVar[float | None] = ContextVar("judging_since", default=None)


def judging(judge: Callable[_P, _V]) -> Callable[_P, _V]:
    """A function that draws a verdict and tells it: while it runs, `judging_since` says when it began."""

    @functools.wraps(judge)
    def judge_in_time(*args: _P.args, **how: _P.kwargs) -> _V:
        outermost = _SINCE.set(time.time()) if _SINCE.get() is None else None
        try:
            return judge(*args, **how)
        finally:
            if outermost is not None:
                _SINCE.reset(outermost)

    return judge_in_time


def judging_since() -> float | None:
    """When drawing the present verdict began, in seconds since the epoch; None while none is drawn."""
    return _SINCE.get()
