"""What a measurement of a network must show to be judged. Structural: any object with these attributes will do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.network import NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth, Throughput
from pytest_cloudbench.verdicts.allowances import AllowancePair
from pytest_cloudbench.verdicts.observation import RateSeries

HEADER_BYTES = 70
"""What a segment adds to its data on the wire: Ethernet 18 with its checksum, IP 20, TCP with timestamps 32."""
_ETHERNET_BYTES, _IP_BYTES, _UDP_BYTES = 18, 20, 8
USUAL_MTU = 9001
"""Between instances of one region, unless somebody changed it (EC2 user guide, "Network MTU")."""


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


def is_network(obs: object) -> TypeGuard[NetworkObservation]:
    """Whether a measurement is one of a network."""
    return hasattr(obs, "streams")


def network_rate(obs: NetworkObservation) -> Bandwidth:
    """The mean of the run."""
    return Bandwidth.of(obs.throughput)


def network_ceilings(obs: NetworkObservation) -> NetworkEnvelope:
    """The ceilings that apply; none where they are not known."""
    if isinstance(obs.envelope, NetworkEnvelope):
        return obs.envelope
    return NetworkEnvelope((), streams=max(1, len(obs.streams)))


def bitrate_asked(obs: NetworkObservation) -> Bandwidth | None:
    """The limit that the job set on itself, if it did."""
    value = getattr(obs, "rate_asked", None)
    return Bandwidth.of(value) if isinstance(value, Throughput) else None


def header_share(obs: NetworkObservation) -> float:
    """The share of a wire's rate that headers take, so that this much of a limit is never data."""
    if (datagram := _asked(obs, "length_bytes")) and lost_share(obs) is not None:
        frames = math.ceil((datagram + _UDP_BYTES) / (USUAL_MTU - _IP_BYTES))
        headers = frames * (_ETHERNET_BYTES + _IP_BYTES) + _UDP_BYTES
        return headers / (headers + datagram)
    data = getattr(obs, "mss", None) or _asked(obs, "mss_bytes") or USUAL_MTU - 52
    return HEADER_BYTES / (HEADER_BYTES + data)


def lost_share(obs: NetworkObservation) -> float | None:
    """The share of the datagrams that did not arrive; None for TCP."""
    percent = getattr(obs, "lost_percent", None)
    return None if percent is None else float(percent) / 100


def tool_text(obs: NetworkObservation) -> str:
    """The generator's versions and processes as far as known: "iperf3 3.12, 1 process"."""
    versions: object = getattr(obs, "tool_versions", None)
    known = sorted({str(version) for version in versions.values()}) if isinstance(versions, Mapping) else []
    words = [" and ".join(_as_iperf3(version) for version in known)] if known else []
    processes: Any = getattr(obs, "processes", None)
    if isinstance(processes, int):
        words.append("1 process" if processes == 1 else f"{processes} processes")
    return ", ".join(words)


def _as_iperf3(version: str) -> str:
    return version if version.startswith("iperf") else f"iperf3 {version}"


def _asked(obs: NetworkObservation, name: str) -> int | None:
    """A size that the job asked for, in bytes."""
    asked: object = getattr(obs, "asked", None)
    size = asked.get(name) if isinstance(asked, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None
