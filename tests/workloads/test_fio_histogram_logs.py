"""fio's histogram log: merged over jobs, divided among the samples of the series, read as percentiles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.workloads.fio.histogram_logs import with_percentiles
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.output import PERCENTS
from pytest_cloudbench.workloads.measurement import Series

_COLUMNS = 464
_FAST, _SLOW = 100, 300


def _fio_ns(number: int) -> float:
    """Return the latency that fio reports for one of its 1,856 bins (plat_idx_to_val)."""
    if number < 128:
        return number
    error_bits = (number >> 6) - 1
    return (1 << (error_bits + 6)) + (number % 64 + 0.5) * (1 << error_bits)


def _middle_s(column: int) -> float:
    """Return the middle of the four bins that form a column of the log."""
    return sum(_fio_ns(number) for number in range(column * 4, column * 4 + 4)) / 4 * 1e-9


def _log(jobs: Sequence[Sequence[tuple[int, Mapping[int, int]]]], way: int = 0) -> bytes:
    lines = []
    for job in jobs:
        for end_ms, counts in job:
            columns = ", ".join(str(counts.get(column, 0)) for column in range(_COLUMNS))
            lines.append(f"{end_ms}, {way}, 4096, {columns}\n")
    return "".join(lines).encode()


def _series(*ios: float, sample_s: float = 1.0) -> Series:
    return Series(
        seconds=tuple((number + 1) * sample_s for number in range(len(ios))),
        iops=tuple(Iops(each / sample_s) for each in ios),
    )


def _read(
    log: bytes | None,
    *ios: float,
    sample_s: float = 1.0,
    samples: int = 1,
    submission_share: float = 0.0,
) -> dict[str, tuple[float | None, ...]]:
    series = with_percentiles(
        _series(*ios, sample_s=sample_s),
        log,
        sample_s=sample_s,
        samples=samples,
        submission_share=submission_share,
    )
    assert len(series) == len(ios)
    assert all(len(values) == len(ios) for values in series.percentiles_s.values())
    return dict(series.percentiles_s)


def _about(*columns: int | None) -> tuple[object, ...]:
    return tuple(None if each is None else pytest.approx(_middle_s(each), rel=0.01) for each in columns)


def test_each_sample_has_its_own_percentiles() -> None:
    found = _read(_log([[(1000, {_FAST: 1000}), (2000, {_FAST: 940, _SLOW: 60})]]), 1000, 1000)
    assert found["p50"] == _about(_FAST, _FAST)
    assert found["p95"] == _about(_FAST, _SLOW)
    assert found["p999"] == _about(_FAST, _SLOW)
    assert set(found) == set(PERCENTS)


def test_jobs_are_merged_never_averaged() -> None:
    found = _read(_log([[(1000, {_FAST: 99})], [(1000, {_SLOW: 1})]]), 100)
    assert found["p99"] == _about(_FAST)
    assert found["p999"] == _about(_SLOW)


def test_reads_and_writes_share_one_histogram() -> None:
    reads, writes = _log([[(1000, {_FAST: 90})]]), _log([[(1000, {_SLOW: 10})]], way=1)
    assert _read(reads + writes, 100)["p95"] == _about(_SLOW)


@pytest.mark.parametrize("drift_ms", [-20, 0, 18, 40])
def test_lines_that_drift_stay_in_their_sample(drift_ms: int) -> None:
    lines = [(number * 200 + drift_ms, {_FAST: 100} if number != 2 else {_SLOW: 100}) for number in (1, 2, 3)]
    found = _read(_log([lines]), 100, 100, 100, sample_s=0.2)
    assert found["p50"] == _about(_FAST, _SLOW, _FAST)
    assert found["p999"] == _about(_FAST, _SLOW, _FAST), "a neighbour's latencies leaked"


def test_an_interval_cut_off_by_the_end_of_the_run_has_no_percentiles() -> None:
    found = _read(_log([[(1000, {_FAST: 100})], [(1000, {_FAST: 100}), (2000, {_FAST: 90})]]), 200, 200)
    assert found["p50"] == _about(_FAST, None), "one job's line is not both jobs' latency"


def test_a_line_of_several_samples_is_divided_in_proportion_to_the_load() -> None:
    """A job that waits for a slow device writes its line late: the line covers the drop and the time after it."""
    job = [(1000, {_FAST: 100}), (2900, {_FAST: 80, _SLOW: 20}), (4000, {_SLOW: 10})]
    found = _read(_log([job]), 100, 80, 20, 10)
    assert found["p99"] == _about(_FAST, _SLOW, _SLOW, _SLOW)
    assert found["p50"] == _about(_FAST, _FAST, _FAST, _SLOW)


def test_a_sample_without_io_has_no_percentiles() -> None:
    found = _read(_log([[(1000, {_FAST: 100}), (4000, {_SLOW: 100})]]), 100, 0, 0, 100)
    assert found["p50"] == _about(_FAST, None, None, _SLOW)


def test_the_next_job_begins_where_the_clock_goes_back() -> None:
    job = [(1000, {_FAST: 50}), (2000, {_SLOW: 50})]
    assert _read(_log([job, job]), 100, 100)["p50"] == _about(_FAST, _SLOW)


def test_each_jobs_only_line_counts_however_the_clocks_differ() -> None:
    """fio ends a span a few milliseconds apart in each job, so a later end may be the next job's first."""
    jobs = [[(1000, {_FAST: 10})], [(1003, {_FAST: 10})], [(1005, {_SLOW: 80})]]
    assert _read(_log(jobs), 100)["p50"] == _about(_SLOW)


