"""Durations with their unit, parsed into seconds."""

from __future__ import annotations

import math
import re

_TIME = re.compile(r"\s*([+-]?(?:[0-9][0-9,_]*(?:\.[0-9]+)?|\.[0-9]+))\s*([a-zµμ]*)\s*\Z", re.IGNORECASE)
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "h": 3600.0,
}
TIME_UNITS = "ns, us, ms, s, min or h"


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as "1ms", "500 us" or "0.5 s".

    Raises ValueError for a missing or unknown unit and for a duration that is not above zero, TypeError for a value
    that is not a text.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a duration with its unit such as '1ms' or '500us', got {text!r}")
    found = _TIME.match(text)
    if not found:
        raise ValueError(f"invalid duration {text!r}: write a number and its unit ({TIME_UNITS})")
    unit = found.group(2).lower()
    if not unit:
        raise ValueError(f"{text!r} has no unit: add one of {TIME_UNITS}")
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} has an unknown unit {found.group(2)!r}: use one of {TIME_UNITS}")
    seconds = float(found.group(1).replace(",", "").replace("_", "")) * _SECONDS[unit]
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"invalid duration {text!r}: it must be above zero")
    return seconds
