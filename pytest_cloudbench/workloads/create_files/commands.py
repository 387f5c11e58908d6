"""The job's command line on the host, and the files it needs there, by method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_cloudbench.workloads.create_files.dd_loop import SCRIPT, dd_operands
from pytest_cloudbench.workloads.create_files.job import FilesJob

PROGRAM = "create_files.py"
LOOP = "create_files.sh"


def job_files(method: str) -> dict[str, bytes]:
    """What is sent to the host, by name."""
    if method == "dd":
        return {LOOP: SCRIPT.encode()}
    return {PROGRAM: Path(__file__).with_name("program.py").read_bytes()}


def job_argv(
    job: FilesJob, method: str, folder: str, *, python: str | None, stats: Sequence[str]
) -> tuple[str, ...]:
    """The command, run in the directory that holds `job_files`.

    folder: is made by the job and must not be there. python: path of the host's Python 3, for that method.
    stats: the files in /sys with the counters of the devices below the folder's file system.
    """
    count, size, per_folder = str(job.count), str(job.size.bytes), str(job.per_folder or 0)
    if method == "dd":
        return ("sh", LOOP, folder, count, size, job.content, job.sync, per_folder, dd_operands(job), *stats)
    # -I: nothing from the login user's environment or home changes what the program imports.
    argv = [python or "python3", "-I", PROGRAM, folder, "--count", count, "--size", size]
    argv += ["--content", job.content, "--sync", job.sync]
    if job.workers > 1:
        argv += ["--workers", str(job.workers)]
    if job.per_folder is not None:
        argv += ["--per-folder", per_folder]
    for each in stats:
        argv += ["--stat", each]
    return tuple(argv)
