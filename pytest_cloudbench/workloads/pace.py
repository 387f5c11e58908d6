"""Pace: how long a measurement may take. "full" runs what the test says; "quick" shortens it and says so."""

from __future__ import annotations

from enum import Enum

from pytest_cloudbench.limits.quantities import Size

QUICK_RUNTIME_S = 6
QUICK_RAMP_S = 1
QUICK_DATA = Size(1 << 30)
"""The most data that a quick run lays out on a file system, over all jobs together."""
BURST_S = 600
"""A run of at least this duration looks for the end of a burst, and gets more time at the quick pace."""
QUICK_BURST_S = 40
LEAST_COMPRESSED_S = 6
"""A run lasts at least this many real seconds at any time compression, unless the test asks for fewer."""
_LONGER = 1.01


class Pace(Enum):
    """How long measurements may take."""

    QUICK = "quick"
    FULL = "full"

    @classmethod
    def named(cls, name: str) -> Pace:
        """Return the pace of that name. Raises ValueError for any other name."""
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f'unknown pace {name!r}: use "quick" or "full"') from None

    def most_seconds(self, asked_s: float) -> float:
        """Return the most real seconds for a run of ``asked_s`` seconds of the test."""
        if self is Pace.FULL:
            return float("inf")
        return QUICK_RUNTIME_S if asked_s < BURST_S else QUICK_BURST_S


def compressed_seconds(asked_s: float, factor: float) -> float:
    """Return the real seconds for ``asked_s`` seconds of the test, if time goes ``factor`` times faster."""
    return max(asked_s / factor, min(asked_s, LEAST_COMPRESSED_S))


def compression_condition(asked_s: float, real_s: int, factor: float) -> str:
    """Return the condition of a measurement under compressed time."""
    ran_s = real_s * factor
    asked = f" ({asked_s:,g} s were asked)" if ran_s > asked_s * _LONGER else ""
    return f"time compressed {factor:g} times: {ran_s:,g} s{asked} ran in {real_s} s"
