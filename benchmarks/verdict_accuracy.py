"""Measure how often verdicts are wrong, on labelled runs whose truth is known because it was planted.

    python benchmarks/verdict_accuracy.py [--runs 100] [--first 0] [--only TEXT] [--wrong 3] [--undecided 3] [--real]

The runs come from `labelled_runs`, which imports nothing of the judge: limits alone and 1 to 10 % apart, loads too
shallow or short of CPU time, broken promises, bursts, damaged data, pairs with a spread from run to run. Each has
questions with the outcomes that state the truth. Held although the promise was broken, violated although it was kept,
and a limit that was not the limiter are wrong; inconclusive is not, but counts as undecided.

Exit code 1 if more than 0.1 % of the verdicts that must not be held are held, more than 1 % of those that must not be
violated are violated, one damaged run has a verdict, more than 5 % of the A/A pairs are decided, a wrong limiter is
named, or a class is decided less often than a useful judge decides it. With ``--real`` the runs are those of an
embedded region; that needs root and takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from labelled_measurements import measured
from labelled_runs import bursts, damaged, limiters, loads, networks, pairs, promises, regions  # noqa: F401
from labelled_runs.labels import CLASSES, LabelledRun, Question, RunClass
from verdict_tally import Answer, Tally, Totals, ask, table

RUNS = 100
"""Labelled runs of each class."""


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


def real_runs() -> dict[RunClass, Tally]:
    """Measure the runs of `real_runs.py` on an embedded region and judge them."""
    file = Path(__file__).with_name("real_runs.py")
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as directory:
        answers = Path(directory, "answers")
        command = [sys.executable, "-m", "pytest", "-q", "--cloudbench-pace=full", str(file)]
        for chosen in (["-k", "not burst"], ["-k", "burst", "--cloudbench-twin-time=200"]):
            # A test that could not be measured has no answers, and pytest says why.
            environment = os.environ | {"CLOUDBENCH_ANSWERS": str(answers)}
            subprocess.run([*command, *chosen], env=environment, cwd=file.parent.parent, check=False)
        for line in map(json.loads, answers.read_text().splitlines()):
            tally = tallies.setdefault(line["class"], Tally())
            tally.runs += line["runs"]
            tally.add(Question(**line["question"]), Answer(**line["answer"]))
    return {RunClass(f"real: {name}", _made_elsewhere, 0.5, "runs"): tally for name, tally in tallies.items()}


def _made_elsewhere(_: object) -> LabelledRun:
    raise RuntimeError("real runs are measured, not made")


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
