"""The distribution of latencies out of fio's own JSON: its histograms, all jobs together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

_FILES = ("measured.json", "result.json")
"""Where histograms are: those of what was measured alone, where a workload keeps them apart, else those of all."""
_NS = 1e-9


@dataclass(frozen=True)
class Distribution:
    """How many I/Os (``counts``) took up to how long (``seconds``, rising), of one direction."""

    seconds: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many I/Os there were."""
        return sum(self.counts)

    @property
    def shares(self) -> list[float]:
        """The share of all I/Os that took no longer than each of ``seconds``."""
        total = self.total
        return [reached / total for reached in accumulate(self.counts)]

    def percentile_s(self, percent: float) -> float:
        """The latency that so many per cent did not exceed, as fio itself takes it."""
        wanted = self.total * percent / 100
        for at, reached in zip(self.seconds, accumulate(self.counts), strict=True):
            if reached >= wanted:
                return at
        return self.seconds[-1]


def distributions(raw: Mapping[str, bytes]) -> dict[str, Distribution]:
    """Those of reads and of writes ("read", "write"), where fio kept histograms; empty for any other tool's files."""
    result = next((raw[name] for name in _FILES if name in raw), b"")
    text = result.decode("utf-8", "replace")
    begin = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin)
        jobs = document["jobs"]
        found = {way: _merged(jobs, way) for way in ("read", "write")}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return {way: each for way, each in found.items() if each is not None}


def _merged(jobs: Any, way: str) -> Distribution | None:
    bins: Counter[int] = Counter()
    for job in jobs:
        part = job.get(way) or {}
        for key in ("lat_ns", "clat_ns"):
            stats = part.get(key) or {}
            if stats.get("N"):
                bins.update({int(value): int(count) for value, count in (stats.get("bins") or {}).items()})
                break
    known = sorted((value, count) for value, count in bins.items() if count > 0)
    if not known:
        return None
    return Distribution(tuple(value * _NS for value, _ in known), tuple(count for _, count in known))
