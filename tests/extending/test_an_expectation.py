"""An expectation from outside the package: the recipe of docs/extending.md adds ``run.recovers_within("10 s")``."""

import pytest
from recipes import code_blocks

RECIPE, TEST = code_blocks("An expectation")
MEASURED = """
from dataclasses import dataclass

import pytest

from pytest_cloudbench import Iops, Measurement, Series, Size, Throughput, Workload, workload_fixture

BLOCK = Size.parse("4k")


def measurement(values):
    rates = tuple(Iops(float(value)) for value in values)
    mean = sum(values) / len(values)
    return Measurement(
        workload="made up", iops=mean, throughput_mib=mean * BLOCK.mib, read=None, write=None, latency=None,
        series=Series(
            tuple(float(at + 1) for at in range(len(rates))), rates, tuple(rate.at(BLOCK) for rate in rates),
            (None,) * len(rates),
        ),
        block_size=BLOCK, sequential=False, outstanding_asked=64, runtime_s=float(len(values)), command="none",
        tool_version="1", host="here", target="gp3 vol-1", started_at="2026-11-22T12:00:00+00:00",
    )


@dataclass(frozen=True)
class Disturbed:
    down_s: int = 4


def run_disturbed(target, job, *, pace, on_progress):
    return measurement([3_000] * 20 + [600] * job.down_s + [3_000] * 20)


disturb = workload_fixture(Workload("disturb", parse=Disturbed, run=run_disturbed))


@pytest.fixture
def measured(disturb):
    return disturb("gp3 vol-1")
"""
ON_A_MEASUREMENT = """
import pytest
from conftest import measurement

from pytest_cloudbench import Outcome, Throughput, Verdict, expectation

STEADY, DOWN = [3_000] * 20, [600] * 4


def test_the_outcomes():
    assert measurement(STEADY + DOWN + STEADY).recovers_within("10 s")
    slow = measurement(STEADY + DOWN * 3 + STEADY).recovers_within("10 s")
    assert (slow.outcome, slow.details["recovered_after_s"]) == (Outcome.VIOLATED, 12)
    assert slow.promise == "recovers within 10 s"
    assert "12 s after a drop, at most 10 s allowed" in str(slow)
    for values in (STEADY, STEADY + DOWN):
        assert measurement(values).expect("recovers_within", "10 s").outcome is Outcome.INCONCLUSIVE


def test_a_run_that_cannot_be_judged_does_not_reach_it():
    verdict = measurement([0] * 20).recovers_within("10 s")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no I/O completed" in str(verdict)


def test_an_unknown_name_and_a_wrong_answer():
    expectation("says_yes")(lambda run: True)
    with pytest.raises(TypeError, match="'says_yes' returned True: return a Verdict"):
        measurement(STEADY).says_yes()
    with pytest.raises(LookupError, match="no expectation 'recovers'.*recovers_within"):
        measurement(STEADY).expect("recovers")
    with pytest.raises(AttributeError, match="recovers"):
        measurement(STEADY).recovers


@pytest.mark.parametrize(
    ("name", "why"),
    [("recovers_within", "already registered by conftest.recovers_within"), ("reaches", "attribute of Judged"),
     ("iops", "attribute of Measurement"), ("streams", "attribute of NetworkMeasurement"),
     ("two words", "use an identifier"), ("_hidden", "use an identifier")],
)
def test_a_name_that_is_taken_is_refused(name, why):
    with pytest.raises(ValueError, match=why):
        expectation(name)(lambda run: Verdict.held("yes"))
"""


@pytest.fixture
def run(pytester):
    """Run a test file in a project whose conftest.py is the recipe and a workload that measures nothing real."""

    def run(body, *options):
        pytester.makeconftest(RECIPE + MEASURED)
        pytester.makepyfile(test_it=body)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    return run


def test_it_judges_a_measurement_and_refuses_names_that_are_taken(run):
    run(ON_A_MEASUREMENT, "--cloudbench-evidence=off").assert_outcomes(passed=9)


def test_a_session_lists_records_and_replays_it(run, pytester):
    recorded = run(TEST, "--cloudbench-evidence=kept")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(
        ["*held: back at 2,700 IOPS or more 4 s after a drop, at most 10 s allowed*"]
    )
    (pytester.path / "kept").rename(pytester.path / "moved")
    replayed = run(TEST, "--cloudbench-replay=moved")
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["*held: back at 2,700 IOPS or more 4 s after a drop*"])
    replayed.stdout.no_fnmatch_line("*judged otherwise*")


def test_a_violated_one_fails_with_its_sentence(run):
    late = "def test_late(disturb):\n    assert disturb('gp3 vol-1', down_s=15).recovers_within('10 s')\n"
    result = run(late, "--cloudbench-evidence=off")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*violated: back at 2,700 IOPS or more 15 s after a drop, at most 10 s allowed*"]
    )
