"""The verdict: one of three outcomes and one sentence; also when the judgement in progress began."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ParamSpec, TypeVar

from pytest_cloudbench.limits.argument_names import named_arguments
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Rate, figure

_P = ParamSpec("_P")
_V = TypeVar("_V")
_SINCE: ContextVar[float | None] = ContextVar("judging_since", default=None)
_TRUTH: ContextVar[Callable[[Verdict], bool] | None] = ContextVar("truth_of_verdicts", default=None)
_DRAWN: ContextVar[Callable[[Verdict], object] | None] = ContextVar("verdicts_drawn", default=None)


class Outcome(Enum):
    """Held, violated, or inconclusive: the measurement cannot decide it."""

    HELD = "held"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"


class Inconclusive(AssertionError):
    """The error when the truth value of an inconclusive verdict is used. ``verdict`` is that verdict.

    ``others`` were judged together with it; the text has their sentences too.
    """

    def __init__(self, verdict: Verdict, others: Sequence[Verdict] = ()) -> None:
        self.verdict = verdict
        self.others = tuple(others)
        super().__init__("\n".join(each.sentence for each in (verdict, *self.others)))

    def __reduce__(self) -> tuple[type[Inconclusive], tuple[Verdict, tuple[Verdict, ...]]]:
        return type(self), (self.verdict, self.others)


@dataclass(frozen=True, repr=False)
class Verdict:
    """The answer to one promise.

    ``sentence`` is one line that begins with the outcome's word. ``promise`` says what was judged;
    ``asked`` and ``measured`` are the figures, ``latency`` is the judged latency in words if one was judged,
    ``bound_by`` are the ceilings that held the load back, ``machine_limited`` is True if the machine under an
    embedded region did. ``details`` holds the plain values behind it for a report (text, numbers, lists).
    ``leans`` is the outcome by the figures alone, if only the noise of single runs makes it inconclusive.
    ``asks_for_fall`` is True if the promise is kept by a fall of the rate, such as the end of a burst.

    Its truth value is the outcome: ``assert verdict`` passes when held and fails with the sentence when
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
    leans: Outcome | None = None
    asks_for_fall: bool = False

    @classmethod
    def held(cls, text: str, **figures: Any) -> Verdict:
        """Return a held verdict. ``figures`` are the other fields by name: ``promise``, ``asked``, ``details`` ..."""
        return cls._with(Outcome.HELD, text, figures)

    @classmethod
    def violated(cls, text: str, **figures: Any) -> Verdict:
        """Return a violated verdict; see `held`."""
        return cls._with(Outcome.VIOLATED, text, figures)

    @classmethod
    def inconclusive(cls, text: str, **figures: Any) -> Verdict:
        """Return an inconclusive verdict, for a measurement that cannot decide; see `held`."""
        return cls._with(Outcome.INCONCLUSIVE, text, figures)

    @classmethod
    def _with(cls, outcome: Outcome, text: str, figures: dict[str, Any]) -> Verdict:
        return cls(outcome, f"{outcome.value}: {text}", **{"promise": "", **figures})

    def __bool__(self) -> bool:
        if (decide := _TRUTH.get()) is not None:
            return decide(self)
        if self.outcome is Outcome.INCONCLUSIVE:
            raise Inconclusive(self)
        return self.outcome is Outcome.HELD

    @property
    def figure(self) -> str:
        """What was measured and judged, with its unit: a latency or a rate; "" if nothing was."""
        return self.latency or ("" if self.measured is None else str(self.measured))

    def __repr__(self) -> str:
        return self.sentence

    __str__ = __repr__


@dataclass(frozen=True)
class Evidence:
    """One figure and the figure with which it is compared, both in ``unit``."""

    what: str
    value: float
    compared_with: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what} {figure(self.value)} {self.unit} ({figure(self.compared_with)} {self.unit})"


@dataclass(frozen=True)
class Doubt:
    """Why a figure proves nothing, in words, with the ceilings that may be the reason.

    ``machine_limited`` is True if the machine under an embedded region may be the reason.
    """

    text: str
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False

    def reason(self, before: str = "") -> Reason:
        """Return the inconclusive reason of this doubt, with the words ``before`` it."""
        return Reason(Outcome.INCONCLUSIVE, before + self.text, self.bound_by, self.machine_limited)


@dataclass(frozen=True)
class Reason:
    """Why a rate fell short, in words, and the outcome that follows."""

    outcome: Outcome
    text: str
    bound_by: tuple[Ceiling, ...] = ()
    machine_limited: bool = False


@dataclass(frozen=True)
class Draft:
    """What all possible outcomes of one judgement have in common; ``after`` is the end of each sentence."""

    promise: str
    asked: Rate | None
    measured: Rate | None
    details: Mapping[str, Any]
    latency: str = ""
    after: str = ""
    asks_for_fall: bool = False

    def verdict(
        self, outcome: Outcome, text: str, bound_by: Iterable[Ceiling] = (), *, machine_limited: bool = False
    ) -> Verdict:
        """Return the verdict with this outcome; ``text`` follows the outcome's word in the sentence."""
        return Verdict(
            outcome,
            f"{outcome.value}: {text}{self.after}",
            self.promise,
            self.asked,
            self.measured,
            tuple(bound_by),
            machine_limited,
            self.details,
            self.latency,
            asks_for_fall=self.asks_for_fall,
        )

    def inconclusive(self, doubt: Doubt, before: str = "") -> Verdict:
        """Return the inconclusive verdict of a doubt, with the figures ``before`` it."""
        return self.of(doubt.reason(before))

    def of(self, reason: Reason) -> Verdict:
        """Return the verdict of a reason."""
        return self.verdict(
            reason.outcome, reason.text, reason.bound_by, machine_limited=reason.machine_limited
        )


@contextlib.contextmanager
def truth_by(decide: Callable[[Verdict], bool] | None) -> Iterator[None]:
    """Let ``decide`` return the truth value of every verdict that the block asserts; with None it is the outcome."""
    token = _TRUTH.set(decide)
    try:
        yield
    finally:
        _TRUTH.reset(token)


def truth_in_force() -> Callable[[Verdict], bool] | None:
    """Return what decides the truth value of verdicts now; None if it is their outcome."""
    return _TRUTH.get()


@contextlib.contextmanager
def verdicts_drawn_to(keep: Callable[[Verdict], object]) -> Iterator[None]:
    """Call ``keep`` with every verdict that the block draws, including those that it does not assert."""
    token = _DRAWN.set(keep)
    try:
        yield
    finally:
        _DRAWN.reset(token)


def judging(judge: Callable[_P, _V]) -> Callable[_P, _V]:
    """Wrap a function that draws a verdict: while it runs, `judging_since` returns when it began."""

    checked = named_arguments()(judge)

    @functools.wraps(judge)
    def judge_in_time(*args: _P.args, **how: _P.kwargs) -> _V:
        outermost = _SINCE.set(time.time()) if _SINCE.get() is None else None
        try:
            drawn = checked(*args, **how)
        finally:
            if outermost is not None:
                _SINCE.reset(outermost)
        if outermost is not None and isinstance(drawn, Verdict) and (keep := _DRAWN.get()) is not None:
            keep(drawn)
        return drawn

    return judge_in_time


def judging_since() -> float | None:
    """Return when drawing the present verdict began, in seconds since the epoch; None if none is being drawn."""
    return _SINCE.get()
