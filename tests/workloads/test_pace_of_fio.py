"""The length of a fio run at both paces and under compressed time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.fio.errors import BadFioJob
from pytest_cloudbench.workloads.fio.job import FioJob
from pytest_cloudbench.workloads.fio.run import paced
from pytest_cloudbench.workloads.fio.series_logs import BANDWIDTH_LOG, IOPS_LOG, LATENCY_LOG, series_from_logs
from pytest_cloudbench.workloads.pace import Pace


def job(runtime: int, ramp_time: int = 0, **how: object) -> FioJob:
    return FioJob.of("randread", "4k", runtime=runtime, ramp_time=ramp_time, **how)


def test_a_run_that_looks_for_the_end_of_a_burst_gets_more_time() -> None:
    quick, conditions = paced(job(2_400), Pace.QUICK, lays_out_files=False)
    assert quick.runtime == 40
    assert conditions == ("quick pace: runtime 2,400 s -> 40 s",)


def test_compressed_time_shortens_a_run() -> None:
    quick, conditions = paced(job(2_400, 20), Pace.QUICK, lays_out_files=False, factor=60)
    assert (quick.runtime, quick.ramp_time, quick.sample_s) == (40, 1, 0.2)
    assert conditions == ("time compressed 60 times: 2,400 s ran in 40 s",)


def test_a_short_run_keeps_some_real_seconds_and_says_so() -> None:
    quick, conditions = paced(job(60), Pace.FULL, lays_out_files=False, factor=60)
    assert (quick.runtime, quick.sample_s) == (6, 1.0)
    assert conditions == ("time compressed 60 times: 360 s (60 s were asked) ran in 6 s",)


def test_full_pace_without_compression_changes_nothing() -> None:
    assert paced(job(6_000, 20), Pace.FULL, lays_out_files=True) == (job(6_000, 20), ())


@given(runtime=st.integers(1, 20_000), factor=st.sampled_from([1.0, 7.5, 60.0, 3_600.0]))
def test_real_seconds_are_whole_and_cover_the_requested_time(runtime: int, factor: float) -> None:
    full, _ = paced(job(runtime), Pace.FULL, lays_out_files=False, factor=factor)
    assert full.runtime == math.ceil(full.runtime)
    assert full.runtime * factor >= runtime
    assert full.runtime <= max(runtime, 6)


def test_short_samples_become_seconds_of_the_test() -> None:
    lines = "".join(f"{250 * (number + 1)}, {100 + number}, 0, 4096, 0\n" for number in range(8)).encode()
    series = series_from_logs(
        {IOPS_LOG: lines, BANDWIDTH_LOG: lines, LATENCY_LOG: lines},
        runtime_s=2.0,
        sample_s=0.25,
        compression=60,
    )
    assert series.seconds == (15, 30, 45, 60, 75, 90, 105, 120)
    assert [rate.per_second for rate in series.iops] == pytest.approx([100 + number for number in range(8)])


@pytest.mark.parametrize("sample_s", [0, 0.01, 61, True, "1"])
def test_an_invalid_length_of_a_sample_is_refused(sample_s: object) -> None:
    with pytest.raises(BadFioJob, match="length of a sample"):
        job(10, sample_s=sample_s)
