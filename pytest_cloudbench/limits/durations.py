"""Times as people write them, with their unit, read into seconds."""

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
    """Seconds of a time with its unit: "1ms", "500 us", "0.5 s".

    Raises ValueError for a bare number, an unknown unit and a time that is not above zero, TypeError for what
    is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"a time is a text with its unit such as '1ms' or '500us', not {text!r}")
    found = _TIME.match(text)
    if not found:
        raise ValueError(f"{text!r} is no time: write a number and its unit ({TIME_UNITS})")
    unit = found.group(2).lower()
    if not unit:
        raise ValueError(f"{text!r} has no unit: add one of {TIME_UNITS}")
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} has an unknown unit {found.group(2)!r}: use one of {TIME_UNITS}")
    seconds = float(found.group(1).replace(",", "").replace("_", "")) * _SECONDS[unit]
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"{text!r} is no time to wait for: it must be above zero")
    return seconds
