"""`capped_by`: both sides of the ceiling, everything that makes it unproven, and how it reads."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import C5, FIVE_IO1, GP3, LATE, M2, M5, STRONG_MACHINE, WEAK_MACHINE, ceiling, run_of
from synthetic_series import noise

from pytest_cloudbench import Ceiling, Iops, Outcome, Throughput, gp2
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad

GP3_IOPS = "gp3 vol-0def IOPS"


def gp3_run(iops=3_001, **asked):
    return run_of(iops, on=M5, volumes=GP3, **asked)


def judge_gp3(iops=3_001, within=0.05, **asked):
    run = gp3_run(iops, **asked)
    return capped_by(run, ceiling(GP3_IOPS, run), within=within)


def test_throughput_capped_by_the_instance():
    verdict = capped_by(run_of(9_060.4, "256k", sequential=True), C5.ebs_throughput)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: 2,265.1 of 2,264.98 MiB/s (100.0 %), capped by c5.18xlarge EBS throughput; "
        "the volume (io2 80 GiB/80,000 IOPS) could give 4,000 MiB/s"
    )
    assert verdict.promise == "capped by c5.18xlarge EBS throughput, 2,264.98 MiB/s, within 5 %"
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]


def test_five_volumes_are_capped_by_the_instances_gigabit():
    verdict = capped_by(run_of(1_907, "64k", on=M2, volumes=FIVE_IO1), M2.ebs_throughput)
    assert verdict.sentence == (
        "held: 119.19 of 119.21 MiB/s (100.0 %), capped by m2.4xlarge EBS throughput; "
        "the volumes (5 x io1 200 GiB/1,000 IOPS) could give 312.5 MiB/s"
    )


def test_a_volume_caps_below_its_instance():
    verdict = judge_gp3()
    assert verdict.sentence == (
        "held: 3,001 of 3,000 IOPS (100.0 %), capped by gp3 vol-0def IOPS; "
        "m5.2xlarge EBS IOPS would allow 18,750 IOPS"
    )


def test_the_wrong_ceiling_is_violated_naming_the_right_one():
    run = run_of(9_060.4, "256k", sequential=True)
    verdict = capped_by(run, ceiling("io2 vol-0abc throughput", run))
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 2,265.1 of 4,000 MiB/s (57 %, 95 to 105 % required), so not at io2 vol-0abc throughput; "
        "limited by c5.18xlarge EBS throughput, 2,264.98 MiB/s at 256 KiB"
    )
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]


def test_above_the_ceiling_is_a_finding():
    verdict = judge_gp3(3_400)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 3,400 of 3,000 IOPS (113 %, at most 105 % possible under it); above the ceiling "
        "gp3 vol-0def IOPS: a cache, burst credits or the wrong device served it"
    )


@pytest.mark.parametrize("counters", [None, ThrottleDelta(60), ThrottleDelta(60, 57)])
@pytest.mark.parametrize("region", [{}, {"machine": WEAK_MACHINE}, {"delay": LATE}])
def test_above_the_ceiling_is_never_the_machines_doing(counters, region):
    assert judge_gp3(3_400, counters=counters, **region).outcome is Outcome.VIOLATED


def test_a_rate_below_it_because_of_the_machine_is_not_violated():
    run = run_of(45_120, machine=WEAK_MACHINE)
    verdict = capped_by(run, ceiling("io2 vol-0abc IOPS", run))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "the machine under the embedded region was the limit" in verdict.sentence


def test_below_it_and_unexplained_is_violated():
    verdict = judge_gp3(2_000)
    assert verdict.outcome is Outcome.VIOLATED
    assert "2,000 of 3,000 IOPS (67 %, 95 to 105 % required)" in verdict.sentence
    assert "no known ceiling explains it" in verdict.sentence


def test_below_it_although_its_counter_ran():
    verdict = judge_gp3(2_000, counters=ThrottleDelta(60, 57), machine=WEAK_MACHINE)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 2,000 of 3,000 IOPS (67 %, 95 to 105 % required), not at gp3 vol-0def IOPS, "
        "although its throttle counter says that it acted for 57 of 60 s"
    )


def test_tied_ceilings_cannot_be_told_apart():
    run = run_of(80_000)
    for label in ("io2 vol-0abc IOPS", "c5.18xlarge EBS IOPS"):
        verdict = capped_by(run, ceiling(label, run))
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "io2 vol-0abc IOPS (80,000 IOPS)" in verdict.sentence
        assert "c5.18xlarge EBS IOPS (80,000 IOPS)" in verdict.sentence
        assert verdict.sentence.endswith("are too close to tell apart without throttle counters")
        assert len(verdict.bound_by) == 2


def test_throttle_counters_distinguish_tied_ceilings():
    by_volume = run_of(80_000, counters=ThrottleDelta(60, 58, 0, 0, 0))
    volume, instance = ceiling("io2 vol-0abc IOPS", by_volume), C5.ebs_iops
    held = capped_by(by_volume, volume)
    assert held.sentence == (
        "held: 80,000 of 80,000 IOPS (100.0 %), capped by io2 vol-0abc IOPS; "
        "c5.18xlarge EBS IOPS lies at 80,000 IOPS too, but by its throttle counter it hardly acted"
    )
    denied = capped_by(by_volume, instance)
    assert denied.outcome is Outcome.INCONCLUSIVE
    assert denied.sentence.endswith(
        "the throttle counters do not agree: c5.18xlarge EBS IOPS was exceeded for only 0 of 60 s, "
        "io2 vol-0abc IOPS for 58 of 60 s"
    )
    by_both = run_of(80_000, counters=ThrottleDelta(60, 58, 0, 57, 0))
    both = capped_by(by_both, volume)
    assert both.outcome is Outcome.INCONCLUSIVE
    assert both.sentence.endswith(
        "are too close to tell apart, and the throttle counters saw each of them act"
    )


def test_a_plain_figure_stands_for_every_ceiling_of_that_figure():
    assert "capped by c5.18xlarge EBS throughput" in capped_by(run_of(9_060, "256k"), "2,375 MB/s").sentence
    tied = capped_by(run_of(80_000), Iops(80_000))
    assert tied.outcome is Outcome.HELD
    assert "capped by io2 vol-0abc IOPS and c5.18xlarge EBS IOPS" in tied.sentence
    assert len(tied.bound_by) == 2
    counted = capped_by(run_of(80_000, counters=ThrottleDelta(60, 58, 0, 0, 0)), "80,000 IOPS")
    assert counted.outcome is Outcome.HELD


def test_a_plain_figure_may_state_the_other_quantity_of_a_ceiling():
    verdict = capped_by(run_of(9_060, "256k"), "9,060 IOPS")
    assert verdict.outcome is Outcome.HELD
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]
    assert capped_by(gp3_run(), "11.72 MiB/s").bound_by[0].label == GP3_IOPS


def test_a_plain_figure_that_no_ceiling_has():
    bare = capped_by(run_of(3_001, envelope=False), "3,000 IOPS")
    assert bare.sentence == "held: 3,001 of 3,000 IOPS (100.0 %), capped by the given limit"
    near = capped_by(gp3_run(), "3,050 IOPS")
    assert near.outcome is Outcome.INCONCLUSIVE
    assert "the given limit (3,050 IOPS) and gp3 vol-0def IOPS (3,000 IOPS) are too close" in near.sentence
    far = capped_by(gp3_run(2_000), "2,000 IOPS")
    assert (far.outcome, far.bound_by) == (Outcome.INCONCLUSIVE, ())
    assert "2,000 IOPS is not a limit of this run" in far.sentence
    assert "gp3 vol-0def IOPS, 3,000 IOPS" in far.sentence


def test_a_limit_of_other_hardware_is_refused_with_those_of_the_run():
    run = gp3_run(2_000)
    with pytest.raises(ValueError, match=r"gp3 vol-0other IOPS.*not a limit of this run.*gp3 vol-0def"):
        capped_by(run, Ceiling("gp3 vol-0other", "volume IOPS", "volume", Iops(2_000)))
    with pytest.raises(ValueError, match=r"c5.18xlarge EBS IOPS.*not a limit of this run.*m5.2xlarge"):
        capped_by(run, C5.ebs_iops)


def test_a_ceiling_needs_no_envelope():
    verdict = capped_by(
        run_of(3_001, envelope=False), Ceiling("c9.huge", "EBS IOPS", "instance", Iops(3_000))
    )
    assert verdict.outcome is Outcome.HELD


def test_the_envelopes_own_figures_of_a_ceiling_count():
    outdated = Ceiling("c5.18xlarge", "EBS throughput", "instance", Throughput.from_mb(1_000))
    assert capped_by(run_of(9_060, "256k"), outdated).outcome is Outcome.HELD


@pytest.mark.parametrize("asked", [Iops(2_990), Iops(3_000), Iops(3_100)])
def test_a_demand_not_above_the_ceiling_proves_nothing(asked):
    verdict = judge_gp3(2_995, rate_asked=asked)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert f"the job limited its own load to {asked}, not above gp3 vol-0def IOPS" in verdict.sentence


def test_a_demand_hardly_above_needs_the_counters_word():
    counters = ThrottleDelta(60, 59)
    assert judge_gp3(rate_asked=Iops(3_100), counters=counters).outcome is Outcome.HELD
    assert judge_gp3(rate_asked=Iops(3_000), counters=counters).outcome is Outcome.INCONCLUSIVE
    assert judge_gp3(rate_asked=Iops(192_000)).outcome is Outcome.HELD
    assert judge_gp3(rate_asked=Throughput.from_mib(750)).outcome is Outcome.HELD


def test_a_demand_in_another_quantity_is_converted():
    verdict = judge_gp3(rate_asked=Iops(3_000).at(gp3_run().block_size))
    assert "the job limited its own load to 11.72 MiB/s" in verdict.sentence


def test_few_outstanding_ios_need_the_counters_word():
    verdict = judge_gp3(outstanding=2)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the load kept only 2 I/Os outstanding" in verdict.sentence
    assert "raise iodepth or numjobs" in verdict.sentence
    assert judge_gp3(outstanding=2, counters=ThrottleDelta(60, 59)).outcome is Outcome.HELD
    assert judge_gp3(outstanding=3).outcome is Outcome.HELD


def test_a_drift_is_not_a_plateau():
    verdict = judge_gp3(3_000, values=[3_300] * 30 + [2_700] * 30)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("not steady: 3,300 IOPS in the first half, 2,700 IOPS in the second")


@pytest.mark.parametrize("counters", [None, ThrottleDelta(8, 4), ThrottleDelta(8, 8)])
@pytest.mark.parametrize(
    "values",
    [
        [4_000, 2_000] * 4,
        [4_000] * 2 + [2_900] * 14 + [2_000] * 2,
        [3_400] * 3 + [2_600] * 3 + [3_400, 2_600],
    ],
)
def test_seconds_that_no_limit_yields_are_not_a_plateau(values, counters):
    verdict = judge_gp3(sum(values) / len(values), values=values, counters=counters)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no limit yields such seconds" in verdict.sentence or "not steady" in verdict.sentence


@pytest.mark.parametrize(
    "values",
    [
        [3_150, 2_850] * 4,  # a sample of fio covers a little more or less than a second
        [3_900, *[3_000] * 7],  # a bucket that was full at the start
        [*[3_050] * 57, 1_500, 1_000, 3_050],  # stalls
        [3_000 * factor for factor in noise(120, 0.07, random.Random(4))],
    ],
)
def test_seconds_as_limits_yield_them(values):
    assert judge_gp3(sum(values) / len(values), values=values).outcome is Outcome.HELD


@pytest.mark.parametrize("run", [{"values": [3_001] * 3}, {"series": False}, {"values": []}])
def test_a_plateau_needs_samples(run):
    verdict = judge_gp3(**run)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert (
        "one-second samples are too few to see a plateau, at least 4 are needed: lengthen" in verdict.sentence
    )
    assert not verdict.machine_limited


def test_an_embedded_region_whose_machine_took_too_few_samples_says_so():
    verdict = judge_gp3(values=[3_001] * 2, machine=STRONG_MACHINE, samples=6)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert verdict.sentence.endswith("the machine under the embedded region was too busy to take more in 6 s")
    short = judge_gp3(values=[3_001] * 2, machine=STRONG_MACHINE, samples=2)
    assert (short.outcome, short.machine_limited) == (Outcome.INCONCLUSIVE, False)


def test_a_disturbed_machine_explains_a_rate_at_a_ceiling_that_did_not_act():
    verdict = judge_gp3(counters=ThrottleDelta(60, 1.5), delay=LATE, outstanding=32)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "exceeded for only 1.5 of 60 s" in verdict.sentence
    assert (
        "the machine under the embedded region (mean latency 11 ms, 0.3 ms of it modelled" in verdict.sentence
    )


def test_counters_that_saw_nothing_do_not_agree():
    verdict = judge_gp3(counters=ThrottleDelta(60, 1.5))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("gp3 vol-0def IOPS was exceeded for only 1.5 of 60 s")
    assert not verdict.machine_limited


def test_a_saturated_generator_at_the_same_place():
    busy = GeneratorLoad(100.0)
    verdict = judge_gp3(generator=busy)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("held it there: its busiest job used 100 % of a CPU")
    assert judge_gp3(generator=busy, counters=ThrottleDelta(60, 59)).outcome is Outcome.HELD


def test_sequential_io_that_is_not_merged_is_still_at_the_ceiling():
    verdict = judge_gp3(sequential=True)
    assert verdict.outcome is Outcome.HELD
    assert "capped by gp3 vol-0def IOPS (sequential I/O not merged)" in verdict.sentence


def test_the_rate_after_a_burst_is_still_the_ceiling():
    run = run_of(301, on=M5, volumes=(("vol-2", gp2(size_gib=100)),))
    verdict = capped_by(run, ceiling("gp2 vol-2 IOPS", run))
    assert verdict.outcome is Outcome.HELD
    assert "301 of 300 IOPS (100.3 %), capped by gp2 vol-2 IOPS (burst spent)" in verdict.sentence


def test_a_lower_ceiling_that_did_not_act_is_named():
    run = run_of(16_000, "256k", sequential=True)
    verdict = capped_by(run, ceiling("io2 vol-0abc throughput", run))
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.endswith(
        "though c5.18xlarge EBS throughput is lower, 2,264.98 MiB/s, and did not hold it back"
    )


@pytest.mark.parametrize("rate", [0.0, math.nan, math.inf])
def test_a_run_without_a_rate_is_a_failed_measurement(rate):
    verdict = capped_by(run_of(rate), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "look at the workload's own output" in verdict.sentence


def test_bad_input_is_refused_before_anything_is_judged():
    with pytest.raises(TypeError, match=r"capped_by\(2265\) has no unit: write capped_by\('2,265 IOPS'\)"):
        capped_by(run_of(1), 2265)
    with pytest.raises(TypeError, match="there is no such ceiling here"):
        capped_by(run_of(1), None)
    with pytest.raises(ValueError, match=r"write within=0.05 for 5 %"):
        capped_by(run_of(1), "5 IOPS", within=5)


offsets = st.floats(0.0005, 0.3)


@given(offsets, st.floats(0.001, 0.25))
def test_both_sides_of_the_ceiling_are_judged_alike(offset, within):
    above = judge_gp3(3_000 * (1 + offset), within)
    below = judge_gp3(3_000 * (1 - offset), within)
    if abs(offset - within) > 1e-6:
        assert (above.outcome is Outcome.HELD) == (below.outcome is Outcome.HELD) == (offset < within)
    assert (above.outcome is Outcome.VIOLATED) == (offset > within * (1 + 1e-9)) or abs(
        offset - within
    ) <= 1e-6


@given(
    st.floats(1, 3e5),
    st.sampled_from(["4k", "64k", "256k", "1m"]),
    st.sampled_from(["80,000 IOPS", "2,375 MB/s", "4,000 MiB/s", "1,234 IOPS"]),
    st.floats(0, 0.4),
    st.sampled_from([None, WEAK_MACHINE, STRONG_MACHINE]),
    st.none() | st.builds(ThrottleDelta, st.sampled_from([60.0, 0.0]), *[st.floats(0, 60)] * 4),
    st.integers(1, 2_048),
    st.booleans(),
    st.booleans(),
)
def test_nothing_is_held_away_from_a_ceiling(
    iops, block, target, within, machine, counters, outstanding, sequential, has_envelope
):
    run = run_of(
        iops,
        block,
        machine=machine,
        counters=counters,
        outstanding=outstanding,
        sequential=sequential,
        envelope=has_envelope,
    )
    verdict = capped_by(run, target, within=within)
    if verdict.outcome is Outcome.HELD:
        assert abs(verdict.measured / verdict.asked - 1) <= within * (1 + 1e-6)
        assert verdict.bound_by
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence
    assert not verdict.machine_limited or (machine is not None and verdict.outcome is Outcome.INCONCLUSIVE)
    assert not any(one.scope == "machine" for one in verdict.bound_by)


@given(st.floats(0.2, 0.6), st.sampled_from([1, 2, 3, 5]), st.floats(0, 60))
def test_an_alternating_rate_is_never_capped(apart, period, acted_s):
    values = ([3_000 * (1 + apart)] * period + [3_000 * (1 - apart)] * period) * 6
    verdict = judge_gp3(3_000, values=values, counters=ThrottleDelta(60, acted_s))
    assert verdict.outcome is Outcome.INCONCLUSIVE


@given(st.lists(st.floats(2_900, 3_100), min_size=4, max_size=120))
def test_noise_within_the_tolerance_is_steady(values):
    assert judge_gp3(3_000, within=0.07, values=values).outcome is Outcome.HELD
