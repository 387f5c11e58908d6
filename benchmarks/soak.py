"""Run a session of 500 small tests on an embedded region, and print what grows in pytest's process with each test.

Every test has a volume of its own on a shared instance, runs commands on it, and is recorded as evidence. The first
tests load libraries, so growth counts from the 100th on. The exit code is 0 if descriptors and threads stay as they are
and memory grows by at most 20 KiB a test. Needs an embedded region.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_KIB = 20.0
"""pytest itself keeps the reports of all phases of every test, and of each its properties."""
COMMAND_ONLY = """
import pytest

@pytest.mark.ec2_instance("m5.large", scope="session")
@pytest.mark.parametrize("number", range({tests}))
def test_it(ec2_instance, number):
    assert ec2_instance.run(["echo", str(number)]).stdout == f"{{number}}\\n"
"""
WITH_VOLUMES = """
import pytest
from pytest_cloudbench import gp3

@pytest.mark.ec2_instance("m5.large", scope="session")
@pytest.mark.ebs_volume(gp3(size_gib=1))
@pytest.mark.parametrize("number", range({tests}))
def test_it(ec2_instance, ebs_volume, number):
    assert ec2_instance.run(["blockdev", "--getsize64", ebs_volume.path], sudo=True).stdout == f"{{2**30}}\\n"
"""
LOOKS = """
import gc, json, os, threading, tracemalloc

TRACED = {trace}
first = []

def pytest_runtest_logfinish(nodeid):
    number = int(nodeid.rpartition("[")[2].split("-")[-1].rstrip("]"))
    if number % 50 != 49:
        return
    gc.collect()
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    look = [number + 1, resident, len(os.listdir("/proc/self/fd")), threading.active_count()]
    with open("looks", "a") as file:
        print(json.dumps(look), file=file)
    if TRACED and number == 99:
        tracemalloc.start(12)
    if TRACED and number == 149:
        first.append(tracemalloc.take_snapshot())
    if TRACED and number == {tests} - 1:
        grown = tracemalloc.take_snapshot().compare_to(first[0], "traceback")
        with open("grown", "w") as file:
            for each in grown[:25]:
                kib = each.size_diff / 1024 / ({tests} - 150)
                print(f"{{kib:.2f}} KiB a test, {{each.count_diff}} blocks", file=file)
                print("\\n".join(each.traceback.format()), file=file)
"""


def main() -> int:
    """Run the session and print its growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=500, help="default: %(default)s")
    parser.add_argument("--commands-only", action="store_true", help="without a volume for each test")
    parser.add_argument("--trace", action="store_true", help="also show which lines keep memory")
    asked, further = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        body = COMMAND_ONLY if asked.commands_only else WITH_VOLUMES
        (folder / "test_it.py").write_text(body.format(tests=asked.tests))
        (folder / "conftest.py").write_text(LOOKS.format(tests=asked.tests, trace=asked.trace))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *further],
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": name, "PYTEST_ADDOPTS": "-p no:hypothesispytest"},
            check=False,
            capture_output=True,
            text=True,
        )
        print(done.stdout[-600:] + done.stderr[-600:])
        looks = [json.loads(line) for line in (folder / "looks").read_text().splitlines()]
        if asked.trace:
            print((folder / "grown").read_text())
    for tests, resident, descriptors, threads in looks:
        print(f"{tests:5} tests: {resident / 2**20:7.1f} MiB, {descriptors} descriptors, {threads} threads")
    begin, end = next(each for each in looks if each[0] >= 100), looks[-1]
    grown_kib = (end[1] - begin[1]) / 1024 / (end[0] - begin[0])
    print(f"{grown_kib:.1f} KiB a test; {end[2] - begin[2]:+} descriptors, {end[3] - begin[3]:+} threads")
    flat = end[2] <= begin[2] and end[3] <= begin[3] and grown_kib <= MOST_KIB
    return 0 if flat and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
