"""Data that are wrong are found when the view of a run is made, and sound data never are."""

import dataclasses
import math
from statistics import fmean
from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from synthetic_networks import SyntheticSeries as NetworkSeries
from synthetic_networks import network_run
from synthetic_runs import STRONG_MACHINE, run_of

from pytest_cloudbench import Iops, Outcome, Throughput
from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.latency_limits import latency_at_most
from pytest_cloudbench.verdicts.observation import MachineDelay
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view
from pytest_cloudbench.verdicts.sustains import sustains

TIMES = tuple(float(second + 1) for second in range(60))
ONE = 3_000.0
RATES = st.lists(st.floats(1, 1e6), min_size=4, max_size=40)


def with_series(seconds, values, *, mean=None, runtime_s=60.0, **more):
    """A run whose series is this one; ``more`` are further attributes of it."""
    rates = tuple(map(Iops, values))
    bytes_of = tuple(Throughput(value * 4096) for value in values)
    series = SimpleNamespace(seconds=tuple(seconds), iops=rates, throughput=bytes_of, **more)
    run = run_of(fmean(values) if mean is None else mean)
    return dataclasses.replace(run, series=series, runtime_s=runtime_s)


def damage(seconds=TIMES, values=(ONE,) * 60, **how):
    return view(with_series(seconds, values, **how)).damage


def without(seconds, *lost):
    return tuple(second for second in seconds if second not in lost)


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (without(TIMES, 30.0), "lacks samples from 29 to 30 s"),
        (without(TIMES, *range(11, 21)), "lacks samples from 10 to 20 s"),
        (without(TIMES, 1.0), "lacks samples from 0 to 1 s"),
        ((0.2, *TIMES[1:]), "a sample of 0.2 s at 0.2 s"),
        ((*TIMES[:30], 30.3, *TIMES[30:]), "a sample of 0.3 s at 30.3 s"),
        (tuple(second - 30 for second in TIMES), "begins 29 s before the run"),
        (TIMES[::-1], "do not rise"),
    ],
)
def test_samples_that_are_missing_or_too_many_are_named(seconds, why):
    assert why in damage(seconds, (ONE,) * len(seconds))


def test_a_claim_about_time_is_not_judged_on_damaged_times():
    verdict = sustains(with_series(TIMES[::-1], (ONE,) * 60), "3,000 IOPS", for_=60)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "-" not in str(verdict)


@pytest.mark.parametrize("factor", [0.5, 0.8, 0.9, 1.1, 1.25, 2.0])
def test_samples_and_a_total_that_contradict_each_other_are_refused(factor):
    text = damage(mean=ONE * factor)
    assert "mean of 3,000 IOPS" in text
    assert f"one of {Iops(ONE * factor)}" in text


STARVED = MachineDelay(answered=1711, modelled_s=0.000618, late_s=0.0338)
"""Of a run by 64 processes of fio that shared 2 slow CPUs: a third of its 3,765 I/Os are in no sample (measured)."""


def on_region(run, delay):
    return dataclasses.replace(
        run, envelope=run_of(ONE, machine=STRONG_MACHINE).envelope, machine_delay=delay
    )


@pytest.mark.parametrize("judge", [reaches, capped_by])
@given(factor=st.floats(0.01, 0.94) | st.floats(1.06, 10))
def test_a_late_machine_may_be_why_samples_and_a_total_contradict_each_other(judge, factor):
    """No test fails by what the machine under a region may have done."""
    run = with_series(TIMES, (ONE,) * 60, mean=ONE * factor)
    calm = MachineDelay(answered=1711, modelled_s=run.latency_mean_s, late_s=0.0)
    no_latency = dataclasses.replace(on_region(run, calm), latency_mean_s=math.nan)
    for one, to_blame in (
        (on_region(run, STARVED), True),
        (on_region(run, None), True),  # nothing shows that it was on time
        (no_latency, True),  # only the device was on time
        (on_region(run, calm), False),
        (run, False),
    ):
        verdict = judge(one, "3,000 IOPS")
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "mean of 3,000 IOPS" in str(verdict)
        assert verdict.machine_limited is to_blame
        assert (MACHINE_OWNER in str(verdict)) is to_blame
        assert "added 0 %" not in str(verdict)


