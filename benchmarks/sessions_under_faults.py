"""Run two pytest sessions with four workers each, again and again for five minutes, while the API and volumes fail.

The API has weather. Every third test kills fio on its host, every third closes the connection under a running fio, and
the others run as they should. A test fails if the fault is told as another one. At the end this machine is searched for
what the sessions left. The exit code is 0 if nothing failed and nothing is left. Needs an embedded region.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "embedded"))
from leftovers import leftovers  # noqa: E402

TEST = """
import threading

import pytest
from pytest_cloudbench import gp3
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.workloads.fio.errors import FioKilled

pytestmark = [pytest.mark.ec2_instance("m5.large"), pytest.mark.ebs_volume(gp3(size_gib=1))]
WHEN_FIO_RUNS = "until pgrep -f '[f]io --output=' > /dev/null; do sleep 0.1; done; sleep 0.5; "
# The job, not `fio --version`.


def beside(instance, command):
    words = ["sh", "-c", WHEN_FIO_RUNS + command]
    other = threading.Thread(target=instance.run, args=(words,), kwargs={"sudo": True, "check": False}, daemon=True)
    other.start()
    return other


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("fault", ["none", "fio is killed", "the connection drops"])
def test_it(ec2_instance, ebs_volume, fio, fault, number):
    if fault == "fio is killed":
        other = beside(ec2_instance, "pkill -KILL -x fio")
        with pytest.raises(FioKilled, match="by a signal"):
            fio(ebs_volume, rw="randwrite", bs="4k", iodepth=4, runtime=4)
    elif fault == "the connection drops":
        other = beside(ec2_instance, "pkill -KILL -f '^sshd: [^/]'")  # not the listener
        assert fio(ebs_volume, rw="randread", bs="4k", iodepth=4, runtime=4).iops > 0
    else:
        other = None
        assert fio(ebs_volume, rw="randread", bs="4k", iodepth=4, runtime=2).iops > 0
    if other is not None:
        other.join(60)
"""


def session(folder: Path, until: float, weather: str) -> tuple[Counter[str], list[str]]:
    """Run sessions one after the other until that moment; return what came of their tests, and the failures."""
    folder.mkdir()
    (folder / "test_it.py").write_text(TEST)
    came: Counter[str] = Counter()
    failures: list[str] = []
    number = 0
    while time.monotonic() < until:
        number += 1
        report = folder / f"{number}.xml"
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "-n",
                    "4",
                    "-p",
                    "no:cacheprovider",
                    f"--junit-xml={report}",
                ),
                *("--cloudbench-evidence=off", "--cloudbench-pace=quick", "--cloudbench-exclusive=off"),
                f"--cloudbench-twin-weather={weather},seed={number}",
            ],
            cwd=folder,
            env={**os.environ, "XDG_STATE_HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        came["sessions"] += 1
        if done.returncode not in (0, 1):
            failures.append(f"exit code {done.returncode}: {done.stdout[-500:]}")
            continue
        for test in ET.parse(report).iter("testcase"):  # written by our own session
            bad = [each for kind in ("failure", "error") for each in test.iter(kind)]
            came["tests"] += 1
            came["failed"] += bool(bad)
            failures += [
                f"{test.get('name')}: {' '.join((each.get('message') or '').split())[:300]}" for each in bad
            ]
    return came, failures


def main() -> int:
    """Run the sessions side by side, and print what came of them and what is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="default: %(default)s")
    parser.add_argument("--weather", default="aws,speed=20", help="default: %(default)s")
    asked = parser.parse_args()
    before = leftovers()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        until = time.monotonic() + asked.minutes * 60
        both = [pool.submit(session, Path(name, str(each)), until, asked.weather) for each in range(2)]
        came: Counter[str] = sum((each.result()[0] for each in both), Counter())
        failures = [line for each in both for line in each.result()[1]]
    deadline = time.monotonic() + 30
    while (left := leftovers() - before) and time.monotonic() < deadline:
        time.sleep(0.5)
    for line in [*failures, *(f"left: {each.name} {each.detail}" for each in left)]:
        print(f"    {line}")
    print(f"{dict(came)}, {len(failures)} told wrong, {len(left)} left")
    return 0 if came["tests"] and not failures and not left else 1


if __name__ == "__main__":
    sys.exit(main())
