"""A measurement: the result of one workload, its time series, and where it came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pytest_cloudbench.limits.cost import Cost
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Iops, Rate, Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay
from pytest_cloudbench.verdicts.verdict import Verdict, judging
from pytest_cloudbench.workloads.judged import Judged

_LEAVES_SLOTS_EMPTY = frozenset(
    {
        "fdatasync",
        "iodepth_batch",
        "iodepth_batch_complete_max",
        "iodepth_batch_complete_min",
        "iodepth_batch_submit",
        "iodepth_low",
        "io_submit_mode",
        "latency_target",
        "sync_file_range",
        "thinktime",
    }
)
"""Options by which a load pauses, waits for batches or chooses its own depth."""

_MOVES_MORE = ("fsync", "fdatasync", "sync", "verify")


def _moves_more(asked: Mapping[str, Any]) -> bool:
    """Return True if a load with these parameters moves more or fewer bytes on its device than it counts."""
    options = {name.replace("-", "_") for name in asked.get("options") or ()}
    synced = any(asked.get(name) or any(each.startswith(name) for each in options) for name in _MOVES_MORE)
    return synced or not asked.get("direct", True)


MaybeNone: TypeAlias = Any
"""None is possible, but the type needs no check, so that users can write ``assert run.latency.at_most(p99="5 ms")``."""

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.little import InFlight


@dataclass(frozen=True)
class Latency:
    """Latency of single I/Os, in seconds. A percentile that the tool did not report is None.

    The latency of a measurement, or of its reads or writes, can be judged: `run.latency.at_most(p99="5 ms")`.
    """

    mean_s: float
    min_s: float
    max_s: float
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    p999_s: float | None = None

    @judging
    def at_most(
        self,
        *,
        mean: str | float | None = None,
        p50: str | float | None = None,
        p95: str | float | None = None,
        p99: str | float | None = None,
        p999: str | float | None = None,
        max: str | float | None = None,
        **others: str | float,
    ) -> Verdict:
        """Did I/Os take at most this long: texts such as "5 ms", or seconds?

        Raises ValueError for a percentile that was not measured, LookupError for a latency that belongs to no
        measurement.
        """
        from pytest_cloudbench.verdicts.latency_limits import latency_at_most

        judged: tuple[Measurement, str] | None = getattr(self, "_judged_in", None)
        if judged is None:
            raise LookupError(
                "this latency belongs to no measurement, so nothing says what it was measured under"
            )
        run, of = judged
        limits = {"mean": mean, "p50": p50, "p95": p95, "p99": p99, "p999": p999, "max": max, **others}
        return run._reported(latency_at_most(run, self, limits, of=of))

    def judged_in(self, run: Measurement, of: str = "") -> Latency:
        """Return a copy that belongs to a measurement; `of` is "reads" or "writes" if only these are meant."""
        own = replace(self)
        object.__setattr__(own, "_judged_in", (run, of))
        return own

    def to_dict(self) -> dict[str, float | None]:
        """Return plain values; the keys carry the unit."""
        return asdict(self)


@dataclass(frozen=True)
class Direction:
    """Reads or writes alone: means over the run time, and totals. `latency` is None if nothing was timed."""

    iops: float
    throughput_mib: float
    ios: int
    bytes: int
    latency: Latency | MaybeNone = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "iops": self.iops,
            "throughput_mib_per_s": self.throughput_mib,
            "ios": self.ios,
            "bytes": self.bytes,
            "latency": self.latency.to_dict() if self.latency else None,
        }


@dataclass(frozen=True)
class DirectionSeries:
    """Reads or writes alone, second by second; same length as the series it belongs to."""

    iops: tuple[Iops, ...] = ()
    throughput: tuple[Throughput, ...] = ()
    latency_s: tuple[float | None, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "iops": [value.per_second for value in self.iops],
            "throughput_bytes_per_s": [value.bytes_per_second for value in self.throughput],
            "latency_s": list(self.latency_s),
        }


@dataclass(frozen=True)
class Series:
    """One-second samples, all jobs together, without the ramp and an unfinished last second.

    `seconds` holds the end of each sample, counted from the end of the ramp: 1.0, 2.0, ... Under compressed time they
    are seconds of the test, and samples of a long run are shorter than a real second. `latency_s` is the mean over
    the I/Os of a sample; None without any. `percentiles_s` holds, by name ("p50", "p95", "p99", "p999"), the
    percentiles of each sample, if the workload kept histograms; None for a sample that they do not cover. In a
    plain fio run they are of completion latency, without submission. `damage` says why the tool's own samples cannot be
    used; then there are none, and every verdict is inconclusive with that reason. `gapless` says that each sample
    covers all of the time since the previous one, so that its length may vary.
    """

    seconds: tuple[float, ...] = ()
    iops: tuple[Iops, ...] = ()
    throughput: tuple[Throughput, ...] = ()
    latency_s: tuple[float | None, ...] = ()
    read: DirectionSeries | None = None
    write: DirectionSeries | None = None
    percentiles_s: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict, hash=False)
    damage: str = ""
    gapless: bool = False

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def outstanding(self) -> tuple[float | None, ...]:
        """I/Os in flight on average over each sample, by Little's law; None if no latency is known."""
        timed = zip(self.iops, self.latency_s, strict=False)
        return tuple(None if mean_s is None else rate.per_second * mean_s for rate, mean_s in timed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "seconds": list(self.seconds),
            "iops": [value.per_second for value in self.iops],
            "throughput_bytes_per_s": [value.bytes_per_second for value in self.throughput],
            "latency_s": list(self.latency_s),
            "read": self.read.to_dict() if self.read else None,
            "write": self.write.to_dict() if self.write else None,
            "percentiles_s": {name: list(values) for name, values in self.percentiles_s.items()},
        }


