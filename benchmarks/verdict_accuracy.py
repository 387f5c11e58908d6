"""Measure how often verdicts are wrong, on labelled runs whose truth is known because it was planted.

    python benchmarks/verdict_accuracy.py [--runs 100] [--first 0] [--only TEXT] [--wrong 3] [--undecided 3] [--real]

The runs come from `labelled_runs`, which imports nothing of the judge: limits alone and 1 to 10 % apart, loads too
shallow or short of CPU time, broken promises, bursts, damaged data, pairs with a spread from run to run. Each has
questions with the outcomes that state the truth. Held although the promise was broken, violated although it was kept,
and a limit that was not the limiter are wrong; inconclusive is not, but counts as undecided.

Exit code 1 if more than 0.1 % of the verdicts that must not be held are held, more than 1 % of those that must not be
violated are violated, one damaged run has a verdict, more than 5 % of the A/A pairs are decided, a wrong limiter is
named, or a class is decided less often than a useful judge decides it. With ``--real`` the runs are those of an
embedded region; that needs root and takes about half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labelled_measurements import measured
from labelled_runs import bursts, damaged, limiters, loads, networks, pairs, promises, regions  # noqa: F401
from labelled_runs.labels import (
    CLASSES,
    HELD,
    NOTHING_KNOWN,
    VIOLATED,
    LabelledRun,
    Question,
    RunClass,
)

from pytest_cloudbench import scales_linearly

RUNS = 100
"""Labelled runs of each class."""
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


def judge(one: RunClass, numbers: Iterable[int]) -> Tally:
    """Judge these runs of a class."""
    tally = Tally()
    for number in numbers:
        labelled: LabelledRun = one.run(number)
        runs = [measured(facts) for facts in labelled.runs]
        tally.runs += len(runs)
        for question in labelled.questions:
            try:
                answer = ask(runs, question)
            except Exception as error:
                raise RuntimeError(f"{one.name}, run {number}: {question}") from error
            tally.add(question, answer)
    return tally


@dataclass(frozen=True)
class Totals:
    """The figures over all classes, as shares of 1."""

    runs: int
    verdicts: int
    false_held: float
    false_violated: float
    damaged: int
    a_a: float
    limiter_right: int
    limiter_wrong: int
    undecided: tuple[str, ...]

    @classmethod
    def of(cls, tallies: dict[RunClass, Tally]) -> Totals:
        """Add up all classes. Damaged runs and A/A pairs have figures of their own."""
        usual = [tally for one, tally in tallies.items() if one.group == "runs"]
        damage = [tally for one, tally in tallies.items() if one.group == "damaged"]
        pairs_ = [tally for one, tally in tallies.items() if one.group == "A/A"]
        wrong = [tally.false_held + tally.false_violated for tally in damage]
        return cls(
            runs=sum(tally.runs for tally in tallies.values()),
            verdicts=sum(tally.verdicts for tally in tallies.values()),
            false_held=_share(sum(t.false_held for t in usual), sum(t.not_to_hold for t in usual)),
            false_violated=_share(sum(t.false_violated for t in usual), sum(t.not_to_violate for t in usual)),
            damaged=sum(wrong),
            a_a=_share(sum(t.false_held + t.false_violated for t in pairs_), sum(t.verdicts for t in pairs_)),
            limiter_right=sum(t.limiter_right for t in usual),
            limiter_wrong=sum(t.limiter_wrong for t in usual),
            undecided=tuple(one.name for one, t in tallies.items() if t.decided_share < one.decides),
        )

    @property
    def good(self) -> bool:
        """True if every figure is within its bound."""
        return (
            self.false_held <= MOST_FALSE_HELD
            and self.false_violated <= MOST_FALSE_VIOLATED
            and self.damaged == 0
            and self.a_a <= MOST_A_A
            and self.limiter_wrong == 0
            and not self.undecided
        )

    @property
    def text(self) -> str:
        """The figures in words, with what is required."""
        lines = [
            f"{self.runs:,} runs, {self.verdicts:,} verdicts",
            f"held although broken      {self.false_held:.2%} (at most {MOST_FALSE_HELD:.1%})",
            f"violated although kept    {self.false_violated:.2%} (at most {MOST_FALSE_VIOLATED:.0%})",
            f"damaged data decided      {self.damaged} (0)",
            f"A/A pairs decided         {self.a_a:.1%} (at most {MOST_A_A:.0%})",
            f"limiter named             {self.limiter_right:,} right, {self.limiter_wrong:,} wrong (0)",
        ]
        if self.undecided:
            lines.append(f"decided too seldom        {', '.join(self.undecided)}")
        return "\n".join(lines)


def _share(count: int, of: int) -> float:
    return count / of if of else 0.0


def real_runs() -> dict[RunClass, Tally]:
    """Measure the runs of `real_runs.py` on an embedded region and judge them."""
    file = Path(__file__).with_name("real_runs.py")
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as directory:
        answers = Path(directory, "answers")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            str(file),
            "--cloudbench-pace=full",
            "-p",
            "no:cacheprovider",
        ]
        for chosen in (["-k", "not burst"], ["-k", "burst", "--cloudbench-twin-time=200"]):
            subprocess.run(
                [*command, *chosen],
                env=os.environ | {"CLOUDBENCH_ANSWERS": str(answers)},
                cwd=file.parent.parent,
                check=True,
            )
        for line in map(json.loads, answers.read_text().splitlines()):
            tally = tallies.setdefault(line["class"], Tally())
            tally.runs += line["runs"]
            tally.add(Question(**line["question"]), Answer(**line["answer"]))
    return {RunClass(f"real: {name}", _made_elsewhere, 0.5, "runs"): tally for name, tally in tallies.items()}


def _made_elsewhere(_: object) -> LabelledRun:
    raise RuntimeError("real runs are measured, not made")


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


def main() -> None:
    """Judge the runs; print the confusion table and the totals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="labelled runs of each class")
    parser.add_argument("--first", type=int, default=0, help="number of the first run of each class")
    parser.add_argument("--only", default="", help="classes whose name contains this text")
    parser.add_argument("--wrong", type=int, default=0, help="wrong verdicts to print of each class")
    parser.add_argument("--undecided", type=int, default=0, help="undecided questions to print of each class")
    parser.add_argument("--real", action="store_true", help="real runs on an embedded region")
    arguments = parser.parse_args()
    began = time.process_time()
    chosen = [one for one in CLASSES if arguments.only in one.name]
    if not chosen:
        parser.error(f"no class contains {arguments.only!r}")
    numbers = range(arguments.first, arguments.first + arguments.runs)
    tallies = real_runs() if arguments.real else {one: judge(one, numbers) for one in chosen}
    print(table(tallies))
    for one, tally in tallies.items():
        for sentence in (*tally.wrong[: arguments.wrong], *tally.undecided[: arguments.undecided]):
            print(f"\n{one.name}: {sentence}")
    totals = Totals.of(tallies)
    print(f"\n{len(tallies)} classes, {time.process_time() - began:.0f} s of CPU time\n{totals.text}")
    sys.exit(0 if totals.good else 1)


if __name__ == "__main__":
    main()
