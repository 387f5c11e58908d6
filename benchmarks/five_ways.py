"""Run the same six tests on one user's instance, found in five ways, and compare their verdicts.

The instance and its two volumes are made by plain boto3 on an embedded region. The test file is the same in all ways;
the fixtures `data` and `raw` in a conftest.py name the hardware. The exit code is 1 if a verdict differs between the
ways or from what such hardware keeps, or if anything of the user's was changed. An inconclusive test is repeated.

A host without an API does not show what the machine under the region delays, so on a very busy one a verdict by ssh://
may be violated where the others are inconclusive: hence the many I/Os in flight.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from users_hardware import ROLE, UsersHardware, users_hardware

TESTS = """
import pytest
from pytest_cloudbench import recorded_limits

GP3 = recorded_limits(iops=3_000, throughput="125 MiB/s", source="the volume's gp3 request", date="2026-11")
pytestmark = pytest.mark.host(limits=GP3)  # only the fixture host reads it: EC2 itself states these limits
RUN = dict(runtime=4, ramp_time=1)


def test_reads_of_files_reach_the_iops(data, fio):
    run = fio(data, rw="randread", bs="4k", iodepth=64, size="32m", **RUN)
    assert run.reaches(data.iops)


def test_writes_of_files_reach_the_iops(data, fio):
    run = fio(data, rw="randwrite", bs="4k", iodepth=64, size="32m", **RUN)
    assert run.reaches(data.iops)


def test_raw_reads_reach_the_iops(raw, fio):
    run = fio(raw, rw="randread", bs="4k", iodepth=64, **RUN)
    assert run.reaches(raw.iops)


def test_raw_reads_reach_the_throughput(raw, fio):
    run = fio(raw, rw="read", bs="256k", iodepth=32, **RUN)
    assert run.reaches(raw.throughput)


def test_latency(raw, fio):
    run = fio(raw, rw="randread", bs="4k", iodepth=1, rate_iops=200, **RUN)
    assert run.latency.at_most(p50="5 ms")


def test_twice_the_iops(raw, fio):
    run = fio(raw, rw="randread", bs="4k", iodepth=64, **RUN)
    assert run.reaches("6_000 IOPS")
"""
EXPECTED = {
    "test_reads_of_files_reach_the_iops": "held",
    "test_writes_of_files_reach_the_iops": "held",
    "test_raw_reads_reach_the_iops": "held",
    "test_raw_reads_reach_the_throughput": "held",
    "test_latency": "held",
    "test_twice_the_iops": "violated",
}
ROUNDS = 3
"""How often an inconclusive test is run at most."""

ON_HOST = """
@pytest.fixture
def data(host):
    return host.directory("/data")


@pytest.fixture
def raw(host):
    return host.device({link!r})
"""
ON_EC2 = """
@pytest.fixture
def machine(ec2):
    return ec2.existing({instance})


@pytest.fixture
def data(machine):
    return machine.directory("/data")


@pytest.fixture
def raw(ec2, machine):
    return ec2.existing_volume({volume}, instance=machine)
"""
KEEP = """
import json
import pathlib

import pytest


def pytest_cloudbench_verdict(item, verdict):
    with pathlib.Path("verdicts.jsonl").open("a") as file:
        file.write(json.dumps([item.name, verdict.outcome.value, str(verdict)]) + "\\n")

