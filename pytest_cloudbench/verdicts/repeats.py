"""One verdict over the repeats of a test: is the promise kept in the median run?

Each repeat is one independent observation, however many seconds it has. A promise is kept in the median run if it is
kept in more than half of all runs. By the order statistics of a sample of n (Conover, Practical Nonparametric
Statistics, section 3.2), the interval between the k-th smallest and the k-th largest value covers the median with a
probability of 1 - 2 P(B < k), where B is binomial with n and 1/2. So at 95 % the promise is held if at most k - 1 of n
repeats do not show it. The fewest repeats are 6, which must all agree: 1 - 2 x 0.5^6 = 96.9 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.quantities import Rate, figure, plain
from pytest_cloudbench.verdicts.latency_limits import measure_words
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import duration, listed, without_ids

CONFIDENCE = 0.95
FEWEST_REPEATS = 6


@dataclass(frozen=True)
class Repeat:
    """What one repeat says about one promise: its verdict, or the reason why there is none."""

    number: int
    verdict: Verdict | None
    missing: str = ""

    @property
    def outcome(self) -> Outcome:
        """What the repeat counts as. The noise within one run does not matter: repeats show how runs differ."""
        if self.verdict is None:
            return Outcome.INCONCLUSIVE
        return self.verdict.leans or self.verdict.outcome

    def details(self) -> dict[str, Any]:
        """Return plain values for a report."""
        if self.verdict is None:
            return {"repeat": self.number, "outcome": "not judged", "sentence": self.missing, "measured": ""}
        return {
            "repeat": self.number,
            "outcome": self.outcome.value,
            "sentence": self.verdict.sentence,
            "measured": self.verdict.figure,
        }


@cache
def exceptions_allowed(repeats: int) -> int | None:
    """Return how many of ``repeats`` may differ from the others in a decision at 95 %; None for fewer than 6."""
    enough = [each for each in range(repeats // 2) if confidence_of(repeats, each) >= CONFIDENCE]
    return max(enough, default=None)


def confidence_of(repeats: int, allowed: int) -> float:
    """Return the confidence, a share of 1, that the values, less ``allowed`` at each end, enclose the median."""
    beyond = sum(math.comb(repeats, each) for each in range(allowed + 1))
    return 1 - math.ldexp(2 * beyond, -repeats)


def repeats_to_decide(repeats: int, against: int) -> int:
    """Return how many more repeats, all in favour, would decide if ``against`` of the present ones are not."""
    more = 0
    while (allowed := exceptions_allowed(repeats + more)) is None or allowed < against:
        more += 1
    return more


def over_repeats(repeats: Sequence[Repeat]) -> Verdict:
    """Return the verdict over all repeats of a promise; at least one of them has a verdict.

    A repeat without a verdict, or with an inconclusive one, speaks neither for nor against the promise, so a decision
    must not depend on its possible outcome.
    """
    total = len(repeats)
    judged = [each for each in repeats if each.verdict is not None]
    count = {kind: sum(each.outcome is kind for each in repeats) for kind in Outcome}
    allowed = exceptions_allowed(total)
    outcome = Outcome.INCONCLUSIVE
    for kind in (Outcome.HELD, Outcome.VIOLATED):
        if allowed is not None and total - count[kind] <= allowed:
            outcome = kind
    figures = _Figures.of(judged)
    promise = _promise(judged)
    parts = [f"{promise} in {count[Outcome.HELD]} of {total} repeats", *figures.texts]
    if outcome is Outcome.INCONCLUSIVE:
        parts.append(_what_would_decide(total, count))
    parts += _exceptions(repeats, outcome)
    undecided = [each for each in repeats if each.outcome is Outcome.INCONCLUSIVE]
    return Verdict(
        outcome,
        f"{outcome.value}: {'; '.join(parts)}",
        f"{promise}, {total} repeats",
        asked=figures.asked,
        measured=figures.middle,
        bound_by=_limits(judged, outcome),
        machine_limited=bool(undecided)
        and not count[Outcome.VIOLATED]
        and all(each.verdict is not None and each.verdict.machine_limited for each in undecided),
        details={
            "repeats": [each.details() for each in repeats],
            "exceptions_allowed": allowed,
            "confidence": None if allowed is None else confidence_of(total, allowed),
            "interval": figures.interval,
            "method": "order statistics of the median (sign test)",
        },
        latency=figures.latency,
    )


@dataclass(frozen=True)
class _Figures:
    """The median of what the repeats measured, with its interval."""

    texts: tuple[str, ...] = ()
    asked: Rate | None = None
    middle: Rate | None = None
    interval: Sequence[float] | None = None
    latency: str = ""

    @classmethod
    def of(cls, judged: Sequence[Repeat]) -> _Figures:
        verdicts = [each.verdict for each in judged if each.verdict is not None]
        if all(each.details.get("latency_s") for each in verdicts):
            return cls._of_latencies([each.details["latency_s"] for each in verdicts])
        rates = [each.measured for each in verdicts if each.measured is not None]
        kinds = {type(rate) for rate in rates}
        if not rates or len(kinds) > 1 or not all(math.isfinite(plain(rate)) for rate in rates):
            return cls()
        kind = kinds.pop()
        values = sorted(plain(rate) for rate in rates)
        middle = kind(median(values))
        asked = verdicts[0].asked
        if any(each.asked != asked for each in verdicts):
            asked = None
        allowed = exceptions_allowed(len(values))
        ends = _ends(values)
        ratios = [_ratio(each.details) for each in verdicts]
        if None not in ratios:  # pairs of runs, whose ratio varies less than the rates of either
            values = sorted(each for each in ratios if each is not None)
            texts = [f"{figure(each, 3)} times" for each in (median(values), *_ends(values))]
        else:
            texts = [str(middle), *(str(kind(each)) for each in ends)]
        text = f"median {texts[0]}, {_sure(len(values))}{texts[1]} to {texts[2]}"
        return cls((text,), asked, middle, None if allowed is None else list(ends))

    @classmethod
    def _of_latencies(cls, latencies: Sequence[Mapping[str, float]]) -> _Figures:
        """Return the figures of verdicts on latency; each of ``latencies`` maps names to seconds."""
        texts, middles = [], []
        for name in latencies[0]:
            values = sorted(each[name] for each in latencies if math.isfinite(each.get(name, math.nan)))
            if not values:
                continue
            low, high = map(duration, _ends(values))
            middles.append(f"{measure_words(name)} {duration(median(values))}")
            texts.append(f"median of {middles[-1]}, {_sure(len(values))}{low} to {high}")
        return cls(tuple(texts), latency=", ".join(middles))


def _sure(values: int) -> str:
    """Return the confidence of the interval of this many values, as the words before its figures."""
    allowed = exceptions_allowed(values)
    return "" if allowed is None else f"{figure(confidence_of(values, allowed) * 100, 1)} % interval "


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median of sorted values; for too few of them the smallest and the largest."""
    allowed = exceptions_allowed(len(values)) or 0
    return values[allowed], values[-1 - allowed]


