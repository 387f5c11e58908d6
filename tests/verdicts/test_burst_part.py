"""`reaches` and `capped_by` of limits that burst: judged on the part of the run that the claim is about."""

import dataclasses
import math

import pytest
from synthetic_runs import M5, STRONG_MACHINE, ceiling, instance, run_of

from pytest_cloudbench import Iops, Throughput, gp2, gp3
from pytest_cloudbench.limits.envelope import MachineLimits
from pytest_cloudbench.verdicts.burst_part import part_for
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view
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
        "held: 3,000 of 3,000 IOPS (100.0 %, at least 90 % required) in the first 2,000 s (33.3 min), before the rate "
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
        "violated: 2,100 of 3,000 IOPS (70 %, at least 90 % required); the rate fell to 300 IOPS after 2,000 s "
        "(33.3 min), limited by gp2 vol-0gp2 IOPS, 300 IOPS (burst spent)"
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


def test_a_claim_on_a_bursting_limit_is_judged_before_the_fall(spent_in_the_middle):
    verdict = capped_by(spent_in_the_middle, ceiling("gp2 vol-0gp2 IOPS", spent_in_the_middle))
    assert str(verdict).startswith(
        "held: 3,000 of 3,000 IOPS (100.0 %) in the first 2,000 s (33.3 min), before the rate fell to 300 IOPS, "
        "capped by gp2 vol-0gp2 IOPS"
    )


def test_the_remaining_rate_is_judged_after_the_fall(spent_in_the_middle):
    verdict = capped_by(spent_in_the_middle, "300 IOPS")
    assert str(verdict).startswith(
        "held: 300 of 300 IOPS (100.0 %) after 2,000 s (33.3 min), when the rate had fallen from 3,000 IOPS, "
        "capped by gp2 vol-0gp2 IOPS"
    )


def test_the_remaining_figure_belongs_to_the_limit_and_is_not_its_rival():
    run = run_with([300] * 600)
    assert capped_by(run, "300 IOPS").outcome is Outcome.HELD
    assert "burst spent" in str(capped_by(run, ceiling("gp2 vol-0gp2 IOPS", run)))


def test_the_remaining_rate_did_not_limit_a_burst():
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


def gp2_iops(run):
    return ceiling("gp2 vol-0gp2 IOPS", run)


@pytest.mark.parametrize(
    "values",
    [
        [3_000] * 30 + [1_000] * 300,  # to a level at which nothing was promised to remain
        [3_000] * 45 + [900] * 14,  # too short to tell that it stays
        [3_000] * 45 + [300] * 14,
        [3_000] * 100 + [0] * 100,  # a volume that hung
        [3_000] * 30 + [1_000] * 3_000 + [300] * 300,  # long low before its credits were spent
    ],
)
@pytest.mark.parametrize("machine", [None, STRONG_MACHINE])
def test_a_run_is_not_divided_without_the_end_of_a_burst(values, machine):
    run = run_with(values, machine=machine)
    for verdict in (reaches(run, gp2_iops(run)), capped_by(run, gp2_iops(run))):
        assert verdict.outcome is not Outcome.HELD
        assert "in the first 30" not in str(verdict)
        assert "in the first 45 s" not in str(verdict)
        assert "in the first 100 s" not in str(verdict)


def test_a_burst_lasts_until_its_credits_are_spent_however_often_it_fell_before():
    run = run_with([3_000] * 30 + [1_000] * 3_000 + [300] * 300)
    verdict = reaches(run, gp2_iops(run))
    assert "1,020 of 3,000 IOPS" in str(verdict)
    assert "in the first 3,030 s" in str(verdict)


def test_a_silent_end_shows_no_remaining_rate():
    run = run_with([3_000] * 100 + [0] * 100)
    assert capped_by(run, "300 IOPS").outcome is Outcome.VIOLATED


@pytest.mark.parametrize("machine", [None, STRONG_MACHINE])
def test_a_run_whose_rate_falls_to_nothing_has_verdicts(machine):
    run = run_with([3_000] * 100 + [0] * 100, machine=machine)
    for verdict in (
        reaches(run, "3,000 IOPS"),
        reaches(run, "3,000 IOPS", share=0.99),
        reaches(run, gp2_iops(run), share=0.99),
        drops_to(run, "300 IOPS"),
        capped_by(run, "3,000 IOPS"),
    ):
        assert verdict.outcome is not Outcome.HELD
        assert verdict.outcome is Outcome.INCONCLUSIVE or machine is None


def counted(values, volume_s, instance_s=0.0, **how):
    return run_with(values, counters=ThrottleDelta(float(len(values)), volume_s, 0, instance_s), **how)


def test_the_seconds_of_the_rest_say_nothing_of_the_burst():
    """All that the counter counted may lie after the fall: a machine near the rate is as good a reason."""
    machine = MachineLimits(Iops(2_600), Throughput.from_mib(9_000))
    values = [2_500] * 2_000
    alone = run_with(values, machine=machine)
    assert reaches(alone, gp2_iops(alone)).machine_limited
    run = counted(values + [300] * 4_000, 4_000, machine=machine)
    verdict = reaches(run, gp2_iops(run))
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "2,500 of 3,000 IOPS" in str(verdict)


