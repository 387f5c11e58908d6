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
    assert verdict.sentence.startswith(
        "held: 9.93 Gbit/s against 4.96 Gbit/s (100.2 % more, at least 50 % more required; "
    )
    assert verdict.details["margin"] == pytest.approx(0.114, abs=0.005)
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
    assert "too small a difference for that" in verdict.sentence
    assert outperforms(FAST, FAST).outcome is Outcome.INCONCLUSIVE
    flat = network_run(5.0)
    assert outperforms(flat, flat).outcome is Outcome.INCONCLUSIVE


def aa_pairs(count, run_to_run, **more):
    """Pairs of runs of one thing, whose levels differ from run to run."""
    numbers = random.Random(11)
    for number in range(count):
        levels = [5.0 * numbers.gauss(1, run_to_run) for _ in range(2)]
        yield tuple(
            noisy(level, 0.01, count=120, seed=10_000 + 2 * number + side, **more)
            for side, level in enumerate(levels)
        )


@pytest.mark.parametrize(("run_to_run", "more"), [(0.02, {}), (0.005, {"on": machine(40)})])
def test_one_run_each_does_not_show_how_runs_differ(run_to_run, more):
    """Two runs of one thing are decided in at most 5 % of cases: the noise within them is far too small for that."""
    verdicts = [outperforms(*pair) for pair in aa_pairs(200, run_to_run, **more)]
    assert sum(verdict.outcome is not Outcome.INCONCLUSIVE for verdict in verdicts) <= 10
    assert sum(verdict.details["first"]["noise_error"] / 5e9 * 8 > 0.004 for verdict in verdicts) == 0


def test_what_two_single_runs_can_tell_is_said():
    close, apart = outperforms(noisy(5.2), noisy(5.0, seed=2)), outperforms(noisy(5.5), noisy(5.0, seed=2))
    assert (close.outcome, apart.outcome) == (Outcome.INCONCLUSIVE, Outcome.HELD)
    assert close.details["margin"] == pytest.approx(0.064, abs=0.003)
    assert "repeat both runs" in close.sentence
    region = outperforms(noisy(5.2, on=machine(40)), noisy(5.0, seed=2, on=machine(40)))
    assert (region.outcome, region.details["first"]["run_to_run"]) == (Outcome.HELD, 0.005)


def test_a_verdict_that_only_the_noise_prevents_leans_to_its_figures():
    assert outperforms(noisy(5.2), noisy(5.0, seed=2)).leans is Outcome.HELD
    assert outperforms(noisy(5.0), noisy(5.2, seed=2)).leans is Outcome.VIOLATED
    assert resembles(noisy(5.0), noisy(5.4, seed=2)).leans is Outcome.HELD
    assert resembles(noisy(5.0), noisy(5.6, seed=2)).leans is Outcome.VIOLATED
    assert outperforms(FAST, FAST).leans is None
    assert outperforms(noisy(5.2), noisy(5.0, generator=GeneratorLoad(99.0))).leans is None
    assert outperforms(FAST, SLOW).leans is None


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
    assert slow.details["first"]["noise_error"] > 2 * plain.details["first"]["noise_error"]
    assert slow.details["margin"] > plain.details["margin"]


def test_alike_within_the_tolerance():
    verdict = resembles(FAST, NEARLY)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.startswith(
        "held: 9.93 Gbit/s against 9.7 Gbit/s (2 % more, at most 10 % apart required; "
    )
    assert resembles(FAST, SLOW).outcome is Outcome.VIOLATED
    wild = resembles(noisy(5.0, 0.2, memory=0.9), noisy(5.1, 0.2, memory=0.9, seed=9))
    assert wild.outcome is Outcome.INCONCLUSIVE
    assert "too much to decide" in wild.sentence
    assert resembles(network_run(5.0), network_run(5.1)).outcome is Outcome.HELD
    assert resembles(network_run(5.0), network_run(5.5)).outcome is Outcome.INCONCLUSIVE


def test_the_fall_of_a_burst_does_not_count_as_noise():
    one = network_run(values=burst(1_260, 1_800, seed=1))
    other = network_run(values=burst(1_240, 1_800, seed=2))
    verdict = resembles(one, other)
    assert verdict.outcome is Outcome.HELD
    assert verdict.details["margin"] < 0.07
    assert verdict.details["first"]["noise_error"] < 0.01 * verdict.details["first"]["measured"]
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
    assert outperforms(one, other, by=0.8).sentence.startswith(
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
        with pytest.raises(TypeError, match="that is not a measurement; pass another run"):
            outperforms(FAST, wrong)


@pytest.mark.parametrize(
    ("by", "error"),
    [("x", ValueError), (True, TypeError), (-1, ValueError), (50, ValueError), (5, ValueError)],
)
def test_a_wrong_margin_shows_how_to_write_it(by, error):
    with pytest.raises(error, match=r"by=0\.10 for 10 %"):
        outperforms(FAST, SLOW, by=by)


def test_a_margin_that_looks_like_per_cent_is_refused_and_may_be_given_as_such():
    with pytest.raises(ValueError, match=r"by=50 means 5,000 %.*write by=0\.5 for 50 %"):
        outperforms(FAST, SLOW, by=50)
    assert outperforms(FAST, SLOW, by="50 %").sentence == outperforms(FAST, SLOW, by=0.5).sentence
    assert outperforms(FAST, SLOW, by="5000 %").outcome is Outcome.VIOLATED


def test_a_run_may_be_asked_to_be_at_most_so_much_worse():
    base = noisy(5.0, 0.001)
    verdicts = [outperforms(noisy(gbit, 0.001, seed=2), base, by=-0.2) for gbit in (5.5, 4.6, 3.0)]
    assert [one.outcome for one in verdicts] == [Outcome.HELD, Outcome.HELD, Outcome.VIOLATED]
    assert verdicts[1].promise == "is at most 20 % below the other run"
    assert "at most 20 % less required" in str(verdicts[1])
    assert outperforms(base, base, by="-20 %").outcome is Outcome.HELD


def test_runs_of_different_block_sizes_are_compared_with_a_remark():
    for verdict in (
        outperforms(run_of(6_000, "16k"), run_of(6_000)),
        resembles(run_of(6_000, "16k"), run_of(6_000)),
    ):
        assert "blocks of 16 KiB against 4 KiB" in str(verdict)
    assert "blocks" not in str(outperforms(run_of(6_000), run_of(3_000, volumes=GP3)))


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
