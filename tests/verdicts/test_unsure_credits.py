"""Verdicts on shared hardware, whose burst credits an earlier test may have spent."""

import dataclasses

import pytest
from synthetic_networks import network_run
from synthetic_runs import M5, run_of

from pytest_cloudbench import gp2
from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view_of
from pytest_cloudbench.verdicts.unsure_credits import with_unsure_credits
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.workloads.judged import Judged

GP2 = (("vol-0gp2", gp2(size_gib=100)),)
UNSURE = "gp2 I/O credits may not be full"


def judged(judge, run, *asked, unsure=UNSURE):
    return with_unsure_credits(judge(run, *asked), view_of(run), unsure)


def of_gp2(values):
    return run_of(sum(values) / len(values), values=values, volumes=GP2, on=M5)


@pytest.mark.parametrize(
    "values",
    [[300] * 600, [3_000] * 300 + [300] * 300, [1_800] * 5 + [300] * 40],
    ids=["from the start", "later", "after a few credits"],
)
def test_a_promise_broken_at_what_remains_without_credits_is_undecided(values):
    run = of_gp2(values)
    assert reaches(run, "3,000 IOPS").outcome is Outcome.VIOLATED
    verdict = judged(reaches, run, "3,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert UNSURE in str(verdict)
    assert "3,000 IOPS" in str(verdict)
    assert verdict.bound_by == ()


def test_a_promise_broken_at_any_other_rate_stays_violated():
    assert judged(reaches, of_gp2([1_500] * 600), "3,000 IOPS").outcome is Outcome.VIOLATED


def test_a_promise_that_is_kept_stays_held():
    run = of_gp2([3_000] * 600)
    assert judged(reaches, run, "3,000 IOPS") == reaches(run, "3,000 IOPS")


def test_the_end_of_a_burst_is_held_with_a_remark():
    verdict = judged(drops_to, of_gp2([3_000] * 300 + [300] * 300), "300 IOPS")
    assert verdict.outcome is Outcome.HELD
    assert UNSURE in str(verdict)


def test_a_burst_that_goes_on_for_too_long_stays_violated():
    assert judged(drops_to, of_gp2([3_000] * 2_400), "300 IOPS").outcome is Outcome.VIOLATED


def test_a_network_without_credits_is_undecided():
    run = network_run(2.5)
    assert reaches(run, "10 Gbit/s").outcome is Outcome.VIOLATED
    verdict = judged(reaches, run, "10 Gbit/s", unsure="network burst credits may not be full")
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_an_expectation_says_itself_that_it_asks_for_a_fall():
    run = view_of(of_gp2([3_000] * 300 + [300] * 300))
    asks = Verdict.held("it fell", promise="falls within 10 min", asks_for_fall=True)
    assert UNSURE in str(with_unsure_credits(asks, run, UNSURE))
    asks_not = Verdict.held("it drops little", promise="drops to no less than half")
    assert with_unsure_credits(asks_not, run, UNSURE) == asks_not


@pytest.mark.parametrize("judge", [drops_to, burst_ends_at])
def test_both_promises_about_the_end_of_a_burst_ask_for_a_fall(judge):
    assert judge(of_gp2([3_000] * 300 + [300] * 300), "300 IOPS").asks_for_fall


def test_a_measurement_applies_it_to_every_verdict_that_it_reports():
    run = of_gp2([300] * 600)

    @dataclasses.dataclass(frozen=True)
    class Shared(Judged):
        credits_unsure: str
        on_verdict: object

        def _observed(self):
            return run

    told = []
    verdict = Shared(UNSURE, told.append).reaches("3,000 IOPS")
    assert told == [verdict]
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert Shared("", told.append).reaches("3,000 IOPS").outcome is Outcome.VIOLATED