def test_seconds_that_must_lie_in_the_burst_count():
    run = counted([3_000] * 2_000 + [300] * 1_000, 2_990, machine=STRONG_MACHINE)
    counters = part_for(view(run), [gp2_iops(run)]).counters
    assert counters.seconds_of(gp2_iops(run)) == pytest.approx(1_990, abs=5)
    near = MachineLimits(Iops(3_100), Throughput.from_mib(9_000))
    assert capped_by(counted([3_000] * 2_000 + [300] * 1_000, 2_990, machine=near), "3,000 IOPS").outcome is (
        Outcome.HELD
    )


def test_compressed_seconds_are_those_of_the_counters():
    values = [3_000] * 2_000 + [300] * 1_000
    run = counted(values, 0.0)
    run = Compressed(run, counters=ThrottleDelta(50.0, 48.0), time_compression=60.0)
    counters = part_for(view(run), [gp2_iops(run)]).counters
    assert counters.elapsed_s == pytest.approx(2_000 / 60, rel=0.01)
    assert counters.seconds_of(gp2_iops(run)) == pytest.approx(48 - 1_000 / 60, rel=0.01)


class Compressed:
    def __init__(self, run, **more):
        self.__dict__.update(more)
        self._run = run

    def __getattr__(self, name):
        return getattr(self._run, name)


def test_a_tied_limit_that_may_have_acted_all_through_the_burst_stays_a_rival():
    """300 s of 6,000 are hardly any, but they may be most of the 400 s of the burst."""
    run = counted([3_000] * 400 + [300] * 5_600, 5_900, 300)
    assert capped_by(run, gp2_iops(run)).outcome is Outcome.HELD
    tied = run_of(1.0, on=instance("i", 3_000, 600.0), volumes=GP2).envelope
    run = dataclasses.replace(run, envelope=tied)
    verdict = capped_by(run, gp2_iops(run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "too close to tell apart" in str(verdict)


def test_few_outstanding_need_counters_of_the_burst_itself():
    run = counted([2_900] * 2_000 + [300] * 4_000, 4_000, outstanding=2)
    verdict = capped_by(run, gp2_iops(run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the load kept only 2 I/Os outstanding, at least 3 are needed" in str(verdict)
    assert math.isnan(part_for(view(run), [gp2_iops(run)]).latency_mean_s)


def test_a_generator_worked_harder_while_the_rate_was_higher():
    values = [2_500] * 2_000 + [300] * 4_000
    run = run_with(values, generator=GeneratorLoad(41.0))
    verdict = reaches(run, gp2_iops(run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the load generator was the limit" in str(verdict)
    idle = run_with(values, generator=GeneratorLoad(5.0))
    assert reaches(idle, gp2_iops(idle)).outcome is Outcome.VIOLATED


@pytest.mark.parametrize("share", [None, 0.99])
def test_a_ceiling_that_acted_before_the_fall_explains_nothing_after_it(share):
    values = [3_000] * 400 + [1_500] * 200
    verdict = reaches(counted(values, 400), "3,000 IOPS", share=share)
    assert "limited by" not in str(verdict)
    assert verdict.bound_by == ()
    embedded = reaches(counted(values, 400, machine=STRONG_MACHINE), "3,000 IOPS", share=share)
    assert (embedded.outcome, embedded.machine_limited) == (Outcome.INCONCLUSIVE, True)


def test_a_mean_over_a_fall_is_not_limited_by_the_ceiling_where_it_happens_to_lie():
    """2,000 of 3,000 IOPS on an instance of 2,000, at which the rate never was."""
    run = run_of(2_000, values=[3_000] * 300 + [1_000] * 300, volumes=GP2, on=instance("i", 2_000, 600.0))
    verdict = reaches(run, "3,000 IOPS")
    assert verdict.bound_by == ()
    assert "limited by" not in str(verdict)


@pytest.mark.parametrize(
    ("mean", "outcome"),
    [
        (2_250, Outcome.HELD),
        (2_545, Outcome.INCONCLUSIVE),
        (2_800, Outcome.INCONCLUSIVE),
        (2_950, Outcome.VIOLATED),
    ],
)
def test_a_mean_between_what_remains_and_the_burst_hides_its_end(mean, outcome):
    """In strong noise the end of a shallow burst is not found; the mean over it is not a rate that a limit forbids."""
    volumes = (("vol-0gp2", gp2(size_gib=750)),)
    verdict = capped_by(run_with([mean] * 120, volumes), "2,250 IOPS")
    assert verdict.outcome is outcome


def test_a_mean_above_what_remains_is_judged_after_a_fall_that_was_found():
    """The rate fell, and not far enough: that is not an end of the burst that hides."""
    volumes = (("vol-0gp2", gp2(size_gib=500)),)
    verdict = capped_by(run_with([3_000] * 120 + [2_000] * 120, volumes), "1,500 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
