"""The law of network credits: what drains an instance's bucket, what fills it, and which rate it then has. Pure.

The bucket holds bytes and follows the law of promises.credits: what is moved above the baseline drains it, the
baseline that is left unused fills it. While it holds something the instance has its peak; once empty, its baseline,
and it stays there under load. Only when a part of the bucket is back (`RESUME_SHARE`) does it have the peak again: so
a load does not see the rate jump to and fro.

A load that has to wait for its rate wants all of its baseline. What it does not get for a moment it loses to the
machine under the region, not to its own restraint, and that fills nothing: where time is compressed, a second of it
would else be a minute's rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from pytest_cloudbench.limits.credits import CreditBucket

RESUME_SHARE = 0.02
"""Of the capacity; chosen. With the buckets of limits/network_credits.py it is a burst of 18 to 48 s."""

FULL_USE = 0.97
"""Of the baseline. A load that gets this much of it is taken to use it all: rounding must not fill a bucket."""

WANTING_S = 1.0
"""By the clock. So long after a packet had to wait, a load is taken to want its whole baseline."""

RESTING = 0.25
"""Of the baseline. A load that moved less over about `WANTING_S` rests all the same, as between transfers."""


@dataclass
class Bucket:
    """One instance's credits, full at first. Rates in bytes per second, ``level`` and ``capacity`` in bytes.

    ``compression`` is how many times faster than the clock it drains and fills; it does not change the rates.
    """

    capacity: float
    peak: float
    baseline: float
    compression: float = 1.0
    bursting: bool = field(default=True, init=False)
    _credits: CreditBucket = field(init=False, repr=False)
    _used_per_s: float = field(default=0.0, init=False)  # over about WANTING_S
    _unhindered_s: float = field(default=math.inf, init=False)  # since a packet had to wait

    def __post_init__(self) -> None:
        if not (self.peak > self.baseline > 0 and self.capacity > 0 and self.compression > 0):
            raise ValueError(
                f"no bucket of {self.capacity} bytes between {self.baseline} and {self.peak} bytes per second, "
                f"{self.compression} times faster than the clock: all must be above 0, the peak above the baseline"
            )
        # Over a moment a shaped cable lets more than its rate pass, so what is spent is whatever was moved.
        self._credits = CreditBucket(self.capacity, self.baseline, math.inf, self.capacity)

    @property
    def level(self) -> float:
        """What is in it, in bytes."""
        return self._credits.level

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
        used_per_s = self._whole(moved_per_s)
        if self._wants_more:
            used_per_s = max(used_per_s, self.baseline)
        before = self._credits
        self._credits = before.advance(used_per_s, elapsed_s, self.compression)
        if self.bursting and self._credits.empty:
            self.bursting = False
            return max(0.0, elapsed_s - before.time_until_empty(used_per_s, self.compression))
        if not self.bursting and self._credits.share >= RESUME_SHARE:
            self.bursting = True
        return None

    def empty_in_s(self, moved_per_s: float) -> float:
        """How long it lasts, by the clock, if that much is moved in the busier direction; infinity if for ever."""
        if not self.bursting:
            return math.inf
        return self._credits.time_until_empty(self._whole(moved_per_s), self.compression)

    def empty(self) -> None:
        """Make it empty, as it would be a moment later."""
        self._credits = replace(self._credits, level=0.0)
        self.bursting = False

    def refill(self) -> None:
        """Make it full, as after a stop and start."""
        self._credits = replace(self._credits, level=self.capacity)
        self.bursting = True
        self._unhindered_s = math.inf

    @property
    def _wants_more(self) -> bool:
        return self._unhindered_s <= WANTING_S and self._used_per_s >= RESTING * self.baseline

    def _whole(self, moved_per_s: float) -> float:
        """The rate, the whole baseline where it is nearly that."""
        return max(moved_per_s, self.baseline) if moved_per_s >= FULL_USE * self.baseline else moved_per_s
