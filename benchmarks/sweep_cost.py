"""Measure a sweep's overhead: start and stop a step on 30 volumes; parse and merge the output of many jobs.

    python benchmarks/sweep_cost.py

The first part needs an embedded region. A step's overhead is the wall time from before its throttle counters are read
to its measurement, less the time of its load. The second part parses fio's output of 30 jobs in separate groups, with
histograms, once per run of a sweep, and merges them into percentiles.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from pytest_session import run_session

from pytest_cloudbench.workloads.sweep.status import StatusReader

JOBS, RUNS = 30, 13
STEP_LIMIT_S, MERGE_LIMIT_S = 1.0, 2.0

TEST = """
import statistics
import time

import pytest
from pytest_cloudbench import gp2
from pytest_cloudbench.workloads.sweep.runs import Runs


@pytest.mark.ec2_instance("i3.metal")
@pytest.mark.ebs_volumes(gp2(size_gib=1_000), count=30)
def test_it(ebs_volumes, sweep, monkeypatch):
    costs, run = [], Runs.run

    def timed(self, load, on_second=None):
        began = time.monotonic()
        found = run(self, load, on_second)
        costs.append(time.monotonic() - began - load.times.length_s)
        return found

    monkeypatch.setattr(Runs, "run", timed)
    sweep(ebs_volumes, threads=128, steps=(5, 6, 7, 8, 9, 10, 11, 12), step_time=2, maximum_time=2, ramp_time=1)
    steps = costs[1:]
    print(f"start and stop of a step on 30 volumes: median {statistics.median(steps):.2f} s, "
          f"{min(steps):.2f} to {max(steps):.2f} s over {len(steps)} steps")
"""


def steps_on_thirty_volumes() -> int:
    """Run the sweep in a separate pytest session and print its line."""
    done = run_session(TEST, captured=True)
    print(next((line for line in done.stdout.splitlines() if "start and stop" in line), done.stdout))
    print(f"required: under {STEP_LIMIT_S:g} s")
    return done.returncode


def output_of_many_jobs() -> str:
    """Return fio's output for 30 separate jobs, each with both directions and full histograms."""
    command = [
        "fio", "--output-format=json+", "--eta=never", "--lat_percentiles=1", "--ioengine=null", "--iodepth=16",
        "--rw=randrw", "--bs=4k", "--size=1g", "--norandommap", "--runtime=2", "--time_based",
    ]  # fmt: skip
    for number in range(JOBS):
        command += [f"--name=job{number}", "--rate_iops=2000,1000"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def merge() -> None:
    """Parse and merge that output once per run of a sweep."""
    text = output_of_many_jobs()
    seconds = []
    for _ in range(5):
        began = time.monotonic()
        for _ in range(RUNS):
            ((totals, _),) = StatusReader().feed(text)
            latency = totals.both.latency()
            assert latency is not None
        seconds.append(time.monotonic() - began)
    bins = len(totals.both.bins)
    print(
        f"parsing and merging {JOBS} jobs x {RUNS} runs ({len(text) * RUNS / 1e6:.1f} MB, {bins} bins merged): "
        f"median {statistics.median(seconds):.2f} s of {len(seconds)}"
    )
    print(f"required: under {MERGE_LIMIT_S:g} s")


def main() -> None:
    """Run both parts."""
    merge()
    sys.exit(steps_on_thirty_volumes())


if __name__ == "__main__":
    main()
