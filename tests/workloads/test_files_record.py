from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.quantities import Iops, Throughput
from pytest_cloudbench.workloads.create_files.errors import RecordError
from pytest_cloudbench.workloads.create_files.job import FilesJob
from pytest_cloudbench.workloads.create_files.record import (
    Failure,
    Record,
    Sample,
    parse_record,
    parse_sample,
)
from pytest_cloudbench.workloads.create_files.run import Progress, ProgressReader
from pytest_cloudbench.workloads.create_files.series import series_of

BY_PROGRAM = """\
tool Python 3.11.2
start 1795202034.865323633
at 1.000213 300 1228800 0 0
written 1.500000 500 2048000 100 409600
end 1795202036.365323633
cpu 1.250000 2.500000
at 2.000100 500 2048000 300 1228800
synced 2.500000 512 2098176
done
"""
BY_SHELL = """\
tool dd (coreutils) 9.1
start 1795202034.865323633
at 1.00 360 1474560 - -
written 1.24 500 2048000 - -
times 0m0.040000s 1m0.070000s 0m1.990000s 0m0.170000s
failed 0 the file number 501 cannot be made
synced 1.27 - -
done
"""


def test_a_programs_record_is_parsed() -> None:
    record = parse_record(BY_PROGRAM)
    assert record == Record(
        tool="Python 3.11.2",
        start_ns=1_795_202_034_865_323_633,
        end_ns=1_795_202_036_365_323_633,
        samples=(Sample(1.000213, 300, 1228800, 0, 0), Sample(2.0001, 500, 2048000, 300, 1228800)),
        written=Sample(1.5, 500, 2048000, 100, 409600),
        synced=Sample(2.5, 500, 2048000, 512, 2098176),
        cpu_busiest_s=1.25,
        cpu_total_s=2.5,
        done=True,
    )


def test_a_shells_record_is_parsed() -> None:
    record = parse_record(BY_SHELL)
    assert record.cpu_total_s == pytest.approx(62.27)
    assert record.failed == Failure(0, "the file number 501 cannot be made")
    assert record.written == Sample(1.24, 500, 2048000)
    assert record.end_ns is None


def test_a_truncated_record_is_parsed_up_to_its_end() -> None:
    for length in range(len(BY_PROGRAM)):
        record = parse_record(BY_PROGRAM[:length])
        assert not record.done
        assert len(record.samples) <= 2


