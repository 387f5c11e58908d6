"""The factor by which an embedded region lets burst credits drain and refill faster than the clock."""

from __future__ import annotations

import math

LARGEST_FACTOR = 3600.0
"""An hour in a second; beyond that a burst is over before a run has begun."""


def parse_time_factor(text: str | float) -> float:
    """Read a factor of time: 1 (as the clock goes) to 3,600 (an hour in a second).

    Raises ValueError with a sentence for anything else.
    """
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= LARGEST_FACTOR:  # false for NaN too
        raise ValueError(
            f"{str(text)!r} is no factor of time: give a number from 1 (as the clock goes) to "
            f"{LARGEST_FACTOR:,.0f}, such as 60, with which a second stands for a minute"
        )
    return factor


def factor_words(factor: float) -> str:
    """The factor as a person writes it: "60", "1.5"; never rounded to another one."""
    return str(int(factor)) if factor == int(factor) else repr(factor)
