"""Run the control plane, and scenarios if asked, under weather with many seeds: runs, failures and leftovers.

The control plane runs against the region's API without hosts, and the region's own state says what it left. Scenarios
run on an embedded region. The exit code is 0 if nothing failed and nothing was left, else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTROL = "tests/twin_api/test_runs_under_weather.py"


@dataclass
class Tally:
    """What came of the tests under one seed."""

    runs: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    leftovers: int = 0

    def add(self, test: ET.Element) -> None:
        """Count one test of a JUnit report."""
        self.runs += 1
        self.seconds += float(test.get("time", 0))
        self.skipped += test.find("skipped") is not None
        for kind in ("failure", "error"):
            for found in test.iter(kind):
                message = " ".join((found.get("message") or "").split())
                self.failures.append(f"{test.get('name')}: {message[:160]}")
                self.leftovers += "the region is empty" in message


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


def scenarios(weather: str, seeds: range, selection: str) -> Iterator[tuple[int, Tally]]:
    """Run the selected scenarios once for each seed, each time on a region of its own."""
    for seed in seeds:
        tally = Tally()
        options = [
            "scenarios",
            *("-k", selection),
            *("--cloudbench-twin-time=60", "--cloudbench-pace=quick", "--cloudbench-evidence=off"),
            f"--cloudbench-twin-weather={weather},seed={seed}",
        ]
        for test in tests_of(options, {}):
            tally.add(test)
        yield seed, tally


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
        if done.returncode not in (0, 5):
            print(done.stdout[-3000:], done.stderr[-1000:], file=sys.stderr)
        if not report.exists():
            raise SystemExit(f"pytest wrote no report (exit code {done.returncode})")
        return list(ET.parse(report).iter("testcase"))  # written by our own session


def show(part: str, seed: int, tally: Tally) -> None:
    """Print one line, and one more for each failure."""
    print(
        f"{part:10} seed {seed:3}: {tally.runs:3} runs, {len(tally.failures)} failures, {tally.leftovers} with "
        f"leftovers, {tally.skipped} skipped, {tally.seconds:.0f} s",
        flush=True,
    )
    for failure in tally.failures:
        print(f"    {failure}")


def main() -> int:
    """Run all seeds and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weather", default="aws,speed=20", help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=10, metavar="N", help="seeds 1 to N (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--scenarios",
        metavar="NAMES",
        help="run these scenarios too (pytest's -k), such as 'reaches and io2'",
    )
    asked = parser.parse_args()
    seeds, began = range(1, asked.seeds + 1), time.monotonic()
    parts = [
        ("control", seed, tally) for seed, tally in control_plane(asked.weather, seeds, asked.workers).items()
    ]
    for line in parts:
        show(*line)
    if asked.scenarios:
        for seed, tally in scenarios(asked.weather, seeds, asked.scenarios):
            parts.append(("scenarios", seed, tally))
            show(*parts[-1])
    runs, failures, leftovers = (
        sum(values)
        for values in zip(*((one.runs, len(one.failures), one.leftovers) for _, _, one in parts), strict=True)
    )
    print(
        f"{asked.weather}: {runs} runs under {len(seeds)} seeds, {failures} failures, {leftovers} with leftovers, "
        f"in {time.monotonic() - began:.0f} s"
    )
    return 0 if runs and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
