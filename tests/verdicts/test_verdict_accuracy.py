"""The labelled runs of the benchmark: independent of the judge, and judged rightly."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
A_FEW = 4


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
    assert (tally.false_held, tally.not_to_hold) == (1, 1)
    assert (tally.false_violated, tally.not_to_violate) == (1, 3)
    assert (tally.limiter_right, tally.limiter_wrong) == (1, 1)
    assert tally.decided_share == pytest.approx(3 / 4)
    assert len(tally.wrong) == 2
