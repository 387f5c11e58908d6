from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import MIB, Iops, Throughput
from pytest_cloudbench.verdicts.damage import contradicts
from pytest_cloudbench.workloads.fio.output import FioResult
from pytest_cloudbench.workloads.fio.series_logs import (
    BANDWIDTH_LOG,
    IOPS_LOG,
    LATENCY_LOG,
    LOGS,
    series_from_logs,
    with_series_means,
)
from pytest_cloudbench.workloads.measurement import Direction, DirectionSeries, Series

_RECORDED = Path(__file__).parent / "fio_outputs"


def _log(jobs: list[list[tuple[int, float, int]]]) -> bytes:
    return "".join(f"{ms}, {value:.0f}, {way}, 0, 0\n" for job in jobs for ms, value, way in job).encode()


def _logs(
    iops: list[list[tuple[int, float, int]]],
    latency: list[list[tuple[int, float, int]]] | None = None,
) -> dict[str, bytes]:
    bandwidth = [[(ms, value * 4, way) for ms, value, way in job] for job in iops]
    return {IOPS_LOG: _log(iops), BANDWIDTH_LOG: _log(bandwidth), LATENCY_LOG: _log(latency or [])}


def _iops(series: Series) -> list[float]:
    return [value.per_second for value in series.iops]


def test_jobs_and_directions_are_added_up() -> None:
    job = [(1000, 100, 0), (1000, 50, 1), (2000, 200, 0), (2000, 60, 1)]
    series = series_from_logs(_logs([job, job]), runtime_s=2.0)
    assert series.seconds == (1.0, 2.0)
    assert _iops(series) == [300, 520]
    assert series.read is not None
    assert series.write is not None
    assert [value.per_second for value in series.write.iops] == [100, 120]
    assert series.throughput[0].bytes_per_second == 300 * 4 * 1024


def test_latency_is_weighted_by_the_jobs_iops() -> None:
    iops = [[(1000, 300, 0)], [(1000, 100, 0)]]
    latency = [[(1000, 1000, 0)], [(1000, 5000, 0)]]
    series = series_from_logs(_logs(iops, latency), runtime_s=1.0)
    assert series.latency_s == (pytest.approx(2000e-9),)


def test_intervals_that_drift_keep_their_sum() -> None:
    job = [(1003, 100, 0), (2006, 100, 0), (3009, 100, 0), (4012, 100, 0)]
    assert _iops(series_from_logs(_logs([job]), runtime_s=4.0)) == pytest.approx([100] * 4)


def test_an_interval_a_little_short_counts_as_a_whole_second() -> None:
    job = [(999, 100, 0), (1999, 90, 0)]
    assert _iops(series_from_logs(_logs([job, job]), runtime_s=2.0)) == pytest.approx([200, 180], rel=0.002)


def test_an_unfinished_last_second_is_left_out() -> None:
    job = [(1000, 100, 0), (2000, 100, 0), (2400, 300, 0)]
    assert _iops(series_from_logs(_logs([job]), runtime_s=2.4)) == [100, 100]


@pytest.mark.parametrize(
    ("logged", "runtime_s", "iops"),
    [
        ([(1000, 14_617)], 2.001, 20_414.0),
        ([(1000, 23_911)], 2.001, 27_169.4),
        ([(1000, 38_597)], 2.004, 33_504.5),
        ([(999, 26_931), (1999, 27_680)], 2.001, 27_270.4),  # after a ramp of 6 s
        ([(1000, 22_702), (2001, 20_145)], 3.001, 23_629.5),  # after a ramp of 4 s
        ([(1000, 17_002)], 1.427, 16_751.2),  # ended by its size
        ([(1000, 28_761), (2000, 32_896), (3000, 33_513)], 3.208, 31_920.2),
    ],
)
def test_short_real_runs_on_a_busy_machine_do_not_contradict_themselves(
    logged: list[tuple[int, int]], runtime_s: float, iops: float
) -> None:
    """What fio 3.33 logged of random reads, and the rate that it reported: its log lacks about the last second."""
    series = series_from_logs(_logs([[(ms, value, 0) for ms, value in logged]]), runtime_s=runtime_s)
    assert len(series) >= 1
    assert not contradicts(_iops(series), [1.0] * len(series), iops, runtime_s)


