from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.iperf3.plan import network_time
from pytest_cloudbench.workloads.pace import Pace, compressed_seconds


@pytest.mark.parametrize(
    ("asked_s", "factor", "real_s"),
    [(1800, 60, 30), (600, 60, 10), (60, 60, 6), (4, 60, 4), (1800, 1, 1800), (10, 2, 6), (36000, 3600, 10)],
)
def test_compressed_seconds(asked_s: float, factor: float, real_s: float) -> None:
    assert compressed_seconds(asked_s, factor) == real_s


@pytest.mark.parametrize(
    ("duration_s", "omit_s", "pace", "factor", "real", "conditions"),
    [
        (60, 5, Pace.FULL, 1, (60, 5), []),
        (5, 0, Pace.QUICK, 1, (5, 0), []),
        (60, 5, Pace.QUICK, 1, (6, 1), ["quick pace: duration 60 s -> 6 s", "quick pace: omit 5 s -> 1 s"]),
        (1800, 0, Pace.QUICK, 1, (40, 0), ["quick pace: duration 1,800 s -> 40 s"]),
        (1800, 0, Pace.FULL, 60, (30, 0), ["time compressed 60 times: 1,800 s ran in 30 s"]),
        (1800, 0, Pace.QUICK, 60, (30, 0), ["time compressed 60 times: 1,800 s ran in 30 s"]),
        (
            3600,
            0,
            Pace.QUICK,
            60,
            (40, 0),
            ["quick pace: duration 3,600 s -> 2,400 s", "time compressed 60 times: 2,400 s ran in 40 s"],
        ),
        (10, 0, Pace.FULL, 60, (6, 0), ["time compressed 60 times: 360 s (10 s were asked) ran in 6 s"]),
        (
            1800,
            10,
            Pace.FULL,
            60,
            (30, 1),
            [
                "iperf3 omits whole real seconds: omit 10 s -> 60 s",
                "time compressed 60 times: 1,800 s ran in 30 s",
            ],
        ),
        (1800, 60, Pace.FULL, 60, (30, 1), ["time compressed 60 times: 1,800 s ran in 30 s"]),
    ],
)
def test_real_times_of_a_run(
    duration_s: float,
    omit_s: float,
    pace: Pace,
    factor: float,
    real: tuple[int, int],
    conditions: list[str],
) -> None:
    time = network_time(duration_s, omit_s, pace, factor)
    assert (time.duration_s, time.omit_s) == real
    assert list(time.conditions) == conditions
    assert time.interval_s == (1.0 if factor == 1 else 0.1)


@given(
    st.integers(1, 86_400),
    st.integers(0, 60),
    st.sampled_from(Pace),
    st.one_of(st.just(1.0), st.floats(1, 3600)),
)
def test_whole_seconds_cover_the_requested_time(
    duration_s: int, omit_s: int, pace: Pace, factor: float
) -> None:
    time = network_time(duration_s, omit_s, pace, factor)
    assert time.duration_s >= 1
    assert isinstance(time.duration_s, int)
    assert isinstance(time.omit_s, int)
    assert (time.omit_s == 0) == (omit_s == 0)
    if pace is Pace.FULL:
        assert time.duration_s * factor >= duration_s * (1 - 1e-9)
        assert time.omit_s * factor >= omit_s * (1 - 1e-9)
    else:
        assert time.duration_s <= 40
    changed = time.duration_s != duration_s or time.omit_s != omit_s or factor != 1
    assert bool(time.conditions) == changed
