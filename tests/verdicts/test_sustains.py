"""How long a rate is held: stretches of a series, shares of their samples, and runs that are too short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import M5_2XL, burst, network_run
from synthetic_runs import LATE, STRONG_MACHINE, ceiling, run_of

from pytest_cloudbench.limits.quantities import Throughput
from pytest_cloudbench.verdicts.sustains import sustains
from pytest_cloudbench.verdicts.verdict import Outcome

C5_IOPS = 80_000


def test_a_steady_run_sustains_its_rate():
    run = run_of(79_900, samples=600)
    verdict = sustains(run, ceiling("io2 vol-0abc IOPS", run), for_="10 min")
    assert str(verdict) == (
        "held: at or above 72,000 IOPS (90 % of 80,000 IOPS) for 600 s (10 min) without a break, "
        "at least 600 s (10 min) required"
    )


def test_a_run_that_is_shorter_can_show_nothing():
    verdict = sustains(run_of(80_000, samples=60), "80,000 IOPS", for_="10 min")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the run lasted 60 s, too short to show 80,000 IOPS for 600 s (10 min)" in str(verdict)


def test_the_unfinished_last_sample_of_a_run_of_that_length_is_forgiven():
    assert sustains(run_of(80_000, samples=599), "80,000 IOPS", for_=600)
    assert sustains(run_of(80_000, samples=598), "80,000 IOPS", for_=600).outcome is Outcome.INCONCLUSIVE


def test_one_dip_breaks_it_and_its_share_may_be_allowed():
    values = [80_000] * 300 + [40_000] + [80_000] * 300
    run = run_of(79_933, values=values, machine=None)
    broken = sustains(run, "80,000 IOPS", for_="10 min")
    assert broken.outcome is Outcome.VIOLATED
    assert "for at most 300 s (5 min) without a break, 600 s (10 min) required" in str(broken)
    assert sustains(run, "80,000 IOPS", for_="10 min", share=0.99)
    assert sustains(run, "80,000 IOPS", for_="5 min")


def test_samples_that_only_the_machine_explains_are_inconclusive():
    values = [80_000] * 30 + [30_000] * 30
    verdict = sustains(run_of(55_000, values=values, machine=STRONG_MACHINE), "80,000 IOPS", for_=60)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    measured = sustains(run_of(55_000, values=values, delay=LATE), "80,000 IOPS", for_=60)
    assert (measured.outcome, measured.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "0.3 ms of it modelled" in measured.sentence


def test_a_burst_of_a_network_is_sustained_for_as_long_as_it_lasts():
    run = network_run(values=burst(1_260, 1_800), streams=5)
    assert sustains(run, M5_2XL.network_peak, for_="20 min")
    too_long = sustains(run, M5_2XL.network_peak, for_="25 min")
    assert too_long.outcome is Outcome.VIOLATED
    assert too_long.measured is not None


@pytest.mark.parametrize("for_", ["10", "a while", 0, -3, float("nan")])
def test_an_invalid_time_is_refused(for_):
    with pytest.raises(ValueError, match=r"invalid duration|unit|length of time"):
        sustains(run_of(80_000), "80,000 IOPS", for_=for_)


def test_a_rate_needs_its_unit():
    with pytest.raises(TypeError, match="no unit"):
        sustains(run_of(80_000), 80_000, for_="1 min")


@given(
    good=st.lists(st.booleans(), min_size=5, max_size=80),
    length=st.integers(1, 80),
)
def test_it_holds_exactly_where_such_a_stretch_exists(good, length):
    values = [80_000 if each else 10_000 for each in good]
    run = run_of(sum(values) / len(values), values=values)
    verdict = sustains(run, "80,000 IOPS", for_=length)
    count = length - 1 if len(values) == length - 1 and length > 1 else length
    exists = any(all(good[at : at + count]) for at in range(len(good) - count + 1))
    assert (verdict.outcome is Outcome.HELD) == (exists and len(good) >= count)


def test_throughput_can_be_sustained_too():
    run = run_of(80_000)
    assert sustains(run, Throughput.from_mib(312.5), for_=60)


@pytest.mark.parametrize("for_", [0.001, 1e-9, "1 us"])
def test_a_time_shorter_than_a_sample_is_seen_in_one(for_):
    assert sustains(run_of(80_000), "80,000 IOPS", for_=for_).outcome is Outcome.HELD
    assert sustains(run_of(40_000), "80,000 IOPS", for_=for_).outcome is not Outcome.HELD
