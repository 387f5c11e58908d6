"""pytest-benchmark's gate on recordings: in a replay a slower one fails and a faster one never does."""

import json
import sys

import pytest
import recorded_runs

pytest.importorskip("pytest_benchmark")

BODY = """
def test_it(volume, fio):
    fio(volume, rw="randread", iodepth=16, runtime=300)
"""
GATE = ("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%")
QUIET = ("-p", "no:cacheprovider", "-p", "no:allure_pytest")


@pytest.fixture
def recordings(pytester):
    """Record the test at some rates, in IOPS; replay one of them with options of pytest-benchmark."""
    pytester.makepyfile(test_it=BODY)

    def run(*options):
        return pytester.run(sys.executable, "-m", "pytest", *QUIET, *options, "test_it.py")

    def record(*rates):
        for rate in rates:
            pytester.makeconftest(recorded_runs.STANDS_IN + f"\nrates[:] = [{float(rate)}]\n")
            recorded = run(f"--cloudbench-evidence=kept-{rate}", "-p", "no:benchmark")
            recorded.assert_outcomes(passed=1)
        # From here on everything is replayed.
        pytester.makeconftest(recorded_runs.STANDS_IN + "\nrates.clear()\n")

        def replay(rate, *more):
            return run(f"--cloudbench-replay=kept-{rate}", *more)

        return replay

    return record


@pytest.mark.parametrize(
    ("rate", "passes"), [(3_000, True), (2_900, True), (30_000, True), (2_800, False), (300, False)]
)
def test_the_gate_on_two_recordings(recordings, pytester, rate, passes):
    replay = recordings(*dict.fromkeys((3_000, rate)))
    replay(3_000, "--benchmark-save=base").assert_outcomes(passed=1)
    (saved,) = pytester.path.glob(".benchmarks/*/0001_base.json")
    (row,) = json.loads(saved.read_text())["benchmarks"]
    assert row["stats"]["ops"] == pytest.approx(3_000.0)
    judged = replay(rate, *GATE)
    assert (judged.ret == 0) is passes
    assert ("Performance has regressed" in str(judged.stdout) + str(judged.stderr)) is not passes


def test_the_gate_goes_both_ways_over_the_same_two_recordings(recordings):
    replay = recordings(3_000, 4_000)
    replay(4_000, "--benchmark-save=base").assert_outcomes(passed=1)
    assert replay(3_000, *GATE).ret != 0
    assert replay(4_000, *GATE).ret == 0
