"""Run the published measurements at quick pace, and compare their times with the limits.

The exit code is 0 if all runs kept their limits and no test failed, else 1. Tests that this machine cannot serve are
skipped and counted; their time counts too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
AS_TOX = ["--cloudbench-twin-time=60", "--cloudbench-pace=quick"]


@dataclass(frozen=True)
class Case:
    """Scenario files for one session, the time limit in seconds, and the selection of tests (pytest's -k)."""

    files: tuple[str, ...]
    limit_s: float
    only: str = ""


CASES = {
    "io2": Case(("test_io2_block_express.py",), 90),
    "network": Case(("test_network_bandwidth.py",), 180),
    "storage": Case(("test_ebs_striping.py", "test_burst_credits.py", "test_instance_store.py"), 240),
    "curves": Case(("test_latency_curves.py",), 180, only="ebs"),
}


@dataclass(frozen=True)
class Result:
    """The result of one session: its wall time, its exit code, and its tests by outcome."""

    seconds: float
    exit_code: int
    outcomes: dict[str, int]

    def kept(self, limit_s: float) -> bool:
        """Return True if it kept the time limit, at least one test passed, and none failed."""
        return self.exit_code == 0 and self.outcomes["passed"] > 0 and self.seconds <= limit_s


def run(case: Case) -> Result:
    """Run one case. Prints the last lines of a failed session."""
    with tempfile.TemporaryDirectory() as name:
        report = Path(name, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
        command += [*AS_TOX, f"--cloudbench-evidence={name}/evidence", "-k", case.only]
        began = time.perf_counter()
        # pytest uses the project's configuration, as under tox.
        done = subprocess.run(
            [*command, *(str(SCENARIOS / file) for file in case.files)],
            cwd=SCENARIOS.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        if done.returncode != 0:
            print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
        return Result(seconds, done.returncode, outcomes_of(report))


def outcomes_of(report: Path) -> dict[str, int]:
    """Count the tests of a JUnit report by outcome; all 0 if there is no report."""
    found = dict.fromkeys(("passed", "skipped", "failed"), 0)
    if report.exists():
        for test in ET.parse(report).iter("testcase"):  # written by our own session
            kinds = {child.tag for child in test}
            failed = kinds & {"failure", "error"}
            found["failed" if failed else "skipped" if "skipped" in kinds else "passed"] += 1
    return found


def main() -> int:
    """Run the named cases one after the other and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", help=f"one of {', '.join(CASES)}; default: all")
    names = parser.parse_args().case or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case {unknown[0]!r}: use {', '.join(CASES)}")
    kept = True
    for name in names:
        case = CASES[name]
        result = run(case)
        good = result.kept(case.limit_s)
        kept = kept and good
        tests = ", ".join(f"{count} {outcome}" for outcome, count in result.outcomes.items() if count)
        ratio = result.seconds / case.limit_s
        print(
            f"{'ok ' if good else 'NOT'} {name}: {result.seconds:.0f} s of {case.limit_s:.0f} s allowed (ratio "
            f"{ratio:.2f}); {tests or 'no test ran'}",
            flush=True,
        )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
