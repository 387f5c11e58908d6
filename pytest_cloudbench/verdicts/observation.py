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
    """How busy the load generator was: its busiest job and, where known, all jobs on all CPUs.

    Percentages of one CPU: a job at 100 kept one CPU busy all the time.
    """

    cpu_percent_busiest: float
    cpu_percent_total: float | None = None
    cpus: int | None = None


@dataclass(frozen=True)
class MachineDelay:
    """What a region counted of a run: I/Os answered, and means per I/O in seconds.

    ``modelled_s`` is what they take by the model, waiting at limits included, ``late_s`` by how much later the machine
    answered them, ``volumes`` over how many volumes they were spread.
    """

    answered: int
    modelled_s: float
    late_s: float
    volumes: int = 1


class RateSeries(Protocol):
    """A time series of rates; about one sample a second."""

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
    """One measurement as the judges see it.

    Two attributes are looked for besides and may be missing or None: ``generator`` (a
    `GeneratorLoad`) and ``rate_asked`` (an Iops or Throughput to which the job itself limited its
    load, jobs and directions summed). More may be missing: ``idle_at_start_s``, for how long the load at first
    gave the target nothing to do, ``more_load_by``, the options to raise for more outstanding I/O where they are not
    fio's, ``carried_with_as_many``, an Iops that this target was seen to carry with no more I/Os outstanding,
    ``keeps_outstanding``, whether the load by its own parameters keeps ``outstanding_asked`` in flight at all times,
    ``machine_delay``, the `MachineDelay` that an embedded region counted, and ``modelled_latency``, "none" if that
    region models no latency.
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
        """Whether the pattern is sequential."""

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
    """One measurement of a network as the judges see it; its streams tell it from one of storage.

    Looked for besides, and may be missing or None: ``generator`` (a `GeneratorLoad`), ``rate_asked`` (a
    Throughput to which the job itself limited its load, all streams together), ``lost_percent`` (of UDP),
    ``mss`` (bytes of data in a TCP segment), ``asked`` (what the job asked for, as plain values), ``processes``,
    ``tool_versions``, ``conditions`` and ``time_compression``.
    """

    @property
    def throughput(self) -> Throughput:
        """What arrived, all streams together, as a mean over the run: data, without any headers."""

    @property
    def streams(self) -> Sequence[StreamView]:
        """The connections."""

    @property
    def series(self) -> RateSeries | None:
        """The series over all streams."""

    @property
    def envelope(self) -> Envelope | None:
        """The ceilings that apply; a `NetworkEnvelope` where they are known."""

    @property
    def counters(self) -> AllowancePair | None:
        """The allowance counters of both ends over the run."""

    @property
    def runtime_s(self) -> float:
        """Measured time in seconds of the test."""
