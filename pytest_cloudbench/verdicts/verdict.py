"""The verdict: what a judgement says, in one of three words and one sentence."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ParamSpec, TypeVar

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Rate

_P = ParamSpec("_P")
_V = TypeVar("_V")
_SINCE: ContextVar[float | None] = ContextVar("judging_since", default=None)


class Outcome(Enum):
    """Held, violated, or inconclusive: the measurement cannot decide it."""

    HELD = "held"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"


class Inconclusive(AssertionError):
    """A verdict that is neither yes nor no was asked for its truth. ``verdict`` carries it."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(verdict.sentence)

    def __reduce__(self) -> tuple[type[Inconclusive], tuple[Verdict]]:
        return type(self), (self.verdict,)


@dataclass(frozen=True, repr=False)
class Verdict:
    """The answer to one promise.

    ``sentence`` is one line that begins with the outcome's word. ``promise`` says what was judged;
    ``asked`` and ``measured`` are the figures, ``latency`` the judged one in words where a latency was judged;
    ``bound_by`` the ceilings that held the load back;
    ``machine_limited`` whether the machine under an embedded region did. ``details`` holds the plain
    values behind it for a report (text, numbers, lists).

    Its truth is the outcome: ``assert verdict`` passes when held and fails with the sentence when
    violated. An inconclusive one raises `Inconclusive`.
    """

    outcome: Outcome
    sentence: str
    promise: str
    asked: Rate | None = None
    measured: Rate | None = None
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    latency: str = ""

    def __bool__(self) -> bool:
        if self.outcome is Outcome.INCONCLUSIVE:
            raise Inconclusive(self)
        return self.outcome is Outcome.HELD

    @property
    def figure(self) -> str:
        """What was measured and judged, with its unit: a latency or a rate; "" where nothing was."""
        return self.latency or ("" if self.measured is None else str(self.measured))

    def __repr__(self) -> str:
        return self.sentence

    __str__ = __repr__


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
