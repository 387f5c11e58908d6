"""The control law of the governor: from what was served to what may be served next. Pure.

The kernel limits reads and writes apart and every device apart; EBS limits their sum, and an instance the
sum over its volumes. So each tick the law shares every budget over those who want it:

* A flow (the reads or the writes of one volume) that uses all it may is *pressed*: it wants more than it
  gets, nobody knows how much. Any other flow wants what it uses.
* A budget is shared max-min fair: there is one level that nobody may pass, and it lies where all demands,
  cut off at the level, add up to the budget. Whoever uses less may rise to the level at once, so idle
  volumes cost nothing and find their full limit when they start.
* A share is only an aim; the kernel, the split into four knobs and shifting demand all miss it a little.
  So each budget keeps its *surplus*: how much more than allowed was served while it was pressed. The
  budget shared out is the limit less a correction from the surplus, so that the error stays bounded and
  any 10 s hold the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_SMOOTHING_S = 0.35  # of rates; the kernel's own slices of 0.1 s would else look like changes of demand
_PRESSED = 0.93  # a flow that gets this much of what it may is taken to want more
_BINDING = 0.97  # a budget of which this much is used is at its limit
_HANDED_OUT = 0.99  # a budget of which this much is granted is one that holds somebody back
_CORRECTION_PER_S = 1.2  # how fast a surplus is worked off
_MOST_SURPLUS_S = 0.4  # of service at the limit; lasting excess is worked off, at up to half the rate
_MOST_DEFICIT_S = 0.1
_START_S = 1.0
_MOST_START_ERROR = 0.1  # of the limit, counted per tick during a start
_AT_ONCE = 1.25  # times the limit: more than ticks differ whose requests are small
_SILENCE_S = 0.25  # without any I/O, and a flow has ended
_STALL_S = 0.5  # a machine that stands still for a moment is not a load that has ended


def fair_level(demands: list[float], budget: float) -> float:
    """The level at which ``demands``, cut off there, add up to ``budget``; infinity when they all fit."""
    left = budget
    waiting = len(demands)
    for demand in sorted(demands):
        if demand * waiting >= left:
            return left / waiting
        left -= demand
        waiting -= 1
    return math.inf


@dataclass
class Budget:
    """One limit, per second, that several flows share, with the memory of how well it was held."""

    limit: float
    surplus: float = 0.0
    served: float = 0.0
    binding: bool = False
    handed_out: bool = True
    pressed_for_s: float = 0.0
    busy_for_s: float = 0.0
    exceeded_s: float = 0.0
    waited_s: float = 0.0
    _silence: float = 0.0
    _lost: float = 0.0
    _unseen_s: float = 0.0

    def account(self, served: float, pressed: bool, elapsed_s: float, weight: float) -> None:
        """Take in what was served, per second, over the last ``elapsed_s``.

        For how much longer than at the last look demand was above the limit is in ``exceeded_s`` afterwards; how
        long before, while nothing was served, what came now may have waited for this limit, is in ``waited_s``.
        """
        self.exceeded_s = self.waited_s = 0.0
        if math.isinf(self.limit):
            return
        self.served += weight * (served - self.served)
        self.binding = pressed and self.served >= _BINDING * self.limit
        self.pressed_for_s = _STALL_S if pressed else self.pressed_for_s - elapsed_s
        at_once = served > _AT_ONCE * self.limit
        if self.binding or (pressed and at_once):
            self.exceeded_s = elapsed_s
        if served == 0.0:
            unused = self.rest(elapsed_s)
            if self.pressed_for_s > 0:
                self._lost += unused
            if not self.binding:
                self._unseen_s += elapsed_s
            return
        excess = (served - self.limit) * elapsed_s
        error = self._beyond_what_waited(excess, at_once=at_once, pressed=pressed) / elapsed_s
        if self.pressed_for_s <= 0:
            self.busy_for_s = 0.0
        elif self.busy_for_s < _START_S:
            # A start from rest is no fault of the shares, and working it off would be seen as one. Later every
            # error counts in full: cutting off peaks alone would let the mean rise.
            self.busy_for_s += elapsed_s
            error = min(max(error, -_MOST_START_ERROR * self.limit), _MOST_START_ERROR * self.limit)
        if self.pressed_for_s > 0:
            surplus = min(self.surplus + error * elapsed_s, _MOST_SURPLUS_S * self.limit)
            self.surplus = max(surplus, -_MOST_DEFICIT_S * self.limit)
            if not pressed and not at_once:
                # Counted here or there: what is counted in both raises the limit each time it is made up for.
                self._silence += max(0.0, self.surplus - surplus)
        else:
            # Unused service is not saved up for later, and a surplus is forgotten as unused service makes it up.
            self.surplus = max(0.0, self.surplus + min(error, 0.0) * elapsed_s)

    def rest(self, seconds: float) -> float:
        """Take in a time in which nothing was served; what could have been, without what made up for a surplus."""
        if self.pressed_for_s <= 0:
            self.busy_for_s = 0.0
        if math.isinf(self.limit):
            return 0.0
        made_up = min(max(self.surplus, 0.0), self.limit * seconds)
        self.surplus -= made_up
        unused = self.limit * seconds - made_up
        self._silence += unused
        return unused

    def looked_away(self, seconds: float) -> None:
        """Take in a time of rest in which `account` was not called."""
        self.pressed_for_s -= seconds
        self.rest(seconds)
        self._unseen_s += seconds
        self._lost = self.exceeded_s = self.waited_s = 0.0

    def _beyond_what_waited(self, excess: float, *, at_once: bool, pressed: bool) -> float:
        """What of an excess over the limit the throttle did not hold back before, while nothing was served.

        It lets a large request wait until there was time for all of it, and then go at once: write-back from the page
        cache comes in requests of hundreds of MiB. Neither is that a surplus, nor was the time before one of rest.
        """
        lost, self._lost = self._lost, 0.0
        self._silence = max(0.0, self._silence - lost)
        error = excess - lost
        if not at_once:
            if pressed:
                self._silence = self._unseen_s = 0.0
            else:
                # A file system's log goes on in small requests meanwhile.
                if self.pressed_for_s <= 0:
                    self._silence += max(0.0, -excess)
                self._unseen_s += max(0.0, -excess) / self.limit
            return error
        waited = min(max(error, 0.0), self._silence)
        self._silence -= waited
        if pressed:
            self.waited_s = min(excess / self.limit, self._unseen_s)
            self._unseen_s -= self.waited_s
        return error - waited

    def change(self, limit: float) -> None:
        """Hold another limit from now on; how well the last one was held counts in proportion."""
        if limit != self.limit:
            known = math.isfinite(self.limit) and math.isfinite(limit)
            self.surplus = self.surplus * limit / self.limit if known else 0.0
            self._silence = self._silence * limit / self.limit if known else 0.0
            self.limit = limit

    @property
    def to_share(self) -> float:
        """What to hand out next, per second."""
        return self.limit - _CORRECTION_PER_S * self.surplus


@dataclass
class Flow:
    """The reads or the writes of a volume, in one resource: what they may have and what they got."""

    granted: float
    served: float = 0.0
    allowed: float = 0.0
    silent_for_s: float = 0.0

    def account(self, served: float, elapsed_s: float, weight: float) -> None:
        """Take in what was served, per second, over the last ``elapsed_s``."""
        if self.served == 0:
            self.served, self.allowed = served, self.granted
            return
        self.silent_for_s = self.silent_for_s + elapsed_s if served == 0 else 0.0
        if self.silent_for_s >= _SILENCE_S:
            self.served = 0.0
            return
        self.served += weight * (served - self.served)
        self.allowed += weight * (self.granted - self.allowed)

    @property
    def pressed(self) -> bool:
        """Whether it used all that it was allowed."""
        return self.served > 0 and self.served >= _PRESSED * self.allowed

    @property
    def demand(self) -> float:
        """What it wants, as far as that is known."""
        return math.inf if self.pressed else self.served


@dataclass
class VolumeState:
    """One resource (IOPS or bytes) of one volume: its own budget and its two flows."""

    budget: Budget
    reads: Flow = field(init=False)
    writes: Flow = field(init=False)

    def __post_init__(self) -> None:
        self.reads = Flow(self.budget.limit, allowed=self.budget.limit)
        self.writes = Flow(self.budget.limit, allowed=self.budget.limit)

    @property
    def pressed(self) -> bool:
        """Whether one of its flows wants more than it gets."""
        return self.reads.pressed or self.writes.pressed

    @property
    def idle(self) -> bool:
        """Whether nothing is being done with it."""
        return self.reads.served == 0 and self.writes.served == 0


def exceeded(iops: Budget, bytes_per_s: Budget) -> tuple[float, float]:
    """For how long since the last look demand was above each of two limits that held the same I/O.

    What came at once after a silence had waited for the one that lets it through later.
    """
    longer = bytes_per_s if bytes_per_s.waited_s > iops.waited_s else iops
    found = [each.exceeded_s + (each.waited_s if each is longer else 0.0) for each in (iops, bytes_per_s)]
    return found[0], found[1]


class Shares:
    """One resource (IOPS or bytes) of one instance and of the volumes attached to it."""

    def __init__(self, limit: float) -> None:
        self.budget = Budget(limit)
        self.volumes: dict[str, VolumeState] = {}
        self._busy: list[VolumeState] = []
        self._came_to_rest: list[VolumeState] = []

    def add(self, volume_id: str, limit: float) -> None:
        """Take a volume with its own limit in."""
        state = VolumeState(Budget(limit))
        self.volumes[volume_id] = state
        self._at_rest(state)

    def remove(self, volume_id: str) -> None:
        """Let a volume go."""
        self.volumes.pop(volume_id, None)

    def change(self, volume_id: str, limit: float) -> None:
        """Let a volume have another limit of its own; it holds from the next `grant` on, at rest at once."""
        state = self.volumes[volume_id]
        state.budget.change(limit)
        if state.idle:
            self._at_rest(state)

    def _at_rest(self, state: VolumeState) -> None:
        state.reads.granted = state.writes.granted = min(state.budget.limit, self.budget.limit)

    def tick(self, served: dict[str, tuple[float, float]], elapsed_s: float) -> None:
        """Take in (reads, writes) per second of every volume that is not idle, and grant anew.

        The grants are in ``volumes[...].reads.granted`` and ``.writes.granted`` afterwards.
        """
        self.account(served, elapsed_s)
        self.grant()

    def account(
        self, served: dict[str, tuple[float, float]], elapsed_s: float, *, before_s: float = 0.0
    ) -> None:
        """Take in (reads, writes) per second of every volume that is not idle, as served under the old limits.

        ``before_s`` is a time of rest that lies between the last look and ``elapsed_s``.
        """
        if before_s > 0:
            self.budget.looked_away(before_s)
        weight = 1.0 - math.exp(-elapsed_s / _SMOOTHING_S)
        self._busy, self._came_to_rest = [], []
        total = 0.0
        for volume_id, state in self.volumes.items():
            reads, writes = served.get(volume_id, (0.0, 0.0))
            if before_s > 0:
                state.budget.looked_away(before_s)
            if reads == 0 and writes == 0 and state.idle:
                state.budget.looked_away(elapsed_s)
                continue
            state.reads.account(reads, elapsed_s, weight)
            state.writes.account(writes, elapsed_s, weight)
            state.budget.account(reads + writes, state.pressed and state.budget.handed_out, elapsed_s, weight)
            total += reads + writes
            (self._came_to_rest if state.idle else self._busy).append(state)
        self.budget.account(total, self._held_somebody_back(), elapsed_s, weight)

    def _held_somebody_back(self) -> bool:
        """Whether somebody wants more than he got out of all that is shared.

        That was handed out as wishes were known; or those who turn out to want more had been granted all of it.
        """
        pressed = [state for state in self._busy if state.pressed]
        if not pressed or self.budget.handed_out:
            return bool(pressed)
        granted = sum(max(state.reads.granted, state.writes.granted) for state in pressed)
        # Who rests is granted the one, who is busy the other.
        return granted >= _HANDED_OUT * min(self.budget.limit, self.budget.to_share)

    def grant(self) -> None:
        """Share what the limits, by now perhaps others, allow."""
        for state in self._came_to_rest:
            self._at_rest(state)
        busy = self._busy
        wanted = [min(state.budget.to_share, state.reads.demand + state.writes.demand) for state in busy]
        budget = self.budget.to_share
        level = fair_level(wanted, budget)
        self.budget.handed_out = sum(wanted) >= _HANDED_OUT * budget
        for state in busy:
            own = state.budget.to_share
            may = min(
                own, level, budget
            )  # all demands may fit by now, and yet one volume could take too much
            state.budget.handed_out = may >= _HANDED_OUT * own
            flow_level = min(fair_level([state.reads.demand, state.writes.demand], may), may)
            state.reads.granted = state.writes.granted = flow_level
