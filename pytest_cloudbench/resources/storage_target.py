"""The base classes of targets on storage: of one instance, and on top of another target."""

from __future__ import annotations

from typing import Literal

from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.limits.region_settings import latency_conditions
from pytest_cloudbench.resources.facts import may_not_be_full
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.workloads.target import CountersSnapshot, Target


class StorageInUse(RuntimeError):
    """The present use of the storage forbids the request; nothing was done."""


class StorageTarget(Target):
    """A target on the storage of one instance. Subclasses define its kind, its limits and `prove_writable`."""

    instance: Instance

    @property
    def host(self) -> Host:
        """The host the load runs on."""
        return self.instance.host

    # The bodies of the protocol return None, which would count as a proof.
    @property
    def kind(self) -> Literal["block", "directory", "file"]:
        raise NotImplementedError

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def path(self) -> str:
        raise NotImplementedError

    @property
    def size(self) -> Size:
        raise NotImplementedError

    def counters(self) -> CountersSnapshot | None:
        raise NotImplementedError

    def prove_writable(self) -> None:
        raise NotImplementedError

    @property
    def time_compression(self) -> float:
        return self.instance.time_compression

    @property
    def modelled_latency(self) -> str | None:
        return self.instance.modelled_latency

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the devices below it, which show that two loads use the same device."""
        return self.paths

    @property
    def conditions(self) -> tuple[str, ...]:
        """Sentences that every measurement on it must contain: here those about its instance and a modelled latency."""
        return (*self.instance.launched.conditions, *latency_conditions(self.modelled_latency))

    @property
    def burst_credits(self) -> tuple[str, ...]:
        """The burst credits below it that earlier tests may have spent."""
        return self.instance.launched.storage_credits

    @property
    def credits_unsure(self) -> str:
        """Which burst credits below it may not be full; "" if none."""
        return may_not_be_full(self.burst_credits)

    @property
    def never_written(self) -> str:
        """Why reads of it measure nothing: its blocks are raw and were never written; "" if they are valid."""
        return ""

    @property
    def data_of_device(self) -> Size | None:
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

    def prove_readable(self) -> None:
        self.prove_writable()

    def check_content(self, *, overwrite: bool) -> None:
        """Do nothing: a load in a directory writes files of its own. Raw devices raise WouldDestroy."""

    def room(self) -> Size | None:
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
        return self.below.modelled_latency

    @property
    def size(self) -> Size:
        return self.below.size

    @property
    def device_names(self) -> tuple[str, ...]:
        return self.below.device_names

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.below.conditions

    @property
    def burst_credits(self) -> tuple[str, ...]:
        return self.below.burst_credits

    @property
    def iops(self) -> Ceiling:
        return self.below.iops

    @property
    def throughput(self) -> Ceiling:
        return self.below.throughput

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        return self.below.envelope(block_size, sequential=sequential)

    def counters(self) -> CountersSnapshot | None:
        return self.below.counters()
