"""pytest-benchmark's gate on recordings: in a replay a slower one fails and a faster one never does."""

import json

import pytest
import recorded_runs

pytest.importorskip("pytest_benchmark")

BODY = """
def test_it(volume, fio):
    fio(volume, rw="randread", iodepth=16, runtime=300)
"""
BASE, OTHER = 3_000, 4_000
JUDGED = {BASE: True, 2_900: True, 30_000: True, 2_800: False, 300: False}
"""The rate in IOPS -> whether it passes a gate of 5 % on the base."""


@pytest.fixture
def replayed(pytester):
    """Return a function that records the test at rates, saves a replay of each, and returns the gate on them."""
    pytester.makepyfile(test_it=BODY)

    def run(*options):
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:allure_pytest", *options)

    def passes(rate, number):
        """Replay a recording, and compare it with a saved one. Return whether it passes."""
        gate = (f"--benchmark-compare={number}", "--benchmark-compare-fail=mean:5%")
        done = run(f"--cloudbench-replay=kept-{rate}", *gate)
        assert "(NOW)" in done.stdout.str(), done.stdout.str()
        assert ("Performance has regressed" in done.stdout.str() + done.stderr.str()) is (done.ret != 0)
        return done.ret == 0

    def record(*rates):
        for rate in rates:
            pytester.makeconftest(recorded_runs.STANDS_IN + f"\nrates[:] = [{float(rate)}]\n")
            assert run(f"--cloudbench-evidence=kept-{rate}", "-p", "no:benchmark").ret == 0
        # From here on everything is replayed.
        pytester.makeconftest(recorded_runs.STANDS_IN + "\nrates.clear()\n")
        for rate in rates:
            assert run(f"--cloudbench-replay=kept-{rate}", f"--benchmark-save=of-{rate}").ret == 0
            (path,) = pytester.path.glob(f".benchmarks/*/*_of-{rate}.json")
            (row,) = json.loads(path.read_text())["benchmarks"]
            assert row["stats"]["ops"] == pytest.approx(rate)
        return passes

    return record


@pytest.mark.parametrize(("rate", "passes"), JUDGED.items())
def test_the_gate_on_two_recordings(replayed, rate, passes):
    gate = replayed(*dict.fromkeys((BASE, rate)))
    assert gate(rate, "0001") is passes


def test_the_gate_goes_both_ways_over_the_same_two_recordings(replayed):
    gate = replayed(BASE, OTHER)
    assert not gate(BASE, "0002")
    assert gate(OTHER, "0002")