@pytest.mark.parametrize(
    "run",
    [
        with_series(TIMES[::-1], (ONE,) * 60),
        with_series(TIMES, (*[ONE] * 59, math.nan), mean=ONE),
        with_series((), (), mean=ONE, damage="line 7 is not a sample"),
        with_series(TIMES, (ONE,) * 60, mean=ONE / 2, latency_s=(-1.0,) * 60),
    ],
)
def test_a_late_machine_explains_no_other_damage(run):
    verdict = reaches(on_region(run, STARVED), "3,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "damaged" in str(verdict)
    assert not verdict.machine_limited


def test_samples_beyond_the_end_of_the_run_are_refused():
    assert "mean" in damage(runtime_s=40.0)


def test_a_stall_is_sound_if_the_total_shows_it_and_damage_if_not():
    values = [ONE] * 40 + [0.0] * 20
    assert damage(values=values) == ""
    assert "mean of 2,000 IOPS" in damage(values=values, mean=ONE)
    assert "mean of 0 IOPS" in damage(values=[0.0] * 60, mean=ONE)


def test_the_two_quantities_are_compared_with_their_own_total():
    run = with_series(TIMES, (ONE,) * 60)
    assert view(run).damage == ""
    text = view(dataclasses.replace(run, throughput_mib=run.throughput_mib * 2)).damage
    assert "11.72 MiB/s" in text
    assert "23.44 MiB/s" in text


def test_what_a_series_leaves_out_may_have_been_slower_or_as_fast():
    assert damage(TIMES[:50], (ONE,) * 50, mean=ONE) == ""
    assert damage(TIMES[:50], (ONE,) * 50, mean=ONE * 50 / 60) == ""
    assert damage(TIMES[:50], (ONE,) * 50, mean=ONE * 1.2) != ""


def test_intervals_that_cover_all_time_may_vary():
    seconds = (1.0, 2.0, 4.5, 5.0, 6.0, 6.4)
    assert damage(seconds, (ONE,) * 6, runtime_s=6.4) != ""
    assert damage(seconds, (ONE,) * 6, runtime_s=6.4, gapless=True) == ""


def test_what_devices_count_may_exceed_the_load():
    assert damage(mean=ONE / 2) != ""
    assert damage(mean=ONE / 2, of_devices=True) == ""


def test_what_the_tool_wrote_wrong_is_passed_on():
    assert damage((), (), mean=ONE, damage="line 7 is not a sample") == "line 7 is not a sample"


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -0.001])
def test_a_latency_that_is_no_time_is_refused_wherever_it_stands(wrong):
    sound = with_series(TIMES, (ONE,) * 60)
    good = {"mean_s": 0.01, "min_s": 0.001, "max_s": 0.1, "p99_s": 0.05, "p999_s": None}
    for name in ("mean_s", "min_s", "p99_s", "max_s"):
        latency = SimpleNamespace(**{**good, name: wrong})
        for obs in (
            SimpleNamespace(**vars(sound), latency=latency),
            SimpleNamespace(**vars(sound), latency=None, read=SimpleNamespace(latency=latency)),
        ):
            assert name[:-2] in view(obs).damage
            verdict = latency_at_most(obs, latency, {"p99": 0.06})
            assert verdict.outcome is Outcome.INCONCLUSIVE
            assert "damaged" in str(verdict)
    assert "latency" in damage(latency_s=(0.01,) * 59 + (wrong,))


def test_a_latency_that_is_not_known_is_no_damage():
    sound = with_series(TIMES, (ONE,) * 60, latency_s=(0.01,) * 59 + (None,))
    assert view(dataclasses.replace(sound, latency_mean_s=math.nan)).damage == ""
    for wrong in (-0.001, math.inf):
        assert "mean latency" in view(dataclasses.replace(sound, latency_mean_s=wrong)).damage


@pytest.mark.parametrize("runtime_s", [math.nan, math.inf, -60.0])
def test_a_run_time_that_is_no_time_is_refused(runtime_s):
    assert "run time" in damage(runtime_s=runtime_s)


def test_networks_are_checked_alike():
    run = network_run(9.93)
    assert view(run).damage == ""
    assert "mean of 9.93 Gbit/s" in view(dataclasses.replace(run, throughput=Bandwidth.from_gbit(5))).damage
    series = NetworkSeries(without(run.series.seconds, 30.0), run.series.throughput[1:])
    assert "lacks samples" in str(reaches(dataclasses.replace(run, series=series), "10 Gbit/s"))


