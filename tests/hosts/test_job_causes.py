"""The cause of a job's end, from what a look at its host shows."""

from __future__ import annotations

import pytest

from pytest_cloudbench.hosts.jobs import cause

SEEN = "now=boot 7\nthen=boot 7\npid=4321 12000\nroom=5000000000 /\n"
OOM = "Out of memory: Killed process 77 (fio) total-vm:1kB"


@pytest.mark.fault("kill", "a job ends without a result: restart, memory, disk, signal")
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (SEEN, "killed on its host, by a signal"),
        (SEEN.replace("now=boot 7", "now=boot 8"), "its host was restarted"),
        (SEEN.replace("5000000000 /", "4096 /var"), "the disk of its host is full: /var has 4 KiB left"),
        (f"{SEEN}log=[  121.5] {OOM}", "the kernel killed fio (process 77)"),
        (
            f"{SEEN}log=[  121.5] Memory cgroup out of memory: Killed process 77 (fio)",
            "the kernel killed fio",
        ),
        (f"{SEEN}log=[  121.5] {OOM.replace('fio', 'tail')}", "by a signal"),  # another program
        (f"{SEEN}log=[  119.5] {OOM}", "by a signal"),  # before the job, which began 120 s after the boot
        ("", "it was killed, or its host was restarted"),
        ("now=\nthen=\npid=x\nroom=\nlog=[nonsense\n", "it was killed, or its host was restarted"),
    ],
)
def test_each_cause_is_told_apart(said: str, words: str) -> None:
    assert words in cause(said, ["flock", "/dev/nvme1n1", "/usr/bin/fio", "--output=result.json"])
