"""pytest-benchmark's gate on recordings: in a replay a slower one fails and a faster one never does."""

import json
import subprocess
import sys

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


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """Record the test at all rates. Return a function that replays one of them with options of pytest-benchmark."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "test_it.py").write_text(BODY)

    def run(*options):
        quiet = ("no:cacheprovider", "no:allure_pytest", "no:hypothesispytest")
        command = [sys.executable, "-m", "pytest", *(f"-p{each}" for each in quiet), *options]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    for rate in (*JUDGED, OTHER):
        stands_in = recorded_runs.STANDS_IN + f"\nrates[:] = [{float(rate)}]\n"
        (folder / "conftest.py").write_text(stands_in)
        recorded = run(f"--cloudbench-evidence=kept-{rate}", "-p", "no:benchmark")
        assert recorded.returncode == 0, recorded.stdout
    # From here on everything is replayed.
    (folder / "conftest.py").write_text(recorded_runs.STANDS_IN + "\nrates.clear()\n")
    for rate in (BASE, OTHER):
        saved = run(f"--cloudbench-replay=kept-{rate}", f"--benchmark-save=of-{rate}")
        assert saved.returncode == 0, saved.stdout
        (path,) = folder.glob(f".benchmarks/*/*_of-{rate}.json")
        (row,) = json.loads(path.read_text())["benchmarks"]
        assert row["stats"]["ops"] == pytest.approx(rate)

    def judged(rate, number):
        """Replay a recording, and compare it with a saved one. Return whether it passes."""
        gate = (f"--benchmark-compare={number}", "--benchmark-compare-fail=mean:5%")
        done = run(f"--cloudbench-replay=kept-{rate}", *gate)
        assert "(NOW)" in done.stdout, done.stdout
        assert ("Performance has regressed" in done.stdout + done.stderr) is (done.returncode != 0)
        return done.returncode == 0

    return judged


@pytest.mark.parametrize(("rate", "passes"), JUDGED.items())
def test_the_gate_on_two_recordings(replay, rate, passes):
    assert replay(rate, "0001") is passes


def test_the_gate_goes_both_ways_over_the_same_two_recordings(replay):
    assert not replay(BASE, "0002")
    assert replay(OTHER, "0002")
