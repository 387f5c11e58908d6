"""A directory on any host as a target for workloads, also on hosts that no provider launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.hosts.paths import check_path
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size


@dataclass(frozen=True)
class HostDirectory:
    """A directory that exists on the host and that the login user can write to.

    The devices below it are unknown: there are no ceilings, so that `capped_by` has nothing to compare with, and no
    throttle counters. `reaches` judges against the figure in the test. `name` stands for the path in messages and in
    evidence: give one if the path differs from run to run, like that of a temporary directory.
    """

    host: Host
    path: str
    name: str = ""

    kind: ClassVar[Literal["block", "directory", "file"]] = "directory"
    conditions: ClassVar[tuple[str, ...]] = ()
    data_of_device: ClassVar[Size | None] = None
    time_compression: ClassVar[float] = 1.0
    modelled_latency: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        check_path("path", self.path)

    @property
    def paths(self) -> tuple[str, ...]:
        """The one path."""
        return (self.path,)

    @property
    def label(self) -> str:
        """The name in messages and evidence: "/data on build-7"."""
        return f"{self.name or self.path} on {self.host.label}"

    @property
    def size(self) -> Size:
        """The size of the file system that the directory is in."""
        found = self.host.run(["df", "-B1", "--output=size", "--", self.path], idempotent=True)
        return Size(int(found.stdout.split()[-1]))

    def prove_writable(self) -> None:
        """Raise NotOurs unless it is a directory that the login user can write to."""
        checks = 'case $1 in /*) [ -d "$1" ] && [ -w "$1" ] ;; *) exit 1 ;; esac'
        if self.host.run(["sh", "-c", checks, "sh", self.path], check=False, idempotent=True).exit_code != 0:
            raise NotOurs(
                f"{self.path} on {self.host.label} is not a directory that {self.host.user} can write to: "
                "give the absolute path of one"
            )

    def prove_readable(self) -> None:
        """Raise NotOurs as for writing: even a workload that only reads first writes its files."""
        self.prove_writable()

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope | None:
        """Return None: no ceiling is known."""
        return None

    def room(self) -> Size | None:
        """Return None: only the free space of the file system limits the data."""
        return None

    def counters(self) -> None:
        """Return None: the devices are unknown."""
