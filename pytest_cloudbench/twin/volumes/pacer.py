"""The pacing law of one instance: when each request of its volumes is answered. Pure, in virtual time.

`core.c` is the same law compiled and is used if it could be built. Both have the public methods of `Pacer`, and
return an `Answer`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from pytest_cloudbench.limits.volume_types import STATED_AT_BYTES, ServiceTime
from pytest_cloudbench.limits.volumes import LARGE_WRITE
from pytest_cloudbench.twin.volumes.figures import PIECE_BYTES, Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.pacing import Budget, Stage, Waiting
from pytest_cloudbench.twin.volumes.sequences import Sequences
from pytest_cloudbench.twin.volumes.shared_pages import Figures, Levels, VolumeState

FACTORS = 4096
_LARGE_WRITE = LARGE_WRITE.bytes


@lru_cache(maxsize=16)
def service_factors(spread: float) -> Sequence[float]:
    """Return the quantiles of a service time as multiples of its mean, each once, in random order."""
    unit = ServiceTime(1.0, spread, 1.0)
    factors = [unit.factor((number + 0.5) / FACTORS) for number in range(FACTORS)]
    random.Random(1).shuffle(factors)  # noqa: S311 - no secret
    return factors


class Answer(NamedTuple):
    """A request that is due, with its times, its volume's node, and the kernel's number ``unique``."""

    due: float
    node: int
    arrival: float
    size: int
    write: bool
    offset: int
    unique: int
    problem: int


class _Volume:
    """One attached volume."""

    __slots__ = (
        "answered", "backing", "factors", "failed", "figures", "in_flight", "late_s", "modelled_s", "moved", "node",
        "ops", "path_s", "reads", "sequences", "service", "state", "times", "touch", "turn", "waited", "writes",
    )  # fmt: skip

    figures: VolumeFigures
    sequences: Sequences
    service: ServiceTime | None
    factors: Sequence[float]
    writes: Stage

    def __init__(self, node: int, backing: int, state: VolumeState, path_s: float) -> None:
        self.node = node
        self.backing = backing
        self.failed = False
        self.state = state
        self.path_s = path_s
        self.reads = self.writes = Stage()
        self.touch = Budget()
        self.waited = [Waiting() for _ in range(4)]
        self.ops, self.moved, self.times = [0, 0], [0, 0], [0.0, 0.0]
        self.answered = self.in_flight = self.turn = 0
        self.modelled_s = self.late_s = 0.0


_Request = tuple[int, bool, int, int, int]
"""The last fields of its `Answer`, from the size on."""
_Wait = tuple[Stage, float, float] | None
"""The stage in which a request waits, with the I/Os and bytes charged there."""
_Entry = tuple[float, int, bool, _Volume, float, float, float, _Wait, _Request]
"""Time at which it is due, its number, whether it has passed both stages, volume, arrival, end of the service time,
I/Os, wait, request."""


class Pacer:
    """The volumes of one instance and their requests.

    Unless ``paced``, every request is due at once. It uses no budget and no credits, and the model does not count it.
    A node is a volume's number. Levels are those of a stage's buckets of I/Os and of bytes; None is full.
    """

    def __init__(self) -> None:
        self.paced = True
        self._volumes: dict[int, _Volume] = {}
        self._instance = Stage()
        self._heap: list[_Entry] = []
        self._count = 0
        self._between = 0  # requests that have not passed the instance's stage yet
        self._earned_at = 0.0

    def limit_instance(self, figures: StageFigures, levels: Levels, as_of: float) -> None:
        """Limit all volumes together from now on. The levels are those at ``as_of``."""
        self._instance.change(figures, levels, as_of)
        self._earned_at = as_of

    def add(self, node: int, backing: int, state: VolumeState, path_s: float) -> None:
        """Add a volume without limits.

        ``backing`` is the descriptor of its data, ``path_s`` the seconds that an I/O takes on this machine without
        any limit.
        """
        self._volumes[node] = _Volume(node, backing, state, path_s)

    def limit_volume(self, node: int, figures: VolumeFigures, levels: Levels, as_of: float) -> None:
        """Apply these figures to a volume from its next request on. The levels are those at ``as_of``."""
        volume = self._volumes[node]
        volume.figures = figures
        volume.reads.change(figures.limits, levels, as_of)
        if figures.writes is None:
            volume.writes = volume.reads
        else:
            if volume.writes is volume.reads:
                volume.writes = Stage()
            volume.writes.change(figures.writes, (None, None), as_of)
        volume.touch.change(Limit(figures.touch_per_s))
        volume.sequences = Sequences(figures.unit, merging=figures.merging)
        volume.service = figures.service
        volume.factors = () if figures.service is None else service_factors(figures.service.spread)

    def remove(self, node: int) -> None:
        """Forget a volume and its waiting requests. Call `drop` first to answer those."""
        self.drop(node)
        del self._volumes[node]

    def arrive(  # noqa: PLR0917 - keywords would cost a tenth of its time
        self, node: int, now: float, offset: int, size: int, write: bool, unique: int = 0, problem: int = 0
    ) -> None:
        """Accept a request of ``size`` bytes. Its answer has the same ``unique`` and ``problem``."""
        volume = self._volumes[node]
        volume.in_flight += 1
        self._count += 1
        request = size, write, offset, unique, problem
        if not self.paced:
            if volume.state.untouched:
                _touched(volume, offset, size, write)
            heappush(self._heap, (now, self._count, True, volume, now, now, 0.0, None, request))
            return
        figures, sequences = volume.figures, volume.sequences
        ios: float = sequences.count(now, offset, size, write)
        sequential = sequences.continued
        charged: float = ios * figures.unit if figures.whole_units else size
        earliest = now
        service = volume.service
        if service is not None:
            volume.turn = turn = (volume.turn + 1) % FACTORS
            earliest += (
                service.mean(write=write, sequential=sequential) * volume.factors[turn] - volume.path_s
            )
            if size > STATED_AT_BYTES:
                earliest += service.transfer_s(size)
        stage = volume.writes if write else volume.reads
        fetched, share = 0, 1.0
        if volume.state.untouched:
            fetched, share = _touched(volume, offset, size, write)
        if write and size > _LARGE_WRITE:
            share *= figures.large_write_share
        taken, charged = ios / share, charged / share
        leaves = stage.let_through(now, taken, charged)
        if stage.held_by is not None:
            padded = figures.whole_units and not sequential and size < figures.unit
            volume.waited[stage.held_by is stage.bytes and not padded].add(now, leaves)
        if fetched and volume.touch.cost_s:
            volume.touch.charge(fetched, leaves)
            earliest = max(earliest, volume.touch.next)
        # Requests pass the instance's stage in the order of the model, even if this machine is late.
        waits: _Wait
        if leaves > now or self._between:
            passed, due, waits = False, leaves, (stage, taken, charged)
            stage.hold(taken, charged)
            self._between += 1
        else:
            passed = True
            due, waits = self._pass_instance(volume, now, earliest, ios, size)
        heappush(self._heap, (due, self._count, passed, volume, now, earliest, ios, waits, request))

    def _pass_instance(
        self, volume: _Volume, at: float, earliest: float, ios: float, size: int
    ) -> tuple[float, _Wait]:
        instance, waits = self._instance, None
        due = instance.let_through(at, ios, size)
        if instance.held_by is not None:
            volume.waited[2 + (instance.held_by is instance.bytes)].add(at, due)
            instance.hold(ios, size)
            waits = instance, ios, float(size)
        return (earliest if earliest > due else due), waits

    def _leave(self, passed: bool, waits: _Wait) -> None:
        self._between -= not passed
        if waits is not None:
            stage, ios, size = waits
            stage.hold(-ios, -size)

    def next_event(self) -> float:
        """Return the time of the next event; infinity if no request waits."""
        return self._heap[0][0] if self._heap else math.inf

    def take_due(self, now: float) -> Answer | None:
        """Remove and return a request that is due by ``now``; None if there is none. Call `done` afterwards."""
        heap = self._heap
        while heap and (heap[0][0] <= now or not self.paced):
            at, number, passed, volume, arrival, earliest, ios, waits, request = heappop(heap)
            self._leave(passed, waits)
            if passed or not self.paced:
                return Answer(at, volume.node, arrival, *request)
            due, waits = self._pass_instance(volume, at, earliest, ios, request[0])
            heappush(heap, (due, number, True, volume, arrival, earliest, ios, waits, request))
        return None

    def done(self, answer: Answer, now: float) -> None:
        """Count a request as answered at ``now``."""
        volume = self._volumes[answer.node]
        way, arrival, due = answer.write, answer.arrival, answer.due
        volume.ops[way] += 1
        volume.moved[way] += answer.size
        volume.times[way] += now - arrival
        volume.in_flight -= 1
        if self.paced:
            volume.answered += 1
            volume.modelled_s += due - arrival + volume.path_s
            if now > due:
                volume.late_s += now - due

    def backing(self, node: int) -> int:
        """Return the descriptor of a volume's data; -1 if there is no such volume or it has failed."""
        volume = self._volumes.get(node)
        return -1 if volume is None or volume.failed else volume.backing

    def fail(self, node: int) -> None:
        """Refuse all further requests of a volume. Call `drop` for the waiting ones."""
        self._volumes[node].failed = True

    def drop(self, node: int) -> list[Answer]:
        """Remove and return all requests of a volume in the order of their times. Call `done` for each."""
        dropped = sorted((entry for entry in self._heap if entry[3].node == node), key=itemgetter(0, 1))
        self._heap = [entry for entry in self._heap if entry[3].node != node]
        for entry in dropped:
            self._leave(entry[2], entry[7])
        heapify(self._heap)
        return [Answer(entry[0], node, entry[4], *entry[8]) for entry in dropped]

    def earn(self, now: float) -> None:
        """Add the least gain since the last call to the instance's buckets. Call it regularly while there is I/O."""
        seconds = now - self._earned_at
        for budget in (self._instance.iops, self._instance.bytes):
            if budget.credits is not None and seconds > 0:
                budget.credits.earn_least_gain(seconds, waited=budget.waited_until >= self._earned_at)
        self._earned_at = now

    def levels(self, node: int | None, now: float) -> tuple[float, float]:
        """Return the levels of a volume's or (None) the instance's buckets; NaN for a limit that does not burst."""
        stage = self._instance if node is None else self._volumes[node].reads
        return stage.iops.level_at(now), stage.bytes.level_at(now)

    def figures(self, node: int, now: float) -> Figures:
        """Return the counters of a volume."""
        volume = self._volumes[node]
        return Figures._make((
            *volume.ops, *volume.moved, *volume.times, *(waiting.seconds(now) for waiting in volume.waited),
            volume.in_flight, volume.answered, volume.modelled_s, volume.late_s,
        ))  # fmt: skip


def _touched(volume: _Volume, offset: int, size: int, write: bool) -> tuple[int, float]:
    """Mark pieces as used; return how many must be fetched, and the share of the rate for this request."""
    first, end = offset // PIECE_BYTES, -(-(offset + size) // PIECE_BYTES)
    found = volume.state.touch(first, end)
    if not found:
        return 0, 1.0
    unused = found / (end - first)
    whole = write and offset % PIECE_BYTES == 0 and size % PIECE_BYTES == 0
    return 0 if whole else found, 1.0 / (unused / volume.figures.touch_share + 1.0 - unused)
