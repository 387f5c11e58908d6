"""An iperf3 job: the load to put on the network, checked before anything starts."""

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
"""Per process; iperf3's MAX_STREAMS."""
LONGEST_S = 86_400
"""iperf3's MAX_TIME."""
LONGEST_OMIT_S = 60
"""iperf3's MAX_OMIT_TIME up to 3.14; later versions accept 600."""
LEAST_MSS = 88
"""TCP_MIN_MSS: Linux refuses a smaller TCP_MAXSEG."""
MOST_MSS = 9_216
"""iperf3's MAX_MSS up to 3.18."""
LARGEST_WINDOW = Size(512 << 20)
"""iperf3's MAX_TCP_BUFFER."""
LARGEST_BLOCK = Size(1 << 20)
"""iperf3's MAX_BLOCKSIZE."""
SMALLEST_DATAGRAM, LARGEST_DATAGRAM = 16, 65_507
"""iperf3's MIN_UDP_BLOCKSIZE and MAX_UDP_BLOCKSIZE (the largest IPv4 datagram)."""
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
"""Option names of iperf3 and fio that users may try first."""

_TCP_ONLY = ("mss", "congestion", "no_delay")
_UNITS = {
    "duration": "_s",
    "omit": "_s",
    "bitrate": "_bytes_per_s_total",
    **dict.fromkeys(("mss", "window", "length"), "_bytes"),
}
_DSCP_NAMES = {
    "ef": 46,
    "va": 44,
    "le": 1,
    **{f"cs{number}": number * 8 for number in range(8)},
    **{f"af{number}{drop}": number * 8 + drop * 2 for number in range(1, 5) for drop in range(1, 4)},
}
"""Source: RFC 2474 (class selectors), 2597 (assured), 3246 (expedited), 5865 (voice admit), 8622 (lower effort)."""


