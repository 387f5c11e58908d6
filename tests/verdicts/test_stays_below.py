"""`stays_below`: held, violated with the limit, inconclusive with the possible reason."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_curves import curve_of, latency_of
from synthetic_runs import STRONG_MACHINE, WEAK_MACHINE, delay_of, instance

from pytest_cloudbench import Iops, Outcome, gp2
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.stays_below import stays_below

LIMITED = {
    "on": instance("i3.metal", 64_000, 1_137.7),
    "volumes": tuple((f"vol-{number}", gp2(size_gib=1_000)) for number in range(30)),
}


def slow(percent, mean_s, **more):
    return {percent: {"latency": latency_of(mean_s), **more}}


def test_it_is_held_as_far_as_the_steps_go():
    verdict = stays_below(curve_of(), "2ms", until=60_000)
    assert (
        str(verdict)
        == "held: mean latency at most 1.8 ms up to 57,600 IOPS (at most 2 ms until 60,000 IOPS required)"
    )
    assert verdict.promise == "mean latency stays at or below 2 ms until 60,000 IOPS"
    assert verdict.asked == Iops(60_000.0)
    assert verdict.details["steps"][0]["asked_iops"] == 6_400
    assert verdict.figure == "mean latency 1.8 ms"


def test_without_a_rate_every_step_counts():
    assert stays_below(curve_of(), "61ms").outcome is Outcome.HELD
    verdict = stays_below(curve_of(**LIMITED), "1ms")
    assert verdict.outcome is Outcome.VIOLATED
    assert "mean latency 1.16 ms at 51,200 IOPS; no known ceiling was reached" in str(verdict)


@pytest.mark.parametrize("until", [60_000, "60,000 IOPS", Iops(60_000.0), "234.375 MiB/s"])
def test_a_rate_may_be_given_in_any_way(until):
    assert stays_below(curve_of(), "2ms", until=until).outcome is Outcome.HELD


def test_at_a_ceiling_it_is_violated_by_it():
    verdict = stays_below(curve_of(**LIMITED), "2ms", until=64_000)
    assert verdict.outcome is Outcome.VIOLATED
    assert [ceiling.label for ceiling in verdict.bound_by] == ["i3.metal EBS IOPS"]
    assert "mean latency 57 ms at 64,000 IOPS; limited by i3.metal EBS IOPS, 64,000 IOPS" in str(verdict)


def test_a_gap_between_the_steps_decides_nothing():
    verdict = stays_below(curve_of(percents=(10, 50, 100)), "2ms", until=60_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "mean latency at most 0.56 ms up to 32,000 IOPS, then 57 ms at 64,000 IOPS" in str(verdict)
    assert "nothing was measured between: add a step there" in str(verdict)
    assert verdict.figure == "mean latency 0.56 ms"
    assert not verdict.machine_limited


def test_a_step_beyond_that_is_low_too_closes_the_gap():
    curve = curve_of(percents=(10, 50, 90))
    assert stays_below(curve, "2ms", until=45_000).outcome is Outcome.HELD


def test_a_sweep_that_ends_too_early_says_so():
    verdict = stays_below(curve_of(percents=(10, 50)), "2ms", until=60_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "up to 32,000 IOPS, the end of the sweep: add steps up to 60,000 IOPS" in str(verdict)


def test_a_rate_that_was_never_carried_names_its_limit():
    verdict = stays_below(curve_of(), "100ms", until=200_000)
    assert verdict.outcome is Outcome.VIOLATED
    assert "the load stayed at 64,000 IOPS although 70,400 IOPS was asked for" in str(verdict)
    bound = stays_below(curve_of(**LIMITED), "100ms", until=200_000)
    assert [ceiling.label for ceiling in bound.bound_by] == ["i3.metal EBS IOPS"]
    assert bound.outcome is Outcome.VIOLATED


def test_a_peak_below_the_rate_is_put_down_to_what_held_it():
    verdict = stays_below(curve_of(percents=(10, 50, 90), **LIMITED), "100ms", until=200_000)
    assert verdict.outcome is Outcome.VIOLATED
    assert "but the load never passed 64,000 IOPS; limited by i3.metal EBS IOPS" in str(verdict)


def test_on_an_embedded_region_latency_below_every_limit_is_the_machine_s():
    curve = curve_of(machine=STRONG_MACHINE, changes=slow(30, 0.004), **LIMITED)
    verdict = stays_below(curve, "2ms", until=50_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "mean latency 4 ms at 19,200 IOPS" in str(verdict)
    assert "the machine under the embedded region may be why" in str(verdict)


def test_on_an_embedded_region_a_step_beyond_that_its_machine_made_slow_decides_nothing():
    curve = curve_of(machine=STRONG_MACHINE, percents=(10, 50, 90), changes=slow(50, 0.004), **LIMITED)
    verdict = stays_below(curve, "2ms", until=20_000)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "then 4 ms at 32,000 IOPS" in str(verdict)
    assert "the machine under the embedded region may be why" in str(verdict)


def test_on_an_embedded_region_a_load_that_the_machine_cannot_carry_is_the_machine_s():
    curve = curve_of(50_000, machine=WEAK_MACHINE, percents=(10, 50, 90), **LIMITED)
    verdict = stays_below(curve, "10ms", until=64_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "the machine under the embedded region was the limit" in str(verdict)


def test_what_a_region_modelled_is_judged_and_named_as_such():
    modelled = slow(30, 0.004, machine_delay=delay_of(3.9, 0.1))
    curve = curve_of(machine=STRONG_MACHINE, changes=modelled, delay=delay_of(0.5, 0.01), **LIMITED)
    verdict = stays_below(curve, "2ms", until=50_000)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.VIOLATED, False)
    assert "mean latency 4 ms (modelled) at 19,200 IOPS" in str(verdict)
    held = stays_below(curve, "2ms", until=13_000)
    assert held.outcome is Outcome.HELD
    assert "(modelled)" in str(held)
    assert "(modelled)" in held.figure


def test_a_region_that_models_no_latency_holds_none():
    verdict = stays_below(curve_of(machine=STRONG_MACHINE, **LIMITED), "100ms", until=60_000)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "models no latency" in verdict.sentence


def test_what_the_machine_of_a_region_added_decides_nothing():
    late = slow(30, 0.004, machine_delay=delay_of(0.5, 0.1))
    curve = curve_of(machine=STRONG_MACHINE, changes=late, delay=delay_of(0.5, 0.01), **LIMITED)
    verdict = stays_below(curve, "2ms", until=50_000)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "mean latency 4 ms, 0.5 ms of it modelled: it added 88 %" in str(verdict)


def test_a_later_step_at_a_limit_is_proof_although_the_machine_delayed_an_earlier_one():
    late = slow(70, 0.004, machine_delay=delay_of(0.5, 0.1))
    curve = curve_of(machine=STRONG_MACHINE, changes=late, delay=delay_of(0.5, 0.01), **LIMITED)
    verdict = stays_below(curve, "2ms", until=76_800)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.VIOLATED, False)
    assert [ceiling.label for ceiling in verdict.bound_by] == ["i3.metal EBS IOPS"]
    assert "mean latency 4 ms" not in str(verdict)
    before = stays_below(curve, "2ms", until=60_000)
    assert (before.outcome, before.machine_limited) == (Outcome.INCONCLUSIVE, True)


def test_a_tail_at_a_limit_is_judged_where_it_was_modelled():
    at_limit = {"until": 64_000, "percentile": 99}
    assert stays_below(curve_of(**LIMITED), "100ms", **at_limit).outcome is Outcome.VIOLATED
    unknown = stays_below(curve_of(machine=STRONG_MACHINE, **LIMITED), "100ms", **at_limit)
    assert (unknown.outcome, unknown.machine_limited) == (Outcome.INCONCLUSIVE, True)
    known = curve_of(machine=STRONG_MACHINE, delay=delay_of(55, 0.5, volumes=30), **LIMITED)
    assert stays_below(known, "100ms", **at_limit).outcome is Outcome.VIOLATED


def test_a_generator_without_cpu_left_may_be_why():
    busy = slow(30, 0.004, generator=GeneratorLoad(99.0))
    verdict = stays_below(curve_of(changes=busy), "2ms", until=50_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the load generator was the limit: its busiest job used 99 % of a CPU" in str(verdict)


def test_a_step_that_contradicts_itself_decides_nothing():
    verdict = stays_below(curve_of(changes=slow(30, 2.0)), "2ms", until=50_000)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "at 30 % (19,200 IOPS asked) the measurement contradicts itself" in str(verdict)


def test_only_steps_up_to_the_rate_count():
    assert stays_below(curve_of(changes=slow(100, 90.0)), "2ms", until=50_000).outcome is Outcome.HELD


@pytest.mark.parametrize(
    ("percentile", "name", "worst"),
    [(50, "p50", "1.26 ms"), ("p95", "p95", "4.5 ms"), (99, "p99", "7.2 ms"), (99.9, "p99.9", "13 ms")],
)
def test_percentiles(percentile, name, worst):
    verdict = stays_below(curve_of(), "20ms", until=60_000, percentile=percentile)
    assert f"{name} latency at most {worst} up to 57,600 IOPS" in str(verdict)


def test_a_percentile_that_no_step_has_decides_nothing():
    curve = curve_of(changes={30: {"latency": dataclasses.replace(latency_of(0.001), p99_s=None)}})
    verdict = stays_below(curve, "20ms", until=60_000, percentile=99)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no p99 latency was measured" in str(verdict)


def test_a_sweep_without_steps_decides_nothing():
    verdict = stays_below(curve_of(percents=()), "1ms", until=1_000)
    assert "the sweep has no step beside its maximum" in str(verdict)
    assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"latency": "1"}, ValueError, "has no unit"),
        ({"latency": 0.001}, TypeError, "a duration with its unit"),
        ({"latency": "1ms", "until": -1}, ValueError, "above zero"),
        ({"latency": "1ms", "until": "fast"}, ValueError, "invalid rate"),
        ({"latency": "1ms", "until": [1]}, TypeError, "is not a rate"),
        ({"latency": "1ms", "percentile": 98}, ValueError, "50, 95, 99, 99.9"),
        ({"latency": "1ms", "percentile": "most"}, ValueError, "is not measured"),
        ({"latency": "1ms", "within": 10}, ValueError, "within"),
    ],
)
def test_invalid_claims_are_refused(asked, error, words):
    with pytest.raises(error, match=words):
        stays_below(curve_of(), **asked)


@given(until=st.integers(1_000, 64_000), limit_ms=st.floats(0.05, 100))
def test_held_means_that_no_step_up_to_the_rate_is_above(until, limit_ms):
    curve = curve_of()
    verdict = stays_below(curve, f"{limit_ms:.6f}ms", until=until)
    counted = [step for step in curve.steps if step.asked.per_second <= until]
    above = [step for step in counted if step.latency.mean_s * 1000 > limit_ms * (1 + 1e-6)]
    if verdict.outcome is Outcome.HELD:
        assert not above
    if above:
        assert verdict.outcome is Outcome.VIOLATED
