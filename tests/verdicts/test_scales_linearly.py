"""n times as much, n times the rate: lines, runs that fall off them, and runs that set no line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import C5_18XL, network_run
from synthetic_runs import M2, WEAK_MACHINE, run_of

from pytest_cloudbench import io1
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.scales_linearly import scales_linearly
from pytest_cloudbench.verdicts.verdict import Outcome


def volumes(count):
    return tuple((f"vol-{number}", io1(size_gib=200, iops=1_000)) for number in range(count))


def on(count, iops, block="16k", **how):
    return run_of(iops, block, on=M2, volumes=volumes(count), outstanding=64 * count, **how)


def test_volumes_that_add_up_are_linear():
    verdict = scales_linearly([on(1, 1_000), on(2, 2_000), on(5, 4_960)], with_=[1, 2, 5])
    assert str(verdict) == (
        "held: 1,000 IOPS with 1, 2,000 IOPS with 2 and 4,960 IOPS with 5 volumes (at most 1 % off a line, 5 % allowed)"
    )


def test_the_first_that_falls_off_is_named_with_its_limit():
    runs = [on(1, 1_000, "64k"), on(2, 1_907, "64k"), on(5, 1_907, "64k")]
    verdict = scales_linearly(runs, with_=[1, 2, 5])
    assert str(verdict) == (
        "violated: with 5: 1,907 of 5,000 IOPS (38 %, 95 to 105 % required), off the line from 1,000 IOPS with 1; "
        "limited by m2.4xlarge EBS throughput, 119.21 MiB/s at 64 KiB: more volumes would not help"
    )


def test_a_generator_beside_the_limit_that_held_the_last_decides_nothing():
    runs = [on(1, 1_000, "64k"), on(5, 1_907, "64k", generator=GeneratorLoad(100.0, 400.0, 8))]
    verdict = scales_linearly(runs, with_=[1, 5])
    assert (verdict.outcome, verdict.bound_by) == (Outcome.INCONCLUSIVE, ())
    assert "m2.4xlarge EBS throughput or the load generator held it back" in verdict.sentence


def test_runs_may_come_in_any_order():
    verdict = scales_linearly([on(5, 5_000), on(1, 1_000)], with_=[5, 1])
    assert verdict.details["with"] == [1, 5]
    assert verdict


def test_above_the_line_is_a_finding():
    verdict = scales_linearly([on(1, 500), on(2, 2_000)], with_=[1, 2])
    assert verdict.outcome is Outcome.VIOLATED
    assert "above the line" in str(verdict)


def test_a_machine_that_holds_the_last_back_is_inconclusive():
    verdict = scales_linearly([on(1, 1_000), on(5, 3_000, machine=WEAK_MACHINE)], with_=[1, 5])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited


def test_a_first_run_that_the_machine_held_back_sets_no_line():
    runs = [on(1, 700, machine=WEAK_MACHINE), on(5, 3_500, machine=WEAK_MACHINE)]
    verdict = scales_linearly(runs, with_=[1, 5])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "sets no line" in str(verdict)


def test_streams_end_at_the_instance():
    one = network_run(4.96, client=C5_18XL, streams=1)
    eight = network_run(24.8, client=C5_18XL, streams=8)
    verdict = scales_linearly([one, eight], with_=[1, 8])
    assert verdict.outcome is Outcome.VIOLATED
    assert "more streams would not help" in str(verdict)


@pytest.mark.parametrize(
    ("counts", "message"),
    [([1], "a count for each"), ([1, 1], "occur once"), ([0, 1], "not a count"), ([1.0, 2], "not a count")],
)
def test_counts_must_fit(counts, message):
    with pytest.raises(ValueError, match=message):
        scales_linearly([on(1, 1_000), on(2, 2_000)], with_=counts)


def test_one_run_is_on_every_line():
    with pytest.raises(ValueError, match="at least two"):
        scales_linearly([on(1, 1_000)], with_=[1])


def test_what_is_no_measurement_is_refused():
    with pytest.raises(TypeError, match="not a measurement"):
        scales_linearly([on(1, 1_000), "2,000 IOPS"], with_=[1, 2])
    with pytest.raises(TypeError, match="no common rate"):
        scales_linearly([on(1, 1_000), network_run(5.0)], with_=[1, 2])


@given(share=st.floats(0.5, 1.5), count=st.integers(2, 8))
def test_held_is_within_the_tolerance_on_either_side(share, count):
    verdict = scales_linearly([on(1, 100), on(count, 100 * count * share)], with_=[1, count])
    off = abs(share - 1)
    assert abs(off - 0.05) < 1e-6 or (verdict.outcome is Outcome.HELD) == (off < 0.05)


@pytest.mark.parametrize("with_", [2, None, "12"])
def test_counts_that_are_no_list_are_refused_with_an_example(with_):
    with pytest.raises(TypeError, match=r"with_=\[1, 2\]"):
        scales_linearly([run_of(1_000), run_of(2_000)], with_=with_)


def test_a_single_run_is_refused_with_an_example():
    with pytest.raises(TypeError, match=r"\[one, two\]"):
        scales_linearly(run_of(1_000), with_=[1])
