"""What a workload is aimed at: a block device, several of them, or a directory, on one host."""

from __future__ import annotations

from typing import Literal, Protocol

from pytest_cloudbench.promises.envelope import Envelope
from pytest_cloudbench.promises.quantities import Size
from pytest_cloudbench.verdicts.throttling import ThrottleDelta
from pytest_cloudbench.workloads.runner import Runner


class CountersSnapshot(Protocol):
    """The throttle counters of a target's devices at one moment."""

    def since(self, earlier: CountersSnapshot) -> ThrottleDelta:
        """What the counters gained since `earlier`."""
        ...


class Target(Protocol):
    """Where the load goes. `path` is the first of `paths`; a directory target has exactly one."""

    @property
    def runner(self) -> Runner: ...
    @property
    def kind(self) -> Literal["block", "directory"]: ...
    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> Size:
        """Size of all its devices together."""
        ...

    @property
    def label(self) -> str:
        """For people: "io2 vol-0abc", "xfs on io2 vol-0abc"."""
        ...

    def prove_writable(self) -> None:
        """Raise, with the reason, unless everything at `paths` is proven to be ours to overwrite."""
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
