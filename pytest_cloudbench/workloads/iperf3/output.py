"""Parse the JSON of one iperf3 process, whose traps differ by version:

- text before the JSON;
- an "error" key beside good intervals, with exit code 0 up to 3.13; in 3.9 no such key, only text on stderr;
- the last interval twice, if the run was interrupted;
- sums that hold only one of two directions (3.7 to 3.9);
- streams that do not say whether they send (3.1);
- figures of the other end that are outdated or nonsense.

So every figure is taken from the intervals of each stream, at the end that knows it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_cloudbench.verdicts.damage import CONTRADICTS
from pytest_cloudbench.workloads.iperf3.errors import Iperf3OutputError, Iperf3Refused

CLIENT, SERVER = "client", "server"

_JSON_START = re.compile(r"^\{", re.MULTILINE)
_PREFIXES = ("iperf3: ", "parameter error - ", "error - ", "interrupt - ")
_KILLED = 128
_LATEST_S = 200_000.0
"""Longer than any run: iperf3 accepts at most one day."""
_APART_S = 0.05
"""Intervals of a stream follow each other; their times are rounded (all recorded ones agree within 1 ms)."""
_US = 1e-6
_MS = 1e-3


@dataclass(frozen=True)
class ProcessFiles:
    """The output, error text and exit code of one process. The exit code is None if unknown."""

    output: bytes | None
    stderr: str = ""
    exit_code: int | None = 0


@dataclass(frozen=True)
class Interval:
    """One interval of one stream at one end, in seconds from the start of the measured time.

    A figure that this end does not know is None: the sender knows retransmits, window and round trip, the receiver
    jitter and loss (UDP). `packets` counts datagrams, lost ones included. `lost` is negative if datagrams arrived that
    were counted as lost before.
    """

    start_s: float
    end_s: float
    bytes: float
    retransmits: int | None = None
    cwnd_bytes: int | None = None
    rtt_s: float | None = None
    jitter_s: float | None = None
    lost: int | None = None
    packets: int | None = None


@dataclass(frozen=True)
class Flow:
    """One stream at one end. `port` is the client's port, which both ends know; None if not reported."""

    port: int | None
    sender: bool
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class OtherEnd:
    """The other end's figures of a stream as the client reports them: received bytes/s, jitter and loss."""

    received_bytes_s: float | None
    jitter_s: float | None
    lost: int | None
    packets: int | None


@dataclass(frozen=True)
class ProcessOutput:
    """The parsed output of one process. CPU is in per cent of one core, over all its threads.

    `error` is iperf3's message if it ended early, without its prefixes. `mss_bytes` is the payload of a TCP segment;
    only clients report it. `server` is the server's output if the client's contains it (--get-server-output).
    """

    version: str
    flows: tuple[Flow, ...]
    cpu_percent: float | None
    other_cpu_percent: float | None
    error: str | None
    mss_bytes: int | None = None
    others: Mapping[int, OtherEnd] = field(default_factory=dict)
    server: ProcessOutput | None = None

    @property
    def measured(self) -> bool:
        """True if it holds at least one interval."""
        return any(flow.intervals for flow in self.flows)


def parse_output(files: ProcessFiles, *, role: str, reverse: bool) -> ProcessOutput:
    """Parse the --json output of one process. role: CLIENT or SERVER. reverse: the server sends.

    A run that ended early does not raise: `error` is set beside the measured intervals. Raises Iperf3Refused with
    iperf3's message if there is no JSON, Iperf3OutputError if the JSON cannot be read.
    """
    text = (files.output or b"").decode("utf-8", "replace")
    document = _document(text, files)
    error = document.get("error")
    if error is None and files.exit_code and files.stderr.strip():
        error = iperf3_words(files.stderr)
    try:
        read = _process_output(document, role=role, reverse=reverse)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as wrong:
        raise Iperf3OutputError(f"iperf3's JSON holds an invalid value: {wrong}") from None
    return read if error is None else dataclasses.replace(read, error=_bare(str(error)))


