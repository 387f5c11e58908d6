"""What looks for leftovers sees those that are left on purpose, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from inner_runs import wait_until
from leftovers import leftovers
from other_processes import PART

pytestmark = [pytest.mark.embedded, pytest.mark.alone]

KEEP_ORPHANS = Path(__file__).parents[2] / ".ci" / "keep_orphans"
SUDO = [] if os.geteuid() == 0 else ["sudo", "-n"]


@pytest.fixture
def orphan():
    """Leave a process behind; it is ended after the test."""
    left = []

    def leave(*command):
        script = '"$@" > /dev/null 2>&1 < /dev/null & echo $!'
        told = subprocess.run([*SUDO, "sh", "-c", script, "sh", *command], capture_output=True, check=True)
        left.append(told.stdout.decode().strip())
        return left[-1]

    yield leave
    for pid in left:
        subprocess.run([*SUDO, "kill", "-9", pid], check=False)


@pytest.mark.parametrize("apart", [[], ["setsid"]], ids=["in its session", "in a session of its own"])
def test_a_process_without_a_parent(orphan, apart):
    before = leftovers()
    pid = orphan(*apart, "sleep", "300")
    wait_until(lambda: leftovers() - before, "seeing the orphan")
    assert {(one.name.split(" started")[0], one.detail) for one in leftovers() - before} == {
        (f"process {pid}", "sleep 300")
    }
    subprocess.run([*SUDO, "kill", "-9", pid], check=True)
    wait_until(lambda: not leftovers() - before, "seeing nothing of it")


def test_what_another_part_of_the_tests_leaves_is_none(orphan):
    before = leftovers()
    left = "setsid env -i sleep 7.5 & wait"  # nothing of its own says where it comes from
    orphan("setsid", "env", f"{PART}=other", str(KEEP_ORPHANS), "sh", "-c", left)
    wait_until(
        lambda: subprocess.run(["pgrep", "-f", "^sleep 7.5$"], check=False).returncode == 0, "the orphan"
    )
    assert not leftovers() - before


@pytest.mark.parametrize(("flag", "kind"), [("--net", "net"), ("--mount", "mnt")])
def test_a_namespace_that_is_held(orphan, flag, kind):
    before = leftovers()
    pid = orphan("unshare", flag, "sleep", "300")
    wait_until(lambda: {one for one in leftovers() - before if one.name.startswith("namespace")}, "seeing it")
    held = {one for one in leftovers() - before if one.name.startswith("namespace")}
    assert {one.name.partition(":")[0] for one in held} == {f"namespace {kind}"}
    assert {one.detail.split()[3] for one in held} == {pid}


def test_a_child_of_the_tests_own_is_none():
    before = leftovers()
    with subprocess.Popen(["sleep", "300"]) as child:
        try:
            assert not leftovers() - before
        finally:
            child.kill()
