"""What a measurement must show to be judged. Structural: any object with these attributes will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput
from pytest_cloudbench.verdicts.counters import AllowancePair, ThrottleDelta


@dataclass(frozen=True)
class GeneratorLoad:
    """How busy the load generator was: its busiest job and, if known, all jobs on all CPUs.

    Percentages of one CPU: a job at 100 kept one CPU busy all the time.
    """

    cpu_percent_busiest: float
    cpu_percent_total: float | None = None
    cpus: int | None = None

    @classmethod
    def of_hosts(cls, each: Sequence[tuple[str, GeneratorLoad]]) -> GeneratorLoad:
        """Return the load of several hosts, each with its machine's name: that of the busiest machine.

        Hosts with the same machine name share its CPUs.
        """
        busiest = max(load.cpu_percent_busiest for _, load in each)
        machines: dict[str, tuple[float, int | None]] = {}
        for machine, load in each:
            if load.cpu_percent_total is not None:
                others, cpus = machines.get(machine, (0.0, load.cpus))
                machines[machine] = others + load.cpu_percent_total, cpus
        if not machines:
            return cls(busiest)
        return cls(busiest, *max(machines.values(), key=lambda machine: machine[0] / (machine[1] or 1)))


@dataclass(frozen=True)
class MachineDelay:
    """What a region counted during a run: I/Os answered, and means per I/O in seconds.

    ``modelled_s`` is the modelled time, including the wait at limits, ``late_s`` the delay that the machine added,
    ``volumes`` the number of volumes.
    """

    answered: int
    modelled_s: float
    late_s: float
    volumes: int = 1

    @classmethod
    def of_hosts(cls, each: Sequence[MachineDelay]) -> MachineDelay:
        """Return the delay of all I/Os of several hosts together."""
        answered = sum(one.answered for one in each)
        return cls(
            answered,
            sum(one.modelled_s * one.answered for one in each) / answered,
            sum(one.late_s * one.answered for one in each) / answered,
            sum(one.volumes for one in each),
        )


class RateSeries(Protocol):
    """A time series of rates, about one sample a second.

    These attributes are optional: ``damage`` (what is wrong with the samples; then there are none), ``latency_s`` (the
    mean latency of each), ``gapless`` (True if each sample covers all of the time since the one before, so that its
    length may vary) and ``of_devices`` (True if counted at the devices, including what a file system adds to the load).
    """

    @property
    def seconds(self) -> Sequence[float]:
        """When each interval ended, in seconds from the start."""

    @property
    def throughput(self) -> Sequence[Throughput]:
        """The throughput of each interval."""


class SeriesView(RateSeries, Protocol):
    """A time series of I/O, reads and writes together."""

    @property
    def iops(self) -> Sequence[Iops]:
        """The IOPS of each interval."""


class Observation(Protocol):
    """One measurement on storage.

    These attributes are optional, and None means unknown: ``generator`` (a `GeneratorLoad`), ``rate_asked`` (an Iops or
    Throughput to which the job itself limited its load, jobs and directions summed), ``idle_at_start_s`` (how long the
    target had nothing to do at the start), ``more_load_by`` (the options to raise for more outstanding I/O, if they are
    not fio's), ``carried_with_as_many`` (an Iops that this target carried with as many I/Os outstanding, or fewer),
    ``keeps_outstanding`` (whether the load by its own parameters keeps ``outstanding_asked`` in flight at all times),
    ``machine_delay`` (the `MachineDelay` that an embedded region counted), ``modelled_latency`` ("none" if that region
    models no latency), ``ios_merge`` (True if the kernel decides how many I/Os carry the data, so the run's rate is its
    bytes), ``share_of_others`` (other loads moved at least this share of the devices' bytes during the run),
    ``reads_nothing`` (why its reads did not reach the storage), ``asked``, ``conditions`` and ``time_compression``.
    """

    @property
    def iops(self) -> float:
        """Mean I/Os per second, reads and writes together."""

    @property
    def throughput_mib(self) -> float:
        """Mean MiB/s, reads and writes together."""

    @property
    def block_size(self) -> Size:
        """The size of one I/O."""

    @property
    def sequential(self) -> bool:
        """True for a sequential pattern."""

    @property
    def series(self) -> SeriesView | None:
        """The one-second series."""

    @property
    def envelope(self) -> Envelope | None:
        """The ceilings that apply."""

    @property
    def counters(self) -> ThrottleDelta | None:
        """The throttle counters over the run."""

    @property
    def outstanding_asked(self) -> int:
        """I/Os that the load tries to keep outstanding: iodepth x numjobs."""

    @property
    def latency_mean_s(self) -> float:
        """Mean completion latency in seconds."""

    @property
    def runtime_s(self) -> float:
        """Measured time in seconds, ramp excluded."""


class StreamView(Protocol):
    """One connection."""

    @property
    def throughput(self) -> Throughput:
        """What arrived, as a mean over the run."""


class NetworkObservation(Protocol):
    """One measurement of a network; its streams distinguish it from one of storage.

    These attributes are optional, and None means unknown: ``generator`` (a `GeneratorLoad`), ``rate_asked`` (a
    Throughput to which the job itself limited its load, all streams together), ``lost_percent`` (of UDP), ``mss``
    (bytes of data in a TCP segment), ``asked`` (the job's parameters, as plain values), ``processes``,
    ``tool_versions``, ``conditions`` and ``time_compression``.
    """

    @property
    def throughput(self) -> Throughput:
        """What arrived, all streams together, as a mean over the run: data without headers."""

    @property
    def streams(self) -> Sequence[StreamView]:
        """The connections."""

    @property
    def series(self) -> RateSeries | None:
        """The series over all streams."""

    @property
    def envelope(self) -> Envelope | None:
        """The ceilings that apply; a `NetworkEnvelope` if they are known."""

    @property
    def counters(self) -> AllowancePair | None:
        """The allowance counters of both ends over the run."""

    @property
    def runtime_s(self) -> float:
        """Measured time in seconds of the test."""
