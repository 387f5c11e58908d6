"""Runs on several hosts: the sum is judged, and the slowest host is named with what held it back."""

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "evidence"))
import recorded_runs

from pytest_cloudbench import Outcome, Size, gp3
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.fleet import fleet_envelope
from pytest_cloudbench.reports.plots.kinds import storage_plots
from pytest_cloudbench.verdicts.counters import ThrottleDelta


def fleet_run(*rates):
    """What a fleet measures whose hosts, each with a gp3 volume of 3,000 IOPS, reach these rates."""
    parts = tuple(
        dataclasses.replace(
            recorded_runs.measured(rate),
            host=f"m5.xlarge i-{number}",
            envelope=storage_envelope(
                recorded_runs.LIMITS, [(f"vol-{number}", gp3(size_gib=10))], Size(4096), sequential=False
            ),
            generator=None,
            raw={},
            counters=None,
        )
        for number, rate in enumerate(rates)
    )
    whole = recorded_runs.measured(sum(rates), generator=None, counters=None)
    return dataclasses.replace(
        whole,
        envelope=fleet_envelope([part.envelope for part in parts]),
        outstanding_asked=16 * len(parts),
        latency=dataclasses.replace(whole.latency, mean_s=16 * len(parts) / sum(rates)),
        parts=parts,
    )


def test_the_sum_is_judged_against_the_sum_of_the_limits():
    run = fleet_run(3_000, 3_000, 3_000)
    assert run.reaches("9,000 IOPS")
    (ceiling,) = run.envelope.binding
    assert (ceiling.label, ceiling.limit.per_second) == ("3 x gp3 IOPS", 9_000)
    assert run.capped_by(ceiling)


def test_unsure_credits_of_a_fleet_are_those_of_each_host():
    run = dataclasses.replace(fleet_run(100, 100), credits_unsure="EBS burst credits may not be full")
    assert [each.credits_unsure for each in run.hosts.values()] == [run.credits_unsure] * 2


def test_the_slowest_is_named_with_its_share_and_its_reason():
    run = fleet_run(3_000, 1_200, 3_000, 3_000)
    verdict = run.reaches("12,000 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert "m5.xlarge i-1 with 47 % of the mean" in verdict.sentence
    assert "no known ceiling explains it" in verdict.sentence
    assert verdict.details["slowest_part"] == "m5.xlarge i-1"
    assert verdict.details["slowest_share_of_mean"] == pytest.approx(1_200 / 2_550)
    assert verdict.details["rates_of_parts"]["m5.xlarge i-0"] == 3_000


def test_hosts_that_are_alike_are_not_spoken_of():
    verdict = fleet_run(3_000, 2_950, 3_000).reaches("9,000 IOPS")
    assert "slowest" not in verdict.sentence
    assert verdict.details["slowest_part"] == "m5.xlarge i-1"
    alone = recorded_runs.measured(3_000).reaches("3,000 IOPS")
    assert "slowest_part" not in alone.details


def test_each_host_can_be_judged_and_reports_as_the_whole_run():
    heard = []
    run = dataclasses.replace(fleet_run(3_000, 1_200), on_verdict=heard.append)
    slow = run.hosts["m5.xlarge i-1"]
    assert not slow.reaches("3,000 IOPS")
    assert [verdict.outcome for verdict in heard] == [Outcome.VIOLATED]
    assert recorded_runs.measured().hosts == {}


def test_counters_that_one_host_denies_do_not_explain_the_sum():
    run = fleet_run(3_000, 1_200)
    counters = ThrottleDelta.of_hosts([ThrottleDelta(10.0, 9.5), ThrottleDelta(10.0, 0.0)])
    verdict = dataclasses.replace(run, counters=counters).reaches("6,000 IOPS")
    assert verdict.bound_by == ()


def test_the_picture_has_a_thin_line_for_each_host():
    picture = storage_plots(fleet_run(3_000, 1_200))[0]
    assert picture is not None
    assert b"each of 2 hosts" in picture.svg
