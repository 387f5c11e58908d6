"""Figures for people: the plain values of a measurement or a verdict, with names in words and numbers with units."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_cloudbench.limits.quantities import MIB, Size, figure
from pytest_cloudbench.verdicts.wording import duration

Row = tuple[str, str]

_WHOLE = {
    "outstanding_asked": "I/Os in flight, asked",
    "outstanding_mean": "I/Os in flight, mean",
    "outstanding": "I/Os in flight",
    "consistent": "in flight as asked",
    "within": "tolerance",
    "share_wanted": "share of the time, required",
    "share": "share of the time",
    "share_interval": "share of the time, 95 % interval",
    "machine_share": "share of the machine in the delay",
    "header_share": "share of headers",
    "lost_share": "datagrams lost",
    "rate_asked": "limit that the load set itself",
    "rate_iops_total": "IOPS limited to",
    "time_compression": "time compressed",
    "cpu_percent_busiest": "CPU of the busiest job",
    "cpu_percent_total": "CPU of all jobs",
    "cpu_client_percent": "CPU of the client",
    "cpu_server_percent": "CPU of the server",
    "iops_per_dollar_an_hour": "IOPS per US dollar an hour",
    "elapsed_s": "counted over",
    "processes_why": "reason for the processes",
    "latency_limits_s": "latency allowed",
    "latency_s": "latency measured",
    "modelled_s": "modelled",
    "late_s": "added by the machine",
    "at_s": "at",
}
"""Names that need other words than their own."""
_WORDS = {
    "iops": "IOPS", "ios": "I/Os", "cpu": "CPU", "cpus": "CPUs", "rtt": "round trip", "mss": "segment size",
    "mib": "MiB", "p999": "p99.9", "tcp": "TCP", "udp": "UDP", "ebs": "EBS", "cwnd": "congestion window",
}  # fmt: skip
_SHARES = frozenset(
    {"within", "share", "share_wanted", "share_interval", "machine_share", "header_share", "lost_share"}
    | {"difference", "run_to_run"}
)
_RATES = frozenset({"asked", "measured", "first_half", "second_half", "mean", "level", "before", "after"})
"""Figures in the quantity that their verdict is about."""
_SHORT = frozenset({"quantity", "method_parameters", "modelled_latency", "envelope", "conditions"})
"""Figures that say nothing to a reader, or that a report shows in a place of their own."""
_UNITS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bytes_per_s", lambda value: f"{figure(value / MIB, 1)} MiB/s"),
    ("_mib_per_s", lambda value: f"{figure(value, 1)} MiB/s"),
    ("_gbit_per_s", lambda value: f"{figure(value)} Gbit/s"),
    ("_bytes", lambda value: str(Size(round(value)))),
    ("_percent", lambda value: f"{figure(value, 1)} %"),
    ("_s", lambda value: duration(value) if value > 0 else f"{figure(value)} s"),
)
_MOST_VALUES = 12


def rows_of(values: Mapping[str, Any], *, but: frozenset[str] = frozenset()) -> list[Row]:
    """Return the name and the value of every known figure; the name of a nested one starts with that of its group.

    Figures named in ``but`` are left out, as are unknown and empty ones.
    """
    return list(_flat(values, "", "", but))


def side_by_side(values: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the groups among these values that have the same figures, as columns: their heads and rows.

    Both are empty without two such groups.
    """
    groups = {name: each for name, each in values.items() if isinstance(each, Mapping) and "measured" in each}
    if len(groups) < 2:
        return (), []
    columns = [dict(rows_of(each)) for each in groups.values()]
    names = dict.fromkeys(name for column in columns for name in column)
    return tuple(map(name_of, groups)), [
        (name, *(column.get(name, "") for column in columns)) for name in names
    ]


def name_of(name: str) -> str:
    """Return the name of a figure in words, without its unit: "block_size_bytes" is "block size"."""
    if name in _WHOLE:
        return _WHOLE[name]
    for ending, _ in _UNITS:
        if name.endswith(ending) and name != ending[1:]:
            name = name.removesuffix(ending)
            break
    return " ".join(_WORDS.get(word, word) for word in re.split(r"[_\s]+", name) if word)


def value_of(name: str, value: Any, quantity: str = "") -> str:
    """Return a figure with its unit; ``quantity`` is that of its verdict: "IOPS" or "bytes per second"."""
    if isinstance(value, Mapping):
        return ", ".join(f"{inner} {text}" for inner, text in _flat(value, "", quantity, frozenset()))
    if isinstance(value, list | tuple):
        shown = [value_of(name, each, quantity) for each in value[:_MOST_VALUES]]
        more = f" and {len(value) - _MOST_VALUES} more" if len(value) > _MOST_VALUES else ""
        return ("; " if any(" " in each for each in shown) else ", ").join(shown) + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(name, value, quantity) if isinstance(value, int | float) else str(value)


def _number(name: str, value: float, quantity: str) -> str:
    if not math.isfinite(value):
        return "unknown"
    if name in _SHARES:
        return f"{figure(value * 100, 1)} %"
    if name in _RATES and quantity:
        of_bytes = quantity.startswith("bytes")
        return f"{figure(value / MIB if of_bytes else value, 1)} {'MiB/s' if of_bytes else quantity}"
    for ending, said in _UNITS:
        if name.endswith(ending):
            return said(value)
    unit = " %" if "percent" in name else " times" if name == "time_compression" else ""
    return figure(value, 0 if abs(value) >= 1_000 else 2) + unit


def _flat(values: Mapping[str, Any], group: str, quantity: str, but: frozenset[str]) -> Iterator[Row]:
    quantity = str(values.get("quantity", quantity))
    for name, value in values.items():
        if name in _SHORT or (not group and name in but) or value in (None, "", [], (), {}):
            continue
        if name == "time_compression" and value == 1:
            continue
        shown = f"{group}{name_of(name)}"
        if isinstance(value, Mapping):
            inner = value if not name.endswith("_s") else {f"{key}_s": each for key, each in value.items()}
            yield from _flat(inner, f"{shown}, ", quantity, but)
        else:
            yield shown, value_of(name, value, quantity)
