"""`run.not_worse_than` as tests call it."""

import dataclasses

import pytest

from pytest_cloudbench import Outcome
from pytest_cloudbench.limits.quantities import Iops
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun
from pytest_cloudbench.workloads.measurement import Direction, Latency, Measurement, Series


def run(rate, **changes):
    from pytest_cloudbench import Size

    size = Size.parse("4k")
    rates = (Iops(rate),) * 20
    latency = Latency(16 / rate, 1e-4, 0.02)
    return Measurement(
        "fio randread 4k", rate, rate * size.mib, Direction(rate, rate * size.mib, 1, 4096, latency), None, latency,
        Series(tuple(float(at) for at in range(1, 21)), rates, tuple(each.at(size) for each in rates)), size, False, 16,
        20.0, "fio", "fio-3.33", "m5.large i-1", "gp3 vol-1", "2026-11-20T12:00:00+00:00", **changes,
    )  # fmt: skip


def test_against_measurements():
    assert run(3_000).not_worse_than([run(3_001), run(2_999), run(3_000)], by="10%")
    assert run(2_000).not_worse_than(run(3_000)).outcome is Outcome.VIOLATED


def test_the_verdict_is_reported():
    told = []
    judged = dataclasses.replace(run(2_000), on_verdict=told.append)
    assert judged.not_worse_than(run(3_000)) is told[0]


def test_a_baseline_is_asked_for_the_runs_of_this_measurement():
    class Baseline:
        def earlier_than(self, measurement):
            assert measurement.iops == 2_000
            return Earlier((EarlierRun("20261120-1", run(3_000)),), {})

    assert "in 1 earlier run " in str(run(2_000).not_worse_than(Baseline()))


@pytest.mark.parametrize("other", [None, [], "baseline", [3_000], 3_000.0])
def test_anything_else_is_refused(other):
    with pytest.raises(TypeError, match="baseline fixture"):
        run(3_000).not_worse_than(other)
