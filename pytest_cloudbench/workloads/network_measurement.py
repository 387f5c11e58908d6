"""A measurement of a network: the result of one load between two hosts, its series, and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, ClassVar, TypeVar

from pytest_cloudbench.limits.cost import Cost
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.verdict import Verdict, judging
from pytest_cloudbench.workloads.judged import Judged

_N = TypeVar("_N", int, float)


class BothDirections(TypeError):
    """A verdict was requested for a run in both directions: a promise applies to each direction by itself."""


@dataclass(frozen=True)
class NetworkSeries:
    """Samples of one stream or of all together, without omitted ones and an unfinished last one.

    `seconds` holds the end of each sample in seconds of the test: under compressed time, many of them pass per real
    second. `throughput` is what arrived (what was sent, if the receiver's output is missing), `sent` what the sender
    wrote. A column is empty if its figure is unknown: `retransmits`, `cwnd_bytes`, `rtt_s` of TCP, `jitter_s` and
    `lost_packets` of UDP. Window, round trip and jitter are those of single streams.
    """

    seconds: tuple[float, ...] = ()
    throughput: tuple[Bandwidth, ...] = ()
    sent: tuple[Bandwidth, ...] = ()
    retransmits: tuple[int, ...] = ()
    cwnd_bytes: tuple[int | None, ...] = ()
    rtt_s: tuple[float | None, ...] = ()
    jitter_s: tuple[float | None, ...] = ()
    lost_packets: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "seconds": list(self.seconds),
            "throughput_bytes_per_s": [value.bytes_per_second for value in self.throughput],
            "sent_bytes_per_s": [value.bytes_per_second for value in self.sent],
            "retransmits": list(self.retransmits),
            "cwnd_bytes": list(self.cwnd_bytes),
            "rtt_s": list(self.rtt_s),
            "jitter_s": list(self.jitter_s),
            "lost_packets": list(self.lost_packets),
        }


@dataclass(frozen=True)
class StreamResult:
    """One stream. `received` is None if only the sender reported it, `sent` if only the receiver did.

    `process` counts from 1; `port` is the client's. `rtt_s` and `cwnd_bytes` are means over the samples, `jitter_s`
    is iperf3's own at the end of the run. For UDP, `packets` counts the datagrams, lost ones included.
    """

    process: int
    port: int | None
    from_client: bool
    sent: Bandwidth | None
    received: Bandwidth | None
    series: NetworkSeries
    retransmits: int | None = None
    cwnd_bytes: float | None = None
    rtt_s: float | None = None
    jitter_s: float | None = None
    lost_packets: int | None = None
    packets: int | None = None

    @property
    def throughput(self) -> Bandwidth:
        """What arrived; what was sent, if that is unknown."""
        known = self.received if self.received is not None else self.sent
        return known if known is not None else Bandwidth(0.0)

    @property
    def lost_percent(self) -> float | None:
        """Datagrams lost, in per cent; None for TCP."""
        if self.lost_packets is None or not self.packets:
            return None
        return 100.0 * self.lost_packets / self.packets

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the keys carry the unit."""
        return {
            "process": self.process,
            "client_port": self.port,
            "from_client": self.from_client,
            "sent_bytes_per_s": self.sent.bytes_per_second if self.sent else None,
            "received_bytes_per_s": self.received.bytes_per_second if self.received else None,
            "retransmits": self.retransmits,
            "cwnd_mean_bytes": self.cwnd_bytes,
            "rtt_mean_s": self.rtt_s,
            "jitter_s": self.jitter_s,
            "lost_packets": self.lost_packets,
            "packets": self.packets,
            "series": self.series.to_dict(),
        }


@dataclass(frozen=True)
class RoundTrips:
    """TCP's round trips, in seconds, as the senders' kernels smooth them and iperf3 reads them once a second.

    ``mean_s`` is the mean over streams and samples, ``max_s`` the longest sample of any stream. Both are None if no
    sender reported them, as with UDP. They can be judged: `run.rtt.at_most(mean="1 ms")`.
    """

    mean_s: float | None
    max_s: float | None
    _run: NetworkMeasurement = field(repr=False, compare=False)

    @judging
    def at_most(
        self, *, mean: str | float | None = None, max: str | float | None = None, **others: str | float
    ) -> Verdict:
        """Did round trips take at most this long: texts such as "1 ms", or seconds?

        Raises ValueError if round trips were not measured, or for a percentile: one sample a second is too few.
        """
        from pytest_cloudbench.verdicts.latency_limits import latency_at_most

        run = self._run
        if self.mean_s is None:
            raise ValueError(
                "round trips were not measured: only the sender of a TCP load reports them"
                + ("; this run sent UDP: assert run.jitter_s" if run.protocol.upper() == "UDP" else "")
            )
        limits = {"mean": mean, "max": max, **others}
        return run._reported(latency_at_most(run._observed(), self, limits))


@dataclass(frozen=True, repr=False)
class NetworkMeasurement(Judged):
    """The result of one load between two hosts.

    The figures of a run both ways, or on several pairs, are those of all directions and pairs together.
    """

    workload: str
    """Name of the workload, such as `iperf3`."""
    protocol: str
    """"tcp" or "udp"."""
    throughput: Bandwidth
    """What arrived, all streams together, as a mean over the run (goodput: no headers). What was sent, if the
    receiver's output is missing; then `conditions` say so.
    """
    sent: Bandwidth | None
    """What was sent, all streams together; None if only the receiver reported."""
    received: Bandwidth | None
    """What arrived, all streams together; None if only the sender reported."""
    streams: tuple[StreamResult, ...]
    """Each stream by itself."""
    series: NetworkSeries
    """All streams together, sample by sample."""
    runtime_s: float
    """Length of the run in seconds, on the compressed clock if time is compressed."""
    path: str
    """The path as `client -> server`."""
    client: str
    """Label of the client."""
    server: str
    """Label of the server."""
    client_commands: tuple[str, ...]
    """The commands that ran on the client, one for each process."""
    server_commands: tuple[str, ...]
    """The commands that ran on the server, one for each process."""
    tool_versions: dict[str, str]
    """Version of the tool on each end."""
    started_at: str
    """Start of the run in UTC, ISO 8601."""
    reverse: bool = False
    """True if the server sent."""
    cpu_client_percent: float | None = None
    """CPU of all processes on the client, in per cent of one core; None if unknown."""
    cpu_server_percent: float | None = None
    """CPU of all processes on the server, in per cent of one core; None if unknown."""
    processes: int = 1
    """Processes on each end."""
    processes_why: str = ""
    """The reason for the number of processes."""
    time_compression: float = 1.0
    """Seconds of the test per real second; 1 except with `--cloudbench-twin-time`."""
    envelope: Envelope | None = None
    """The ceilings that applied; None if unknown."""
    counters: AllowancePair | None = None
    """Increase of the ENA driver's allowance counters at both ends; None if they could not be read."""
    generator: GeneratorLoad | None = None
    """CPU load of the processes that made the load; None if unknown."""
    rate_asked: Bandwidth | None = None
    """The limit that the load set on itself; None without one."""
    mss: int | None = None
    """Data in one TCP segment, in bytes; None if unknown."""
    kernel: str = ""
    """Release of the kernels at both ends; "" if it was not read."""
    cost: Cost | Any = None
    """Cost of the test's hardware while this workload ran, with traffic between zones; None without prices."""
    credits_unsure: str = ""
    """Burst credits that may not have been full before, as something else may have used the hardware; "" if none."""
    conditions: tuple[str, ...] = ()
    """What a reader must know of this run: its pace, caps, deviations."""
    asked: dict[str, Any] = field(default_factory=dict)
    """The workload's own parameters."""
    raw: dict[str, bytes] = field(default_factory=dict)
    """The tool's own output, by name."""
    directions: tuple[NetworkMeasurement, ...] = ()
    """Of a run both ways: `forward` and `backward`."""
    parts: tuple[NetworkMeasurement, ...] = ()
    """Of a run on several pairs: one measurement of each pair."""
    start_skew_s: float | None = None
    """Of a run on several pairs: seconds within which they started; else None."""
    on_verdict: Callable[[Verdict], None] | None = field(default=None, compare=False)
    """Called with every verdict."""
    on_comparison: Callable[..., None] | None = field(default=None, compare=False)
    """Called for every verdict that compares runs, as `Judged` says."""

    _kind = "a network"
    _of_other_kinds: ClassVar[Mapping[str, str]] = {
        "faster_than": "compares created files: ask outperforms(other, by=0.3)",
        "iops": "counts I/Os, of which a network has none: there is throughput_gbit",
        "latency": "is that of I/Os: there are rtt, and jitter_s of UDP",
        "read": "is of storage: there are forward and backward",
        "write": "is of storage: there are forward and backward",
    }

    @property
    def throughput_gbit(self) -> float:
        """`throughput` in Gbit/s."""
        return self.throughput.gbit

    @property
    def throughput_mib(self) -> float:
        """`throughput` in MiB/s."""
        return self.throughput.mib

    @property
    def bidirectional(self) -> bool:
        """True if both ends sent at once."""
        return bool(self.directions)

    @property
    def forward(self) -> NetworkMeasurement | None:
        """What the client sent; None if only the server did."""
        return self._direction(reverse=False)

    @property
    def backward(self) -> NetworkMeasurement | None:
        """What the server sent; None if only the client did."""
        return self._direction(reverse=True)

    @property
    def pairs(self) -> dict[str, NetworkMeasurement]:
        """What each of several pairs measured, by its path; empty for a run on one pair."""
        return {name: self._of_part(part) for name, part in self._named_parts()}

    @property
    def retransmits(self) -> int | None:
        """TCP segments sent again, over all streams; None if no sender reported them."""
        return sum_known(stream.retransmits for stream in self.streams)

    @property
    def lost_packets(self) -> int | None:
        """UDP datagrams lost, over all streams; None for TCP."""
        return sum_known(stream.lost_packets for stream in self.streams)

    @property
    def lost_percent(self) -> float | None:
        """UDP datagrams lost, over all streams, in per cent; None for TCP."""
        lost, packets = self.lost_packets, sum_known(stream.packets for stream in self.streams)
        return None if lost is None or not packets else 100.0 * lost / packets

    @property
    def jitter_s(self) -> float | None:
        """Mean over the streams of their jitter at the end of the run; None for TCP."""
        return mean_known(stream.jitter_s for stream in self.streams)

    @property
    def rtt_s(self) -> float | None:
        """Mean round trip over streams and samples, in seconds; None if no sender reported it."""
        return mean_known(stream.rtt_s for stream in self.streams)

    @property
    def rtt(self) -> RoundTrips:
        """The round trips, to judge: `run.rtt.at_most(mean="1 ms")`."""
        samples = [value for stream in self.streams for value in stream.series.rtt_s if value is not None]
        return RoundTrips(self.rtt_s, max(samples, default=self.rtt_s), self)

    @property
    def command(self) -> str:
        """The clients' commands, one per line."""
        return "\n".join(self.client_commands)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for reports and JSON; the keys carry the unit. Raw files are named, not included."""
        return {
            "workload": self.workload,
            "protocol": self.protocol,
            "reverse": self.reverse,
            "bidirectional": self.bidirectional,
            "throughput_bytes_per_s": self.throughput.bytes_per_second,
            "throughput_gbit_per_s": self.throughput_gbit,
            "sent_bytes_per_s": self.sent.bytes_per_second if self.sent else None,
            "received_bytes_per_s": self.received.bytes_per_second if self.received else None,
            "retransmits": self.retransmits,
            "rtt_mean_s": self.rtt_s,
            "jitter_s": self.jitter_s,
            "lost_packets": self.lost_packets,
            "lost_percent": self.lost_percent,
            "streams": [stream.to_dict() for stream in self.streams],
            "series": self.series.to_dict(),
            "runtime_s": self.runtime_s,
            "time_compression": self.time_compression,
            "cpu_client_percent": self.cpu_client_percent,
            "cpu_server_percent": self.cpu_server_percent,
            "processes": self.processes,
            "processes_why": self.processes_why,
            "path": self.path,
            "client": self.client,
            "server": self.server,
            "client_commands": list(self.client_commands),
            "server_commands": list(self.server_commands),
            "tool_versions": dict(self.tool_versions),
            "kernel": self.kernel,
            "cost": str(self.cost) if self.cost is not None else None,
            "started_at": self.started_at,
            "envelope": list(self.envelope.explain()) if self.envelope else None,
            "allowance_counters": asdict(self.counters) if self.counters else None,
            "generator": asdict(self.generator) if self.generator else None,
            "mss_bytes": self.mss,
            "conditions": list(self.conditions),
            "asked": dict(self.asked),
            "raw_files": sorted(self.raw),
            "directions": [each.to_dict() for each in self.directions],
            "start_skew_s": self.start_skew_s,
            "parts": [part.to_dict() for part in self.parts],
        }

    def _named_parts(self) -> Sequence[tuple[str, NetworkMeasurement]]:
        return [(part.path, part) for part in self.parts]

    def _direction(self, *, reverse: bool) -> NetworkMeasurement | None:
        for each in self.directions or (self,):
            if each.reverse == reverse:
                return self._of_part(each)
        return None

    def _observed(self) -> Any:
        if self.directions:
            raise BothDirections(
                "this run went both ways, and a promise holds for each direction by itself: judge its forward or "
                "its backward"
            )
        return self

    def __repr__(self) -> str:
        both = ""
        if self.directions:
            both = f" ({' and '.join(str(each.throughput) for each in self.directions)} each way)"
        again = "" if self.retransmits is None else f", {self.retransmits:,} sent again"
        lost = "" if self.lost_percent is None else f", {self.lost_percent:.2g} % lost"
        noted = f" ({'; '.join(self.conditions)})" if self.conditions else ""
        return f"{self.workload} on {self.path}: {self.throughput}{both}{again}{lost}{noted}"


def sum_known(values: Iterable[_N | None]) -> _N | None:
    """Return the sum of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def mean_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
