"""How many I/Os a fio job really keeps in flight, as far as its own parameters tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SYNCHRONOUS = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""Engines that finish each I/O before the next: fio caps their depth at one."""

_FEWER = frozenset(
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
"""Options by which a job pauses, waits for batches or chooses its own depth."""


def effective_depth(ioengine: str, iodepth: int) -> int:
    """I/Os that one job can have in flight."""
    return 1 if ioengine in SYNCHRONOUS else iodepth


def keeps_depth(asked: Mapping[str, Any]) -> bool:
    """Whether a job with these parameters (`FioJob.asked`) fills every slot that falls free at once.

    Buffered I/O goes to the page cache one by one, fsync and pauses leave slots empty, and a rate is an own limit.
    """
    own_limit = asked.get("rate_iops_total") or asked.get("rate_bytes_per_s_total")
    pauses = any(name.replace("-", "_") in _FEWER for name in asked.get("options") or ())
    return bool(asked.get("direct", True)) and not (own_limit or pauses or asked.get("fsync"))
