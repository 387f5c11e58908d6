"""Settings of an embedded region: its latency model, its time factor, and what it boots without disturbing runs."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

EBS = "ebs"
NONE = "none"
LATENCY_MODES = (EBS, NONE)
"""Answer each I/O after a service time by volume type, or as soon as the limits allow."""

AHEAD_TAG = "cloudbench:ahead"
"""A tag of instances that were launched before their test requested them."""

LARGEST_FACTOR = 3600.0
"""An hour in a second; beyond that a burst is over before a run has begun."""

_CONDITIONS = {
    EBS: "storage latency modelled by the embedded region",
    NONE: "storage latency not modelled: below a limit it is this machine's own",
}


def latency_conditions(mode: str | None) -> tuple[str, ...]:
    """Return the condition that a latency mode adds to every storage result; empty for None, as on AWS."""
    return () if mode is None else (_CONDITIONS.get(mode, f"storage latency modelled as {mode!r}"),)


def parse_time_factor(text: str | float) -> float:
    """Parse a time factor, from 1 (as the clock) to 3,600 (an hour in a second). Raises ValueError."""
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= LARGEST_FACTOR:  # false for NaN too
        raise ValueError(
            f"invalid time factor {str(text)!r}: use a number from 1 (as the clock) to {LARGEST_FACTOR:,.0f}, such as "
            "60, which runs a minute in a second"
        )
    return factor


def package_digest() -> str:
    """Return a digest of a region's modules. A region also imports modules while it runs, so they must not change."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for folder in ("limits", "twin") for path in (package / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def turnstile(record: Path) -> Path:
    """Return the file that sessions lock and release before they lock a region's record to measure.

    A boot that waits for a moment without measurements holds this lock, so that no new measurement begins.
    """
    return record.with_suffix(".turnstile")


def factor_words(factor: float) -> str:
    """Format a time factor, unrounded: "60", "1.5"."""
    return str(int(factor)) if factor == int(factor) else repr(factor)
