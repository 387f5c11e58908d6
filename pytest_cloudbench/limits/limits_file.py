"""Limits that a project states in a TOML file beside its pytest settings.

They take the place of what AWS publishes, each with its source and date:

    [instances."c5.large"]
    ebs_iops = 16_000
    ebs_baseline_iops = 4_000                    # once credits are spent; without it, a limit holds for good
    ebs_throughput = "4,500 Mbps"
    network = "9 Gbit/s"
    source = "our own measurement"
    date = "2026-05"

    [volume_types.gp4]
    like = "gp3"                                 # supplies everything that is not stated here
    size_gib = [1, 65_536]
    iops = { range = [4_000, 100_000], default = 4_000, per_gib = 500 }
    throughput_mib = { range = [250, 4_000], default = 250, per_iops = 0.25 }
    source = "announcement of 1 May 2026"
    date = "2026-05"
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import TracebackType
from typing import Any

from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.quantities import Size, Throughput, parse_rate
from pytest_cloudbench.limits.recorded_limits import RecordedLimits, recorded_limits
from pytest_cloudbench.limits.volume_types import VOLUME_TYPES, BurstRule, Line, ServiceTime, VolumeType

_INSTANCE_FIGURES = (
    "ebs_iops",
    "ebs_throughput",
    "ebs_baseline_iops",
    "ebs_baseline_throughput",
    "network",
    "network_baseline",
)
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")


class BadLimits(ValueError):
    """An invalid limits file; the message names the file, the table and what is wrong."""


@dataclass(frozen=True)
class ProjectLimits:
    """What one file states: limits by instance type, and volume types by name."""

    instances: Mapping[str, RecordedLimits] = field(default_factory=dict)
    volume_types: Mapping[str, VolumeType] = field(default_factory=dict)


def parse_limits(text: str, file: str) -> ProjectLimits:
    """Parse the text of a limits file; ``file`` is its name in errors. Raises BadLimits."""
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        with _Table("", toml.loads(text)) as top:
            instances = {name: _instance(table) for name, table in top.tables("instances")}
            volume_types = {name: _volume_type(name, table) for name, table in top.tables("volume_types")}
    except (ValueError, TypeError) as error:
        raise BadLimits(f"{file}: {error}") from None
    return ProjectLimits(instances, volume_types)


class _Table:
    """A table of the file. Used in ``with``: errors name the table, and a key that was not read is an error."""

    def __init__(self, name: str, given: object) -> None:
        if not isinstance(given, dict):
            raise ValueError(f"[{name}] must be a table, not {given!r}")
        self._name = name
        self._given: dict[str, Any] = given
        self._read: list[str] = []

    def __enter__(self) -> _Table:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        where = f"[{self._name}] " if self._name and not str(error).startswith("[") else ""
        if isinstance(error, (ValueError, TypeError)):
            raise ValueError(f"{where}{error}") from None
        unknown = [key for key in self._given if key not in self._read]
        if error is None and unknown:
            raise ValueError(f"{where}unknown key {unknown[0]!r}: use {', '.join(self._read)}")

    def get(self, key: str) -> Any:
        """Return the value of a key; None if it is left out."""
        self._read.append(key)
        return self._given.get(key)

    def table(self, key: str) -> _Table | None:
        """Return the table of a key; None if it is left out."""
        given = self.get(key)
        return None if given is None else _Table(f"{self._name}.{key}", given)

    def tables(self, key: str) -> list[tuple[str, _Table]]:
        """Return the tables [key.NAME] by name."""
        given = self.get(key)
        if given is None:
            return []
        if not isinstance(given, dict):
            raise ValueError(f"{key} must be tables named [{key}.NAME], not {given!r}")
        return [(name, _Table(f"{key}.{name}", table)) for name, table in given.items()]

    def text(self, key: str) -> str:
        """Return a text. Raises ValueError if it is missing, empty or not a text."""
        value = self.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(
                f'needs {key} = "..."' if value is None else f"{key} must be a text, not {value!r}"
            )
        return value.strip()

    def origin(self) -> tuple[str, str]:
        """Return source and date, both required."""
        source, date = self.text("source"), self.text("date")
        if not _DATE.fullmatch(date):
            raise ValueError(f'date must be a text such as "2026-05" or "2026-05-31", not {date!r}')
        return source, date

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number from 0 up. Raises ValueError for anything else, and if it is missing without default."""
        value = self.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"{key} must be a number from 0 up, not {value!r}")
        return value

    def whole(self, key: str) -> int | None:
        """Return a whole number; None if it is left out."""
        value = self.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{key} must be a whole number from 1 up, not {value!r}")
        return value

    def range(self, key: str) -> tuple[int, int] | None:
        """Return the two ends of a range; None if it is left out."""
        value = self.get(key)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or [type(each) for each in value] != [int, int]
            or not 1 <= value[0] <= value[1]
        ):
            raise ValueError(f"{key} must be two whole numbers such as [1, 16_384], not {value!r}")
        return value[0], value[1]

    def line(self, per: str) -> Line:
        """Return a figure that grows with a size or rate, from the key named by ``per``, "least" and "most"."""
        line = Line(self.number(per, 0), self.number("least", 0), self.number("most", 1e12))
        if not 0 < line.most >= line.least or not (line.per or line.least):
            raise ValueError(f"needs {per} or least above 0, and most at least as high as least")
        return line


