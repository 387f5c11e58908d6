"""What the judge says of labelled runs, and how much of it is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labelled_runs.labels import HELD, NOTHING_KNOWN, VIOLATED, Question, RunClass

from pytest_cloudbench import scales_linearly

NAMED = "named"
"""The outcome of a question for the bottleneck."""
MOST_FALSE_HELD, MOST_FALSE_VIOLATED, MOST_A_A = 0.001, 0.01, 0.05


@dataclass(frozen=True)
class Answer:
    """The outcome of a question ("refused" for an error that was allowed), its sentence and the limits it names."""

    outcome: str
    sentence: str
    named: tuple[str, ...] = ()


def ask(runs: Sequence[Any], question: Question) -> Answer:
    """Ask the judge. An error that the question does not allow is raised."""
    first, *others = runs
    try:
        if question.call == "bottleneck":
            return _bottleneck(first, question)
        if question.call == "scales_linearly":
            verdict = scales_linearly(runs, with_=question.args[0])
        elif question.call == "latency":
            verdict = first.latency.at_most(**question.options)
        elif question.call == "not_worse_than":
            verdict = first.not_worse_than(others, **question.options)
        else:
            arguments = (others[0],) if question.call in ("outperforms", "resembles") else question.args
            verdict = getattr(first, question.call)(*arguments, **question.options)
    except (TypeError, ValueError) as error:
        if not question.may_refuse:
            raise
        return Answer("refused", f"refused: {error}")
    return Answer(
        verdict.outcome.value, verdict.sentence, tuple(ceiling.label for ceiling in verdict.bound_by)
    )


def _bottleneck(run: Any, question: Question) -> Answer:
    """Return who leads the suspects: limits by their labels, others by their kinds."""
    found = run.bottleneck
    named = tuple(
        each.ceiling.label if each.ceiling is not None else each.kind.value for each in found.leading
    )
    if named == (NOTHING_KNOWN,) and NOTHING_KNOWN not in (question.limiters or ()):
        named = ()  # it names nobody, so it is undecided
    return Answer(NAMED, found.sentence, named)


@dataclass
class Tally:
    """What the judge said of one class: outcomes, mistakes with their sentences, and how often it could decide."""

    outcomes: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    not_to_hold: int = 0
    not_to_violate: int = 0
    false_held: int = 0
    false_violated: int = 0
    limiter_right: int = 0
    limiter_wrong: int = 0
    decidable: int = 0
    decided: int = 0
    wrong: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def add(self, question: Question, answer: Answer) -> None:
        """Count one answer."""
        mistakes = [] if answer.outcome == NAMED else self._judged(question, answer)
        if question.limiters is not None and answer.named:
            right = any(name in question.limiters for name in answer.named)
            self.limiter_right += right
            self.limiter_wrong += not right
            if not right:
                mistakes.append(f"wrong limiter {' and '.join(answer.named)}")
        if mistakes:
            self.wrong.append(f"{', '.join(mistakes)} by {question}: {answer.sentence}")

    def _judged(self, question: Question, answer: Answer) -> list[str]:
        """Count the outcome of a verdict; return what is wrong with it."""
        self.outcomes[answer.outcome] += 1
        self.not_to_hold += HELD not in question.right
        self.not_to_violate += VIOLATED not in question.right
        decided = answer.outcome in (HELD, VIOLATED)
        if question.right and not question.may_doubt:
            self.decidable += 1
            self.decided += decided
            if not decided:
                self.undecided.append(f"{question}: {answer.sentence}")
        if not decided or answer.outcome in question.right:
            return []
        self.false_held += answer.outcome == HELD
        self.false_violated += answer.outcome == VIOLATED
        return [f"false {answer.outcome}"]

    @property
    def verdicts(self) -> int:
        """How many questions were asked."""
        return sum(self.outcomes.values())

    @property
    def decided_share(self) -> float:
        """The share of the questions with a right outcome that were decided; 1 if there were none."""
        return self.decided / self.decidable if self.decidable else 1.0


@dataclass(frozen=True)
class Part:
    """``count`` of so many."""

    count: int
    of: int

    @property
    def share(self) -> float:
        """The share, of 1; 0 of none."""
        return self.count / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.share:.2%} ({self.count:,} of {self.of:,})"


@dataclass(frozen=True)
class Totals:
    """The figures over all classes. Damaged runs and A/A pairs count by themselves."""

    runs: int
    verdicts: int
    false_held: Part
    false_violated: Part
    damaged: Part
    a_a: Part
    limiter_wrong: Part
    decided: Part
    seldom: tuple[str, ...]
    """The classes that are decided less often than a useful judge decides them."""

    @classmethod
    def of(cls, tallies: dict[RunClass, Tally]) -> Totals:
        """Add up the classes."""

        def total(group: str, name: str) -> int:
            return sum(getattr(tally, name) for one, tally in tallies.items() if one.group == group)

        def wrong(group: str) -> Part:
            return Part(total(group, "false_held") + total(group, "false_violated"), total(group, "verdicts"))

        named = total("runs", "limiter_right") + total("runs", "limiter_wrong")
        return cls(
            runs=sum(tally.runs for tally in tallies.values()),
            verdicts=sum(tally.verdicts for tally in tallies.values()),
            false_held=Part(total("runs", "false_held"), total("runs", "not_to_hold")),
            false_violated=Part(total("runs", "false_violated"), total("runs", "not_to_violate")),
            damaged=wrong("damaged"),
            a_a=wrong("A/A"),
            limiter_wrong=Part(total("runs", "limiter_wrong"), named),
            decided=Part(total("runs", "decided"), total("runs", "decidable")),
            seldom=tuple(one.name for one, tally in tallies.items() if tally.decided_share < one.decides),
        )

    @property
    def good(self) -> bool:
        """True if every figure is within its bound."""
        return (
            self.false_held.share <= MOST_FALSE_HELD
            and self.false_violated.share <= MOST_FALSE_VIOLATED
            and self.a_a.share <= MOST_A_A
            and not self.damaged.count
            and not self.limiter_wrong.count
            and not self.seldom
        )

    @property
    def text(self) -> str:
        """The figures in words, with what is required."""
        lines = [
            f"{self.runs:,} runs, {self.verdicts:,} verdicts",
            f"held although broken     {self.false_held}, at most {MOST_FALSE_HELD:.1%}",
            f"violated although kept   {self.false_violated}, at most {MOST_FALSE_VIOLATED:.0%}",
            f"damaged data decided     {self.damaged}, at most 0",
            f"A/A pairs decided        {self.a_a}, at most {MOST_A_A:.0%}",
            f"limiter named wrong      {self.limiter_wrong}, at most 0",
            f"decided if it can be     {self.decided}",
        ]
        if self.seldom:
            lines.append(f"decided too seldom       {', '.join(self.seldom)}")
        return "\n".join(lines)


def table(tallies: dict[RunClass, Tally]) -> str:
    """Return the confusion table, one line for each class."""
    width = max(len(one.name) for one in tallies)
    head = f"{'class':{width}}  runs   held  viol. incon. | false: held  viol. limiter | decided, least"
    lines = [head, "-" * len(head)]
    for one, t in tallies.items():
        undecided = t.verdicts - t.outcomes[HELD] - t.outcomes[VIOLATED]
        decided = f"{t.decided_share:7.0%}  {one.decides:.0%}" if t.decidable else "      -"
        lines.append(
            f"{one.name:{width}} {t.runs:5} {t.outcomes[HELD]:6} {t.outcomes[VIOLATED]:6} {undecided:6} |"
            f"{t.false_held:12} {t.false_violated:6} {t.limiter_wrong:7} |{decided}"
            + (" <" if t.decided_share < one.decides else "")
        )
    return "\n".join(lines)