def test_a_line_of_several_samples_gives_each_of_them_its_percentiles() -> None:
    lines = [(3000, {_FAST: 300}), (6000, {_SLOW: 300})]
    found = _read(_log([lines]), *[100] * 7, samples=3)
    assert found["p50"] == _about(*[_FAST] * 3, *[_SLOW] * 3, None)


@pytest.mark.parametrize("torn", [1, 7, 300, 1390])
def test_a_torn_last_line_is_left_out(torn: int) -> None:
    log = _log([[(1000, {_FAST: 100}), (2000, {_SLOW: 100})]])
    whole = _log([[(1000, {_FAST: 100})]])
    assert _read(log[: len(whole) + torn], 100, 100)["p50"] == _about(_FAST, None)


@pytest.mark.parametrize("log", [None, b"", b"\0\xff, not a log\n", b"1000, 0, 4096, 1, 2, 3\n", b"nan, 0\n"])
def test_without_a_log_there_are_no_percentiles(log: bytes | None) -> None:
    assert _read(log, 100) == {}


@pytest.mark.parametrize("column", [0, 3])
@pytest.mark.parametrize("wrong", [b"nan", b"inf", b"-inf", b"x", b"-5", b""])
def test_a_log_with_an_invalid_line_gives_no_percentiles(column: int, wrong: bytes) -> None:
    """The line after it would otherwise stand for the time of both."""
    good = _log([[(1000, {_FAST: 100})]])
    fields = _log([[(2000, {_FAST: 100})]]).split(b", ")
    fields[column] = wrong
    last = _log([[(3000, {_FAST: 100})]])
    assert _read(good + b", ".join(fields) + last, 100, 100, 100) == {}


@pytest.mark.fault("parsers", "a tool's output is damaged")
def test_a_line_that_ends_long_after_the_run_is_read_at_once() -> None:
    log = _log([[(1000, {_FAST: 100}), (2000, {_FAST: 100})]]).replace(b"2000, 0", b"2000e9, 0")
    assert _read(log, 100, 100)["p50"] == _about(_FAST, None)


@pytest.mark.fault("parsers", "a tool's output is damaged")
@pytest.mark.parametrize("count", [1000, 10**300, 10**400])
def test_histograms_with_more_ios_than_the_run_give_no_percentiles(count: int) -> None:
    assert _read(_log([[(1000, {_FAST: 100}), (2000, {_SLOW: count})]]), 100, 100) == {}


def test_jobs_whose_rates_fio_rounded_down_have_percentiles() -> None:
    """fio logs 1.98 I/Os a second as 1."""
    assert _read(_log([[(1008, {_FAST: 2})]] * 10), 10)["p50"] == _about(_FAST)


def test_percentiles_of_completion_are_left_out_if_submission_is_a_large_part() -> None:
    log = _log([[(1000, {_FAST: 100})]])
    assert _read(log, 100, submission_share=0.05)["p50"] == _about(_FAST)
    assert _read(log, 100, submission_share=0.5) == {}


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(1, 6000), st.dictionaries(st.integers(0, _COLUMNS - 1), st.integers(1, 10**6))
            ),
            max_size=6,
        ),
        max_size=4,
    ),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=6),
)
def test_percentiles_are_ordered_for_any_lines(
    jobs: list[list[tuple[int, dict[int, int]]]], ios: list[int]
) -> None:
    found = _read(_log(jobs), *ios)
    for at in range(len(ios) if found else 0):
        values = [found[name][at] for name in PERCENTS]
        assert values == [None] * 4 or values == sorted(values)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("job", "devices", "samples"),
    [
        (FioJob.of("randread", numjobs=64, runtime=60), 1, 1),
        (FioJob.of("randread", numjobs=64, runtime=300), 1, 5),
        (FioJob.of("randrw", numjobs=64, runtime=300), 1, 10),
        (FioJob.of("randread", numjobs=4, runtime=300), 16, 5),
        (FioJob.of("randread", numjobs=8, runtime=60, sample_s=0.2), 1, 1),
        (FioJob.of("randread", numjobs=4000, runtime=1), 8, 8),
    ],
)
def test_histograms_are_limited_by_the_memory_they_need(job: FioJob, devices: int, samples: int) -> None:
    assert job.histogram_samples(devices) == samples
    argv = job.to_argv("block", [f"/dev/nvme{number}n1" for number in range(devices)])
    assert f"--log_hist_msec={samples * job.sample_s * 1000:.0f}" in argv


def test_fio_s_own_log_has_these_bins(fio_path: str, tmp_path: Path) -> None:
    job = FioJob.of("randread", "4k", ioengine="psync", direct=False, size="1m", runtime=1, sample_s=0.2)
    argv = job.to_argv("directory", [str(tmp_path)], fio=fio_path)
    subprocess.run(argv, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, timeout=60)
    lines = (tmp_path / "series_clat_hist.log").read_text().splitlines()
    totals = [0] * _COLUMNS
    for line in lines:
        for column, count in enumerate(line.split(",")[3:]):
            totals[column] += int(count)
    bins = json.loads((tmp_path / "result.json").read_text())["jobs"][0]["read"]["clat_ns"]["bins"]
    columns = {int(_fio_ns(number)): number // 4 for number in range(_COLUMNS * 4)}
    whole = [0] * _COLUMNS
    for value_ns, count in bins.items():
        whole[columns[int(value_ns)]] += count
    assert sum(totals) > 0.5 * sum(whole)
    # The log lacks the end of the run: nothing may be in it that is not in the whole.
    assert all(part <= of for part, of in zip(totals, whole, strict=True))
