"""Going over every block of a device once, so that none is touched for the first time in a measurement.

A new EBS volume gives its full rate at once; one from a snapshot is slow until each block has been read.
Writing every block is for what is thin below: local disks, and comparisons with such. Blocks are really
written or read, one by one: a discard or a command that zeroes would leave them as untouched as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Size, Throughput, figure
from pytest_cloudbench.workloads.errors import TargetError
from pytest_cloudbench.workloads.fio.data_pass import Way, Whole, pass_over
from pytest_cloudbench.workloads.fio.progress import Progress
from pytest_cloudbench.workloads.space import check_room, explained_shortage
from pytest_cloudbench.workloads.target import Target


@dataclass(frozen=True)
class Initialisation:
    """How every block of a target was gone over: all its devices at once, `size` together, in `seconds`."""

    way: Way
    size: Size
    seconds: float

    @property
    def throughput(self) -> Throughput:
        """The mean over all devices together."""
        return Throughput(self.size.bytes / self.seconds) if self.seconds > 0 else Throughput(0.0)

    def __str__(self) -> str:
        done = "written" if self.way == "write" else "read"
        return (
            f"initialised: every block {done} once before, {self.size} in {figure(self.seconds, 1)} s "
            f"({self.throughput})"
        )


def initialise(
    target: Target, devices: Sequence[Whole], *, on_progress: Callable[[Progress], None] | None = None
) -> Initialisation:
    """Write or read every block of the target's devices, side by side. What is written must be proven before.

    Raises TargetError, before anything is written, when the machine behind the target cannot hold that much;
    FioRefused, FioOutputError, FioTimedOut, and the host's errors.
    """
    if not devices:
        raise TargetError(f"{target.label} has no device to go over")
    written = Size(sum(each.size.bytes for each in devices if each.way == "write"))
    if written.bytes:
        check_room(
            target,
            written,
            f"writing every block of {target.label}",
            "take smaller volumes, or leave out initialised(), which a new volume does not need",
        )
    with explained_shortage(target):
        seconds = pass_over(target.host, devices, sudo=True, on_progress=on_progress)
    way: Way = "write" if written.bytes else "read"
    return Initialisation(way, Size(sum(each.size.bytes for each in devices)), seconds)
