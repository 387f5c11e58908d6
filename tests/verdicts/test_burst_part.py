"""`reaches` and `capped_by` of what bursts: judged on the part of the run of which the claim speaks."""

import pytest
from synthetic_runs import M5, ceiling, run_of

from pytest_cloudbench import gp2, gp3
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.verdict import Outcome

GP2 = (("vol-0gp2", gp2(size_gib=100)),)


def run_with(values, volumes=GP2, **how):
    return run_of(sum(values) / len(values), values=values, volumes=volumes, on=M5, **how)


@pytest.fixture
def spent_in_the_middle():
    return run_with([3_000] * 2_000 + [300] * 1_000)


def test_a_burst_is_reached_before_its_credits_are_spent(spent_in_the_middle):
    verdict = reaches(spent_in_the_middle, ceiling("gp2 vol-0gp2 IOPS", spent_in_the_middle))
    assert str(verdict) == (
        "held: 3,000 of 3,000 IOPS (100.0 %, at least 90 % wanted) in the first 2,000 s (33.3 min), before the rate "
        "fell to 300 IOPS"
    )
    assert verdict.measured.per_second == pytest.approx(3_000)
    assert (verdict.details["judged_from_s"], verdict.details["judged_to_s"]) == (
        0.0,
        pytest.approx(2_000, abs=1),
    )


def test_a_plain_rate_is_judged_on_the_whole_run(spent_in_the_middle):
    verdict = reaches(spent_in_the_middle, "3,000 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert str(verdict) == (
        "violated: 2,100 of 3,000 IOPS (70 %, at least 90 % wanted); the rate fell to 300 IOPS after 2,000 s "
        "(33.3 min), bound by gp2 vol-0gp2 IOPS, 300 IOPS (burst spent)"
    )


def test_a_share_of_the_time_is_that_of_the_burst(spent_in_the_middle):
    target = ceiling("gp2 vol-0gp2 IOPS", spent_in_the_middle)
    verdict = reaches(spent_in_the_middle, target, share=0.99)
    assert verdict.outcome is Outcome.HELD
    assert "in the first 2,000 s" in str(verdict)
    assert reaches(spent_in_the_middle, "3,000 IOPS", share=0.99).outcome is Outcome.VIOLATED


def test_a_burst_that_was_too_low_is_violated_by_its_own_figure():
    run = run_with([2_000] * 2_000 + [300] * 1_000)
    verdict = reaches(run, ceiling("gp2 vol-0gp2 IOPS", run))
    assert verdict.outcome is not Outcome.HELD
    assert "2,000 of 3,000 IOPS" in str(verdict)


def test_what_capped_it_is_judged_before_the_fall(spent_in_the_middle):
    verdict = capped_by(spent_in_the_middle, ceiling("gp2 vol-0gp2 IOPS", spent_in_the_middle))
    assert str(verdict).startswith(
        "held: 3,000 of 3,000 IOPS (100.0 %) in the first 2,000 s (33.3 min), before the rate fell to 300 IOPS, "
        "capped by gp2 vol-0gp2 IOPS"
    )


def test_what_remains_is_judged_after_the_fall(spent_in_the_middle):
    verdict = capped_by(spent_in_the_middle, "300 IOPS")
    assert str(verdict).startswith(
        "held: 300 of 300 IOPS (100.0 %) after 2,000 s (33.3 min), when the rate had fallen from 3,000 IOPS, "
        "capped by gp2 vol-0gp2 IOPS"
    )


def test_the_figure_of_what_remains_is_that_of_the_limit_and_no_rival_of_it():
    run = run_with([300] * 600)
    assert capped_by(run, "300 IOPS").outcome is Outcome.HELD
    assert "burst spent" in str(capped_by(run, ceiling("gp2 vol-0gp2 IOPS", run)))


def test_what_remains_is_not_what_held_a_burst():
    run = run_with([3_000] * 600)
    verdict = capped_by(run, "300 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert "above the ceiling" in str(verdict)


def test_a_limit_that_lasts_is_judged_on_all_of_the_run():
    volumes = (("vol-0gp3", gp3(size_gib=1_000, iops=15_000)),)
    run = run_with([15_000] * 2_000 + [12_000] * 2_000, volumes=volumes)
    verdict = reaches(run, ceiling("gp3 vol-0gp3 IOPS", run), within=0.05)
    assert "13,500 of 15,000 IOPS" in str(verdict)
    assert verdict.outcome is not Outcome.HELD


def test_short_samples_of_compressed_time_are_parted_as_well():
    values = [3_000] * 165 + [300] * 100
    run = run_with(values, seconds=[12.0 * (number + 1) for number in range(len(values))])
    verdict = reaches(run, ceiling("gp2 vol-0gp2 IOPS", run))
    assert verdict.outcome is Outcome.HELD
    assert "in the first 1,980 s (33 min)" in str(verdict)
