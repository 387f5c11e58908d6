"""The latency of a measurement is judged as its own, and its verdict is told to the measurement's keeper."""

import copy
import dataclasses

import pytest

from pytest_cloudbench import scales_linearly
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.workloads.measurement import Direction, Latency, Measurement, Series


def measurement(iops: float = 1_000, told: list[object] | None = None) -> Measurement:
    latency = Latency(0.002, 0.001, 0.01, p50_s=0.002, p99_s=0.004)
    return Measurement(
        workload="fio randread 4k",
        iops=iops,
        throughput_mib=iops / 256,
        read=Direction(iops, iops / 256, 60_000, 60_000 * 4096, latency),
        write=None,
        latency=latency,
        series=Series(),
        block_size=Size.parse("4k"),
        sequential=False,
        outstanding_asked=int(iops * 0.002),
        runtime_s=60.0,
        command="fio",
        tool_version="3.33",
        host="host",
        target="target",
        started_at="2026-11-20T00:00:00+00:00",
        on_verdict=None if told is None else told.append,
    )


def test_a_verdict_on_latency_is_told() -> None:
    told: list[object] = []
    run = measurement(told=told)
    assert run.latency is not None
    verdict = run.latency.at_most(p99="5 ms", mean=0.003)
    assert verdict
    assert told == [verdict]


def test_reads_alone_say_so() -> None:
    run = measurement()
    assert run.read is not None
    assert run.read.latency is not None
    assert (
        str(run.read.latency.at_most(mean="5 ms"))
        == "held: latency of reads: mean 2 ms, at most 5 ms required"
    )


def test_a_copy_with_another_keeper_tells_that_one() -> None:
    told: list[object] = []
    run = dataclasses.replace(measurement(), on_verdict=told.append)
    assert run.latency is not None
    run.latency.at_most(mean="5 ms")
    assert len(told) == 1


def test_it_stays_a_plain_value() -> None:
    run = measurement()
    assert copy.deepcopy(run) == run
    assert dataclasses.asdict(run)["latency"]["p99_s"] == 0.004
    assert run.latency == Latency(0.002, 0.001, 0.01, p50_s=0.002, p99_s=0.004)
    assert "_judged_in" not in repr(run.latency)


def test_a_latency_of_nothing_and_a_percentile_of_none() -> None:
    with pytest.raises(LookupError, match="belongs to no measurement"):
        Latency(0.002, 0.001, 0.01).at_most(mean="5 ms")
    run = measurement()
    assert run.latency is not None
    with pytest.raises(
        ValueError, match="p90= cannot be judged, as it was not measured: ask one of mean, p50, p99, max"
    ):
        run.latency.at_most(p90="5 ms")


def test_a_verdict_over_several_is_told_once() -> None:
    told: list[object] = []
    verdict = scales_linearly([measurement(1_000), measurement(2_000, told)], with_=[1, 2])
    assert told == [verdict]


def test_what_only_networks_or_created_files_have_is_said_to_be_so() -> None:
    run = measurement()
    with pytest.raises(
        AttributeError, match=r"^this was a run on storage, and throughput_gbit is of a network"
    ):
        _ = run.throughput_gbit  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"and faster_than compares created files: ask outperforms"):
        run.faster_than(run)  # type: ignore[attr-defined]
    assert not hasattr(run, "streams")
    assert copy.copy(run) == run
