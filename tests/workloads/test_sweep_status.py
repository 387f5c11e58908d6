"""fio's running totals: parsed in any pieces, added up over jobs, and subtracted."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.workloads.errors import StorageLost
from pytest_cloudbench.workloads.fio.errors import FioOutputError, FioRefused
from pytest_cloudbench.workloads.fio.output import percentile_of_bins
from pytest_cloudbench.workloads.sweep.status import NOTHING, StatusReader, Totals, Way, series_of

RECORDED = (Path(__file__).parent / "fio_outputs" / "status_of_a_mix.txt").read_text()


def totals_of(text, block_bytes=None):
    return [totals for totals, _ in StatusReader(block_bytes).feed(text)]


def way(bins, block=4096):
    """Return one direction of fio's JSON with these latencies in ns."""
    count = sum(bins.values())
    mean = sum(value * number for value, number in bins.items()) / count if count else 0.0
    stats = {"N": count, "mean": mean, "min": 0, "max": 0, "bins": {str(k): v for k, v in bins.items()}}
    return {"total_ios": count, "io_bytes": count * block, "runtime": 2_000 if count else 0, "lat_ns": stats}


def document(*jobs):
    return {
        "fio version": "fio-3.33",
        "jobs": [
            {
                "jobname": f"job{number}",
                "error": 0,
                "usr_cpu": 2.0,
                "sys_cpu": 3.0,
                "read": read,
                "write": write,
            }
            for number, (read, write) in enumerate(jobs)
        ],
    }


def test_a_recorded_run_gives_its_totals():
    first, second, third, last = totals_of(RECORDED)
    assert [each.seconds for each in (first, second, third, last)] == [0.846, 1.847, 2.846, 3.002]
    assert (last.read.ios, last.write.ios) == (384, 195)
    assert last.read.bytes == 2_322_432
    assert last.version == "fio-3.33"
    assert last.both.ios == 579
    between = second.since(first)
    assert between.seconds == pytest.approx(1.001)
    assert (between.read.ios, between.write.ios) == (142, 62)
    assert sum(between.read.bins.values()) == 142
    assert between.read.sum_ns == pytest.approx(second.read.sum_ns - first.read.sum_ns)


def test_a_note_before_the_json_is_kept():
    reader = StatusReader()
    reader.feed(RECORDED)
    assert reader.notes == ["note: from fio itself"]


@given(st.lists(st.integers(0, len(RECORDED)), max_size=30))
def test_output_may_arrive_in_any_pieces(cuts):
    reader = StatusReader()
    edges = sorted({0, len(RECORDED), *cuts})
    found = [totals for start, end in pairwise(edges) for totals, _ in reader.feed(RECORDED[start:end])]
    assert found == totals_of(RECORDED)


def test_the_whole_json_is_returned():
    *_, (_, text) = StatusReader().feed(RECORDED)
    assert json.loads(text)["jobs"][0]["jobname"] == "job0"


def test_the_series_has_one_sample_per_interval():
    totals = totals_of(RECORDED)[:3]
    series = series_of(totals)
    assert series.seconds == pytest.approx((1.001, 2.0))
    assert [round(each.per_second) for each in series.iops] == [204, 175]
    apart = series.read.iops[0].per_second + series.write.iops[0].per_second
    assert apart == pytest.approx(series.iops[0].per_second)
    for index in range(2):
        lately = totals[index + 1].since(totals[index]).both
        assert series.latency_s[index] == lately.mean_s
        assert series.outstanding[index] == pytest.approx(
            lately.sum_ns * 1e-9 / (1.001, 0.999)[index], rel=0.01
        )
        assert series.percentiles_s["p99"][index] == percentile_of_bins(lately.bins, 99) * 1e-9
        assert series.percentiles_s["p50"][index] <= series.percentiles_s["p999"][index]
    assert series.to_dict()["percentiles_s"]["p95"] == list(series.percentiles_s["p95"])


def test_percentiles_come_from_merged_histograms():
    fast, slow = {1_000: 99}, {9_000: 1}
    merged = Totals.of(document((way(fast), way({})), (way(slow), way({}))))
    assert merged.read.percentile_s(50) == pytest.approx(1e-6)
    assert merged.read.percentile_s(99) == pytest.approx(1e-6), "an average of the two would be 5 us"
    assert merged.read.percentile_s(99.9) == pytest.approx(9e-6)
    assert merged.read.mean_s == pytest.approx((99 * 1_000 + 9_000) / 100 * 1e-9)
    assert merged.cpu_percent == 5.0
    latency = merged.read.latency()
    assert (latency.min_s, latency.max_s) == (pytest.approx(1e-6), pytest.approx(9e-6))


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(1, 10**9), st.integers(1, 1000), max_size=8),
            st.dictionaries(st.integers(1, 10**9), st.integers(1, 1000), max_size=8),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_jobs_apart_and_jobs_as_one_group_are_the_same(jobs):
    apart = Totals.of(document(*((way(read), way(write)) for read, write in jobs)))
    together_bins = ({}, {})
    for job in jobs:
        for total, one in zip(together_bins, job, strict=True):
            for value, count in one.items():
                total[value] = total.get(value, 0) + count
    together = Totals.of(document((way(together_bins[0]), way(together_bins[1]))))
    for mine, theirs in ((apart.read, together.read), (apart.write, together.write)):
        assert mine.ios == theirs.ios
        assert mine.bins == theirs.bins
        assert mine.sum_ns == pytest.approx(theirs.sum_ns)
        assert mine.bytes == theirs.bytes


@given(
    st.dictionaries(st.integers(1, 10**6), st.integers(1, 100), min_size=1, max_size=6),
    st.dictionaries(st.integers(1, 10**6), st.integers(1, 100), min_size=1, max_size=6),
)
def test_a_difference_plus_the_earlier_totals_is_the_whole(earlier, later):
    before = Way.of(way(earlier))
    whole = before + Way.of(way(later))
    between = whole.since(before)
    assert between.ios == sum(later.values())
    assert between.bins == Way.of(way(later)).bins
    assert before + between == Way(whole.ios, whole.bytes, pytest.approx(whole.sum_ns), whole.bins)


def test_one_block_size_makes_bytes_exact():
    """While the load runs, fio's byte count is ahead of its latencies."""
    ahead = way({1_000: 100}) | {"io_bytes": 120 * 4096, "total_ios": 100}
    assert Way.of(ahead, 4096).bytes == 100 * 4096


def test_no_io_has_no_figures():
    assert Totals.of(document((way({}), way({})))).both.latency() is None
    assert NOTHING.both.mean_s is None
    assert series_of([NOTHING]).seconds == ()


def test_a_jobs_own_error_is_reported():
    failed = document((way({1: 1}), way({})))
    failed["jobs"][0]["error"] = 28
    with pytest.raises(FioRefused, match="'job0' failed with No space left on device"):
        Totals.of(failed)
    failed["jobs"][0]["error"] = 5
    with pytest.raises(
        StorageLost, match=r"the volume was lost at second 2: .*Input/output error.*no figure"
    ):
        Totals.of(failed)


@pytest.mark.parametrize(
    "broken",
    [
        '{\n "jobs": []\n}\n',
        '{\n "fio version": "fio-3.33"\n}\n',
        '{\n "jobs": [{"read": {}}]\n}\n',
        '{\n "jobs": [{"read": {"lat_ns": {"N": 5, "mean": "x"}}, "write": {}}]\n}\n',
        '{\n "jobs": [,]\n}\n',
    ],
)
def test_invalid_json_is_refused(broken):
    with pytest.raises(FioOutputError):
        totals_of(broken)
