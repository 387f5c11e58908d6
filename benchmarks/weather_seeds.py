"""Run the control plane, or the scenarios, under weather with many seeds: runs, failures, leftovers and skips.

The control plane runs against the region's API without hosts, and the region's own state says what it left. Scenarios
run on embedded regions; they are skipped, and their reasons are counted, if the machine is too slow for a verdict. The
exit code is 0 if nothing failed and nothing was left, else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTROL = "tests/twin_api/test_runs_under_weather.py"
LEFT = ("the region is empty", "still exists")
"""What a failure says that is about leftovers: of a test of the control plane, of the end of a session."""

MACHINE = "the machine under the embedded region"


@dataclass
class Tally:
    """What came of the tests under one seed."""

    runs: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    leftovers: int = 0

    def add(self, test: ET.Element) -> None:
        """Count one test of a JUnit report."""
        self.runs += 1
        self.seconds += float(test.get("time", 0))
        if (skipped := test.find("skipped")) is not None:
            self.skips[reason(skipped)] += 1
        for kind in ("failure", "error"):
            for found in test.iter(kind):
                message = " ".join((found.get("message") or "").split())
                self.failures.append(f"{test.get('name')}: {message[:160]}")
                self.leftovers += any(each in message for each in LEFT)


def control_plane(weather: str, seeds: range, workers: int) -> dict[int, Tally]:
    """Run the control plane under all seeds."""
    tallies = {seed: Tally() for seed in seeds}
    variables = {
        "CLOUDBENCH_WEATHER": weather,
        "CLOUDBENCH_WEATHER_SEEDS": " ".join(map(str, seeds)),
    }
    for test in tests_of(["-n", str(workers), CONTROL], variables):
        seed = (test.get("name") or "").rpartition("seed=")[2].rstrip("]")
        tallies[int(seed)].add(test)
    return tallies


def scenarios(weather: str, seed: int, workers: int, selection: str) -> Tally:
    """Run the scenarios once, as `tox -e scenarios` does: light ones side by side, each worker on a region."""
    options = [
        *("scenarios", "-k", selection),
        *("-n", str(workers), "--maxschedchunk=1"),
        *("--cloudbench-twin-time=60", "--cloudbench-pace=quick", "--cloudbench-evidence=off"),
        f"--cloudbench-twin-weather={weather},seed={seed}",
    ]
    tally = Tally()
    for test in tests_of(options, {}):
        tally.add(test)
    return tally


def tests_of(options: list[str], variables: dict[str, str]) -> list[ET.Element]:
    """Run pytest and return the tests of its report. Prints the end of a session that failed."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name, "report.xml")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junit-xml={report}", *options],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout[-20_000:], done.stderr[-1000:], file=sys.stderr)
        if done.returncode not in (0, 1):
            raise SystemExit(f"pytest did not run the tests (exit code {done.returncode})")
        return list(ET.parse(report).iter("testcase"))  # written by our own session


def reason(skipped: ET.Element) -> str:
    """Return why a test was skipped; what a verdict says about the machine counts as one reason."""
    message = " ".join((skipped.get("message") or "").split())
    return MACHINE if MACHINE in message else message[:160]


def show(part: str, seed: int, tally: Tally) -> None:
    """Print one line, and one more for each failure and each reason of a skip."""
    print(
        f"{part} seed {seed:3}: {tally.runs:3} runs, {len(tally.failures)} failures, {tally.leftovers} with "
        f"leftovers, {tally.skips.total()} skipped, {tally.seconds:.0f} s"
    )
    for failure in tally.failures:
        print(f"    {failure}")
    for why, times in tally.skips.most_common():
        print(f"    {times} skipped: {why}")
    sys.stdout.flush()


def seeds_named(text: str) -> range:
    """Return the seeds that "10" (1 to 10) or "4-6" names."""
    first, _, last = text.rpartition("-")
    return range(int(first or 1), int(last) + 1)


def main() -> int:
    """Run all seeds and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weather", default="aws,speed=20", help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=seeds_named, default="10", help="N: 1 to N; N-M: N to M (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=4, help="default: %(default)s")
    parser.add_argument(
        "--scenarios",
        metavar="NAMES",
        nargs="?",
        const="",
        help="run the scenarios, all or these (pytest's -k)",
    )
    asked = parser.parse_args()
    began, tallies = time.monotonic(), []
    if asked.scenarios is None:
        for seed, tally in control_plane(asked.weather, asked.seeds, asked.workers).items():
            tallies.append(tally)
            show("control", seed, tally)
    else:
        for seed in asked.seeds:
            tallies.append(scenarios(asked.weather, seed, asked.workers, asked.scenarios))
            show("scenarios", seed, tallies[-1])
    runs, failures, leftovers, skipped = (
        sum(values)
        for values in zip(
            *((one.runs, len(one.failures), one.leftovers, one.skips.total()) for one in tallies), strict=True
        )
    )
    print(
        f"{asked.weather}: {runs} runs under {len(tallies)} seeds, {failures} failures, {leftovers} with leftovers, "
        f"{skipped} skipped, in {time.monotonic() - began:.0f} s"
    )
    return 0 if runs and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