@dataclass(frozen=True)
class Iperf3Job:
    """One iperf3 workload, from the client to the server unless it is reversed.

    protocol: "tcp" or "udp". streams: connections per direction, over all processes together.
    duration: measured seconds. omit: seconds before them that are not measured.
    reverse: the server sends. bidirectional: both send at once, `streams` connections each way.
    bitrate: TOTAL per direction, over all streams and processes; None means no limit (TCP only). iperf3's own
    option is per stream; this class divides.
    mss: payload bytes of a TCP segment. window: socket buffer. length: bytes of one write or datagram.
    congestion: TCP congestion control. dscp: 0 to 63. no_delay: TCP_NODELAY. zerocopy: sendfile.
    processes: iperf3 processes at each end; None chooses by iperf3's version, the processors and the rate.
    port: the server's port (the first one if there are several processes); None finds a free one.

    `Iperf3Job.of(...)` accepts text such as bitrate="5 Gbit/s", window="4m", dscp="ef", and udp=True.
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
        """Build a job from values as users write them.

        Raises BadIperf3Job with the field, its value and the accepted values.
        """
        known = [each.name for each in dataclasses.fields(cls)]
        for name in fields:
            if name not in known:
                raise BadIperf3Job(_unknown(name, known))
        return cls(
            protocol=_protocol(protocol, udp),
            bitrate=None if bitrate is None else _parse_bitrate(bitrate),
            window=None if window is None else _parse_size("window", window),
            length=None if length is None else _parse_size("length", length),
            dscp=None if dscp is None else _parse_dscp(dscp),
            **fields,
        )

    def __post_init__(self) -> None:
        if self.protocol not in (TCP, UDP):
            raise BadIperf3Job(f"invalid protocol={self.protocol!r}: use 'tcp' or 'udp'")
        for name in ("reverse", "bidirectional", "no_delay", "zerocopy"):
            _check_flag(name, getattr(self, name))
        self._check_streams()
        self._check_times()
        self._check_protocol()
        self._check_sizes()
        self._check_port()

    def _check_streams(self) -> None:
        if self.processes is not None:
            _check_whole("processes", self.processes, least=1, most=MOST_PROCESSES)
        most = MOST_STREAMS * (self.processes or MOST_PROCESSES)
        _check_whole(
            "streams", self.streams, least=1, most=most, why=f"iperf3 runs up to {MOST_STREAMS} per process"
        )
        if self.processes is not None and self.processes > self.streams:
            raise BadIperf3Job(
                f"processes={self.processes} exceeds streams={self.streams}: every process needs a stream"
            )
        if self.reverse and self.bidirectional:
            raise BadIperf3Job(
                "reverse=True and bidirectional=True exclude each other: bidirectional already sends both ways"
            )

    def _check_times(self) -> None:
        _check_whole("duration", self.duration, least=1, most=LONGEST_S, unit="seconds")
        _check_whole("omit", self.omit, least=0, most=LONGEST_OMIT_S, unit="seconds")
        if self.omit and self.omit >= self.duration:
            raise BadIperf3Job(
                f"omit={self.omit:g} s must be shorter than the measured duration={self.duration:g} s"
            )

    def _check_protocol(self) -> None:
        if self.protocol == TCP:
            return
        for name in _TCP_ONLY:
            if getattr(self, name):
                raise BadIperf3Job(f"{name}={getattr(self, name)!r} is a TCP option: UDP does not have it")
        if self.bitrate is None:
            raise BadIperf3Job(
                "protocol='udp' needs bitrate=, such as '1 Gbit/s': iperf3 sends UDP at 1 Mbit/s by default"
            )

    def _check_sizes(self) -> None:
        if self.bitrate is not None and self.bitrate.bytes_per_second * 8 < self.streams:
            raise BadIperf3Job(
                f"bitrate={self.bitrate} is less than 1 bit/s for each of {self.streams} streams"
            )
        if self.mss is not None:
            _check_whole("mss", self.mss, least=LEAST_MSS, most=MOST_MSS, unit="bytes")
        if self.window is not None and not 0 < self.window.bytes <= LARGEST_WINDOW.bytes:
            raise BadIperf3Job(
                f"window={self.window} is not between 1 B and {LARGEST_WINDOW}, iperf3's limit"
            )
        if self.length is not None:
            least, most = (
                (1, LARGEST_BLOCK.bytes) if self.protocol == TCP else (SMALLEST_DATAGRAM, LARGEST_DATAGRAM)
            )
            if not least <= self.length.bytes <= most:
                what = "write" if self.protocol == TCP else "datagram"
                raise BadIperf3Job(f"invalid {what} length={self.length}: use {least:,} to {most:,} bytes")
        if self.dscp is not None:
            _check_whole("dscp", self.dscp, least=0, most=63)
        if self.congestion is not None and (
            not isinstance(self.congestion, str) or not self.congestion.replace("_", "").isalnum()
        ):
            raise BadIperf3Job(
                f"invalid congestion={self.congestion!r}: use the name of a congestion control, such as 'cubic'"
            )

    def _check_port(self) -> None:
        if self.port is None:
            return
        _check_whole("port", self.port, least=1024, most=65_535, why="only root can listen below 1024")
        if self.processes is not None and self.port + self.processes - 1 > 65_535:
            raise BadIperf3Job(
                f"port={self.port} leaves no room for processes={self.processes}: each needs its own port"
            )

    @property
    def udp(self) -> bool:
        return self.protocol == UDP

    @property
    def flows(self) -> int:
        """The number of streams in both directions together."""
        return self.streams * 2 if self.bidirectional else self.streams

    def __str__(self) -> str:
        streams = "1 stream" if self.streams == 1 else f"{self.streams} streams"
        way = ", reverse" if self.reverse else ", both ways" if self.bidirectional else ""
        rate = f", {self.bitrate}" if self.bitrate else ""
        return f"{self.protocol.upper()} {streams}{way}{rate}"

    def asked(self) -> dict[str, Any]:
        """Return the job as plain values for reports; keys name the unit."""
        found: dict[str, Any] = {}
        for name in (field.name for field in dataclasses.fields(self)):
            value = getattr(self, name)
            if isinstance(value, (Bandwidth, Size)):
                value = value.bytes_per_second if isinstance(value, Bandwidth) else value.bytes
            found[name + _UNITS.get(name, "")] = value
        return found


def _protocol(protocol: str | None, udp: bool | None) -> str:
    if isinstance(protocol, str):
        protocol = protocol.lower()
    if udp is None:
        return TCP if protocol is None else protocol
    _check_flag("udp", udp)
    requested = UDP if udp else TCP
    if protocol is not None and protocol != requested:
        raise BadIperf3Job(f"protocol={protocol!r} and udp={udp} contradict each other: give only one")
    return requested


def _unknown(name: str, known: list[str]) -> str:
    known = [*known, "udp"]
    synonym = _OTHER_NAMES.get(name.lower())
    near = [synonym] if synonym else difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"unknown iperf3 option {name}=: did you mean {near[0]}=?"
    return f"unknown iperf3 option {name}=: use {', '.join(sorted(known))}"


def _parse_bitrate(value: Any) -> Bandwidth:
    if isinstance(value, str):
        try:
            value = parse_rate(value)
        except ValueError as error:
            raise BadIperf3Job(f"invalid bitrate={value!r}: {error}") from None
    if not isinstance(value, Throughput):
        raise BadIperf3Job(f"invalid bitrate={value!r}: write a number and a unit, such as '5 Gbit/s'")
    if not 0 < value.bytes_per_second < float("inf"):
        raise BadIperf3Job(f"invalid bitrate={value}: it must be finite and above zero")
    return Bandwidth(value.bytes_per_second)


def _parse_size(name: str, value: Any) -> Size:
    try:
        return Size.parse(value)
    except (ValueError, TypeError) as error:
        raise BadIperf3Job(f"invalid size {name}={value!r}: {error}") from None


def _parse_dscp(value: Any) -> int:
    if isinstance(value, str) and value.strip().lower() in _DSCP_NAMES:
        return _DSCP_NAMES[value.strip().lower()]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 63:
        raise BadIperf3Job(f"invalid dscp={value!r}: use 0 to 63, or a name such as 'ef', 'af41', 'cs1'")
    return value


def _check_whole(name: str, value: Any, *, least: int, most: int, unit: str = "", why: str = "") -> None:
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if whole and least <= value <= most and (isinstance(value, int) or unit == "seconds"):
        return
    of = f" of {unit}" if unit else ""
    reason = f" ({why})" if why else ""
    raise BadIperf3Job(f"{name}={value!r} is not a whole number{of} from {least:,} to {most:,}{reason}")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise BadIperf3Job(f"invalid {name}={value!r}: use True or False")
