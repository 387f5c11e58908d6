"""Time a suite of ten instance types that boot for 40 s: fresh, shared, launched ahead, and both, against one type.

The suites mostly wait, so each runs at the same time as the others, on an embedded region of its own. The weather of
these regions lets an instance answer SSH 40 s after its launch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REQUIRED = 1.5
TYPES = (
    *("m5.large", "c5.large", "r5.large", "m5.xlarge", "c5.xlarge"),
    *("r5.xlarge", "m5.2xlarge", "c5.2xlarge", "r5.2xlarge", "m5.4xlarge"),
)
SUITE = """
import pytest
from pytest_cloudbench import gp3

TYPES = {types!r}

@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.parametrize("type", [pytest.param(each, marks=pytest.mark.ec2_instance(each)) for each in TYPES])
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_reads(ebs_volume, fio, type, number):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=1, rate_iops=100, runtime={runtime})
    assert run.iops > 50
"""
REUSE, AHEAD = "--cloudbench-reuse", "--cloudbench-ahead=2"
ONE = "one type, reuse"
BOTH = "ten types, reuse and ahead=2"
SUITES = {
    ONE: (TYPES[:1] * len(TYPES), (REUSE,)),
    "ten types, fresh": (TYPES, ()),
    "ten types, reuse": (TYPES, (REUSE,)),
    "ten types, ahead=2": (TYPES, (AHEAD,)),
    BOTH: (TYPES, (REUSE, AHEAD)),
}


def wall_time(name: str, arguments: argparse.Namespace) -> float:
    """Run a suite and return how long the session took, in seconds. Raises SystemExit if a test failed."""
    types, options = SUITES[name]
    text = SUITE.format(types=types, tests=arguments.tests, runtime=arguments.runtime)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_it.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        weather = f"--cloudbench-twin-weather=ssh-delay={arguments.boot:g}s"
        pace = ["--cloudbench-pace=full", "--cloudbench-evidence=off"]
        began = time.monotonic()
        ended = subprocess.run(
            [*command, weather, *pace, *options],
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - began
    if ended.returncode != 0:
        raise SystemExit(f"{name}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return took_s


def main() -> int:
    """Print the time of each suite and its ratio to that of one type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boot", type=float, default=40, help="seconds until a new instance answers (40)")
    parser.add_argument("--tests", type=int, default=2, help="tests for each type (2)")
    parser.add_argument("--runtime", type=float, default=10, help="seconds of each measurement (10)")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(len(SUITES)) as pool:
        times = dict(zip(SUITES, pool.map(lambda name: wall_time(name, arguments), SUITES), strict=True))
    for name, took_s in times.items():
        print(f"{name:30} {took_s:7.0f} s  {took_s / times[ONE]:5.2f} times as long as one type")
    ratio = times[BOTH] / times[ONE]
    print(f"reuse and ahead: {ratio:.2f} times, required at most {REQUIRED:g}")
    return int(ratio > REQUIRED)


if __name__ == "__main__":
    sys.exit(main())
