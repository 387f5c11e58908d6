"""The parts of the pacing law: budgets with burst credits, and the stages that they form. Pure, in virtual time.

A request passes two stages: the volume's, and the instance's, which all volumes of the instance share. A stage has a
budget of I/Os and a budget of bytes and serves requests in the order of their arrival. A request is answered when it
has passed both stages and its service time is over, whichever is later. The times follow from the budgets and not from
the clock, so a server that wakes up late loses no rate.

Times are seconds of a monotonic clock, sizes bytes, rates per second.
"""

from __future__ import annotations

import math

from pytest_cloudbench.twin.volumes.figures import Burst, Limit, StageFigures
from pytest_cloudbench.twin.volumes.shared_pages import Levels

BURST_S = 0.001
"""After an idle time, a budget serves the I/O of this many seconds at once."""


class Credits:
    """A burst bucket: it serves ``spend`` per second until it is empty, then ``refill`` per second.

    ``level`` and ``capacity`` are in I/Os or bytes, as its budget counts. It drains and fills ``factor`` times faster
    than the clock. A load at or below the baseline that never waited earns at least ``least_gain`` per second
    (`limits.credits.CreditBucket`). A request is charged at its arrival, so ``level`` may be below zero.
    """

    __slots__ = ("_used", "as_of", "capacity", "factor", "least_gain", "level", "refill", "spend")

    def __init__(self, burst: Burst, level: float | None, now: float) -> None:
        self.capacity, self.refill, self.spend = burst.capacity, burst.refill, burst.spend
        self.factor, self.least_gain = burst.factor, burst.least_gain
        self.level = burst.capacity if level is None else min(level, burst.capacity)
        self.as_of = now
        self._used = 0.0

    def take(self, amount: float, at: float, begin: float) -> float:
        """Drain ``amount`` at the time ``at``; return the seconds of its service, which begins at ``begin``.

        If the level falls below zero, the service lasts until it is zero again, so the rate is exact at any level.
        """
        if at > self.as_of:
            self.level = min(self.capacity, self.level + (at - self.as_of) * self.refill * self.factor)
            self.as_of = at
        self.level -= amount * self.factor
        self._used += amount
        takes = amount / self.spend
        if self.level < 0.0:
            refilled = -self.level / (self.refill * self.factor) - (begin - self.as_of)
            return refilled if refilled > takes else takes
        return takes

    def level_at(self, now: float, waiting: float) -> float:
        """Return the level at ``now``. The amount ``waiting``, drained but not served yet, is added back."""
        level = self.level + waiting * self.factor + max(0.0, now - self.as_of) * self.refill * self.factor
        return max(0.0, min(self.capacity, level))

    def earn_least_gain(self, seconds: float, *, waited: bool) -> None:
        """Raise the gain of the last ``seconds`` to the least gain, if the load was at or below the baseline."""
        unused = self.refill - self._used / seconds
        self._used = 0.0
        if self.least_gain and not waited and unused >= 0.0:
            missing = max(0.0, self.least_gain - unused) * seconds * self.factor
            self.level = min(self.capacity, self.level + missing)


class Budget:
    """One rate limit, per second; infinity does not limit.

    ``next`` is the time at which it has served everything charged. ``waiting`` is the amount charged for requests
    that are still in its stage. Requests have waited for this limit until ``waited_until``.
    """

    __slots__ = ("cost_s", "credits", "next", "waited_until", "waiting")

    def __init__(self) -> None:
        self.next = 0.0
        self.waiting = 0.0
        self.waited_until = -math.inf
        self.change(Limit())

    def change(self, limit: Limit, level: float | None = None, now: float = 0.0) -> None:
        """Apply a new limit from the next request on; ``level`` is that of its bucket at ``now`` (None: full).

        The bucket is charged for the requests that wait.
        """
        self.credits = None if limit.burst is None else Credits(limit.burst, level, now)
        self.cost_s = 1.0 / limit.per_second
        if self.credits is not None:
            self.credits.level -= self.waiting * self.credits.factor

    def level_at(self, now: float) -> float:
        """Return what its bucket holds at ``now``; NaN if it does not burst."""
        return math.nan if self.credits is None else self.credits.level_at(now, self.waiting)

    def charge(self, amount: float, at: float) -> None:
        """Charge ``amount``, requested at the time ``at``."""
        begin = self.next if self.next > at else at
        takes = amount * self.cost_s if self.credits is None else self.credits.take(amount, at, begin)
        self.next = begin + takes


class Stage:
    """The two budgets that a request passes together. ``held_by`` is the one that delayed the last request."""

    __slots__ = ("bytes", "held_by", "iops")

    def __init__(self) -> None:
        self.iops, self.bytes = Budget(), Budget()
        self.held_by: Budget | None = None

    def change(self, figures: StageFigures, levels: Levels, now: float) -> None:
        """Apply new limits, with the levels of their buckets at ``now``. See `Budget.change`."""
        self.iops.change(figures.iops, levels[0], now)
        self.bytes.change(figures.bytes, levels[1], now)

    def let_through(self, arrival: float, ios: float, size: float) -> float:
        """Charge a request and return the time at which it leaves this stage.

        A request that adds no I/O, since it continues another one, does not wait for the budget of I/Os. Both budgets
        count from the arrival, so waiting for one does not use up the other.
        """
        iops, moved = self.iops, self.bytes
        at = arrival
        by_ios = iops.next - BURST_S if ios > 0 else at
        by_bytes = moved.next - BURST_S
        if by_ios > at or by_bytes > at:
            at, self.held_by = (by_ios, iops) if by_ios >= by_bytes else (by_bytes, moved)
            self.held_by.waited_until = at
        else:
            self.held_by = None
        if iops.credits is None:
            iops.next = (iops.next if iops.next > arrival else arrival) + ios * iops.cost_s
        else:
            iops.charge(ios, arrival)
        if moved.credits is None:
            moved.next = (moved.next if moved.next > arrival else arrival) + size * moved.cost_s
        else:
            moved.charge(size, arrival)
        return at

    def hold(self, ios: float, size: float) -> None:
        """Count a charged request as waiting; pass negative amounts when it leaves."""
        self.iops.waiting += ios
        self.bytes.waiting += size


class Waiting:
    """The time during which requests waited for a limit. Each second counts once, however many requests waited."""

    __slots__ = ("_seconds", "_until")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    def add(self, arrival: float, until: float) -> None:
        """Count the wait of a request from ``arrival`` until ``until``, which may be in the future."""
        since = arrival if arrival > self._until else self._until
        if until > since:
            self._seconds += until - since
            self._until = until

    def seconds(self, now: float) -> float:
        """Return the seconds of waiting until ``now``."""
        return self._seconds - max(0.0, self._until - now)