"""
TERRAFORM = """#!/bin/sh
[ "$*" = "output -json" ] || { echo "Error: no such command: $*" >&2; exit 1; }
cat << END
{
  "db_instance": {"sensitive": false, "type": "string", "value": "%(instance)s"},
  "db_volumes": {"sensitive": false, "type": ["object", {"data": "string", "raw": "string"}],
    "value": {"data": "%(data)s", "raw": "%(raw)s"}},
  "vpc_cidr": {"sensitive": false, "type": "string", "value": "10.0.0.0/16"}
}
END
"""


@dataclass(frozen=True)
class Way:
    """The fixtures of a way, its options, and whether the session knows the API and a program `terraform`."""

    fixtures: str
    options: tuple[str, ...]
    api: bool = True
    terraform: bool = False


def ways_to(theirs: UsersHardware) -> dict[str, Way]:
    by_id = ON_EC2.format(instance=repr(theirs.instance), volume=repr(theirs.raw))
    by_tag = ON_EC2.format(instance=f'tag={{"role": {ROLE!r}}}', volume=repr(theirs.raw))
    by_output = ON_EC2.format(instance='terraform="db_instance"', volume='terraform="db_volumes.raw"')
    aws = "--cloudbench-cloud=aws"  # a region is as good as AWS: AWS_ENDPOINT_URL says where it is
    return {
        "ssh": Way(
            ON_HOST.format(link=theirs.raw_link),
            (f"--cloudbench-hosts=ssh://ec2-user@{theirs.address}",),
            api=False,
        ),
        "id": Way(by_id, (aws,)),
        "tag": Way(by_tag, (aws,)),
        "terraform": Way(by_output, (aws, "--cloudbench-terraform=infra"), terraform=True),
        "ssm": Way(by_id, (aws, "--cloudbench-access=ssm")),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("ssh", "id", "tag", "terraform", "ssm")
    parser.add_argument("way", nargs="*", help=f"one of {', '.join(names)}; default: all")
    parser.add_argument("--only", default="", help="run the tests with this in their name")
    options = parser.parse_args()
    if unknown := [each for each in options.way if each not in names]:
        parser.error(f"unknown way {unknown[0]!r}: use {', '.join(names)}")
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="cloudbench-ways-") as folder:
        home = Path(folder, "home")
        home.mkdir()
        with users_hardware(home) as theirs:
            state, blocks, changed = theirs.state(), theirs.blocks(), False
            for name, way in ways_to(theirs).items():
                if options.way and name not in options.way:
                    continue
                found[name] = verdicts_of(name, way, theirs, Path(folder, name), options.only)
                changed |= differs(name, state, theirs.state())
            changed |= differs(
                "all", {"raw volume's blocks": blocks}, {"raw volume's blocks": theirs.blocks()}
            )
    same = table(found)
    print("nothing of the user's was changed" if not changed else "NOT: something of the user's was changed")
    return 0 if same and not changed else 1


def verdicts_of(name: str, way: Way, theirs: UsersHardware, folder: Path, only: str) -> dict[str, str]:
    """Run the tests in a way and return their outcomes; one that is inconclusive is repeated."""
    (folder / "infra").mkdir(parents=True)
    (folder / "test_six.py").write_text(TESTS)
    (folder / "conftest.py").write_text(KEEP + way.fixtures)
    if way.terraform:
        program = folder / "bin" / "terraform"
        program.parent.mkdir()
        program.write_text(TERRAFORM % {"instance": theirs.instance, "data": theirs.data, "raw": theirs.raw})
        program.chmod(0o755)
    found: dict[str, str] = {}
    for _ in range(ROUNDS):
        left = [
            test for test in EXPECTED if only in test and found.get(test, "inconclusive") == "inconclusive"
        ]
        if not left:
            break
        verdicts = folder / "verdicts.jsonl"
        verdicts.unlink(missing_ok=True)
        output = _pytest(folder, way, theirs, [f"test_six.py::{test}" for test in left])
        lines = verdicts.read_text().splitlines() if verdicts.exists() else []
        for test, outcome, sentence in map(json.loads, lines):
            found[test] = outcome
            print(f"{name}: {test}: {outcome}: {sentence}", flush=True)
        if without := [test for test in left if test not in found]:
            found |= dict.fromkeys(without, "error")
            print(output, flush=True)
        for line in output.splitlines():
            if "warning" in line.lower():
                print(f"{name}: {line}", flush=True)
    return found


def _pytest(folder: Path, way: Way, theirs: UsersHardware, tests: list[str]) -> str:
    """Run a session as the user does: with their home, their keys, and for AWS their credentials."""
    environment: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **(theirs.record.environment() if way.api else {}),
        "HOME": str(theirs.home),
        "XDG_STATE_HOME": str(folder / "state"),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}" if way.terraform else os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *way.options, *tests],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    shutil.rmtree(folder / "cloudbench-evidence", ignore_errors=True)
    return done.stdout


def differs(name: str, before: dict[str, str], now: dict[str, str]) -> bool:
    """Print what has changed since before; return True if anything has."""
    changed = False
    for topic in sorted(before.keys() | now.keys()):
        old, new = before.get(topic, "").splitlines(), now.get(topic, "").splitlines()
        lines = [each for each in difflib.unified_diff(old, new, n=0, lineterm="") if each[:2] != "@@"][2:]
        changed = changed or bool(lines)
        if lines:
            print(f"{name}: CHANGED: {topic}", *lines[:20], sep="\n    ", flush=True)
    return changed


def table(found: dict[str, dict[str, str]]) -> bool:
    """Print the verdicts of each test by each way; return True if all are as expected, so the same in all ways."""
    same = True
    print(f"{'test':38}" + "".join(f"{name:>14}" for name in found))
    for test, expected in EXPECTED.items():
        row = [verdicts[test] for verdicts in found.values() if test in verdicts]
        if not row:
            continue
        same = same and set(row) == {expected}
        print(
            f"{test:38}"
            + "".join(f"{each:>14}" for each in row)
            + ("" if set(row) == {expected} else "  NOT")
        )
    print(f"{'ok ' if same else 'NOT'} the same verdicts by {', '.join(found)}")
    return same


if __name__ == "__main__":
    raise SystemExit(main())
