"""The labelled runs of the benchmark: independent of the judge, and judged rightly."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
A_FEW, PAIRS = 3, 40


@pytest.fixture(scope="module")
def accuracy():
    """The benchmark as a module."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import verdict_accuracy

        yield verdict_accuracy
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_the_labelled_runs_import_nothing_of_the_judge():
    modules = sorted(path.stem for path in (BENCHMARKS / "labelled_runs").glob("[!_]*.py"))
    imports = "\n".join(f"import labelled_runs.{name}" for name in modules)
    judges = "name for name in sys.modules if '.verdicts' in name or '.workloads' in name"
    code = f"{imports}\nimport sys\nprint([{judges}])"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_there_are_thousands_of_runs_in_many_classes(accuracy):
    groups = [one.group for one in accuracy.CLASSES]
    assert len({one.name for one in accuracy.CLASSES}) == len(groups) >= 50
    assert set(groups) == {"runs", "damaged", "A/A"}
    assert len(groups) * accuracy.RUNS >= 5_000


def test_a_class_makes_the_same_runs_again(accuracy):
    for one in accuracy.CLASSES:
        assert one.run(3).runs == one.run(3).runs or one.group == "damaged"  # NaN equals nothing
        assert one.run(3).runs != one.run(4).runs


def test_a_wrong_verdict_and_a_wrong_limiter_are_counted(accuracy):
    tally = accuracy.Tally()
    kept = accuracy.Question("reaches", right=frozenset({"held"}), limiters=("volume",))
    tally.add(kept, accuracy.Answer("violated", "", ("instance",)))
    tally.add(kept, accuracy.Answer("held", "", ("volume", "instance")))
    tally.add(kept, accuracy.Answer("inconclusive", ""))
    broken = accuracy.Question("reaches", right=frozenset({"violated"}))
    tally.add(broken, accuracy.Answer("held", ""))
    found = accuracy.Totals.of({accuracy.RunClass("one", None, 0.8, "runs"): tally})
    assert (found.false_held.count, found.false_held.of) == (1, 1)
    assert (found.false_violated.count, found.false_violated.of) == (1, 3)
    assert (found.limiter_wrong.count, found.limiter_wrong.of) == (1, 2)
    assert (found.decided.count, found.decided.of) == (3, 4)
    assert found.seldom == ("one",)
    assert len(tally.wrong) == 2
    assert not found.good


def test_damaged_runs_and_pairs_of_one_thing_have_figures_of_their_own(accuracy):
    tallies = {}
    for group in ("damaged", "A/A"):
        tally = accuracy.Tally()
        for outcome in ("held", "inconclusive", "inconclusive", "inconclusive"):
            tally.add(accuracy.Question("outperforms"), accuracy.Answer(outcome, ""))
        tallies[accuracy.RunClass(group, None, 0.0, group)] = tally
    found = accuracy.Totals.of(tallies)
    assert (found.damaged.count, found.damaged.of) == (1, 4)
    assert found.a_a.share == pytest.approx(0.25)
    assert found.false_held.of == found.false_violated.of == 0


def test_shapes_have_the_figures_that_their_labels_state(accuracy):
    from labelled_runs import shapes

    rng = random.Random(1)
    for memory in (0.0, 0.9):
        limited = shapes.at_a_limit(rng, 60, 0.09, memory)
        assert 0.994 <= sum(limited) / 60 <= 1.006
    free = shapes.noise(rng, 20_000, 0.05, 0.6)
    middle = sum(free) / len(free)
    spread = (sum((each - middle) ** 2 for each in free) / len(free)) ** 0.5
    assert middle == pytest.approx(1.0, abs=0.005)
    assert spread == pytest.approx(0.05, rel=0.05)
    good = shapes.clustered(rng, 100_000, bad=0.1, lasts=8.0)
    assert good.count(False) / len(good) == pytest.approx(0.1, rel=0.1)
    assert shapes.longest([True, True, False, True]) == 2


def test_few_runs_of_every_class_are_judged_rightly(accuracy):
    # A share of pairs takes more of them than a mistake that must not occur.
    tallies = {
        one: accuracy.judge(one, range(PAIRS if one.group == "A/A" else A_FEW)) for one in accuracy.CLASSES
    }
    totals = accuracy.Totals.of(tallies)
    wrong = [f"{one.name}: {sentence}" for one, tally in tallies.items() for sentence in tally.wrong]
    assert totals.runs >= 300
    assert totals.false_held.count == 0, wrong
    assert totals.false_violated.share <= 0.01, wrong
    assert totals.limiter_wrong.count == 0, wrong
    assert totals.limiter_wrong.of > 100
    assert totals.damaged.count == 0, wrong
    assert totals.a_a.share <= 0.05, wrong
    assert totals.decided.share >= 0.9