@given(RATES, st.sampled_from([0.2, 1.0, 12.0]), st.floats(0, 0.89), st.booleans())
def test_sound_data_are_never_called_damaged(values, interval_s, rest, cut):
    """All full samples of a run, with or without an unfinished last one that the total contains."""
    seconds = [interval_s * (number + 1) for number in range(len(values))]
    runtime_s = seconds[-1] + rest * interval_s
    total = interval_s * (sum(values) + rest * values[0])
    if not cut and rest > 0.05:
        seconds, values = [*seconds, runtime_s], [*values, values[0]]
    assert damage(seconds, values, mean=total / runtime_s, runtime_s=runtime_s) == ""


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
@given(data=st.data())
def test_few_samples_say_nothing_about_the_rest_of_the_run(samples, data):
    """fio logs one sample of a run of 2 s; in its other second this machine did 1.3 times as many I/Os (measured)."""
    values = data.draw(st.lists(st.floats(1, 1e6), min_size=samples, max_size=samples))
    rest_s, rest = data.draw(st.floats(0.05, 1.5)), data.draw(st.floats(0, 1e6))
    seconds, runtime_s = [float(number + 1) for number in range(samples)], samples + rest_s
    mean = (sum(values) + rest_s * rest) / runtime_s
    assert damage(seconds, values, mean=mean, runtime_s=runtime_s) == ""
    too_low = sum(values) / runtime_s * 0.9
    assert damage(seconds, values, mean=too_low, runtime_s=runtime_s) != ""
    assert damage(seconds, values, mean=2 * fmean(values), runtime_s=float(samples)) != ""


@given(st.integers(1, 9), st.floats(1, 1e6), st.floats(0, 0.05))
def test_a_last_sample_may_end_a_little_after_the_run(samples, rate, early_s):
    """A sample counts as whole if a run that ended by itself covers all but 5 % of it."""
    seconds, runtime_s = [float(number + 1) for number in range(samples)], samples - early_s
    assert damage(seconds, [rate] * samples, mean=rate, runtime_s=runtime_s) == ""


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=40), st.floats(0.05, 1.5), st.floats(0, 1.0))
def test_an_unseen_end_that_is_no_faster_than_all_else_is_sound(values, rest_s, share):
    seconds, runtime_s = [float(number + 1) for number in range(len(values))], len(values) + rest_s
    mean = (sum(values) + rest_s * share * max(values)) / runtime_s
    assert damage(seconds, values, mean=mean, runtime_s=runtime_s) == ""


def test_an_unseen_end_may_be_faster_than_few_samples_that_vary():
    """64 jobs on a busy machine did 773 MiB/s in the last 1.5 of 6.5 s, which no sample covers (measured)."""
    seconds, samples = TIMES[:5], [618.5, 494.6, 514.8, 628.1, 621.4]
    mean = 621.3
    assert damage(seconds, samples, mean=mean, runtime_s=6.515) == ""
    assert damage(seconds, [sum(samples) / 5] * 5, mean=mean, runtime_s=6.515) != ""
    assert damage(seconds, samples, mean=1.5 * mean, runtime_s=6.515) != ""


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=40), st.floats(0.2, 1.5))
def test_no_unseen_end_is_far_above_all_samples(values, rest_s):
    """However much they vary: before and after a burst, for example. Many samples show how high the rate was."""
    seconds, runtime_s = [float(number + 1) for number in range(len(values))], len(values) + rest_s
    above = 1.5 if len(values) < 20 else 1.0
    most = sum(values) + rest_s * above * max(values)
    too_high = (most + 0.01 * most) / 0.95 / runtime_s  # 5 % of the total may be missing anyway
    assert damage(seconds, values, mean=too_high, runtime_s=runtime_s) != ""


@given(RATES, st.data())
def test_a_lost_inner_sample_is_always_seen(values, data):
    seconds = [float(number + 1) for number in range(len(values))]
    lost = data.draw(st.integers(0, len(values) - 2))
    kept = [number for number in range(len(values)) if number != lost]
    text = damage(
        [seconds[number] for number in kept],
        [values[number] for number in kept],
        mean=fmean(values),
        runtime_s=seconds[-1],
    )
    assert text != ""


@given(st.permutations(range(1, 13)))
def test_times_in_any_other_order_are_always_seen(order):
    assume(order != sorted(order))
    assert damage([float(second) for second in order], (ONE,) * 12, runtime_s=12.0) != ""


@given(RATES, st.floats(0, 0.94) | st.floats(1.06, 10))
def test_a_total_that_is_far_off_is_always_seen(values, factor):
    assume(factor > 0)
    seconds = [float(number + 1) for number in range(len(values))]
    mean = fmean(values) * factor
    assert damage(seconds, values, mean=mean, runtime_s=seconds[-1]) != ""


@pytest.mark.parametrize(
    "judge",
    [
        lambda run: reaches(run, "3,000 IOPS"),
        lambda run: sustains(run, "3,000 IOPS", for_=10),
        lambda run: capped_by(run, "3,000 IOPS"),
    ],
)
def test_reads_that_did_not_reach_the_storage_decide_nothing(judge):
    run = SimpleNamespace(**vars(run_of(ONE)), reads_nothing="the disk was never written")
    verdict = judge(run)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the disk was never written" in str(verdict)
