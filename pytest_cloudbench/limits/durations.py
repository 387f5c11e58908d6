"""Durations with their unit, parsed into seconds."""

from __future__ import annotations

import math

from pytest_cloudbench.limits.numbers import parse_number, split_quantity

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

    Raises ValueError for a number not in English notation, for a missing or unknown unit and for a duration that is not
    above zero, TypeError for a value that is not a text.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a duration with its unit such as '1ms' or '500us', got {text!r}")
    parts = split_quantity(text)
    if parts is None:
        raise ValueError(f"invalid duration {text!r}: write a number and its unit ({TIME_UNITS})")
    number, unit = parts
    if not unit:
        raise ValueError(f"{text!r} has no unit: add one of {TIME_UNITS}")
    if unit.lower() not in _SECONDS:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use one of {TIME_UNITS}")
    try:
        seconds = float(parse_number(number)) * _SECONDS[unit.lower()]
    except ValueError as error:
        raise ValueError(f"invalid duration {text!r}: {error}") from None
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"invalid duration {text!r}: it must be finite and above zero")
    return seconds
