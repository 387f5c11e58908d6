"""The curve: peak, knee, table, verdicts, and the comparison of two curves."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "verdicts"))

from synthetic_curves import curve_of, latency_of, run_at
from synthetic_runs import delay_of, instance

from pytest_cloudbench import Iops, Outcome, Throughput, io2
from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.workloads.sweep.curve import Knee


def test_the_peak_is_a_measurement_with_verdicts():
    curve = curve_of(64_000)
    assert curve.peak.iops == 64_000
    assert curve.peak.reaches("64,000 IOPS").outcome is Outcome.HELD
    assert curve.peak.consistency.consistent


def test_the_knee_names_its_method():
    curve = curve_of()
    assert curve.knee == Knee(Iops(57_600.0), pytest.approx(0.0018), "Kneedle")
    assert str(curve.knee) == "57,600 IOPS at 1.8 ms (Kneedle)"
    modelled = curve_of(delay=delay_of(55, volumes=30))
    assert modelled.knee.modelled
    assert str(modelled.knee) == "57,600 IOPS at 1.8 ms (Kneedle, modelled)"
    assert "at 60 ms (modelled); knee" in repr(modelled)
    assert curve_of(percents=(10, 50)).knee is None, "three points with the maximum are too few"


def test_the_maximum_is_the_last_point_of_the_curve():
    assert curve_of(percents=(10, 30, 50, 70, 90)).knee.iops == Iops(57_600.0)


def test_every_verdict_is_reported():
    told = []
    curve = dataclasses.replace(curve_of(), on_verdict=told.append)
    verdict = curve.stays_below("2ms", until=60_000)
    assert told == [verdict]


def test_a_step_reports_whether_its_rate_was_reached_and_the_limit():
    curve = curve_of()
    assert curve.steps[0].reached().outcome is Outcome.HELD
    short = curve.steps[-1].reached()
    assert short.outcome is Outcome.VIOLATED
    assert str(short).startswith(
        "violated: 64,000 of 76,800 IOPS (83 %, at least 95 % required); no known ceiling"
    )


def test_the_figures_of_a_step():
    step = curve_of().steps[4]
    assert (step.percent, step.asked, step.achieved) == (50.0, Iops(32_000.0), Iops(32_000.0))
    assert step.throughput.mib == 125
    assert step.outstanding == pytest.approx(32_000 * step.latency.mean_s)


def test_the_table_and_the_short_form():
    curve = curve_of(percents=(50, 100), conditions=("quick pace: steps fewer",))
    lines = curve.table().splitlines()
    assert lines[0].split() == [
        "step",
        "asked",
        "IOPS",
        "IOPS",
        "MiB/s",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "in",
        "flight",
    ]
    assert lines[1].split()[:4] == ["maximum", "64,000", "250.0", "60"]
    assert lines[2].split()[:5] == ["50", "%", "32,000", "32,000", "125.0"]
    assert len({len(line) for line in lines}) == 1
    assert repr(curve) == (
        "sweep 4k-random-read on 30 x gp2 1,000 GiB/3,000 IOPS: peak 64,000 IOPS at 60 ms (quick pace: steps fewer)"
    )
    assert str(curve) == f"{curve!r}\n{curve.table()}"


def test_a_step_without_latency_has_dashes():
    nothing = dataclasses.replace(run_at(0, 0.0, asked=10), latency=None)
    curve = curve_of(percents=(50,))
    curve = dataclasses.replace(curve, steps=(dataclasses.replace(curve.steps[0], measurement=nothing),))
    assert curve.table().splitlines()[-1].split().count("-") == 6
    assert len(curve.points) == 1


def test_plain_values_for_reports():
    curve = curve_of()
    values = json.loads(json.dumps(curve.to_dict()))
    assert values["knee"] == {"iops": 57_600.0, "latency_s": curve.knee.latency_s, "method": "Kneedle"}
    assert values["mix"]["source"]
    assert values["steps"][0]["measurement"]["iops"] == 6_400
    assert values["threads_per_device"] * values["devices"] == 3_840


def test_two_curves_are_compared_at_the_same_load():
    fast, slow = curve_of(64_000, idle_s=0.0002), curve_of(32_000, idle_s=0.0004, outstanding=960)
    found = fast.compare(slow)
    assert found.peak_times == 2
    assert [row.iops.per_second for row in found.rows] == [6_400, 12_800, 19_200, 25_600, 32_000]
    assert all(row.first_s < row.second_s for row in found.rows)
    assert repr(found).startswith(
        "peak 64,000 IOPS against 32,000 IOPS (200 %); mean latency at the same load:\n"
    )
    assert json.loads(json.dumps(found.to_dict()))["peak_times"] == 2


def test_a_curve_compared_with_itself_is_the_same():
    found = curve_of().compare(curve_of(), percentile=99)
    assert found.peak_times == 1
    assert all(row.times == pytest.approx(1) for row in found.rows)
    assert "p99 latency at the same load" in repr(found)


def test_curves_without_a_common_load_have_only_their_peaks():
    found = curve_of(64_000).compare(curve_of(1_000, outstanding=30))
    assert found.rows == ()
    assert repr(found).endswith("no load that both carried")


def test_only_curves_can_be_compared():
    with pytest.raises(TypeError, match="that is not a curve"):
        curve_of().compare(latency_of(0.1))


def short_steps(machine):
    """Return the verdicts of steps at 100 and 120 % of 1,200,000 IOPS that reached 500,000 at a latency of 2 ms."""
    changes = {"iops": 500_000.0, "throughput_mib": 500_000 / 256, "latency": latency_of(1_000 / 500_000)}
    curve = curve_of(
        1_200_000,
        percents=(100, 120),
        outstanding=1_020,
        on=instance("i3.metal", 3_000_000, 20_000),
        volumes=tuple((f"vol-{number}", io2(size_gib=1_000, iops=256_000)) for number in range(20)),
        machine=machine,
    )
    for step in curve.steps:
        asked = {"percent_of_maximum": step.percent, "threads_per_device": 34}
        run = dataclasses.replace(step.measurement, asked=asked, **changes)
        yield dataclasses.replace(step, measurement=run).reached()


def test_a_step_limited_by_the_machine_does_not_blame_the_threads():
    """1,020 threads are enough for more than 500,000 IOPS."""
    for verdict in short_steps(MachineLimits(Iops(1_000_000.0), Throughput.from_mib(20_000))):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.machine_limited
        assert "the machine under the embedded region was the limit" in str(verdict)


def test_threads_that_reached_a_rate_before_are_enough_for_it():
    """They reached it in the closed loop. Above its rate this is unknown, and more threads are the advice."""
    full, beyond = short_steps(None)
    assert full.outcome is Outcome.VIOLATED
    assert "no known ceiling explains it" in str(full)
    assert beyond.outcome is Outcome.INCONCLUSIVE
    assert str(beyond).endswith("raise threads")
