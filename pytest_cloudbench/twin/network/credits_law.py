"""The law of network credits: how traffic drains an instance's bucket, what fills it, and the resulting rate. Pure.

The bucket holds bytes and follows the law of limits.credits: traffic above the baseline drains it, the unused part of
the baseline fills it. The instance has its peak rate until the bucket is empty, then its baseline. It has its peak
again when the bucket is filled to `RESUME_SHARE`, so the rate does not jump back and forth under load.

A load that has to wait for its rate demands its whole baseline. If it gets less for a moment, the machine under the
region is the reason, so the bucket does not fill: with compressed time, one such second would count as a minute of
rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from pytest_cloudbench.limits.credits import CreditBucket

RESUME_SHARE = 0.02
"""Share of the capacity (chosen). With the buckets of limits/network_credits.py it is a burst of 18 to 48 s."""

FULL_USE = 0.97
"""Share of the baseline from which a load counts as using all of it, so that rounding does not fill a bucket."""

DEMAND_S = 1.0
"""After a packet had to wait, a load counts as demanding its whole baseline for this many seconds of the clock."""

RESTING = 0.25
"""Share of the baseline. A load below it over about `DEMAND_S` counts as resting, as between transfers."""


@dataclass
class Bucket:
    """One instance's credits, full at first. Rates in bytes per second, ``level`` and ``capacity`` in bytes.

    It drains and fills ``compression`` times faster than the clock, at unchanged rates.
    """

    capacity: float
    peak: float
    baseline: float
    compression: float = 1.0
    bursting: bool = field(default=True, init=False)
    _credits: CreditBucket = field(init=False, repr=False)
    _used_per_s: float = field(default=0.0, init=False)  # over about DEMAND_S
    _since_wait_s: float = field(default=math.inf, init=False)  # since a packet had to wait

    def __post_init__(self) -> None:
        if not (self.peak > self.baseline > 0 and self.capacity > 0 and self.compression > 0):
            raise ValueError(
                f"invalid bucket of {self.capacity} bytes between {self.baseline} and {self.peak} bytes per second, "
                f"{self.compression} times faster than the clock: all must be above 0, the peak above the baseline"
            )
        # For a moment a shaped cable carries more than its rate, so spending has no limit here.
        self._credits = CreditBucket(self.capacity, self.baseline, math.inf, self.capacity)

    @property
    def level(self) -> float:
        """The credits left, in bytes."""
        return self._credits.level

    @property
    def rate(self) -> float:
        """The instance's present rate in each direction."""
        return self.peak if self.bursting else self.baseline

    @property
    def full(self) -> bool:
        return self.bursting and self.level >= self.capacity

    def account(self, moved: float, elapsed_s: float, *, waited: bool = False) -> None:
        """Account for the bytes moved in the busier direction over the last ``elapsed_s`` seconds.

        ``waited``: a packet had to wait for the rate in that time.
        """
        if elapsed_s <= 0:
            return
        moved_per_s = moved / elapsed_s
        self._used_per_s += (moved_per_s - self._used_per_s) * -math.expm1(-elapsed_s / DEMAND_S)
        self._since_wait_s = 0.0 if waited else self._since_wait_s + elapsed_s
        used_per_s = self._whole(moved_per_s)
        if self._demands_more:
            used_per_s = max(used_per_s, self.baseline)
        self._credits = self._credits.advance(used_per_s, elapsed_s, self.compression)
        if self.bursting:
            self.bursting = not self._credits.empty
        else:
            self.bursting = self._credits.share >= RESUME_SHARE

    def empty_in_s(self, moved_per_s: float) -> float:
        """Return the seconds by the clock until it is empty at this rate in the busier direction; infinity if never."""
        if not self.bursting:
            return math.inf
        return self._credits.time_until_empty(self._whole(moved_per_s), self.compression)

    def empty(self) -> None:
        self._credits = replace(self._credits, level=0.0)
        self.bursting = False

    def refill(self) -> None:
        """Fill the bucket, as a stop and start does."""
        self._credits = replace(self._credits, level=self.capacity)
        self.bursting = True
        self._since_wait_s = math.inf

    @property
    def _demands_more(self) -> bool:
        return self._since_wait_s <= DEMAND_S and self._used_per_s >= RESTING * self.baseline

    def _whole(self, moved_per_s: float) -> float:
        """Return the rate, rounded up to the baseline if it is nearly that."""
        return max(moved_per_s, self.baseline) if moved_per_s >= FULL_USE * self.baseline else moved_per_s
