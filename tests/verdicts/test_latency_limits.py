"""Limits of latency: held, violated at a ceiling, exceeded because of the machine, and not measured."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import M2, STRONG_MACHINE, delay_of, run_of

from pytest_cloudbench import io1
from pytest_cloudbench.verdicts.latency_limits import latency_at_most
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.workloads.measurement import Latency

ONE_IO1 = (("vol-0io1", io1(size_gib=200, iops=1_000)),)


def latency(mean_ms, p99_ms=None, p999_ms=None):
    return Latency(
        mean_ms / 1000,
        0.0001,
        1.0,
        p50_s=mean_ms / 1000,
        p99_s=p99_ms and p99_ms / 1000,
        p999_s=p999_ms and p999_ms / 1000,
    )


def at_the_ceiling(**how):
    return run_of(1_000, "16k", on=M2, volumes=ONE_IO1, outstanding=64, **how)


def far_below(**how):
    return run_of(200, "16k", on=M2, volumes=ONE_IO1, outstanding=1, **how)


def test_held_limits_name_the_figures_of_little_s_law():
    verdict = latency_at_most(far_below(), latency(5, 9), {"mean": "20 ms", "p99": "20 ms"})
    assert str(verdict) == (
        "held: latency: mean 5 ms, at most 20 ms required; p99 9 ms, at most 20 ms required; 1 I/Os in flight by "
        "Little's law (200 IOPS x 5 ms) of 1 asked (100.0 %)"
    )
    assert verdict.figure == "mean 5 ms, p99 9 ms"


def test_beyond_a_ceiling_i_os_wait_for_each_other():
    verdict = latency_at_most(at_the_ceiling(), latency(64), {"mean": "5 ms"})
    assert str(verdict) == (
        "violated: latency: mean 64 ms, at most 5 ms required; 64 I/Os in flight by Little's law (1,000 IOPS x 64 ms) "
        "of 64 asked (100.0 %); limited by io1 vol-0io1 IOPS, 1,000 IOPS"
    )
    assert [each.label for each in verdict.bound_by] == ["io1 vol-0io1 IOPS"]


def test_below_every_ceiling_it_is_the_embedded_region_s_machine():
    verdict = latency_at_most(far_below(machine=STRONG_MACHINE), latency(5), {"mean": 0.001})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert latency_at_most(far_below(), latency(5), {"mean": 0.001}).outcome is Outcome.VIOLATED


def one_after_another(mean_ms, late_ms, **how):
    """One I/O after another on a region, far below the ceiling."""
    delay = delay_of(mean_ms - late_ms, late_ms)
    return run_of(
        1_000 / mean_ms, "16k", volumes=ONE_IO1, outstanding=1, delay=delay, machine=STRONG_MACHINE, **how
    )


def test_modelled_latency_is_judged_like_any_other_and_called_modelled():
    calm = one_after_another(5, 0.1)
    held = latency_at_most(calm, latency(5, 9), {"mean": "6 ms", "p99": "10 ms"})
    assert held.outcome is Outcome.HELD
    assert held.figure == "mean 5 ms (modelled), p99 9 ms (modelled)"
    for limits in ({"mean": "4 ms"}, {"p99": "8 ms"}, {"p99": "3 ms"}, {"p999": "4 ms"}):
        verdict = latency_at_most(calm, latency(5, 9, 11), limits)
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.VIOLATED, False), limits
        assert "no known ceiling was reached" in verdict.sentence


def test_a_region_that_models_no_latency_shows_none_below_its_limits():
    for run in (
        SimpleNamespace(**vars(one_after_another(5, 0.1)), modelled_latency="none"),
        far_below(machine=STRONG_MACHINE),
    ):
        verdict = latency_at_most(run, latency(5), {"mean": "6 ms"})
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
        assert "(modelled)" not in verdict.sentence
        assert "models no latency" in verdict.sentence
    at_it = SimpleNamespace(**vars(at_the_ceiling(delay=delay_of(63, 0.5))), modelled_latency="none")
    assert latency_at_most(at_it, latency(64), {"mean": "70 ms"}).outcome is Outcome.HELD


def test_latency_that_the_machine_added_decides_nothing():
    late = one_after_another(5, 4)
    for limits in ({"mean": "4 ms"}, {"p99": "8 ms"}, {"p999": "10 ms"}, {"max": "0.5 s"}):
        verdict = latency_at_most(late, latency(5, 9, 11), limits)
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True), limits
        assert "mean latency 5 ms, 1 ms of it modelled: it added 80 %" in verdict.sentence
    assert latency_at_most(late, latency(5, 9), {"mean": "0.9 ms"}).outcome is Outcome.VIOLATED
    assert latency_at_most(late, latency(5, 9), {"mean": "6 ms"}).outcome is Outcome.HELD


def test_the_mean_at_a_ceiling_is_the_depth_however_late_the_machine_is():
    run = at_the_ceiling(machine=STRONG_MACHINE, delay=delay_of(40, 24))
    assert latency_at_most(run, latency(64), {"mean": "50 ms"}).outcome is Outcome.VIOLATED
    assert latency_at_most(run, latency(64, 200), {"p99": "100 ms"}).machine_limited


def test_a_tail_on_a_region_that_counted_nothing_is_not_violated():
    run = at_the_ceiling(machine=STRONG_MACHINE)
    assert latency_at_most(run, latency(64, 200), {"p99": "100 ms"}).outcome is Outcome.INCONCLUSIVE
    assert latency_at_most(run, latency(64, 200), {"p99": "20 ms"}).outcome is Outcome.VIOLATED
    assert latency_at_most(at_the_ceiling(), latency(64, 200), {"p99": "100 ms"}).outcome is Outcome.VIOLATED


def test_a_generator_without_a_cpu_is_inconclusive():
    run = far_below(generator=GeneratorLoad(99.0))
    assert latency_at_most(run, latency(5), {"mean": "1 ms"}).outcome is Outcome.INCONCLUSIVE


def test_contradicting_figures_are_inconclusive():
    run = run_of(1_000, "16k", on=M2, volumes=ONE_IO1, outstanding=64)
    wrong = type(run)(**{**vars(run), "latency_mean_s": 0.5})
    assert latency_at_most(wrong, latency(500), {"mean": "1 s"}).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"p99": "5 ms"}, "p99= cannot be judged, as it was not measured: ask one of mean, p50, max"),
        ({"p90": "5 ms"}, "p90= cannot be judged"),
        ({"mean": "5"}, "has no unit"),
        ({"mean": 0}, "must be above zero"),
        ({"mean": float("nan")}, "must be above zero"),
    ],
)
def test_limits_that_cannot_be_judged_are_errors(limits, message):
    with pytest.raises(ValueError, match=message):
        latency_at_most(far_below(), latency(5), limits)


@pytest.mark.parametrize("limits", [{}, {"mean": None}, {"mean": True}])
def test_a_limit_is_needed(limits):
    with pytest.raises(TypeError):
        latency_at_most(far_below(), latency(5), limits)


@given(mean=st.floats(0.01, 1_000), limit=st.floats(0.01, 1_000))
def test_outcome_and_shown_figures_agree(mean, limit):
    run = run_of(1_000, "16k", on=M2, volumes=ONE_IO1, outstanding=64)
    verdict = latency_at_most(run, latency(mean), {"mean": limit / 1000})
    assert (verdict.outcome is Outcome.HELD) == (mean <= limit * (1 + 1e-9))
    assert verdict.outcome in (Outcome.HELD, Outcome.VIOLATED)
