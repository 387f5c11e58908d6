"""One pass of fio over whole devices or files, all at once: every block once, by large direct I/O.

A pass prepares a target before anything is measured on it. `initialise` writes or reads every block of devices: a new
EBS volume has its full rate at once, but one from a snapshot is slow until each block has been read, and thinly
provisioned storage, such as local disks, until each block has been written. Blocks are really read or written, because
a discard or a zeroing command would leave them untouched. `prefill` writes one file of data on a file system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_cloudbench.hosts.errors import JobTimedOut
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.quantities import Size, Throughput, figure
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.errors import BadFioJob, FioOutputError, FioRefused, FioTimedOut
from pytest_cloudbench.workloads.fio.job import RESULT_FILE, escaped_path
from pytest_cloudbench.workloads.fio.options import fio_of
from pytest_cloudbench.workloads.fio.output import explained, parse_output
from pytest_cloudbench.workloads.fio.progress import Progress, ProgressReader
from pytest_cloudbench.workloads.one_load import one_load
from pytest_cloudbench.workloads.pace import QUICK_DATA, Pace
from pytest_cloudbench.workloads.space import KEPT_FREE, check_room
from pytest_cloudbench.workloads.target import Target
from pytest_cloudbench.workloads.tool_run import run_tool, text_of

Way = Literal["read", "write"]
OnProgress = Callable[[Progress], None]

BLOCK = Size(1 << 20)
"""The block size and depth of the EBS user guide ("Initialize Amazon EBS volumes")."""
DEPTH = 32
_SLOWEST = 1 << 20
"""A pass counts as hanging if its slowest device moves fewer bytes/s; even a small sc1 volume moves more."""
_SPARE_S = 120.0
_FILE_UNIT = 4096
"""The size of a file written with direct I/O is a multiple of this, whatever the sector size."""


@dataclass(frozen=True)
class Whole:
    """A device, or a file that the pass may create, to read or write from end to end."""

    path: str
    size: Size
    way: Way


@dataclass(frozen=True)
class Initialisation:
    """How every block of a target was initialised: all its devices at once, ``size`` together, in ``seconds``."""

    way: Way
    size: Size
    seconds: float

    @property
    def throughput(self) -> Throughput:
        """The mean over all devices together."""
        return _throughput(self.size, self.seconds)

    def __str__(self) -> str:
        done = "written" if self.way == "write" else "read"
        return (
            f"initialised: every block {done} once before, {self.size} in {figure(self.seconds, 1)} s "
            f"({self.throughput})"
        )


def initialise(
    target: Target, devices: Sequence[Whole], *, on_progress: OnProgress | None = None
) -> Initialisation:
    """Write or read every block of the target's devices, side by side.

    The caller has proven that devices to write are ours. Raises TargetError, before anything is written, if the machine
    behind the target cannot hold the data; FioRefused, FioOutputError, FioTimedOut, and the host's errors.
    """
    if not devices:
        raise TargetError(f"{target.label} has no device to initialise")
    written = Size(sum(each.size.bytes for each in devices if each.way == "write"))
    if written.bytes:
        check_room(
            target,
            written,
            f"writing every block of {target.label}",
            "take smaller volumes, or leave out initialised(), which a new volume does not need",
        )
    with one_load(target), explained(target):
        seconds = pass_over(target.host, devices, sudo=True, on_progress=on_progress)
    way: Way = "write" if written.bytes else "read"
    return Initialisation(way, Size(sum(each.size.bytes for each in devices)), seconds)


@dataclass(frozen=True)
class Prefilled:
    """A file of data: its path, its size, and how long it took to write."""

    path: str
    size: Size
    seconds: float
    conditions: tuple[str, ...] = ()

    @property
    def throughput(self) -> Throughput:
        """The mean rate at which it was written."""
        return _throughput(self.size, self.seconds)

    def __str__(self) -> str:
        return f"file of {self.size} written before, in {figure(self.seconds, 1)} s ({self.throughput})"


def prefill(
    target: Target, size: Size, *, pace: Pace = Pace.FULL, on_progress: OnProgress | None = None
) -> Prefilled:
    """Write one file of that size into the target's directory. The quick pace writes less and says so.

    The full size must fit the file system at any pace. Raises, before anything is written: BadFioJob for an invalid
    size, TargetError if the file system or the machine behind it is too full, and the errors of
    ``target.prove_writable()``.
    """
    if size.bytes < _FILE_UNIT or size.bytes % _FILE_UNIT:
        raise BadFioJob(f"a file of {size.bytes:,} bytes cannot be laid out: give a multiple of 4 KiB")
    target.prove_writable()
    listed = target.host.run(["df", "-B1", "--output=avail", "--", target.path], idempotent=True)
    free = Size(int(listed.stdout.split()[-1]))
    if size.bytes > free.bytes * (1 - KEPT_FREE):
        raise TargetError(
            f"a file of {size} does not fit {target.path} on {target.host.label}, where {free} are free: "
            "lower the size"
        )
    conditions: tuple[str, ...] = ()
    if pace is Pace.QUICK and size > QUICK_DATA:
        conditions = (f"quick pace: prefilled file {size} -> {QUICK_DATA}",)
        size = QUICK_DATA
    check_room(target, size, f"a file of {size} on {target.label}", "lower the size")
    path = f"{target.path}/prefilled-{size.bytes}"
    with one_load(target), explained(target):
        seconds = pass_over(
            target.host, [Whole(path, size, "write")], sudo=False, makes_files=True, on_progress=on_progress
        )
    return Prefilled(path, size, seconds, conditions)


def pass_over(
    host: Host,
    wholes: Sequence[Whole],
    *,
    sudo: bool,
    makes_files: bool = False,
    on_progress: OnProgress | None = None,
) -> float:
    """Read or write every block of each, all at once, and return how many seconds the slowest took.

    The caller has proven that what is written is ours. makes_files: a missing path becomes a file; otherwise it is an
    error. Raises FioRefused with fio's words, FioOutputError if blocks were left out, FioTimedOut, and the host's
    errors. Ctrl-C ends fio on the host.
    """
    where = f"{', '.join(each.path for each in wholes)} on {host.label}"
    fio = fio_of(host)
    reader = ProgressReader()

    def read(output: str) -> None:
        for progress in reader.feed(output):
            if on_progress is not None:
                on_progress(progress)

    limit_s = max(each.size.bytes for each in wholes) / _SLOWEST + _SPARE_S
    try:
        ended = run_tool(
            host,
            pass_argv(wholes, fio=fio.path, makes_files=makes_files),
            timeout_s=limit_s,
            sudo=sudo,
            name="pass",
            fetch=[RESULT_FILE, "stderr"],
            on_output=read,
        )
    except JobTimedOut as error:
        raise FioTimedOut(f"fio did not finish {where} within {limit_s:,.0f} s and was ended") from error
    try:
        stderr = text_of(ended.files, "stderr")
        result = parse_output(ended.files.get(RESULT_FILE), exit_code=ended.exit_code, stderr=stderr)
    except FioRefused as error:
        raise FioRefused(f"fio could not read or write all of {where}: {error}") from error
    moved = sum(each.bytes for each in (result.read, result.write) if each is not None)
    total = sum(each.size.bytes for each in wholes)
    if moved != total:
        raise FioOutputError(f"fio went over {moved:,} bytes of {where}, not over all {total:,}")
    return result.runtime_s


def pass_argv(wholes: Sequence[Whole], *, fio: str = "fio", makes_files: bool = False) -> tuple[str, ...]:
    """Return fio's command line: a job for the full blocks of each, and one for a remainder below a block."""
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


def _throughput(size: Size, seconds: float) -> Throughput:
    return Throughput(size.bytes / seconds if seconds > 0 else 0.0)
