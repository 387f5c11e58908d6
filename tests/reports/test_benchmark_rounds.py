"""Rounds: the mean is that of the run for any course of the rate, and a stall does not make it infinite."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput
from pytest_cloudbench.reports.benchmark.rounds import BYTE, IO, rounds_of

RATES = st.lists(st.floats(0, 1e6), min_size=2, max_size=60)


def fio_run(rates, iops=None):
    mean = sum(rates) / len(rates) if iops is None else iops
    series = SimpleNamespace(
        seconds=tuple(float(at + 1) for at in range(len(rates))), iops=tuple(Iops(rate) for rate in rates)
    )
    return SimpleNamespace(iops=mean, series=series, runtime_s=float(len(rates)))


@given(RATES)
def test_the_mean_over_the_rounds_is_the_time_of_one_io_over_the_whole_run(rates):
    assume(sum(rates) > 1)
    rounds = rounds_of(fio_run(rates))
    assert rounds.operation == IO
    assert rounds.mean_s == pytest.approx(len(rates) / sum(rates), rel=1e-6)
    assert len(rounds.seconds) == len(rates)
    assert all(math.isfinite(each) and each >= 0 for each in rounds.seconds)


@given(RATES, st.floats(0.95, 1.05))
def test_a_series_that_differs_a_little_is_scaled_to_the_tool_s_mean(rates, factor):
    assume(sum(rates) > 1)
    iops = sum(rates) / len(rates) * factor
    rounds = rounds_of(fio_run(rates, iops))
    assert rounds.mean_s == pytest.approx(1 / iops, rel=1e-6)
    assert len(rounds.seconds) == len(rates)


def test_a_stall_makes_a_round_longer():
    rounds = rounds_of(fio_run([100.0, 0.0, 0.0, 100.0]))
    assert rounds.operations == 50
    assert sorted(rounds.seconds) == pytest.approx([0.01, 0.01, 0.01, 0.05])
    assert sum(rounds.seconds) * 50 == pytest.approx(4.0)


def test_a_steady_run_has_no_spread():
    rounds = rounds_of(fio_run([3000.0] * 10))
    assert rounds.seconds == pytest.approx([1 / 3000] * 10)


@pytest.mark.parametrize("rates", [[3000.0], [3000.0, 9000.0]])
def test_without_a_matching_series_the_run_is_one_round(rates):
    rounds = rounds_of(fio_run(rates, iops=3000.0))
    assert rounds.seconds == (1 / 3000,)
    assert rounds.operations == 3000 * len(rates)


@pytest.mark.parametrize("iops", [0.0, math.nan, math.inf])
def test_a_run_without_a_rate_has_no_rounds(iops):
    assert rounds_of(fio_run([0.0, 0.0], iops)) is None


def test_a_network_is_counted_in_bytes():
    rates = [Bandwidth.from_gbit(10), Bandwidth.from_gbit(2.5)]
    series = SimpleNamespace(seconds=(1.0, 2.0), throughput=tuple(rates))
    run = SimpleNamespace(throughput=Bandwidth.from_gbit(6.25), series=series, runtime_s=2.0)
    rounds = rounds_of(run)
    assert rounds.operation == BYTE
    assert 1 / rounds.mean_s == pytest.approx(6.25e9 / 8)


def test_files_count_the_bytes_that_reached_the_device():
    device = SimpleNamespace(seconds=(1.0, 2.0), throughput=(Throughput(2e6), Throughput(1e6)))
    run = SimpleNamespace(
        throughput=Throughput(1.5e6), series=SimpleNamespace(seconds=(1.0,), device=device), elapsed_s=2.0
    )
    assert 1 / rounds_of(run).mean_s == pytest.approx(1.5e6)
    only_written = SimpleNamespace(
        throughput=None,
        written_throughput=Throughput(9e6),
        series=SimpleNamespace(seconds=(1.0,), throughput=(Throughput(9e6),)),
        elapsed_s=1.0,
    )
    assert 1 / rounds_of(only_written).mean_s == pytest.approx(9e6)
