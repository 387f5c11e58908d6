"""Limits of latency: kept, broken at a ceiling, broken by the machine, and what was not measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import M2, STRONG_MACHINE, run_of

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


def test_kept_limits_say_what_little_s_law_says():
    verdict = latency_at_most(far_below(), latency(5, 9), {"mean": "20 ms", "p99": "20 ms"})
    assert str(verdict) == (
        "held: latency: mean 5 ms, at most 20 ms wanted; p99 9 ms, at most 20 ms wanted; 1 I/Os in flight by Little's "
        "law (200 IOPS x 5 ms) of 1 asked (100.0 %)"
    )
    assert verdict.figure == "mean 5 ms, p99 9 ms"


def test_beyond_a_ceiling_i_os_wait_for_each_other():
    verdict = latency_at_most(at_the_ceiling(), latency(64), {"mean": "5 ms"})
    assert str(verdict) == (
        "violated: latency: mean 64 ms, at most 5 ms wanted; 64 I/Os in flight by Little's law (1,000 IOPS x 64 ms) "
        "of 64 asked (100.0 %); bound by io1 vol-0io1 IOPS, 1,000 IOPS"
    )
    assert [each.label for each in verdict.bound_by] == ["io1 vol-0io1 IOPS"]


def test_below_every_ceiling_it_is_the_embedded_region_s_machine():
    verdict = latency_at_most(far_below(machine=STRONG_MACHINE), latency(5), {"mean": 0.001})
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert latency_at_most(far_below(), latency(5), {"mean": 0.001}).outcome is Outcome.VIOLATED


def test_a_tail_on_an_embedded_region_is_no_broken_promise():
    run = at_the_ceiling(machine=STRONG_MACHINE)
    assert latency_at_most(run, latency(64, 200), {"p99": "100 ms"}).outcome is Outcome.INCONCLUSIVE
    assert latency_at_most(run, latency(64, 200), {"p99": "20 ms"}).outcome is Outcome.VIOLATED
    assert latency_at_most(at_the_ceiling(), latency(64, 200), {"p99": "100 ms"}).outcome is Outcome.VIOLATED


def test_a_generator_without_a_cpu_is_inconclusive():
    run = far_below(generator=GeneratorLoad(99.0))
    assert latency_at_most(run, latency(5), {"mean": "1 ms"}).outcome is Outcome.INCONCLUSIVE


def test_what_contradicts_itself_is_inconclusive():
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
def test_what_cannot_be_judged_is_an_error(limits, message):
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
