"""The end of a burst of storage, beside the arithmetic of its credits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import network_run
from synthetic_runs import M5, ceiling, run_of

from pytest_cloudbench import gp2, gp3, st1
from pytest_cloudbench.limits.volumes import volume_ceilings
from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at
from pytest_cloudbench.verdicts.verdict import Outcome

GP2 = (("vol-0gp2", gp2(size_gib=100)),)
ST1 = (("vol-0st1", st1(size_gib=1024)),)


def falling(at_s, *, before=3_000, after=300, length=2_400, volumes=GP2, **how):
    values = [before if second < at_s else after for second in range(length)]
    return run_of(sum(values) / length, values=values, volumes=volumes, on=M5, **how)


def gp2_iops(run):
    return ceiling("gp2 vol-0gp2 IOPS", run)


def test_the_end_is_compared_with_how_long_a_full_bucket_lasts():
    run = falling(2_000)
    verdict = burst_ends_at(run, gp2_iops(run))
    assert str(verdict) == (
        "held: dropped after 2,000 s (33.3 min) from 3,000 IOPS to 300 of 300 IOPS (100.0 %, 95 to 105 % required), "
        "gp2 vol-0gp2 IOPS; a full bucket of 5,400,000 I/Os lasts 2,000 s (33.3 min) at 3,000 IOPS, as measured"
    )
    assert verdict.details["burst_ended_s"] == pytest.approx(verdict.details["burst_lasts_s"], rel=0.001)


def test_a_plain_level_finds_the_credits_that_end_there():
    assert "a full bucket of 5,400,000 I/Os" in str(burst_ends_at(falling(2_000), "300 IOPS"))


def test_a_bucket_that_was_not_full_is_remarked_on():
    assert "earlier: part of it had been spent before" in str(burst_ends_at(falling(1_000), "300 IOPS"))


def test_a_run_within_the_burst_is_too_short_to_show_its_end():
    run = run_of(3_000, volumes=GP2, on=M5, samples=1_900)
    verdict = burst_ends_at(run, gp2_iops(run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no lasting fall in 1,900 s (31.7 min) at 3,000 IOPS" in str(verdict)
    assert "lengthen the run" in str(verdict)


def test_a_burst_that_does_not_end_is_violated():
    run = run_of(3_000, volumes=GP2, on=M5, samples=2_400)
    assert burst_ends_at(run, gp2_iops(run)).outcome is Outcome.VIOLATED


def test_a_slower_load_empties_a_bucket_more_slowly():
    run = run_of(2_000, volumes=GP2, on=M5, samples=2_400)
    verdict = burst_ends_at(run, gp2_iops(run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "lasts 3,176 s" in str(verdict)


def test_throughput_credits_of_an_hdd():
    values = [250] * 4_993 + [40] * 500
    run = run_of(sum(values) / len(values), "1m", values=values, volumes=ST1, on=M5, sequential=True)
    verdict = burst_ends_at(run, ceiling("st1 vol-0st1 throughput", run))
    assert verdict.outcome is Outcome.HELD
    assert "a full bucket of 1,024 GiB lasts 4,993 s (83.2 min) at 250 MiB/s" in str(verdict)


def test_an_instance_falls_back_to_its_baseline():
    values = [18_750] * 1_800 + [12_000] * 600
    volumes = (("vol-0gp3", gp3(size_gib=100, iops=50_000)),)
    run = run_of(sum(values) / len(values), values=values, volumes=volumes, on=M5)
    verdict = burst_ends_at(run, ceiling("m5.2xlarge EBS IOPS", run))
    assert verdict.outcome is Outcome.HELD
    assert "lasts 1,800 s (30 min) at 18,750 IOPS" in str(verdict)


def test_a_network_has_drops_to():
    with pytest.raises(TypeError, match="ask drops_to"):
        burst_ends_at(network_run(5.0), "2.5 Gbit/s")


@given(size=st.integers(1, 999), count=st.integers(1, 8))
def test_several_volumes_have_several_buckets(size, count):
    iops, _ = volume_ceilings([(f"vol-{number}", gp2(size_gib=size)) for number in range(count)])
    assert iops.burst_credits == count * 5_400_000
    rule = gp2(size_gib=size).credits
    assert rule is not None
    assert iops.burst_s == pytest.approx(rule.time_until_empty())
