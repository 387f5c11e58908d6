"""The law of network credits: what drains an instance's bucket, what fills it, and which rate it then has. Pure.

The bucket holds bytes. What is moved above the baseline drains it, the baseline that is left unused fills it, up to
its capacity. While it holds something the instance has its peak; once empty, its baseline, and it stays there under
load. Only when a part of the bucket is back (`RESUME_SHARE`) does it have the peak again: so a load does not see the
rate jump to and fro.

A load that has to wait for its rate wants all of its baseline. What it does not get for a moment it loses to the
machine under the region, not to its own restraint, and that fills nothing: where time is compressed, a second of it
would else be a minute's rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

RESUME_SHARE = 0.02
"""Of the capacity; chosen. With the buckets of promises/network_credits.py it is a burst of 18 to 48 s."""

FULL_USE = 0.97
"""Of the baseline. A load that gets this much of it is taken to use it all: rounding must not fill a bucket."""

WANTING_S = 1.0
"""By the clock. So long after a packet had to wait, a load is taken to want its whole baseline."""

RESTING = 0.25
"""Of the baseline. A load that moved less over about `WANTING_S` rests all the same, as between transfers."""


@dataclass
class Bucket:
    """One instance's credits. Rates in bytes per second, ``level`` and ``capacity`` in bytes.

    ``compression`` is how many times faster than the clock it drains and fills; it does not change the rates.
    """

    capacity: float
    peak: float
    baseline: float
    compression: float = 1.0
    level: float = math.nan
    bursting: bool = True
    _used_per_s: float = 0.0  # over about WANTING_S
    _unhindered_s: float = math.inf  # since a packet had to wait

    def __post_init__(self) -> None:
        if not (self.peak > self.baseline > 0 and self.capacity > 0 and self.compression > 0):
            raise ValueError(
                f"no bucket of {self.capacity} bytes between {self.baseline} and {self.peak} bytes per second, "
                f"{self.compression} times faster than the clock: all must be above 0, the peak above the baseline"
            )
        if math.isnan(self.level):
            self.level = self.capacity

    @property
    def rate(self) -> float:
        """What the instance may move now, in each direction."""
        return self.peak if self.bursting else self.baseline

    @property
    def full(self) -> bool:
        """Whether nothing would change if nothing were moved."""
        return self.bursting and self.level >= self.capacity

    def account(self, moved: float, elapsed_s: float, *, waited: bool = False) -> float | None:
        """Take in what was moved, in the busier direction, over the last ``elapsed_s``.

        ``waited``: a packet had to wait for the rate in that time. When what was moved emptied the bucket: how many
        seconds before the end of that time it became empty, if it was moved evenly. None otherwise.
        """
        if elapsed_s <= 0:
            return None
        moved_per_s = moved / elapsed_s
        self._used_per_s += (moved_per_s - self._used_per_s) * -math.expm1(-elapsed_s / WANTING_S)
        self._unhindered_s = 0.0 if waited else self._unhindered_s + elapsed_s
        change_per_s = self._change_per_s(moved_per_s)
        if self._wants_more:
            change_per_s = min(change_per_s, 0.0)
        before = self.level
        self.level = min(max(before + change_per_s * elapsed_s, 0.0), self.capacity)
        if self.bursting and self.level <= 0.0:
            self.bursting = False
            return min(max(elapsed_s + before / change_per_s, 0.0), elapsed_s)
        if not self.bursting and self.level >= RESUME_SHARE * self.capacity:
            self.bursting = True
        return None

    def empty_in_s(self, moved_per_s: float) -> float:
        """How long it lasts, by the clock, if that much is moved in the busier direction; infinity if for ever."""
        change_per_s = self._change_per_s(moved_per_s)
        return self.level / -change_per_s if self.bursting and change_per_s < 0 else math.inf

    def empty(self) -> None:
        """Make it empty, as it would be a moment later."""
        self.level = 0.0
        self.bursting = False

    def refill(self) -> None:
        """Make it full, as after a stop and start."""
        self.level = self.capacity
        self.bursting = True
        self._unhindered_s = math.inf

    @property
    def _wants_more(self) -> bool:
        return self._unhindered_s <= WANTING_S and self._used_per_s >= RESTING * self.baseline

    def _change_per_s(self, moved_per_s: float) -> float:
        if FULL_USE * self.baseline <= moved_per_s <= self.baseline:
            return 0.0
        return (self.baseline - moved_per_s) * self.compression
