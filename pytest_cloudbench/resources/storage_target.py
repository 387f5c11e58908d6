"""What every target on storage shares, and what a target that lies on another one passes on."""

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
    """Storage was asked for something that its present use forbids; nothing was done."""


class StorageTarget:
    """A target on the storage of one instance. Subclasses say what it is, what limits it and how it is proven."""

    instance: Instance

    @property
    def host(self) -> Host:
        """The host the load runs on."""
        return self.instance.host

    @property
    def time_compression(self) -> float:
        """How many times faster than the clock the region lets burst credits go; 1.0 on AWS."""
        return self.instance.time_compression

    @property
    def modelled_latency(self) -> str | None:
        """How the region models the latency of storage, "ebs" or "none"; None on AWS."""
        return self.instance.modelled_latency

    @property
    def label(self) -> str:
        """For messages."""
        raise NotImplementedError

    @property
    def size(self) -> Size:
        """Size of everything below it together."""
        raise NotImplementedError

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences about it that belong into every measurement on it: here how its latency is modelled, if it is."""
        return latency_conditions(self.modelled_latency)

    @property
    def data_of_device(self) -> Size | None:
        """Only a directory that stands for a device has it: the data that takes the device's place."""
        return None

    @property
    def iops(self) -> Ceiling:
        """The IOPS of all its devices, a ceiling to judge by; the instance's own limit is not in it."""
        raise NotImplementedError

    @property
    def throughput(self) -> Ceiling:
        """The throughput of all its devices, a ceiling to judge by; the instance's own limit is not in it."""
        raise NotImplementedError

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Every ceiling that applies to this I/O; the lowest binds."""
        raise NotImplementedError

    def counters(self) -> CountersSnapshot | None:
        """The throttle counters of its devices now; None where the host gives none."""
        raise NotImplementedError

    def prove_writable(self) -> None:
        """Raise unless everything below it is proven to be ours to overwrite."""
        raise NotImplementedError

    def prove_readable(self) -> None:
        """Raise unless everything below it is proven ours and used by nothing else: in a directory as for writing."""
        self.prove_writable()

    def room(self) -> Size | None:
        """How much more data the machine behind it can hold; None where no such limit is known."""
        machine = self.instance.machine_limits()
        return machine.room if machine is not None else None

    def __repr__(self) -> str:
        return f"<{self.label} on {self.instance.type}>"


class Layer(StorageTarget):
    """A target that lies on another one: the same devices, the same limits, the same counters."""

    def __init__(self, below: StorageTarget) -> None:
        self.below = below
        self.instance = below.instance

    @property
    def modelled_latency(self) -> str | None:
        """That of what lies below."""
        return self.below.modelled_latency

    @property
    def size(self) -> Size:
        """Size of what lies below."""
        return self.below.size

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of what lies below."""
        return self.below.conditions

    @property
    def iops(self) -> Ceiling:
        """The IOPS of all devices below, a ceiling to judge by; the instance's own limit is not in it."""
        return self.below.iops

    @property
    def throughput(self) -> Ceiling:
        """The throughput of all devices below, a ceiling to judge by; the instance's own limit is not in it."""
        return self.below.throughput

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Every ceiling that applies to this I/O on the devices below; the lowest binds."""
        return self.below.envelope(block_size, sequential=sequential)

    def counters(self) -> CountersSnapshot | None:
        """The throttle counters of the devices below; None where the host gives none."""
        return self.below.counters()
