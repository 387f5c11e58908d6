"""Hardware shared by tests on an embedded region: the examples of the documentation, and a suite of 40 tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cloudbench.evidence.reader import Evidence

DOCS = Path(__file__).resolve().parents[2] / "docs" / "lifetimes.md"

SUITE = """
import contextlib
import re

import pytest
from pytest_cloudbench import gp3

@pytest.mark.parametrize("number", range(28))
@pytest.mark.ec2_instance("m5.large")
def test_instance(ec2_instance, number):
    assert ec2_instance.launched.earlier_tests == number

@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large")
@pytest.mark.ebs_volume(gp3(size_gib=1))
def test_fresh_volume(ec2_instance, ebs_volume, number):
    links = ec2_instance.run(["ls", "/dev/disk/by-id"]).stdout.split()
    assert {re.search("vol[0-9a-f]+", each)[0] for each in links} == {ebs_volume.created.serial}
    ebs_volume.mounted("xfs")

@pytest.mark.parametrize("number", range(3))
@pytest.mark.ec2_instance("m5.large", scope="module")
@pytest.mark.ebs_volume(gp3(size_gib=1), scope="module")
def test_nothing_of_the_test_before(ec2_instance, ebs_volume, number):
    assert ebs_volume.created.earlier_tests == number
    assert ec2_instance.run(["sh", "-c", "ls ~; pgrep -fx 'sleep 60[012]' || :"]).stdout == ""
    ec2_instance.run(["sh", "-c", "touch ~/left; sleep 600 >/dev/null 2>&1 &"])
    ec2_instance.run(["sh", "-c", "sleep 601 >/dev/null 2>&1 &"], sudo=True)
    with contextlib.suppress(LookupError):  # a replay has no jobs
        ec2_instance.host.start_job(["sleep", "602"])
    data = ebs_volume.mounted(("xfs", "ext4")[number % 2])
    assert "left" not in ec2_instance.run(["ls", data.path]).stdout
    ec2_instance.run(["touch", f"{data.path}/left"])

@pytest.mark.ec2_instance("m5.large", scope="module")
def test_stop(ec2_instance):
    assert ec2_instance.launched.earlier_tests == 3
    ec2_instance.stop()

@pytest.mark.ec2_instance("m5.large", scope="module")
def test_after_the_stop(ec2_instance):
    assert ec2_instance.launched.earlier_tests == 0
    ec2_instance.run(["sh", "-c", "mkdir ~/mounted && sudo mount -t tmpfs none ~/mounted"])

@pytest.mark.ec2_instance("m5.large", scope="module")
def test_after_the_mount(ec2_instance):
    assert ec2_instance.launched.earlier_tests == 0
"""


@pytest.mark.embedded
def test_forty_tests_and_the_examples_of_the_documentation_share_and_replay(tmp_path):
    for number, shown in enumerate(re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.M | re.S)):
        (tmp_path / f"test_docs_{number}.py").write_text(shown)
    (tmp_path / "test_suite.py").write_text(SUITE)

    def run(*options):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "-q",
            *options,
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    done = run("--cloudbench-reuse", "--cloudbench-evidence=kept")
    assert "42 passed" in done.stdout, done.stdout + done.stderr
    assert re.search(r"m5\.large i-\w+ is not used by another test: it was stopped", done.stdout)
    assert re.search(r"not used by another test: .*/mounted is mounted", done.stdout)
    launched = [
        entry["result"]["id"]
        for test in Evidence(tmp_path / "kept").tests
        for entry in test.of_kind("call")
        if entry["name"] == "launch"
    ]
    # The reused one, that of each of the two modules with a scope and its two successors, and the factory's.
    assert (len(launched), len(set(launched))) == (41, 6)
    again = run("--cloudbench-replay=kept")
    assert "42 passed" in again.stdout, again.stdout + again.stderr