@dataclass(frozen=True, repr=False)
class Measurement(Judged):
    """The result of one run of a workload.

    Under compressed time, `runtime_s` and the series count seconds of the test; latencies and rates are real. The
    figures of a run on a fleet are those of all hosts together.
    """

    workload: str
    """Name of the workload, such as `fio`."""
    iops: float
    """Mean I/Os per second over the run time, reads and writes together, as the tool reports them."""
    throughput_mib: float
    """Mean throughput in MiB/s over the run time, reads and writes together, as the tool reports it."""
    read: Direction | None
    """The reads alone; None without any."""
    write: Direction | None
    """The writes alone; None without any."""
    latency: Latency | MaybeNone
    """Latency of single I/Os, reads and writes together; None if nothing was timed."""
    series: Series
    """The run second by second."""
    block_size: Size
    """Size of one I/O."""
    sequential: bool
    """True if the load was sequential."""
    outstanding_asked: int
    """I/Os that the workload keeps in flight: depth times jobs."""
    runtime_s: float
    """Length of the run without its ramp, in seconds, on the compressed clock if time is compressed."""
    command: str
    """The command that ran on the host."""
    tool_version: str
    """Version of the tool."""
    host: str
    """Label of the host."""
    target: str
    """Label of the target."""
    started_at: str
    """Start of the run in UTC, ISO 8601."""
    envelope: Envelope | None = None
    """The ceilings that applied; None if unknown."""
    counters: ThrottleDelta | None = None
    """Time above each limit during the run, by the throttle counters; None if they could not be read."""
    generator: GeneratorLoad | None = None
    """CPU load of the processes that made the load; None if unknown."""
    rate_asked: Rate | None = None
    """The limit that the workload set on itself; None without one."""
    time_compression: float = 1.0
    """Seconds of the test per real second; 1 except with `--cloudbench-twin-time`."""
    modelled_latency: str | None = None
    """How an embedded region models the latency of storage, "ebs" or "none"; None on AWS."""
    machine_delay: MachineDelay | None = None
    """Mean time of an I/O as an embedded region modelled it, and the delay that its machine added; None on AWS."""
    kernel: str = ""
    """Release of the host's kernel; "" if it was not read."""
    cost: Cost | MaybeNone = None
    """Cost of the test's hardware while this workload ran, on an embedded region what AWS would charge; None
    without prices.
    """
    reads_nothing: str = ""
    """Why its reads did not reach the storage; "" if they did."""
    credits_unsure: str = ""
    """Burst credits that may not have been full before, as something else may have used the hardware; "" if none."""
    conditions: tuple[str, ...] = ()
    """What a reader must know of this run: its pace, caps, deviations."""
    asked: dict[str, Any] = field(default_factory=dict)
    """The workload's own parameters."""
    raw: dict[str, bytes] = field(default_factory=dict)
    """The tool's own output files, by name."""
    parts: tuple[Measurement, ...] = ()
    """Of a run on a fleet: one measurement of each host."""
    start_skew_s: float | None = None
    """Of a run on a fleet: seconds between the first and the last host's start; else None."""
    on_verdict: Callable[[Verdict], None] | None = field(default=None, compare=False)
    """Called with every verdict."""
    on_comparison: Callable[..., None] | None = field(default=None, compare=False)
    """Called for every verdict that compares runs, as `Judged` says."""

    _kind = "storage"
    _of_other_kinds: ClassVar[Mapping[str, str]] = {
        "faster_than": "compares created files: ask outperforms(other, by=0.3)",
        "throughput_gbit": "is of a network: there is throughput_mib",
        "forward": "is of a network: there are read and write",
        "backward": "is of a network: there are read and write",
        "retransmits": "is of a network",
        "rtt": "is of a network: there is latency",
        "rtt_s": "is of a network: there is latency",
    }

    def __post_init__(self) -> None:
        for name, of in (("read", "reads"), ("write", "writes")):
            way: Direction | None = getattr(self, name)
            if way is not None and way.latency is not None:
                object.__setattr__(self, name, replace(way, latency=way.latency.judged_in(self, of)))
        if self.latency is not None:
            object.__setattr__(self, "latency", self.latency.judged_in(self))

    @property
    def hosts(self) -> dict[str, Measurement]:
        """What each host of a fleet measured, by the host's label; empty for a run on one host."""
        return {name: self._of_part(part) for name, part in self._named_parts()}

    @property
    def latency_mean_s(self) -> float:
        """Mean latency of one I/O in seconds, reads and writes together; NaN if none was timed."""
        return self.latency.mean_s if self.latency else math.nan

    @property
    def outstanding_mean(self) -> float | None:
        """I/Os in flight on average, by Little's law: IOPS times mean latency."""
        return self.iops * self.latency.mean_s if self.latency else None

    @property
    def iops_per_dollar(self) -> float | None:
        """IOPS for each US dollar an hour that the hardware of the test costs; None without a cost in USD."""
        hourly = self.cost.per_hour if self.cost is not None and self.cost.currency == "USD" else None
        return self.iops / hourly if hourly else None

    @property
    def more_load_by(self) -> str:
        """The options to raise for more outstanding I/O, in the words of the call."""
        return "threads" if "threads_per_device" in self.asked else "iodepth or numjobs"

    @property
    def carried_with_as_many(self) -> Iops | None:
        """For a step of a sweep: the rate of the maximum, which had as many I/Os outstanding; else None."""
        share = self.asked.get("percent_of_maximum")
        return self.rate_asked * (100 / share) if share and isinstance(self.rate_asked, Iops) else None

    @property
    def keeps_outstanding(self) -> bool:
        """True if the load, by its own parameters, keeps `outstanding_asked` in flight at all times.

        Buffered I/O goes to the page cache one by one, fsync and pauses leave slots empty, and a rate is a limit of
        its own.
        """
        asked = self.asked
        limited = (
            self.rate_asked is not None or asked.get("rate_iops_total") or asked.get("rate_bytes_per_s_total")
        )
        pauses = any(name.replace("-", "_") in _LEAVES_SLOTS_EMPTY for name in asked.get("options") or ())
        return bool(asked.get("direct", True)) and not (limited or pauses or asked.get("fsync"))

    @property
    def share_of_others(self) -> float | None:
        """Lower bound of the share of other loads in what the devices moved during the run; None if unknown.

        It is known for direct I/O if the devices have counters. Buffered and synced I/O moves more than the load.
        """
        limit = self.envelope.promised.limit_throughput if self.envelope else None
        if self.counters is None or limit is None or _moves_more(self.asked):
            return None
        read, written = (
            Throughput.from_mib(way.throughput_mib if way is not None else 0.0)
            for way in (self.read, self.write)
        )
        return self.counters.share_of_others(read, written, self.runtime_s / self.time_compression, limit)

    @property
    def consistency(self) -> InFlight | None:
        """I/Os in flight, as requested and by Little's law; None if the latency is unknown.

        If they are far apart, the measurement is wrong and every verdict on it is inconclusive.
        """
        from pytest_cloudbench.verdicts.little import in_flight
        from pytest_cloudbench.verdicts.run import run_of

        return in_flight(run_of(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for reports and JSON; the keys carry the unit. Raw files are named, not included."""
        counters = self.counters
        return {
            "workload": self.workload,
            "iops": self.iops,
            "throughput_mib_per_s": self.throughput_mib,
            "read": self.read.to_dict() if self.read else None,
            "write": self.write.to_dict() if self.write else None,
            "latency": self.latency.to_dict() if self.latency else None,
            "series": self.series.to_dict(),
            "block_size_bytes": self.block_size.bytes,
            "sequential": self.sequential,
            "outstanding_asked": self.outstanding_asked,
            "outstanding_mean": self.outstanding_mean,
            "consistent": self.consistency.consistent if self.consistency else None,
            "runtime_s": self.runtime_s,
            "time_compression": self.time_compression,
            "modelled_latency": self.modelled_latency,
            "command": self.command,
            "tool_version": self.tool_version,
            "kernel": self.kernel,
            "cost": str(self.cost) if self.cost is not None else None,
            "iops_per_dollar_an_hour": self.iops_per_dollar,
            "host": self.host,
            "target": self.target,
            "started_at": self.started_at,
            "envelope": list(self.envelope.explain()) if self.envelope else None,
            "throttle_counters": asdict(counters) if counters else None,
            "machine_delay": asdict(self.machine_delay) if self.machine_delay else None,
            "generator": asdict(self.generator) if self.generator else None,
            "conditions": list(self.conditions),
            "asked": dict(self.asked),
            "raw_files": sorted(self.raw),
            "start_skew_s": self.start_skew_s,
            "parts": [part.to_dict() for part in self.parts],
        }

    def _named_parts(self) -> Sequence[tuple[str, Measurement]]:
        return [(part.host, part) for part in self.parts]

    def __repr__(self) -> str:
        noted = f" ({'; '.join(self.conditions)})" if self.conditions else ""
        return f"{self.workload} on {self.target}: {self.iops:,.0f} IOPS, {self.throughput_mib:,.1f} MiB/s{noted}"