def _instance(table: _Table) -> RecordedLimits:
    with table:
        figures = {name: table.get(name) for name in _INSTANCE_FIGURES}
        source, date = table.origin()
        return recorded_limits(**figures, source=source, date=date)


def _volume_type(name: str, table: _Table) -> VolumeType:
    with table:
        source, date = table.origin()
        like = table.get("like") or name
        base = VOLUME_TYPES.get(like)
        if base is None:
            raise ValueError(f'like = "TYPE" must name one of {", ".join(VOLUME_TYPES)}, not {like!r}')
        changes: dict[str, Any] = {"name": name, "source": source, "date": date}
        if (sizes := table.range("size_gib")) is not None:
            changes["size_range"] = sizes
        if (unit := table.get("io_unit")) is not None:
            changes["io_unit"] = Size.parse(unit)
        if (iops := table.table("iops")) is not None:
            changes |= _iops(iops)
        if (throughput := table.table("throughput_mib")) is not None:
            changes |= _throughput(throughput)
        if (burst := table.table("burst")) is not None:
            with burst:
                peak, credits = Line(least=burst.number("iops")), Line(least=burst.number("credits"))
                changes["burst"] = BurstRule(peak, credits, source, date)
        if (service_time := table.table("service_time")) is not None:
            changes["service_time"] = _service_time(service_time, base.service_time, source, date)
        return replace(base, **changes)


def _iops(table: _Table) -> dict[str, Any]:
    """Read the IOPS: a range from which a request chooses, or a figure that follows from the size."""
    with table:
        requested = table.range("range")
        if requested is None:
            line = table.line("per_gib")
            return {"iops": line, "iops_range": None, "iops_default": None, "iops_per_gib": None}
        return {
            "iops": None,
            "iops_range": requested,
            "iops_default": table.whole("default"),
            "iops_per_gib": table.whole("per_gib"),
            "iops_free_of_ratio": table.whole("at_any_size") or 0,
        }


def _throughput(table: _Table) -> dict[str, Any]:
    """Read the throughput: a range from which a request chooses, or a figure that follows from IOPS or size."""
    changes: dict[str, Any] = dict.fromkeys(("throughput_range", "throughput_default", "throughput_per_iops"))
    changes |= {"throughput_by_size": (), "throughput_by_iops": ()}
    with table:
        per_iops, requested = table.get("per_iops"), table.range("range")
        if requested is not None:
            changes["throughput_range"] = requested
            changes["throughput_default"] = table.whole("default") or requested[0]
            changes["throughput_per_iops"] = None if per_iops is None else table.number("per_iops")
        elif per_iops is not None:
            changes["throughput_by_iops"] = (table.line("per_iops"),)
        else:
            changes["throughput_by_size"] = (table.line("per_gib"),)
    return changes


def _service_time(table: _Table, base: ServiceTime, source: str, date: str) -> ServiceTime:
    with table:
        given = {key: table.get(key) for key in ("mean", "sequential", "write")}
        seconds = {key: None if text is None else parse_duration(text) for key, text in given.items()}
        if seconds["mean"] is None:
            raise ValueError('needs mean = "..." such as "0.5 ms"')
        transfer, spread = table.get("transfer"), table.number("spread", base.spread)
        rate = Throughput(base.bytes_per_s) if transfer is None else parse_rate(transfer)
        if not isinstance(rate, Throughput):
            raise ValueError(f'transfer must be a throughput such as "1 GiB/s", not {transfer!r}')
        return ServiceTime(
            seconds["mean"],
            spread,
            rate.bytes_per_second,
            seconds["sequential"],
            seconds["write"],
            source,
            date,
        )
