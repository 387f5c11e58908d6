"""The base classes of targets on storage: of one instance, and on top of another target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.region_settings import latency_conditions

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host
    from pytest_cloudbench.hosts.throttle_counters import CountersSnapshot
    from pytest_cloudbench.resources.instance import Instance


class StorageInUse(RuntimeError):
    """The present use of the storage forbids the request; nothing was done."""


class StorageTarget:
    """A target on the storage of one instance. Subclasses define what it is, its limits and its proof."""

    instance: Instance

    @property
    def host(self) -> Host:
        """The host the load runs on."""
        return self.instance.host

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock burst credits drain and refill; 1.0 on AWS."""
        return self.instance.time_compression

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None on AWS."""
        return self.instance.modelled_latency

    @property
    def label(self) -> str:
        """Its name in messages."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """The path on the host, of the first device if it has several."""
        raise NotImplementedError

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of its devices, or the one path of a directory or file."""
        return (self.path,)

    @property
    def size(self) -> Size:
        """The size of everything below it together."""
        raise NotImplementedError

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences that every measurement on it must contain: here those on its instance and a modelled latency."""
        return (*self.instance.launched.conditions, *latency_conditions(self.modelled_latency))

    @property
    def never_written(self) -> str:
        """Why reads of it measure nothing: its blocks are raw and were never written; "" if they do measure."""
        return ""

    @property
    def data_of_device(self) -> Size | None:
        """The data that replaces the device, for a directory that stands for one; else None."""
        return None

    @property
    def iops(self) -> Ceiling:
        """The promised IOPS of all its devices together, without the instance's limit."""
        raise NotImplementedError

    @property
    def throughput(self) -> Ceiling:
        """The promised throughput of all its devices together, without the instance's limit."""
        raise NotImplementedError

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Return every ceiling that applies to this I/O; the lowest binds."""
        raise NotImplementedError

    def counters(self) -> CountersSnapshot | None:
        """Return the throttle counters of its devices now; None if the host has none."""
        raise NotImplementedError

    def prove_writable(self) -> None:
        """Raise NotOurs unless everything below it is proven ours to overwrite."""
        raise NotImplementedError

    def prove_readable(self) -> None:
        """Raise NotOurs unless everything below it is proven ours and unused; for a directory, as for writing."""
        self.prove_writable()

    def room(self) -> Size | None:
        """Return how much more data the machine behind it can hold; None if unknown."""
        machine = self.instance.machine_limits()
        return machine.room if machine is not None else None

    def __repr__(self) -> str:
        return f"<{self.label} on {self.instance.type}>"


class Layer(StorageTarget):
    """A target on top of another one, with the same devices, limits and counters."""

    def __init__(self, below: StorageTarget) -> None:
        self.below = below
        self.instance = below.instance

    @property
    def modelled_latency(self) -> str | None:
        """The mode of the storage below."""
        return self.below.modelled_latency

    @property
    def size(self) -> Size:
        """The size of the storage below."""
        return self.below.size

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the storage below."""
        return self.below.conditions

    @property
    def iops(self) -> Ceiling:
        """The promised IOPS of all devices below together, without the instance's limit."""
        return self.below.iops

    @property
    def throughput(self) -> Ceiling:
        """The promised throughput of all devices below together, without the instance's limit."""
        return self.below.throughput

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Return every ceiling that applies to this I/O on the devices below; the lowest binds."""
        return self.below.envelope(block_size, sequential=sequential)

    def counters(self) -> CountersSnapshot | None:
        """Return the throttle counters of the devices below; None if the host has none."""
        return self.below.counters()
