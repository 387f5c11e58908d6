"""Facts parsed from a host's output, and the program that is sent there."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.create_files.commands import job_files
from pytest_cloudbench.workloads.create_files.host_facts import HostFacts, check_room, read_facts
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.errors import TargetError

ANSWER = """\
directory
ec2-user
ec2-user
4096
 53687091200 26214400 26214397
32
sync
/usr/bin/python3 3 9
/sys/dev/block/259:1/stat
"""


@dataclass
class Target:
    """A directory on a host that prints a fixed text."""

    answer: str = ANSWER
    path: str = "/data"
    label: str = "xfs on gp3"
    has_room_for: Size | None = None
    asked: list[Any] = field(default_factory=list)

    @property
    def host(self) -> Any:
        return SimpleNamespace(label="instance i-0abc", run=self._run)

    def room(self) -> Size | None:
        return self.has_room_for

    def _run(self, argv: list[str], *, idempotent: bool) -> Any:
        self.asked.append(argv)
        return SimpleNamespace(stdout=self.answer)


def looked(answer: str) -> HostFacts:
    return read_facts(Target(answer))  # type: ignore[arg-type]


def test_the_facts_are_read_in_one_command() -> None:
    target = Target()
    assert read_facts(target) == HostFacts(  # type: ignore[arg-type]
        free=Size(50 << 30),
        block=Size(4096),
        free_inodes=26_214_397,
        cpus=32,
        python="/usr/bin/python3",
        stats=("/sys/dev/block/259:1/stat",),
    )
    assert len(target.asked) == 1


@pytest.mark.parametrize("inodes", ["0 0", "- -"])
def test_a_file_system_without_a_fixed_number_of_inodes_has_no_inode_limit(inodes: str) -> None:
    assert looked(ANSWER.replace("26214400 26214397", inodes)).free_inodes is None


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("missing\n", "/data does not exist on instance i-0abc"),
        ("symbolic link\n", "/data on instance i-0abc is a symbolic link, not a directory"),
        (
            ANSWER.replace("ec2-user", "root", 1),
            "/data on instance i-0abc belongs to root, but ec2-user .*mount it with owner='ec2-user'",
        ),
        (ANSWER.replace("sync", "-"), r"coreutils 8\.24 \(2015\) or later"),
        (
            ANSWER.replace("53687091200", "plenty"),
            "could not read the free space of /data on instance i-0abc",
        ),
        (ANSWER.partition("sync")[0], r"df and stat printed 'directory \| ec2-user"),
    ],
)
def test_an_unsuitable_directory_is_refused_with_the_reason(answer: str, sentence: str) -> None:
    with pytest.raises(TargetError, match=sentence):
        looked(answer)


@given(st.text(max_size=200), st.integers(0, 9))
def test_any_output_is_facts_or_an_error(text: str, keep: int) -> None:
    kept = "".join(ANSWER.splitlines(keepends=True)[:keep])
    try:
        facts = looked(kept + text)
    except TargetError:
        return
    assert facts.block.bytes > 0


@given(st.integers(1, 10**7), st.integers(1, 1 << 30), st.integers(1, 1 << 50), st.integers(1, 10**8))
def test_accepted_jobs_fit(count: int, size: int, free: int, inodes: int) -> None:
    job = FilesJob(count=count, size=Size(size))
    facts = HostFacts(Size(free), Size(4096), inodes, 1, None, ())
    try:
        check_room(Target(), job, facts)  # type: ignore[arg-type]
    except TargetError:
        return
    assert job.data.bytes < free
    assert count < inodes


def test_the_program_parses_with_the_oldest_supported_python() -> None:
    source = job_files("python")["create_files.py"]
    ast.parse(source, feature_version=(3, 7))
    imported = {
        name.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert not any(name.startswith("pytest_cloudbench") for name in imported), "it is sent alone"
