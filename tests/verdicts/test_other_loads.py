"""Other loads on the same devices, by what the devices moved and what the load itself moved."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import GP3, M5

from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.quantities import MIB, Size, Throughput
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.workloads.measurement import Direction, Measurement, Series
from pytest_cloudbench.workloads.target import Gained

NONE = Throughput(0)


def moved(read, written=0, elapsed_s=10.0):
    return ThrottleDelta(elapsed_s, read_bytes=read, written_bytes=written)


def mib(value):
    return Throughput.from_mib(value)


def test_the_rest_was_moved_by_others():
    assert moved(400 * MIB).share_of_others(mib(20), NONE, 10, mib(100)) == pytest.approx(0.5)
    assert moved(200 * MIB).share_of_others(mib(20), NONE, 10, mib(100)) == 0
    assert moved(200 * MIB, 200 * MIB).share_of_others(mib(20), NONE, 10, mib(100)) == pytest.approx(0.5)


def test_a_ramp_may_have_been_as_fast_as_the_limit():
    assert moved(1_200 * MIB, elapsed_s=20).share_of_others(mib(20), NONE, 10, mib(100)) == 0
    assert moved(2_400 * MIB, elapsed_s=20).share_of_others(mib(20), NONE, 10, mib(100)) == pytest.approx(0.5)


@pytest.mark.parametrize("counters", [ThrottleDelta(10), moved(0), ThrottleDelta(10, written_bytes=0)])
def test_without_a_count_nothing_is_known(counters):
    assert counters.share_of_others(mib(20), NONE, 10, mib(100)) is None


def test_what_a_file_system_writes_itself_is_no_other_load():
    counters = Gained(moved(200 * MIB, 900 * MIB)).on_files().throttled
    assert counters.share_of_others(mib(20), mib(5), 10, mib(100)) == 0
    assert Gained().on_files() == Gained()


def test_what_a_file_system_reads_itself_beside_a_writing_load_is_little():
    """Found with the first load in a directory: it wrote 12 MB, and the file system read 8.5 KiB of its own."""
    counters = Gained(moved(8_704, 12_400_000, elapsed_s=6)).on_files().throttled
    assert counters.share_of_others(NONE, mib(2), 6, mib(125)) < 0.001
    counters = Gained(moved(108 * MIB)).on_files().throttled
    assert counters.share_of_others(NONE, mib(1.2), 10, mib(100)) == pytest.approx(0.9)


@given(
    st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 100)
)
def test_it_is_a_share(read, written, own_read, own_write, load_s):
    share = moved(read, written).share_of_others(mib(own_read), mib(own_write), load_s, mib(100))
    assert share is None or (0 <= share <= 1 and math.isfinite(share))


def measurement(**how):
    ways = Direction(1_500, 1_500 / 256, 90_000, 90_000 * 4096)
    run = Measurement(
        workload="fio randread 4k",
        iops=1_500,
        throughput_mib=1_500 / 256,
        read=ways,
        write=None,
        latency=None,
        series=Series(),
        block_size=Size.parse("4k"),
        sequential=False,
        outstanding_asked=64,
        runtime_s=60.0,
        command="",
        tool_version="",
        host="",
        target="",
        started_at="",
        envelope=storage_envelope(M5, GP3, Size.parse("4k"), sequential=False),
        counters=moved(180_000 * 4096, 0, 60.0),
        asked={"direct": True},
    )
    return dataclasses.replace(run, **how)


def test_a_measurement_knows_the_share_of_others():
    assert measurement().share_of_others == pytest.approx(0.5)
    assert measurement(counters=moved(90_000 * 4096, 0, 60.0)).share_of_others == pytest.approx(0)
    compressed = measurement(runtime_s=600.0, time_compression=10.0)
    assert compressed.share_of_others == pytest.approx(0.5)


@pytest.mark.parametrize(
    "how",
    [
        {"counters": None},
        {"counters": ThrottleDelta(60.0)},
        {"envelope": None},
        {"asked": {"direct": False}},
        {"asked": {"direct": True, "fsync": 1}},
        {"asked": {"direct": True, "options": {"verify": "crc32c"}}},
        {"asked": {"direct": True, "options": {"sync_file_range": "write:8"}}},
    ],
)
def test_unknown_of_loads_that_move_more_than_they_count(how):
    assert measurement(**how).share_of_others is None