@given(st.integers(3, 15), st.data())
def test_a_sample_that_a_busy_machine_takes_late_covers_all_of_its_time(
    count: int, data: st.DataObject
) -> None:
    late, late_ms = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, 850))
    job = [(1000 * (number + 1) + (late_ms if number >= late else 0), 1_000, 0) for number in range(count)]
    runtime_s = job[-1][0] / 1000 + data.draw(st.floats(0, 1))
    values = _iops(series_from_logs(_logs([job]), runtime_s=runtime_s))
    assert values == pytest.approx([1_000] * len(values))
    assert not contradicts(values, [1.0] * len(values), 1_000.0, runtime_s)


def test_a_sample_after_a_gap_without_io_covers_only_the_end_of_the_gap() -> None:
    job = [(1000, 1_000, 0), (4000, 1_000, 0), (5000, 1_000, 0)]
    assert _iops(series_from_logs(_logs([job]), runtime_s=5.0))[1] == 0


def test_the_series_ends_with_the_first_job_to_end() -> None:
    long, short = [(1000, 10, 0), (2000, 10, 0), (3000, 10, 0)], [(1000, 10, 0), (2000, 10, 0)]
    assert _iops(series_from_logs(_logs([long, short]), runtime_s=3.0)) == [20, 20]


def test_a_torn_last_line_is_left_out() -> None:
    logs = _logs([[(1000, 100, 0), (2000, 100, 0)]])
    logs[IOPS_LOG] += b"3000, 1"
    series = series_from_logs(logs, runtime_s=2.0)
    assert _iops(series) == [100, 100]
    assert series.damage == ""


@pytest.mark.parametrize("folder", ["four_jobs", "reads_and_writes"])
def test_latency_of_real_logs_agrees_with_littles_law_to_the_last_second(folder: str) -> None:
    """64 I/Os in flight on a volume of 6,000 IOPS; fio 3.33 ended the jobs' latency logs with repeated times."""
    logs = {name: (_RECORDED / folder / name).read_bytes() for name in LOGS}
    series = series_from_logs(logs, runtime_s=8.0)
    assert len(series) == 7
    assert [value for value in series.outstanding if value is not None] == pytest.approx([64] * 7, rel=0.01)


@given(
    st.lists(st.integers(1, 10**6), min_size=2, max_size=20),
    st.integers(1, 4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 10**9),
)
def test_the_last_line_of_a_jobs_latency_log_changes_no_second(
    values: list[int], jobs: int, late_ms: list[int], last_ns: int
) -> None:
    lines = [(1000 * (number + 1), value, 0) for number, value in enumerate(values)]
    ended = [[*lines, (1000 * len(values) + late, last_ns, 0)] for late in late_ms[:jobs]]
    rates = [[(ms, 100, 0) for ms, _, _ in lines]] * jobs
    plain = series_from_logs(_logs(rates, [lines] * jobs), runtime_s=float(len(values)))
    assert series_from_logs(_logs(rates, ended), runtime_s=float(len(values))) == plain


def test_each_jobs_only_sample_counts_however_the_clocks_differ() -> None:
    jobs = [[(1000, 100, 0), (1000, 10, 1)], [(1003, 100, 0), (1003, 10, 1)], [(999, 100, 0), (999, 10, 1)]]
    series = series_from_logs(_logs(jobs, jobs), runtime_s=1.0)
    assert _iops(series) == pytest.approx([330], rel=0.005)
    assert series.read is not None
    assert series.read.latency_s == pytest.approx([100e-9])


def test_latency_is_unknown_if_its_log_lacks_a_job() -> None:
    job = [(1000, 100, 0), (2000, 100, 0)]
    assert series_from_logs(_logs([job, job], [job]), runtime_s=2.0).latency_s == (None, None)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(
    "line",
    [
        "2000, -5, 0, 0, 0",
        "2000, nan, 0, 0, 0",
        "2000, 5, 2, 0, 0",
        "2000, 5",
        "-2000, 5, 0, 0, 0",
        "x",
        "",
        "2000, 5, 0, 0, 0, 0, 0",
        "2000, 5, 03000, 5, 0, 0, 0",
        '2000, "5", 0, 0, 0',
    ],
)
def test_a_line_that_is_no_sample_damages_the_series_and_is_named(log: str, line: str) -> None:
    job = [(1000, 100, 0), (3000, 100, 0)]
    logs = _logs([job], [job])
    first, rest = logs[log].split(b"\n", 1)
    logs[log] = b"\n".join([first, line.encode(), rest])
    series = series_from_logs(logs, runtime_s=3.0)
    assert len(series) == 0
    assert log in series.damage
    assert "line 2" in series.damage
    assert repr(line) in series.damage


