"""An iperf3 job: what the network is to be loaded with, checked before anything starts."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth, Size, Throughput, parse_rate
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job

TCP = "tcp"
UDP = "udp"

MOST_STREAMS = 128
"""Of one process; iperf3's MAX_STREAMS."""
LONGEST_S = 86_400
"""iperf3's MAX_TIME."""
LONGEST_OMIT_S = 60
"""iperf3's MAX_OMIT_TIME up to 3.14; later ones take 600."""
LEAST_MSS = 88
"""Linux refuses a smaller TCP_MAXSEG (TCP_MIN_MSS)."""
MOST_MSS = 9_216
"""iperf3's MAX_MSS up to 3.18."""
LARGEST_WINDOW = Size(512 << 20)
"""iperf3's MAX_TCP_BUFFER."""
LARGEST_BLOCK = Size(1 << 20)
"""iperf3's MAX_BLOCKSIZE."""
SMALLEST_DATAGRAM, LARGEST_DATAGRAM = 16, 65_507
"""iperf3's MIN_UDP_BLOCKSIZE and MAX_UDP_BLOCKSIZE: what an IPv4 datagram holds."""
MOST_PROCESSES = 64

_OTHER_NAMES = {
    "parallel": "streams",
    "numjobs": "streams",
    "time": "duration",
    "runtime": "duration",
    "ramp_time": "omit",
    "bidir": "bidirectional",
    "set_mss": "mss",
    "bandwidth": "bitrate",
    "rate": "bitrate",
    "tos": "dscp",
    "bs": "length",
}
"""iperf3's and fio's own words, which people write at first."""

_TCP_ONLY = ("mss", "congestion", "no_delay")


