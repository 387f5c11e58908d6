"""Compare what a plan of ten tests says with what the run then costs, on the embedded region, which bills nothing.

It plans without an earlier run, runs, and plans again with that run's times. Tests shorter than a minute cost the
minute that is billed at least, so three of the ten measure longer.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

TESTS = """
import pytest
from pytest_cloudbench import gp2, gp3, io1, io2, st1

SHORT, LONG = 3, {long}
CASES = [
    ("c5.18xlarge", io2(size_gib=80, iops=80_000), LONG),
    ("c5.18xlarge", gp3(size_gib=100, iops=16_000, throughput_mib=1_000), SHORT),
    ("m5.large", gp3(size_gib=10), LONG),
    ("m5.2xlarge", gp2(size_gib=100), SHORT),
    ("m5.2xlarge", io1(size_gib=100, iops=5_000), SHORT),
    ("r5.4xlarge", st1(size_gib=500), SHORT),
    ("i3.metal", gp3(size_gib=50), LONG),
    ("c6i.large", io2(size_gib=20, iops=5_000), SHORT),
]


@pytest.mark.parametrize("case", [
    pytest.param(each, marks=[pytest.mark.ec2_instance(each[0]), pytest.mark.ebs_volume(each[1])],
                 id=f"{{each[0]}}-{{each[1].type}}") for each in CASES])
def test_volume(case, ec2_instance, ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="16k", iodepth=4, runtime=case[2])
    assert run.cost > 0


@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volumes(gp3(size_gib=10), count=3)
def test_volumes(ec2_instance, ebs_volumes, fio):
    assert fio(ebs_volumes[0], rw="randread", bs="16k", runtime=SHORT).cost > 0


@pytest.mark.ec2_pair("c5n.large", placement="cluster")
def test_network(ec2_pair, iperf3):
    assert iperf3(ec2_pair, duration=SHORT).cost > 0
"""


def main() -> int:
    """Plan, run, plan again, and print the three sums and the cost of each test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--long", type=int, default=65, help="seconds of the three longer workloads (default: 65)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cloudbench-plan-") as folder:
        (Path(folder) / "test_ten.py").write_text(TESTS.format(long=options.long))
        before, _ = planned(folder)
        print(session(folder, "--cloudbench-prices=list", "--junitxml=junit.xml", "-q").splitlines()[-1])
        costs = recorded(Path(folder) / "junit.xml")
        after, by_test = planned(folder)
    print(f"{'test':36} {'planned USD':>12} {'cost USD':>12}")
    for name, cost in costs.items():
        print(f"{name:36} {by_test.get(name, float('nan')):12.5f} {cost:12.5f}")
    total = sum(costs.values())
    print(f"plan without an earlier run: at least {before:.4f} USD")
    print(
        f"plan with its times: {after:.4f} USD; the run then recorded {total:.4f} USD ({after / total - 1:+.2%})"
    )
    return 0 if len(costs) == 10 and before <= total * 1.001 and abs(after / total - 1) < 0.05 else 1


def session(folder: str, *options: str) -> str:
    """Run a session of the ten tests at full pace and return its output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cloudbench-pace=full", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr)
    return done.stdout


def planned(folder: str) -> tuple[float, dict[str, float]]:
    """Return the sum of a plan, and the cost of each test by its name, both in USD."""
    shown = session(folder, "--cloudbench-plan")
    [total] = re.findall(r"^sum: .* would cost (?:at least )?([\d.,]+) USD", shown, re.MULTILINE)
    by_test, name = {}, ""
    for line in shown.splitlines():
        if "::" in line and not line.startswith(" "):
            name = line.partition("::")[2]
        elif found := re.search(r": (?:at least )?([\d.,]+) USD at ", line):
            by_test[name] = float(found[1].replace(",", ""))
    return float(total.replace(",", "")), by_test


def recorded(junit: Path) -> dict[str, float]:
    """Return the exact cost of each test in a JUnit file, in USD."""
    return {
        str(case.get("name")): float(str(each.get("value")).split()[0])
        for case in ElementTree.parse(junit).iter("testcase")
        for each in case.iter("property")
        if each.get("name") == "cloudbench.exact_cost"
    }


if __name__ == "__main__":
    sys.exit(main())
