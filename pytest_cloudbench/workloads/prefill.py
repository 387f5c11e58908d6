"""One file of real data on a file system, written with direct I/O before anything is measured on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size, Throughput, figure
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.data_pass import Whole, pass_over
from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.progress import Progress
from pytest_cloudbench.workloads.pace import QUICK_DATA, Pace
from pytest_cloudbench.workloads.space import KEPT_FREE, check_room, explained_shortage
from pytest_cloudbench.workloads.target import Target

_GRAIN = 4096
"""Bytes of which a file written with direct I/O is a multiple, whatever the sectors below."""


@dataclass(frozen=True)
class Prefilled:
    """The file: where it is, its size, and how long writing it took."""

    path: str
    size: Size
    seconds: float
    conditions: tuple[str, ...] = ()

    @property
    def throughput(self) -> Throughput:
        """How fast it was written, on average."""
        return Throughput(self.size.bytes / self.seconds) if self.seconds > 0 else Throughput(0.0)

    def __str__(self) -> str:
        return f"file of {self.size} written before, in {figure(self.seconds, 1)} s ({self.throughput})"


def prefill(
    target: Target,
    size: Size,
    *,
    pace: Pace = Pace.FULL,
    on_progress: Callable[[Progress], None] | None = None,
) -> Prefilled:
    """Write one file of that size into the target's directory. The quick pace makes it smaller and says so.

    What is asked for must fit the file system at any pace. Raises, before anything is written: BadFioJob for a
    size that cannot be, TargetError where there is no room on the file system or in the machine behind it, and
    what target.prove_writable() raises.
    """
    if size.bytes < _GRAIN or size.bytes % _GRAIN:
        raise BadFioJob(f"a file of {size.bytes:,} bytes cannot be laid out: give a multiple of 4 KiB")
    target.prove_writable()
    said = target.host.run(["df", "-B1", "--output=avail", "--", target.path], idempotent=True)
    free = Size(int(said.stdout.split()[-1]))
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
    with explained_shortage(target):
        seconds = pass_over(
            target.host,
            [Whole(path, size, "write")],
            sudo=False,
            makes_files=True,
            on_progress=on_progress,
        )
    return Prefilled(path, size, seconds, conditions)
