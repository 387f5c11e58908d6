"""Intervals of streams that tick apart, brought to one common grid of time.

Every process keeps its own timer, which comes late when the processor is busy and then makes up for it with
intervals of nearly no length. What was moved until a moment is nevertheless known, so it is read off at the
grid's moments; within an interval it is taken to have flowed evenly. No byte is lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_cloudbench.workloads.iperf3.output import Interval

_FULL = 0.9
"""Part of a cell that must have been measured: an unfinished last one is left out."""


def cells_of(flows: Sequence[Sequence[Interval]], step_s: float) -> int:
    """How many full cells of `step_s` seconds all the streams have; a stream without intervals has none."""
    ends = [max((each.end_s for each in flow), default=0.0) for flow in flows]
    if not ends:
        return 0
    return int(min(ends) / step_s + (1 - _FULL))


def rates(flow: Sequence[Interval], step_s: float, cells: int) -> list[float]:
    """Bytes per second of each cell. A last cell that is not quite full counts for the time that it has."""
    end_s = max((each.end_s for each in flow), default=0.0)
    sums = sums_at(flow, [min(number * step_s, end_s) for number in range(cells + 1)], _bytes)
    found = []
    for number in range(cells):
        length_s = min((number + 1) * step_s, end_s) - number * step_s
        found.append((sums[number + 1] - sums[number]) / length_s if length_s > 0 else 0.0)
    return found


def counts(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], int | None]
) -> list[int]:
    """A whole count of each cell; what lies behind the last one is in it."""
    moments = [number * step_s for number in range(cells)]
    sums = [round(each) for each in sums_at(flow, moments, lambda each: what(each) or 0)]
    sums.append(sum(what(each) or 0 for each in flow))
    return [sums[number + 1] - sums[number] for number in range(cells)]


def sums_at(
    flow: Sequence[Interval], moments: Sequence[float], what: Callable[[Interval], float]
) -> list[float]:
    """What a stream had summed up to by each moment; the moments ascend."""
    found = []
    total = 0.0
    position = 0
    for moment in moments:
        while position < len(flow) and flow[position].end_s <= moment:
            total += what(flow[position])
            position += 1
        inside = 0.0
        if position < len(flow) and flow[position].start_s < moment:
            each = flow[position]
            inside = what(each) * (moment - each.start_s) / (each.end_s - each.start_s)
        found.append(total + inside)
    return found


def last_seen(
    flow: Sequence[Interval], step_s: float, cells: int, what: Callable[[Interval], float | None]
) -> list[float | None]:
    """A gauge at the end of each cell: the value of the interval that lasts longest within it."""
    found: list[float | None] = []
    position = 0
    for number in range(cells):
        begin_s, end_s = number * step_s, (number + 1) * step_s
        while position < len(flow) and flow[position].end_s <= begin_s:
            position += 1
        best: tuple[float, float | None] = (0.0, None)
        here = position
        while here < len(flow) and (each := flow[here]).start_s < end_s:
            here += 1
            shared_s = min(each.end_s, end_s) - max(each.start_s, begin_s)
            if shared_s > best[0]:
                best = (shared_s, what(each))
        found.append(best[1])
    return found


def _bytes(each: Interval) -> float:
    return each.bytes
