"""`outperforms` and `resembles`: two runs, the noise of both, and other limits of either."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import C5_18XL, T2_MEDIUM, burst, machine, network_run, noise
from synthetic_runs import GP3, LATE, STRONG_MACHINE, WEAK_MACHINE, delay_of, run_of

from pytest_cloudbench import Outcome
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.comparison import outperforms, resembles
from pytest_cloudbench.verdicts.observation import GeneratorLoad


def noisy(gbit, spread=0.01, count=60, memory=0.3, seed=1, **more):
    factors = noise(count, spread, random.Random(seed), memory)
    mean = sum(factors) / count
    return network_run(values=[gbit * factor / mean for factor in factors], **more)


FAST, SLOW, NEARLY = noisy(9.93), noisy(4.96, seed=2), noisy(9.7, seed=3)


def test_faster_beyond_the_noise():
    verdict = outperforms(FAST, SLOW, by=0.5)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: 9.93 Gbit/s against 4.96 Gbit/s (100.2 % more, at least 50 % more required; the noise of both is "
        "±0.83 %)"
    )
    assert verdict.promise == "outperforms the other run by 50 %"
    assert verdict.asked.gbit == pytest.approx(7.44)
    assert outperforms(FAST, SLOW).promise == "outperforms the other run"


def test_not_faster_or_not_by_enough():
    verdict = outperforms(SLOW, FAST)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence.startswith(
        "violated: 4.96 Gbit/s against 9.93 Gbit/s (50 % less, more required; "
    )
    assert outperforms(FAST, SLOW, by=1.5).outcome is Outcome.VIOLATED


def test_within_the_noise_nothing_is_said():
    verdict = outperforms(noisy(5.0, 0.1, memory=0.9), noisy(5.1, 0.1, memory=0.9, seed=9))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("too small a difference for that noise")
    assert outperforms(FAST, FAST).outcome is Outcome.INCONCLUSIVE
    flat = network_run(5.0)
    assert outperforms(flat, flat).outcome is Outcome.INCONCLUSIVE


def test_on_the_embedded_region_only_much_noise_is_attributed_to_its_machine():
    on = machine(40)
    wild = [noisy(gbit, 0.2, memory=0.9, seed=seed, on=on) for gbit, seed in ((5.0, 1), (5.1, 9))]
    for verdict in (outperforms(*wild), resembles(*wild)):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.machine_limited
        assert verdict.sentence.endswith("the machine under the embedded region may be why")
    calm = [noisy(gbit, 0.01, seed=seed, on=on) for gbit, seed in ((5.0, 1), (5.001, 9))]
    assert outperforms(*calm).outcome is Outcome.INCONCLUSIVE
    assert not outperforms(*calm).machine_limited
    elsewhere = resembles(noisy(5.0, 0.2, memory=0.9), noisy(5.1, 0.2, memory=0.9, seed=9))
    assert elsewhere.outcome is Outcome.INCONCLUSIVE
    assert not elsewhere.machine_limited


def test_noise_of_storage_is_its_machines_only_as_far_as_that_was_measured_to_be_late():
    values = [1_000, 5_000, 2_000] * 20
    late, calm = (
        [run_of(mean, values=values, delay=delay, machine=STRONG_MACHINE) for mean in (2_666, 2_700)]
        for delay in (LATE, delay_of(1_024 / 2.7, volumes=8))
    )
    for verdict in (outperforms(*late), resembles(*late)):
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
        assert "0.3 ms of it modelled" in verdict.sentence
    verdict = outperforms(*calm)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, False)


def test_noise_that_remembers_counts_for_more():
    plain = outperforms(noisy(5.0, 0.03), noisy(4.9, 0.03, seed=2))
    slow = outperforms(noisy(5.0, 0.03, memory=0.9), noisy(4.9, 0.03, memory=0.9, seed=2))
    assert slow.details["margin"] > 2 * plain.details["margin"]


def test_alike_within_the_tolerance():
    verdict = resembles(FAST, NEARLY)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: 9.93 Gbit/s against 9.7 Gbit/s (2 % more, at most 10 % apart required; the noise of both is "
        "±0.66 %)"
    )
    assert resembles(FAST, SLOW).outcome is Outcome.VIOLATED
    wild = resembles(noisy(5.0, 0.2, memory=0.9), noisy(5.1, 0.2, memory=0.9, seed=9))
    assert wild.outcome is Outcome.INCONCLUSIVE
    assert wild.sentence.endswith("too much to decide")
    assert resembles(network_run(5.0), network_run(5.5)).outcome is Outcome.HELD


def test_the_fall_of_a_burst_does_not_count_as_noise():
    one = network_run(values=burst(1_260, 1_800, seed=1))
    other = network_run(values=burst(1_240, 1_800, seed=2))
    verdict = resembles(one, other, within=0.03)
    assert verdict.outcome is Outcome.HELD
    assert verdict.details["margin"] < 0.01
    assert verdict.details["first"]["falls"][0]["at_s"] == pytest.approx(1_260, abs=1)


def test_different_conditions_are_named_and_do_not_prevent_a_comparison():
    quick = noisy(9.93, time_compression=60.0, conditions=("time compressed 60 times",))
    verdict = outperforms(quick, SLOW)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.endswith(
        "; the conditions differ (time compressed 60 against 1 times; only the first run: time compressed 60 "
        "times)"
    )
    assert "conditions" not in resembles(quick, quick).sentence


def test_a_loser_that_was_held_back_by_something_else_proves_nothing():
    busy = noisy(4.96, seed=2, generator=GeneratorLoad(99.0))
    verdict = outperforms(FAST, busy)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "; but in the second run, the load generator was the limit" in verdict.sentence
    assert outperforms(busy, SLOW, by=-0.0).outcome is Outcome.INCONCLUSIVE
    assert outperforms(noisy(9.93, generator=GeneratorLoad(99.0)), SLOW).outcome is Outcome.HELD
    own = noisy(4.96, rate_asked=Bandwidth.from_gbit(5))
    assert "in the first run, the job limited its own load to 5 Gbit/s" in outperforms(own, FAST).sentence


def test_a_run_limited_by_the_machine_proves_nothing():
    weak = noisy(18.9, client=C5_18XL, streams=5, on=machine(19.5))
    other = noisy(18.7, client=C5_18XL, streams=5, on=machine(19.5), seed=2)
    alike = resembles(weak, other)
    assert alike.outcome is Outcome.INCONCLUSIVE
    assert alike.machine_limited
    assert alike.sentence.endswith(
        "but in the first run, the machine under the embedded region was the limit and in the second run, the "
        "machine under the embedded region was the limit"
    )
    shaped = noisy(4.96, client=C5_18XL, on=machine(19.5))
    assert outperforms(weak, shaped, by=1.0).outcome is Outcome.HELD
    assert resembles(weak, shaped).outcome is Outcome.VIOLATED
    assert outperforms(shaped, weak).outcome is Outcome.VIOLATED
    faster = noisy(23.0, client=C5_18XL, streams=5)
    assert outperforms(faster, weak).machine_limited
    spent = network_run(values=burst(600, 900), streams=5, on=machine(13))
    assert outperforms(spent, noisy(1.0, client=T2_MEDIUM, on=machine(13))).outcome is Outcome.HELD


def test_too_few_samples_and_failed_runs():
    few = outperforms(network_run(9.93, samples=4), SLOW)
    assert few.outcome is Outcome.INCONCLUSIVE
    assert "4 samples of the first run are too few to know its noise, at least 5 are needed" in few.sentence
    failed = resembles(FAST, network_run(0.0))
    assert failed.outcome is Outcome.INCONCLUSIVE
    assert "of the second run: nothing arrived" in failed.sentence


def test_iops_are_compared_for_equal_block_sizes():
    one, other = run_of(6_000), run_of(3_000, volumes=GP3)
    assert outperforms(one, other, by=0.9).sentence.startswith(
        "held: 6,000 IOPS against 3,000 IOPS (100.0 % more"
    )
    blocks = outperforms(run_of(6_000, "16k"), run_of(6_000))
    assert blocks.sentence.startswith("held: 93.75 MiB/s against 23.44 MiB/s (300 % more")
    weak = run_of(45_000, machine=WEAK_MACHINE)
    assert resembles(weak, weak).machine_limited
    assert (
        resembles(run_of(3_000, volumes=GP3, machine=STRONG_MACHINE), run_of(3_000)).outcome is Outcome.HELD
    )


def test_unlike_runs_are_refused():
    sentence = "a run over a network cannot be compared with one on storage: compare runs of one kind"
    with pytest.raises(TypeError, match=f"outperforms: {sentence}"):
        outperforms(FAST, run_of(3_000))
    with pytest.raises(
        TypeError, match="resembles: a run over storage cannot be compared with one on a network"
    ):
        resembles(run_of(3_000), FAST)
    for wrong in ("5 Gbit/s", 5, None):
        with pytest.raises(TypeError, match="that is no measurement; pass another run"):
            outperforms(FAST, wrong)


@pytest.mark.parametrize(("by", "error"), [("x", TypeError), (True, TypeError), (-0.1, ValueError)])
def test_a_wrong_margin_shows_how_to_write_it(by, error):
    with pytest.raises(error, match=r"by=0\.10 for 10 %"):
        outperforms(FAST, SLOW, by=by)


gbits = st.floats(0.1, 30)
spreads = st.sampled_from([0.0, 0.005, 0.05])


@given(gbits, gbits, spreads, st.floats(0, 2), st.integers(0, 3))
def test_more_is_never_worse(one, other, spread, by, seed):
    base = noisy(5.0, spread, seed=seed, count=20)
    slow, fast = sorted((one, other))
    verdicts = [outperforms(noisy(gbit, spread, seed=7, count=20), base, by=by) for gbit in (slow, fast)]
    order = [Outcome.VIOLATED, Outcome.INCONCLUSIVE, Outcome.HELD]
    assert order.index(verdicts[0].outcome) <= order.index(verdicts[1].outcome)
    for verdict in verdicts:
        assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
        assert "\n" not in verdict.sentence
        json.dumps(verdict.details)


@given(gbits, gbits, spreads, st.floats(0, 0.9))
def test_likeness_goes_both_ways(one, other, spread, within):
    first, second = noisy(one, spread, count=20), noisy(other, spread, seed=2, count=20)
    there, back = resembles(first, second, within=within), resembles(second, first, within=within)
    assert there.outcome is back.outcome
    apart = max(one, other) / min(one, other) - 1
    if there.outcome is Outcome.HELD:
        assert apart <= within + 1e-6
    if there.outcome is Outcome.VIOLATED:
        assert apart > within - 1e-6
        assert outperforms(*sorted((first, second), key=lambda run: -run.throughput_mib)).outcome is (
            Outcome.HELD
        )


@given(gbits, gbits, spreads, st.floats(0, 2))
def test_no_two_runs_outperform_each_other(one, other, spread, by):
    first, second = noisy(one, spread, count=20), noisy(other, spread, seed=2, count=20)
    held = [outperforms(*pair, by=by).outcome is Outcome.HELD for pair in ((first, second), (second, first))]
    assert not all(held)