@pytest.mark.parametrize(
    "logs",
    [
        {},
        {IOPS_LOG: b""},
        {IOPS_LOG: b"inf, 1, 0\n1000, nan, 0\n1000, 5, 2\n"},
        {IOPS_LOG: b"no, log\n\n,,\n"},
    ],
)
def test_no_log_is_an_empty_series(logs: dict[str, bytes]) -> None:
    assert len(series_from_logs(logs, runtime_s=1.0)) == 0


@given(
    jobs=st.integers(1, 8),
    rates=st.lists(st.integers(0, 100_000), min_size=1, max_size=20),
    ways=st.sampled_from([(0,), (1,), (0, 1)]),
    early=st.integers(0, 3),
)
def test_the_series_sums_to_the_totals_of_the_logs(
    jobs: int, rates: list[int], ways: tuple[int, ...], early: int
) -> None:
    one = [
        (1000 * (index + 1) - (early if index == len(rates) - 1 else 0), rate, way)
        for index, rate in enumerate(rates)
        for way in ways
    ]
    series = series_from_logs(_logs([one] * jobs), runtime_s=float(len(rates)))
    assert len(series) == len(rates)
    assert _iops(series) == pytest.approx([rate * jobs * len(ways) for rate in rates])
    bandwidth = [value.bytes_per_second for value in series.throughput]
    assert bandwidth == pytest.approx([value * 4096 for value in _iops(series)])


@given(st.binary(max_size=300), st.binary(max_size=300), st.floats(0, 10))
def test_no_log_makes_it_raise(first: bytes, second: bytes, runtime_s: float) -> None:
    series_from_logs({IOPS_LOG: first, BANDWIDTH_LOG: second, LATENCY_LOG: first}, runtime_s=runtime_s)


@given(st.text(alphabet="0123456789,. -\ninfae", max_size=300))
def test_no_log_of_numbers_makes_it_raise(text: str) -> None:
    data = text.encode()
    series_from_logs({IOPS_LOG: data, BANDWIDTH_LOG: data, LATENCY_LOG: data}, runtime_s=5.0)


def _direction(iops: float) -> Direction:
    return Direction(iops=iops, throughput_mib=iops * 4096 / MIB, ios=1_000, bytes=4_096_000)


def _fio_says(runtime_s: float) -> FioResult:
    return FioResult(
        version="fio-3.33", read=_direction(700.0), write=_direction(290.0), latency=None, runtime_s=runtime_s,
        cpu_percent=2.0,
    )  # fmt: skip


def _series(seconds: int) -> Series:
    def of(iops: float) -> DirectionSeries:
        return DirectionSeries((Iops(iops),) * seconds, (Throughput(iops * 4096),) * seconds)

    both = of(1_000.0)
    return Series(
        seconds=tuple(float(second + 1) for second in range(seconds)),
        iops=both.iops,
        throughput=both.throughput,
        read=of(704.0),
        write=of(296.0),
    )


def test_rates_are_the_means_of_a_series_that_covers_the_run() -> None:
    result = with_series_means(_fio_says(10.1), _series(9), sample_s=1.0)
    assert (result.read.iops, result.write.iops, result.iops) == (704.0, 296.0, 1_000.0)
    assert result.throughput_mib == pytest.approx(1_000 * 4096 / MIB)
    assert (result.read.ios, result.read.bytes) == (1_000, 4_096_000)


@pytest.mark.parametrize(("seconds", "runtime_s"), [(0, 10.0), (4, 4.2), (7, 10.0)])
def test_fios_own_rates_are_used_if_the_series_is_short_or_partial(seconds: int, runtime_s: float) -> None:
    assert with_series_means(_fio_says(runtime_s), _series(seconds), sample_s=1.0) == _fio_says(runtime_s)


def test_a_series_that_misses_the_fast_end_of_a_run_does_not_replace_fios_own_rates() -> None:
    """The seconds that it covers had 10 % less than the whole run."""
    slower = replace(
        _series(5),
        iops=tuple(map(Iops, (700.0, 850.0, 900.0, 1_000.0, 1_000.0))),
        read=replace(_series(5).read, iops=(Iops(630.0),) * 5),
    )
    assert with_series_means(_fio_says(5.9), slower, sample_s=1.0) == _fio_says(5.9)


def test_a_series_that_contradicts_fios_own_figures_does_not_replace_them() -> None:
    for damaged in (
        replace(_series(9), iops=(Iops(1_000.0),) * 6 + (Iops(0.0),) * 3),
        replace(_series(9), throughput=(Throughput(0.0),) * 9),
    ):
        assert with_series_means(_fio_says(10.1), damaged, sample_s=1.0) == _fio_says(10.1)
