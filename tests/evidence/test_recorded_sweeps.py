"""A sweep is recorded run by run, so that a kill loses no completed step, and replayed as its curve."""

import pytest
import recorded_runs

# Loaded here so that the sessions inside these tests do not load it again: classes would exist twice.
import pytest_cloudbench.workloads.sweep.sweep  # noqa: F401
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.evidence.restorable import measurement_from
from pytest_cloudbench.evidence.verify import verify

SWEEPS = """
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.workloads.sweep.curve import Curve, Step
from pytest_cloudbench.workloads.sweep.errors import SweepBroken


def run_sweep(target, plan, *, pace, on_progress, on_run):
    maximum = recorded_runs.measured(3_000.0, target=target.label, raw={})
    on_run(maximum)
    curve = Curve(plan.mix, plan.threads, 1, maximum, ())
    for percent in plan.steps:
        if percent > 100:
            raise SweepBroken("the sweep failed at 110 %", curve)
        asked = Iops(30.0 * percent)
        measured = recorded_runs.measured(asked.per_second, target=target.label, rate_asked=asked, raw={})
        on_run(measured)
        curve = dataclasses.replace(curve, steps=(*curve.steps, Step(percent, asked, measured, "steady")))
    return curve


@pytest.fixture(autouse=True)
def _sweeps_stand_in(monkeypatch):
    from pytest_cloudbench.workloads.sweep import sweep

    monkeypatch.setattr(sweep, "SWEEP", dataclasses.replace(sweep.SWEEP, run=run_sweep))
"""
BODY = """
import pytest
from pytest_cloudbench.workloads.sweep.errors import SweepBroken

def test_it(volume, sweep):
    curve = sweep(volume, "4k-random-read", threads=16, steps=(20, 50, 100))
    assert [step.asked.per_second for step in curve.steps] == [600.0, 1_500.0, 3_000.0]
    assert curve.peak.reaches("3,000 IOPS")

def test_broken(volume, sweep):
    with pytest.raises(SweepBroken, match="the sweep failed") as broken:
        sweep(volume, "4k-random-read", threads=16, steps=(20, 110))
    assert len(broken.value.curve.steps) == 1
"""


@pytest.fixture
def kept(session, pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN + SWEEPS)
    session(BODY, "--cloudbench-evidence=kept").assert_outcomes(passed=2)
    return pytester.path / "kept"


def test_each_run_of_a_sweep_is_recorded_as_it_ends(kept):
    whole, broken = Evidence(kept).tests
    parts = [
        measurement_from(whole.measurement(entry["file"]), whole.read) for entry in whole.of_kind("part")
    ]
    assert [part.iops for part in parts] == [3_000.0, 600.0, 1_500.0, 3_000.0]
    assert [entry["inside"] for entry in whole.of_kind("part")] == ["sweep"] * 4
    kinds = [entry["kind"] for entry in whole.entries if entry["kind"] in ("part", "workload")]
    assert kinds == ["part"] * 4 + ["workload"]
    curve = measurement_from(whole.measurements()[0], whole.read)
    assert len(curve.steps) == 3
    assert len(broken.of_kind("part")) == 2
    assert verify(kept).exit_code == 0


STEPS_JUDGED = """
def test_it(volume, sweep):
    curve = sweep(volume, "4k-random-read", threads=16, steps=(20, 50))
    assert curve.steps[1].reached()
    assert curve.steps[0].measurement.reaches("590 IOPS")
    assert curve.steps[0].latency.at_most(p99="1 ms")
"""


def test_verdicts_on_steps_are_recorded_and_computed_again(session, pytester):
    pytester.makeconftest(recorded_runs.STANDS_IN + SWEEPS)
    session(STEPS_JUDGED, "--cloudbench-evidence=kept").assert_outcomes(failed=1)
    (test,) = Evidence(pytester.path / "kept").tests
    held, again, violated = test.of_kind("verdict")
    assert held["sentence"].startswith("held: 1,500 of 1,500 IOPS")
    assert again["sentence"].startswith("held: 600 of 590 IOPS")
    assert violated["sentence"].startswith("violated: latency: p99 12 ms, at most 1 ms required; ")
    (workload,) = test.of_kind("workload")
    assert {entry["of"] for entry in test.of_kind("verdict")} == {workload["file"]}
    assert verify(pytester.path / "kept").exit_code == 0

    replayed = session(STEPS_JUDGED.replace("1 ms", "20 ms"), "--cloudbench-replay=kept")
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["*judged differently*violated: latency: p99 12 ms*"])


def test_a_sweep_is_replayed_as_its_curve(session, kept):
    session(BODY, "--cloudbench-replay=kept").assert_outcomes(passed=2)
    result = session(BODY.replace("(20, 50, 100)", "(20, 50, 90)"), "--cloudbench-replay=kept")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E *NotRecorded: *there it was steps=[[]20, 50, 100[]]"])