@pytest.mark.parametrize(
    "line",
    [
        "at 1.0 1 2 3",
        "at 1.0 1 2 3 4 5",
        "at -1.0 1 2 3 4",
        "at nan 1 2 3 4",
        "at 1.0 \u0661 2 3 4",
        "written",
        "synced 1.0 2 3",
        "start yesterday",
        "cpu 1",
        "times 1s 1s 1s 1s",
        "failed",
        "something else",
        "",
    ],
)
def test_an_invalid_line_is_shown(line: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_record(f"tool x\n{line}\n")
    assert repr(line) in str(caught.value)


@given(st.text(alphabet="atwrienscydgfuloph .-0123456789\n", max_size=300))
def test_any_text_is_a_record_or_an_error(text: str) -> None:
    try:
        record = parse_record(text)
    except RecordError:
        return
    assert len(record.samples) <= text.count("\n")


@given(st.text(max_size=100))
def test_parsing_a_sample_never_raises(text: str) -> None:
    parse_sample(text)
    parse_sample(f"at {text}")


def test_the_devices_series_continues_until_all_data_is_there() -> None:
    series = series_of(parse_record(BY_PROGRAM))
    assert series.seconds == (1.000213, 1.5)
    assert series.files_per_second == pytest.approx((300 / 1.000213, 200 / 0.499787))
    assert series.throughput[0] == Throughput(1228800 / 1.000213)
    assert series.device is not None
    assert series.device.seconds == (1.000213, 2.0001, 2.5)
    assert series.device.throughput[1] == Throughput(1228800 / (2.0001 - 1.000213))
    assert series.device.iops[0] == Iops(0.0)
    plain = series.to_dict()
    assert plain["device"]["write_bytes_per_s"][1] == series.device.throughput[1].bytes_per_second
    assert {len(values) for values in plain["device"].values()} == {3}


def test_an_unknown_device_has_no_series() -> None:
    series = series_of(parse_record(BY_SHELL))
    assert series.device is None
    assert len(series) == 2
    assert series.to_dict()["device"] is None
    assert len(series_of(Record())) == 0


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Generate records like those of real runs: growing counts, samples at any time, some close together."""
    steps = draw(st.lists(st.floats(0.001, 1.5), min_size=1, max_size=30))
    last = draw(st.integers(0, len(steps) - 1))
    known = draw(st.booleans())
    now_s, files, on_device = 0.0, 0, 0
    record, samples = Record(), []
    for number, step in enumerate(steps):
        now_s += step
        files += draw(st.integers(0, 1000)) if number <= last else 0
        on_device += draw(st.integers(0, 1 << 30))
        device = (on_device // 4096, on_device) if known else (None, None)
        sample = Sample(now_s, files, files * 4096, *device)
        if number == last:
            record.written = sample
        elif number == len(steps) - 1:
            record.synced = sample
        else:
            samples.append(sample)
    record.samples = tuple(samples)
    return record


@given(records())
def test_rates_add_up_to_the_totals(record: Record) -> None:
    series = series_of(record)
    assert record.written is not None
    assert series.seconds[-1] == record.written.seconds
    assert math.isclose(
        _added_up(series.seconds, series.files_per_second), record.written.files, abs_tol=1e-3
    )
    end = record.synced or record.written
    assert (series.device is None) == (end.device_bytes is None)
    if series.device is None or end.device_bytes is None:
        return
    assert series.device.seconds[-1] == end.seconds
    rates = [rate.bytes_per_second for rate in series.device.throughput]
    assert math.isclose(_added_up(series.device.seconds, rates), end.device_bytes, rel_tol=1e-6, abs_tol=1.0)


def _added_up(ends: Sequence[float], rates: Sequence[float]) -> float:
    lengths = [after - before for before, after in pairwise((0.0, *ends))]
    assert len(lengths) == len(rates)
    assert min(lengths) > 0
    return sum(rate * length for rate, length in zip(rates, lengths, strict=True))


def test_progress_counts_files_and_then_the_device() -> None:
    reader = ProgressReader(FilesJob.of(500, "4k"))
    found = [progress for char in BY_PROGRAM for progress in reader.feed(char)]
    assert found == ProgressReader(FilesJob.of(500, "4k")).feed(BY_PROGRAM)
    first, second, third = found
    assert first.percent == pytest.approx(60)
    assert first.files_s == pytest.approx(300 / 1.000213)
    assert first.eta_s == pytest.approx(1.000213 * 2 / 3)
    assert str(first) == "60 % 300 files/s 1.2 MiB/s, 1 s left"
    assert (second.all_created, second.percent) == (True, pytest.approx(20))
    assert third.eta_s == pytest.approx(0.5, abs=0.01)
    assert str(third) == "all 500 files created, 60 % on the device 1.6 MiB/s, 1 s left"


def test_progress_without_counters_has_no_remaining_time() -> None:
    (_, last) = ProgressReader(FilesJob.of(500, "4k")).feed(BY_SHELL)
    assert last == Progress(None, 500, pytest.approx(583, rel=0.01), 0.0, all_created=True)  # type: ignore[arg-type]
    assert str(last) == "all 500 files created 0.0 MiB/s"


@given(st.text(alphabet="at written0123456789.-\n", max_size=300), st.text(max_size=50))
def test_the_reader_never_raises(text: str, other: str) -> None:
    reader = ProgressReader(FilesJob.of(5, 1))
    for progress in reader.feed(text) + reader.feed(other):
        str(progress)
