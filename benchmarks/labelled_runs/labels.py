"""A labelled run: what was measured, what is asked about it, and which answers are right."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.network import NetworkEnvelope
from pytest_cloudbench.limits.quantities import Rate, Size

HELD, VIOLATED = "held", "violated"
LOAD, GENERATOR, MACHINE, NOTHING_KNOWN = "load", "generator", "machine", "unknown"
SUSPECTS = (LOAD, GENERATOR, MACHINE, NOTHING_KNOWN)
"""What may hold a run besides limits."""


@dataclass(frozen=True)
class Region:
    """What an embedded region counted of a run: means per I/O in seconds."""

    modelled_s: float
    late_s: float


@dataclass(frozen=True)
class StorageFacts:
    """A run on storage as its tools report it.

    ``iops`` are the one-second samples and ``total_iops`` the tool's own mean; ``seconds`` are the ends of the samples,
    1, 2, 3 ... if None; ``runtime_s`` is as many seconds as there are samples if None. ``latency_s`` is the mean of one
    I/O, ``sample_latency_s`` one for each sample. ``counters`` maps "volume_iops", "volume_throughput", "instance_iops"
    and "instance_throughput" to the seconds for which demand exceeded that limit. ``generator`` is the CPU use of the
    busiest job and of all jobs, in per cent of one CPU, and the number of CPUs. ``device_iops`` is what the device
    itself counted beside its throttle counters, with the I/Os of other loads.
    """

    iops: tuple[float, ...]
    block: Size
    sequential: bool
    envelope: Envelope
    outstanding: int
    latency_s: float
    total_iops: float
    seconds: tuple[float, ...] | None = None
    sample_latency_s: tuple[float, ...] | None = None
    throughput_mib: tuple[float, ...] | None = None
    counters: Mapping[str, float] | None = None
    generator: tuple[float, float, int] | None = None
    rate_asked: Rate | None = None
    region: Region | None = None
    device_iops: float | None = None
    runtime_s: float | None = None


@dataclass(frozen=True)
class NetworkFacts:
    """A run over a network as its tools report it, in Gbit/s of data.

    ``counters`` holds packets above the bandwidth allowance of the client and of the server, ``mss`` the bytes of data
    in one TCP segment.
    """

    gbit: tuple[float, ...]
    streams: tuple[float, ...]
    envelope: NetworkEnvelope
    total_gbit: float
    seconds: tuple[float, ...] | None = None
    counters: tuple[int, int] | None = None
    generator: tuple[float, float, int] | None = None
    rate_asked: Rate | None = None
    mss: int = 8_949


Facts: TypeAlias = StorageFacts | NetworkFacts


@dataclass(frozen=True)
class Question:
    """One verdict that a test asks of a run.

    ``right`` are the outcomes that state the truth; inconclusive is never wrong. ``limiters`` are the labels of the
    limits that set the rate: a verdict that names limits, but none of these, is wrong. None if it does not matter.
    ``may_refuse`` is True if a TypeError or ValueError is a right answer too, ``may_doubt`` if a useful judge need not
    decide it.
    """

    call: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    right: frozenset[str] = frozenset()
    limiters: tuple[str, ...] | None = None
    may_refuse: bool = False
    may_doubt: bool = False

    def __str__(self) -> str:
        options = (f"{name}={value}" for name, value in self.options.items())
        return f"{self.call}({', '.join([*map(str, self.args), *options])})"


@dataclass(frozen=True)
class LabelledRun:
    """Runs (the first is judged, others are compared with it) and what is asked."""

    runs: tuple[Facts, ...]
    questions: tuple[Question, ...]


def about(run: Facts, *questions: Question) -> LabelledRun:
    """Return one run with what is asked about it."""
    return LabelledRun((run,), questions)


@dataclass(frozen=True)
class RunClass:
    """A class of labelled runs.

    ``decides`` is the least share of the questions with a right outcome that a useful judge decides. ``group`` is
    "runs", "damaged" (no verdict is right) or "A/A" (two runs of one thing).
    """

    name: str
    make: Callable[[random.Random], LabelledRun]
    decides: float
    group: str

    def run(self, number: int) -> LabelledRun:
        """Return the ``number``th run of this class, always the same."""
        return self.make(random.Random(f"{self.name} {number}"))


CLASSES: list[RunClass] = []


def labelled(
    name: str, *, decides: float = 0.0, group: str = "runs"
) -> Callable[[Callable[[random.Random], LabelledRun]], Callable[[random.Random], LabelledRun]]:
    """Register a function that makes the runs of one class."""

    def register(make: Callable[[random.Random], LabelledRun]) -> Callable[[random.Random], LabelledRun]:
        CLASSES.append(RunClass(name, make, decides, group))
        return make

    return register


def held(call: str, *args: Any, limiters: tuple[str, ...] | None = None, **options: Any) -> Question:
    """Return a question whose promise was kept."""
    return Question(call, args, options, frozenset({HELD}), limiters)


def violated(call: str, *args: Any, limiters: tuple[str, ...] | None = None, **options: Any) -> Question:
    """Return a question whose promise was broken."""
    return Question(call, args, options, frozenset({VIOLATED}), limiters)


def unknown(call: str, *args: Any, limiters: tuple[str, ...] | None = None, **options: Any) -> Question:
    """Return a question that this run cannot decide."""
    return Question(call, args, options, frozenset(), limiters)


def refused(call: str, *args: Any, **options: Any) -> Question:
    """Return a question that this run cannot decide and that may be refused with an error."""
    return Question(call, args, options, may_refuse=True)


def limited_by(*suspects: str) -> Question:
    """Return the question what held a run: one of these limits by their labels, or of the kinds of `SUSPECTS`."""
    return Question("bottleneck", limiters=suspects)


def not_held(call: str, *args: Any, limiters: tuple[str, ...] | None = None, **options: Any) -> Question:
    """Return a question for which only held is wrong, and which need not be decided."""
    return Question(call, args, options, frozenset({VIOLATED}), limiters, may_doubt=True)


def not_violated(call: str, *args: Any, limiters: tuple[str, ...] | None = None, **options: Any) -> Question:
    """Return a question for which only violated is wrong, and which need not be decided."""
    return Question(call, args, options, frozenset({HELD}), limiters, may_doubt=True)


def capped(mine: Ceiling) -> tuple[Question, ...]:
    """Return the questions whether a run reaches the limit at which it lies, and is capped by it."""
    return held("reaches", mine), held("capped_by", mine, limiters=(mine.label,))


def at_limit(mine: Ceiling) -> tuple[Question, ...]:
    """Return the questions of a run at a limit: those of `capped`, and what held it."""
    return *capped(mine), limited_by(mine.label)


def below(other: Ceiling, mine: Ceiling) -> tuple[Question, ...]:
    """Return the questions about a limit that a run at ``mine`` did not reach."""
    return (
        violated("reaches", other, limiters=(mine.label,)),
        not_held("capped_by", other, limiters=(mine.label,)),
    )


def short_of(other: Ceiling, *suspects: str) -> tuple[Question, ...]:
    """Return the questions of a run that ``suspects`` kept below a limit: a broken promise if nothing known did."""
    reached = violated if NOTHING_KNOWN in suspects else unknown
    return (
        limited_by(*suspects),
        reached("reaches", other, limiters=()),
        not_held("capped_by", other, limiters=()),
    )


def kept_if(kept: bool, call: str, *args: Any, **options: Any) -> Question:
    """Return a question whose truth is a figure of the run itself."""
    return held(call, *args, **options) if kept else violated(call, *args, **options)
