"""The values of an iperf3 job as people write them, read or refused in one sentence each."""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth, Size, Throughput, parse_rate
from pytest_cloudbench.workloads.iperf3.errors import BadIperf3Job

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