def _ratio(details: Mapping[str, Any]) -> float | None:
    """Return the first rate as a multiple of the second if the verdict compares two runs; else None."""
    try:
        return float(details["first"]["measured"]) / float(details["second"]["measured"])
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def _promise(judged: Sequence[Repeat]) -> str:
    """Return the promise without the ids of hardware, which differ from repeat to repeat."""
    promise = next(each.verdict.promise for each in judged if each.verdict is not None)
    return without_ids(promise) or "the promise"


def _what_would_decide(total: int, count: dict[Outcome, int]) -> str:
    majority = max((Outcome.HELD, Outcome.VIOLATED), key=lambda kind: count[kind])
    if count[majority] == 0:
        return "no repeat decides this, so more of them would not"
    more = repeats_to_decide(total, total - count[majority])
    if more > max(total, FEWEST_REPEATS):
        return "the repeats differ too much for a few more to decide this"
    words = "1 more repeat" if more == 1 else f"{more} more repeats"
    how = "all of them hold" if majority is Outcome.HELD else "none of them holds"
    agree = "" if total == count[majority] else f" if {how}"
    fewest = f" ({FEWEST_REPEATS} are the fewest for 95 %)" if total < FEWEST_REPEATS else ""
    return f"{words} would decide this{agree}{fewest}"


def _exceptions(repeats: Sequence[Repeat], outcome: Outcome) -> list[str]:
    """Return a text for each kind of repeat that does not hold: which they are, and the reason of the first."""
    texts = []
    for kind in (Outcome.VIOLATED, Outcome.INCONCLUSIVE):
        found = [each for each in repeats if each.verdict is not None and each.outcome is kind]
        if found and found[0].verdict is not None:
            reason = found[0].verdict.sentence.partition(": ")[2]
            which = _named(found[:1]) if kind is outcome else f"{kind.value} in {_named(found)}"
            texts.append(f"{which}: {reason}")
    texts += [
        f"repeat {each.number} was not judged: {each.missing}" for each in repeats if each.verdict is None
    ]
    return texts


def _named(repeats: Sequence[Repeat]) -> str:
    return f"repeat{'s' * (len(repeats) > 1)} {listed(str(each.number) for each in repeats)}"


def _limits(judged: Sequence[Repeat], outcome: Outcome) -> tuple[Ceiling, ...]:
    """Return the limits that repeats with this outcome name, equal ones once: each repeat's hardware has its own."""
    found: dict[tuple[Any, ...], Ceiling] = {}
    for each in judged:
        if each.verdict is not None and each.outcome is outcome:
            for ceiling in each.verdict.bound_by:
                found.setdefault((ceiling.scope, ceiling.quantity, str(ceiling.limit)), ceiling)
    return tuple(found.values())
