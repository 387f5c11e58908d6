"""One pass of fio over devices or files from end to end: every block once, side by side, in large direct I/O."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_cloudbench.hosts.host import Host, Job
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.fio.errors import FioOutputError, FioRefused, FioTimedOut
from pytest_cloudbench.workloads.fio.job import RESULT_FILE, escaped_path
from pytest_cloudbench.workloads.fio.options import fio_of
from pytest_cloudbench.workloads.fio.output import parse_output
from pytest_cloudbench.workloads.fio.progress import Progress, ProgressReader

Way = Literal["read", "write"]

BLOCK = Size(1 << 20)
"""What the EBS user guide initialises volumes with ("Initialize Amazon EBS volumes"), as is the depth."""
DEPTH = 32
_SLOWEST = 1 << 20
"""Bytes a second of the slowest device below which a pass counts as hanging: a small sc1 volume gives more."""
_SPARE_S = 120.0


@dataclass(frozen=True)
class Whole:
    """Something to go over from end to end: a device, or a file that may be made by it."""

    path: str
    size: Size
    way: Way


def pass_over(
    host: Host,
    wholes: Sequence[Whole],
    *,
    sudo: bool,
    makes_files: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> float:
    """Read or write every block of each, all at once; the seconds that the longest took.

    Whoever calls has proven that what is written may be. makes_files: a path that is not there becomes a file;
    otherwise it is an error. Interrupted, it ends fio on the host and raises the interrupt again. Raises
    FioRefused with fio's words, FioOutputError when blocks were left out, FioTimedOut, and the host's errors
    for a lost host or a vanished job.
    """
    fio = fio_of(host)
    running = host.start_job(
        pass_argv(wholes, fio=fio.path, makes_files=makes_files), sudo=sudo, name="pass"
    )
    try:
        exit_code = _watch(running, wholes, on_progress)
        files = running.fetch([RESULT_FILE, "stderr"])
    except BaseException:
        with contextlib.suppress(Exception):
            running.kill()
        with contextlib.suppress(Exception):
            running.cleanup()
        raise
    with contextlib.suppress(Exception):
        running.cleanup()
    where = f"{', '.join(each.path for each in wholes)} on {host.label}"
    try:
        result = parse_output(
            files.get(RESULT_FILE),
            exit_code=exit_code,
            stderr=files.get("stderr", b"").decode("utf-8", "replace"),
        )
    except FioRefused as error:
        raise FioRefused(f"fio could not go over {where}: {error}") from error
    moved = sum(each.bytes for each in (result.read, result.write) if each is not None)
    wanted = sum(each.size.bytes for each in wholes)
    if moved != wanted:
        raise FioOutputError(f"fio went over {moved:,} bytes of {where}, not over all {wanted:,}")
    return result.runtime_s


def pass_argv(wholes: Sequence[Whole], *, fio: str = "fio", makes_files: bool = False) -> tuple[str, ...]:
    """fio's command line: one job for each, and one more for what is left where blocks do not fill it."""
    argv = [
        fio, f"--output={RESULT_FILE}", "--output-format=json", "--eta=always", "--eta-newline=1",
        "--ioengine=libaio", "--direct=1", f"--iodepth={DEPTH}",
        f"--allow_file_create={1 if makes_files else 0}",
    ]  # fmt: skip
    if all(each.way == "read" for each in wholes):
        argv.append("--readonly")
    for number, each in enumerate(wholes):
        filled = each.size.bytes // BLOCK.bytes * BLOCK.bytes
        for name, offset, size, block in (
            (f"pass{number}", 0, filled, BLOCK.bytes),
            (f"rest{number}", filled, each.size.bytes - filled, each.size.bytes - filled),
        ):
            if size:
                argv += [
                    f"--name={name}", f"--filename={escaped_path(each.path)}", f"--rw={each.way}",
                    f"--bs={block}", f"--offset={offset}", f"--size={size}",
                ]  # fmt: skip
                if each.way == "write":
                    argv.append("--end_fsync=1")
    return tuple(argv)


def _watch(running: Job, wholes: Sequence[Whole], on_progress: Callable[[Progress], None] | None) -> int:
    reader = ProgressReader()
    ends: float | None = None

    def take(output: str) -> None:
        nonlocal ends
        for progress in reader.feed(output):
            ends = None if progress.eta_s is None else time.monotonic() + progress.eta_s
            if on_progress is not None:
                on_progress(progress)

    limit_s = max(each.size.bytes for each in wholes) / _SLOWEST + _SPARE_S
    try:
        state = running.wait(
            limit_s, remaining_s=lambda: None if ends is None else ends - time.monotonic(), on_output=take
        )
    except TimeoutError as error:
        raise FioTimedOut(
            f"fio on {running.describe} had not gone over {', '.join(each.path for each in wholes)} after "
            f"{limit_s:,.0f} s: it was ended"
        ) from error
    return state.exit_code if state.exit_code is not None else 0