def iperf3_words(text: str) -> str:
    """Return iperf3's error message in one line, without its prefixes and usage text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("iperf3: ") or " error - " in line] or lines[:1]
    return "; ".join(dict.fromkeys(_bare(line) for line in errors)) or "it gave no reason"


def _document(text: str, files: ProcessFiles) -> dict[str, Any]:
    found = _JSON_START.search(text)
    if found is None:
        code = files.exit_code
        if code is not None and code > _KILLED:
            raise Iperf3Refused(f"iperf3 was killed by signal {code - _KILLED}")
        if code or files.stderr.strip() or text.strip():
            ended = "" if code is None else f" with exit code {code}"
            words = iperf3_words(f"{files.stderr}\n{text}")
            raise Iperf3Refused(f"iperf3 ended{ended} and without a result: {words}")
        raise Iperf3OutputError("iperf3 wrote no output")
    try:
        document: dict[str, Any] = json.JSONDecoder().raw_decode(text, found.start())[0]
    except (ValueError, RecursionError) as error:
        raise Iperf3OutputError(
            f"iperf3's JSON is damaged or cut off after {len(text):,} characters: {error}"
        ) from None
    return document


def _process_output(document: dict[str, Any], *, role: str, reverse: bool) -> ProcessOutput:
    start, end = _mapping(document, "start"), _mapping(document, "end")
    intervals = document.get("intervals")
    if "start" not in document or not isinstance(intervals, list):
        if (error := document.get("error")) is not None:
            raise Iperf3Refused(f"iperf3 ended without a result: {_bare(str(error))}")
        keys = f"its keys are {', '.join(map(str, document))}" if document else "it is empty"
        raise Iperf3OutputError(f"iperf3's JSON lacks 'start' or the list 'intervals': {keys}")
    ports = _ports(start, role)
    cpu = _mapping(end, "cpu_utilization_percent")
    nested = document.get("server_output_json")
    flows = _flows(intervals, ports, sends=(role == CLIENT) != reverse)
    if "error" not in document:
        _check_totals(flows, end)
    return ProcessOutput(
        version=str(start.get("version", "iperf3 of unknown version")),
        flows=tuple(flows.values()),
        cpu_percent=_number(cpu, "host_total"),
        other_cpu_percent=_number(cpu, "remote_total"),
        error=None,
        # The requested value, else the connection's own; a server and UDP report 0.
        mss_bytes=_whole(start, "tcp_mss") or _whole(start, "tcp_mss_default") or None,
        others=_others(end, ports) if role == CLIENT else {},
        server=_process_output(nested, role=SERVER, reverse=reverse) if isinstance(nested, dict) else None,
    )


def _ports(start: Mapping[str, Any], role: str) -> dict[int, int]:
    """Map this end's socket number of each stream to the client's port."""
    key = "local_port" if role == CLIENT else "remote_port"
    found = {}
    connected = start.get("connected")
    for each in connected if isinstance(connected, list) else ():
        socket, port = _whole(each, "socket"), _whole(each, key)
        if socket is not None and port is not None:
            found[socket] = port
    return found


def _flows(intervals: list[Any], ports: Mapping[int, int], *, sends: bool) -> dict[int, Flow]:
    """Return the flows by socket. Raises ValueError if intervals are missing, overlap or hold no amount of data."""
    gathered: dict[int, list[Interval]] = {}
    sending: dict[int, bool] = {}
    for interval in intervals:
        for stream in interval["streams"]:
            socket = _whole(stream, "socket")
            if socket is None or stream.get("omitted") is True:
                continue
            read = _interval(stream)
            if read is not None:
                gathered.setdefault(socket, []).append(read)
            sender = stream.get("sender")
            sending[socket] = sender if isinstance(sender, bool) else sends
    return {
        socket: Flow(ports.get(socket), sending[socket], _in_order(found))
        for socket, found in gathered.items()
    }


def _in_order(intervals: list[Interval]) -> tuple[Interval, ...]:
    """Return the intervals of a stream in the order of time, each once."""
    found: list[Interval] = []
    end_s = 0.0
    for each in sorted(dict.fromkeys(intervals), key=lambda each: each.end_s):
        if abs(each.start_s - end_s) > _APART_S:
            raise ValueError(
                f"a stream has an interval from {each.start_s:.3f} to {each.end_s:.3f} s after one that ended at "
                f"{end_s:.3f} s"
            )
        found.append(each)
        end_s = each.end_s
    return tuple(found)


def _check_totals(flows: Mapping[int, Flow], end: Mapping[str, Any]) -> None:
    """Raise ValueError if the intervals of a TCP stream contradict its total at the same end.

    UDP totals are not checked: they are 0 at a server, and too high in version 3.1.
    """
    streams = end.get("streams")
    for stream in streams if isinstance(streams, list) else ():
        if not isinstance(stream, dict) or "udp" in stream:
            continue
        for role, sender in (("sender", True), ("receiver", False)):
            own = _mapping(stream, role)
            flow, total = flows.get(_whole(own, "socket") or 0), _number(own, "bytes")
            if flow is None or flow.sender != sender or total is None:
                continue
            moved = sum(each.bytes for each in flow.intervals)
            if abs(moved - total) > CONTRADICTS * max(moved, total):
                raise ValueError(
                    f"the intervals of a stream hold {moved:,.0f} bytes, but its total is {total:,.0f}"
                )


def _interval(stream: Mapping[str, Any]) -> Interval | None:
    """Parse an interval; None if it has no length, as iperf3 writes after its timer was late."""
    start_s, end_s = _number(stream, "start"), _number(stream, "end")
    moved = _number(stream, "bytes")
    if start_s is None or end_s is None or not 0 <= start_s <= end_s <= _LATEST_S:
        raise ValueError(f"an interval lasts from {stream.get('start')!r} to {stream.get('end')!r} s")
    if start_s == end_s:
        return None
    if moved is None or moved < 0:
        raise ValueError(f"the interval to {end_s:.3f} s holds {stream.get('bytes')!r} bytes")
    rtt_us, jitter_ms = _number(stream, "rtt"), _number(stream, "jitter_ms")
    return Interval(
        start_s=start_s,
        end_s=end_s,
        bytes=moved,
        retransmits=_count(stream, "retransmits"),
        cwnd_bytes=_count(stream, "snd_cwnd"),
        rtt_s=rtt_us * _US if rtt_us is not None and rtt_us > 0 else None,
        jitter_s=jitter_ms * _MS if jitter_ms is not None else None,
        lost=_whole(stream, "lost_packets"),
        packets=_count(stream, "packets"),
    )


def _others(end: Mapping[str, Any], ports: Mapping[int, int]) -> dict[int, OtherEnd]:
    found = {}
    streams = end.get("streams")
    for stream in streams if isinstance(streams, list) else ():
        received, udp = _mapping(stream, "receiver"), _mapping(stream, "udp")
        socket = _whole(received or udp, "socket")
        if socket is None or socket not in ports:
            continue
        bits_s, jitter_ms = _number(received, "bits_per_second"), _number(udp, "jitter_ms")
        found[ports[socket]] = OtherEnd(
            received_bytes_s=None if bits_s is None else bits_s / 8,
            jitter_s=None if jitter_ms is None else jitter_ms * _MS,
            lost=_count(udp, "lost_packets"),
            packets=_count(udp, "packets"),
        )
    return found


def _bare(line: str) -> str:
    for prefix in _PREFIXES:
        line = line.strip().removeprefix(prefix)
    return line.strip()


def _mapping(values: Any, key: str) -> Mapping[str, Any]:
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}


def _number(values: Any, key: str) -> float | None:
    """Return a finite number; None if it is missing, null (iperf3's NaN) or not a number."""
    value = values.get(key) if isinstance(values, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _whole(values: Any, key: str) -> int | None:
    value = _number(values, key)
    return None if value is None else int(value)


def _count(values: Any, key: str) -> int | None:
    value = _whole(values, key)
    return None if value is None else max(0, value)