@dataclass(frozen=True)
class Iperf3Job:
    """One iperf3 workload, from the client to the server unless it is reversed.

    protocol: "tcp" or "udp". streams: connections of each direction, over all processes together.
    duration, omit: seconds of the test; what is omitted comes first and is not measured.
    reverse: the server sends. bidirectional: both send at once, `streams` connections each way.
    bitrate: TOTAL over all streams and processes, of each direction; None is as fast as it goes (TCP only).
    (iperf3's own option is per stream; the division is done here.)
    mss: bytes of one TCP segment's data. window: socket buffer. length: bytes of one write, or one datagram.
    congestion: TCP congestion control. dscp: 0 to 63. no_delay: TCP_NODELAY. zerocopy: sendfile.
    processes: iperf3 processes at each end; None lets iperf3's version, the processors and the rate decide.
    port: the server's (with several processes the first of them); None finds a free one.

    `Iperf3Job.of(...)` takes what people write (bitrate="5 Gbit/s", window="4m", udp=True, dscp="ef").
    """

    protocol: str = TCP
    streams: int = 1
    duration: float = 10
    omit: float = 0
    reverse: bool = False
    bidirectional: bool = False
    bitrate: Bandwidth | None = None
    mss: int | None = None
    window: Size | None = None
    length: Size | None = None
    congestion: str | None = None
    dscp: int | None = None
    no_delay: bool = False
    zerocopy: bool = False
    processes: int | None = None
    port: int | None = None

    @classmethod
    def of(
        cls,
        *,
        protocol: str | None = None,
        udp: bool | None = None,
        bitrate: Any = None,
        window: Any = None,
        length: Any = None,
        dscp: Any = None,
        **fields: Any,
    ) -> Iperf3Job:
        """The job from what people write.

        Raises BadIperf3Job naming the field, the value and what would be possible.
        """
        known = [each.name for each in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                raise BadIperf3Job(_unknown(name, known))
        return cls(
            protocol=_protocol(protocol, udp),
            bitrate=None if bitrate is None else as_bandwidth("bitrate", bitrate),
            window=None if window is None else as_size("window", window),
            length=None if length is None else as_size("length", length),
            dscp=None if dscp is None else as_dscp(dscp),
            **fields,
        )

    def __post_init__(self) -> None:
        if self.protocol not in (TCP, UDP):
            raise BadIperf3Job(f"protocol={self.protocol!r} is not one of 'tcp' and 'udp'")
        for name in ("reverse", "bidirectional", "no_delay", "zerocopy"):
            check_flag(name, getattr(self, name))
        self._check_shape()
        self._check_times()
        self._check_protocol()
        self._check_sizes()
        self._check_port()

    def _check_shape(self) -> None:
        if self.processes is not None:
            check_whole("processes", self.processes, least=1, most=MOST_PROCESSES)
        most = MOST_STREAMS * (self.processes or MOST_PROCESSES)
        check_whole(
            "streams", self.streams, least=1, most=most, why=f"iperf3 runs up to {MOST_STREAMS} a process"
        )
        if self.processes is not None and self.processes > self.streams:
            raise BadIperf3Job(
                f"processes={self.processes} is more than streams={self.streams}: every process needs a stream"
            )
        if self.reverse and self.bidirectional:
            raise BadIperf3Job(
                "reverse=True and bidirectional=True exclude each other: bidirectional sends both ways already"
            )

    def _check_times(self) -> None:
        check_whole("duration", self.duration, least=1, most=LONGEST_S, unit="seconds")
        check_whole("omit", self.omit, least=0, most=LONGEST_OMIT_S, unit="seconds")
        if self.omit and self.omit >= self.duration:
            raise BadIperf3Job(
                f"omit={self.omit:g} s is not shorter than duration={self.duration:g} s: what is omitted comes "
                "before the measured time and must not outweigh it"
            )

    def _check_protocol(self) -> None:
        if self.protocol == TCP:
            return
        for name in _TCP_ONLY:
            if getattr(self, name):
                raise BadIperf3Job(f"{name}={getattr(self, name)!r} is for TCP: UDP has no such thing")
        if self.bitrate is None:
            raise BadIperf3Job(
                "protocol='udp' needs bitrate=, such as '1 Gbit/s': left to itself iperf3 sends UDP at 1 Mbit/s"
            )

    def _check_sizes(self) -> None:
        if self.bitrate is not None and self.bitrate.bytes_per_second * 8 < self.streams:
            raise BadIperf3Job(
                f"bitrate={self.bitrate} is less than one bit a second for each of {self.streams} streams"
            )
        if self.mss is not None:
            check_whole("mss", self.mss, least=LEAST_MSS, most=MOST_MSS, unit="bytes")
        if self.window is not None and not 0 < self.window.bytes <= LARGEST_WINDOW.bytes:
            raise BadIperf3Job(f"window={self.window} is not between 1 B and {LARGEST_WINDOW}, iperf3's most")
        if self.length is not None:
            least, most = (
                (1, LARGEST_BLOCK.bytes) if self.protocol == TCP else (SMALLEST_DATAGRAM, LARGEST_DATAGRAM)
            )
            if not least <= self.length.bytes <= most:
                what = "a write" if self.protocol == TCP else "a datagram"
                raise BadIperf3Job(
                    f"length={self.length} is no length of {what}: {least:,} to {most:,} bytes"
                )
        if self.dscp is not None:
            check_whole("dscp", self.dscp, least=0, most=63)
        if self.congestion is not None and (
            not isinstance(self.congestion, str) or not self.congestion.replace("_", "").isalnum()
        ):
            raise BadIperf3Job(
                f"congestion={self.congestion!r} is no name of a congestion control, such as 'cubic'"
            )

    def _check_port(self) -> None:
        if self.port is None:
            return
        check_whole("port", self.port, least=1024, most=65_535, why="below 1024 only root may listen")
        if self.processes is not None and self.port + self.processes - 1 > 65_535:
            raise BadIperf3Job(
                f"port={self.port} leaves no room for processes={self.processes}: each takes a port of its own"
            )

    @property
    def udp(self) -> bool:
        """Is it UDP?"""
        return self.protocol == UDP

    @property
    def flows(self) -> int:
        """Streams of both directions together."""
        return self.streams * 2 if self.bidirectional else self.streams

    def __str__(self) -> str:
        streams = "1 stream" if self.streams == 1 else f"{self.streams} streams"
        way = ", reverse" if self.reverse else ", both ways" if self.bidirectional else ""
        rate = f", {self.bitrate}" if self.bitrate else ""
        return f"{self.protocol.upper()} {streams}{way}{rate}"

    def asked(self) -> dict[str, Any]:
        """The job as plain values, for reports; the keys carry the unit."""
        return {
            "protocol": self.protocol,
            "streams": self.streams,
            "duration_s": self.duration,
            "omit_s": self.omit,
            "reverse": self.reverse,
            "bidirectional": self.bidirectional,
            "bitrate_bytes_per_s_total": self.bitrate.bytes_per_second if self.bitrate else None,
            "mss_bytes": self.mss,
            "window_bytes": self.window.bytes if self.window else None,
            "length_bytes": self.length.bytes if self.length else None,
            "congestion": self.congestion,
            "dscp": self.dscp,
            "no_delay": self.no_delay,
            "zerocopy": self.zerocopy,
            "processes": self.processes,
            "port": self.port,
        }


def _protocol(protocol: str | None, udp: bool | None) -> str:
    if isinstance(protocol, str):
        protocol = protocol.lower()
    if udp is None:
        return TCP if protocol is None else protocol
    check_flag("udp", udp)
    said = UDP if udp else TCP
    if protocol is not None and protocol != said:
        raise BadIperf3Job(f"protocol={protocol!r} and udp={udp} contradict each other: give one of them")
    return said


def _unknown(name: str, known: list[str]) -> str:
    known = [*known, "udp"]
    meant = _OTHER_NAMES.get(name.lower())
    near = [meant] if meant else difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"{name}= is no option of an iperf3 job: did you mean {near[0]}=?"
    return f"{name}= is no option of an iperf3 job; there are {', '.join(sorted(known))}"


_DSCP_NAMES = {
    "ef": 46,
    "va": 44,
    "le": 1,
    **{f"cs{number}": number * 8 for number in range(8)},
    **{f"af{number}{drop}": number * 8 + drop * 2 for number in range(1, 5) for drop in range(1, 4)},
}
"""Source: RFC 2474 (class selectors), 2597 (assured), 3246 (expedited), 5865 (voice admit), 8622 (lower effort)."""


def as_bandwidth(name: str, value: Any) -> Bandwidth:
    """A rate with its unit: text such as "5 Gbit/s", or a quantity. Raises BadIperf3Job for anything else."""
    if isinstance(value, str):
        try:
            value = parse_rate(value)
        except ValueError as error:
            raise BadIperf3Job(f"{name}={value!r} is no rate of a network: {error}") from None
    if not isinstance(value, Throughput):
        raise BadIperf3Job(f"{name}={value!r} is no rate of a network: write it with its unit, '5 Gbit/s'")
    if not 0 < value.bytes_per_second < float("inf"):
        raise BadIperf3Job(f"{name}={value}: a rate is a finite figure above zero")
    return Bandwidth(value.bytes_per_second)


def as_size(name: str, value: Any) -> Size:
    """A size: bytes, or text such as "4m". Raises BadIperf3Job for anything else."""
    if isinstance(value, Size):
        return value
    try:
        return Size.parse(value)
    except (ValueError, TypeError) as error:
        raise BadIperf3Job(f"{name}={value!r} is no size: {error}") from None


def as_dscp(value: Any) -> int:
    """A code point: 0 to 63, or a name such as "ef", "af41", "cs1". Raises BadIperf3Job for anything else."""
    if isinstance(value, str) and value.strip().lower() in _DSCP_NAMES:
        return _DSCP_NAMES[value.strip().lower()]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 63:
        raise BadIperf3Job(f"dscp={value!r} is no code point: 0 to 63, or a name such as 'ef', 'af41', 'cs1'")
    return value


def check_whole(name: str, value: Any, *, least: int, most: int, unit: str = "", why: str = "") -> None:
    """Raise BadIperf3Job unless `value` is a whole number from `least` to `most`."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if whole and least <= value <= most and (isinstance(value, int) or unit == "seconds"):
        return
    of = f" of {unit}" if unit else ""
    reason = f" ({why})" if why else ""
    raise BadIperf3Job(f"{name}={value!r} is not a whole number{of} from {least:,} to {most:,}{reason}")


def check_flag(name: str, value: Any) -> None:
    """Raise BadIperf3Job unless `value` is True or False."""
    if not isinstance(value, bool):
        raise BadIperf3Job(f"{name}={value!r} is neither True nor False")
