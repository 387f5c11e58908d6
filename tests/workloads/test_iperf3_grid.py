from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.iperf3.output import Interval
from pytest_cloudbench.workloads.iperf3.streams import (
    cell_counts,
    cell_gauges,
    cell_rates,
    count_cells,
    totals_at,
)


def _flow(*lengths_and_bytes: tuple[float, float]) -> list[Interval]:
    """Return consecutive intervals."""
    found = []
    start_s = 0.0
    for length_s, moved in lengths_and_bytes:
        found.append(Interval(start_s, start_s + length_s, moved, retransmits=round(moved) % 7))
        start_s += length_s
    return found


_LENGTHS = st.floats(0.001, 3.0)
_BYTES = st.floats(0, 1e12)
_FLOWS = st.lists(st.tuples(_LENGTHS, _BYTES), min_size=1, max_size=40).map(lambda each: _flow(*each))


def test_punctual_intervals_become_cells_unchanged() -> None:
    flow = _flow((1, 100), (1, 300), (1, 200))
    assert count_cells([flow], 1.0) == 3
    assert cell_rates(flow, 1.0, 3) == pytest.approx([100, 300, 200])


def test_a_late_timer_does_not_move_bytes_to_another_cell() -> None:
    # The second tick came 0.3 s late; iperf3 then fires twice in a row.
    flow = _flow((1, 100), (1.3, 130), (0.7, 70), (1, 100))
    assert cell_rates(flow, 1.0, 4) == pytest.approx([100, 100, 100, 100])


def test_an_incomplete_last_interval_is_left_out() -> None:
    assert count_cells([_flow((1, 100), (1, 100), (0.042, 3))], 1.0) == 2
    assert count_cells([_flow((1, 100), (1, 100), (0.85, 3))], 1.0) == 2


def test_a_last_interval_that_ends_slightly_early_is_a_full_cell() -> None:
    flow = _flow((1.001, 100.1), (1.001, 100.1), (0.996, 99.6))
    assert count_cells([flow], 1.0) == 3
    assert cell_rates(flow, 1.0, 3) == pytest.approx([100, 100, 100])


def test_the_shortest_stream_limits_the_number_of_cells() -> None:
    assert count_cells([_flow(*[(1, 1)] * 5), _flow(*[(1, 1)] * 3)], 1.0) == 3
    assert count_cells([_flow(*[(1, 1)] * 5), []], 1.0) == 0
    assert count_cells([], 1.0) == 0


def test_a_gauge_has_the_value_of_the_interval_in_its_cell() -> None:
    flow = [Interval(0, 1, 0, rtt_s=0.1), Interval(1, 2.02, 0, rtt_s=0.2), Interval(2.02, 3, 0, rtt_s=0.3)]
    assert cell_gauges(flow, 1.0, 3, lambda each: each.rtt_s) == (0.1, 0.2, 0.3)
    assert cell_gauges(flow[:1], 1.0, 3, lambda each: each.rtt_s) == (0.1, None, None)


@given(_FLOWS, st.floats(0.1, 2.0))
def test_no_byte_is_lost_or_counted_twice(flow: list[Interval], step_s: float) -> None:
    cells = count_cells([flow], step_s)
    found = cell_rates(flow, step_s, cells)
    assert len(found) == cells
    end_s = flow[-1].end_s
    moved = sum(
        rate * (min((number + 1) * step_s, end_s) - number * step_s) for number, rate in enumerate(found)
    )
    total = sum(each.bytes for each in flow)
    behind = total - totals_at(flow, [min(cells * step_s, end_s)], lambda each: each.bytes)[0]
    assert moved + behind == pytest.approx(total, rel=1e-6, abs=1e-3)
    most = max(each.bytes / (each.end_s - each.start_s) for each in flow)
    assert all(-1e-3 <= rate <= most * (1 + 1e-6) + 1e-3 for rate in found)


@given(_FLOWS, st.floats(0.1, 2.0))
def test_every_retransmit_is_counted_once(flow: list[Interval], step_s: float) -> None:
    cells = count_cells([flow], step_s)
    found = cell_counts(flow, step_s, cells, lambda each: each.retransmits)
    assert len(found) == cells
    if cells:
        assert sum(found) == sum(each.retransmits or 0 for each in flow)
    assert all(each >= 0 for each in found)


@given(_FLOWS, st.lists(st.floats(0, 100), max_size=20).map(sorted))
def test_totals_never_fall(flow: list[Interval], moments: list[float]) -> None:
    found = totals_at(flow, moments, lambda each: each.bytes)
    assert all(after >= before - 1e-3 for before, after in pairwise(found))
    assert all(each <= sum(interval.bytes for interval in flow) * (1 + 1e-9) for each in found)
