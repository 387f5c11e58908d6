"""What a workload is aimed at: a block device, several of them, a directory or one file, on one host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.machine_delay import MachineDelay
from pytest_cloudbench.verdicts.throttling import ThrottleDelta
from pytest_cloudbench.workloads.runner import Runner

if TYPE_CHECKING:
    from typing_extensions import Self


class CountersSnapshot(Protocol):
    """The counters of a target's devices at one moment."""

    def since(self, earlier: Self) -> ThrottleDelta | None:
        """Return what the throttle counters gained since `earlier`; None if there are none."""
        ...

    def machine_delay(self, earlier: Self) -> MachineDelay | None:
        """Return what an embedded region counted since `earlier`; None elsewhere."""
        ...


@dataclass(frozen=True)
class Gained:
    """What counters gained over a run; None for those that there are not."""

    throttled: ThrottleDelta | None = None
    machine_delay: MachineDelay | None = None

    def within(self, load_s: float) -> Gained:
        """Leave out the time before the first I/O of a load of that length and after its last: nothing waited then."""
        throttled = self.throttled
        if throttled is not None:
            throttled = replace(throttled, elapsed_s=min(throttled.elapsed_s, load_s))
        return replace(self, throttled=throttled)


def gained(before: CountersSnapshot | None, after: CountersSnapshot | None) -> Gained:
    """Return what the counters gained between the two."""
    if before is None or after is None:
        return Gained()
    return Gained(after.since(before), after.machine_delay(before))


class Target(Protocol):
    """Where the load goes. `path` is the first of `paths`; a directory or a file has exactly one.

    A file is there in full before the load begins and is read and written in place.
    """

    @property
    def runner(self) -> Runner: ...
    @property
    def kind(self) -> Literal["block", "directory", "file"]: ...
    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> Size:
        """Size of all its devices together, or of the file."""
        ...

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences about how the target came to be that belong into every measurement on it."""
        ...

    @property
    def data_of_device(self) -> Size | None:
        """On a directory that stands for a device (a stripe by btrfs): how much data takes the device's place,
        over all files together, for a job that names no size. None on every other target."""
        ...

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock the region lets burst credits go; 1.0 where it does not."""
        ...

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None where it is the storage's own."""
        ...

    @property
    def label(self) -> str:
        """For people: "io2 vol-0abc", "xfs on io2 vol-0abc"."""
        ...

    def prove_writable(self) -> None:
        """Raise, with the reason, unless everything at `paths` is proven to be ours to overwrite."""
        ...

    def prove_readable(self) -> None:
        """Raise, with the reason, unless everything at `paths` is what it is meant to be and used by nothing else.

        What `prove_writable` refuses besides (partitions, a device that cannot be written) does not matter here.
        """
        ...

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope | None:
        """Every ceiling that applies to this I/O, or None where none is known."""
        ...

    def room(self) -> Size | None:
        """How much more data the machine behind it can hold; None where no such limit is known."""
        ...

    def counters(self) -> CountersSnapshot | None:
        """The throttle counters now, or None where the host has none."""
        ...
