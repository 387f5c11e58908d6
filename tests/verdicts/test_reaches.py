"""`reaches`: sentences, causes of a shortfall, the share of the time, and bad input."""

import dataclasses
import json
import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import (
    C5,
    FIVE_IO1,
    GP3,
    M2,
    M5,
    STRONG_MACHINE,
    WEAK_MACHINE,
    ceiling,
    delay_of,
    run_of,
)

from pytest_cloudbench import Iops, Outcome, Throughput, gp2, gp3
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.latency_limits import latency_at_most
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.sample_statistics import wilson_interval
from pytest_cloudbench.verdicts.steady import steady
from pytest_cloudbench.workloads.measurement import Latency


def test_reached():
    verdict = reaches(run_of(80_152), "80,000 IOPS")
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == "held: 80,152 of 80,000 IOPS (100.2 %, at least 90 % required)"
    assert verdict.promise == "reaches 80,000 IOPS within 10 %"
    assert (verdict.asked, verdict.measured) == (Iops(80_000), Iops(80_152))


def test_a_shortfall_names_the_ceiling_that_explains_it():
    verdict = reaches(run_of(9_061, "256k", sequential=True), Iops(80_000))
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 9,061 of 80,000 IOPS (11 %, at least 90 % required); "
        "limited by c5.18xlarge EBS throughput, 2,264.98 MiB/s at 256 KiB"
    )
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]
    assert not verdict.machine_limited


def test_five_volumes_end_at_the_instances_gigabit():
    run = run_of(1_907.3, "64k", on=M2, volumes=FIVE_IO1)
    verdict = reaches(run, ceiling("5 io1 volumes IOPS", run))
    assert verdict.sentence == (
        "violated: 1,907 of 5,000 IOPS (38 %, at least 90 % required); "
        "limited by m2.4xlarge EBS throughput, 119.21 MiB/s at 64 KiB"
    )


def test_the_machine_is_not_a_violation():
    verdict = reaches(run_of(45_120, machine=WEAK_MACHINE), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert verdict.bound_by == ()
    assert "45,120 of 80,000 IOPS (56 %, at least 90 % required)" in verdict.sentence
    assert "the machine under the embedded region was the limit" in verdict.sentence


def test_a_promised_ceiling_is_named_even_on_a_machine_with_limits():
    verdict = reaches(run_of(9_061, "256k", machine=STRONG_MACHINE), "80,000 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.bound_by[0].label == "c5.18xlarge EBS throughput"


def test_too_few_outstanding_ios_are_the_loads_own_limit():
    verdict = reaches(run_of(9_000, outstanding=1), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.machine_limited
    assert (
        "the load kept only 1 I/O outstanding (mean latency 0.11 ms), at least 80 are needed"
        in verdict.sentence
    )


def test_a_load_that_limited_itself_proves_nothing():
    verdict = reaches(run_of(5_000, rate_asked=Iops(5_000)), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the job limited its own load to 5,000 IOPS (6 % of the required rate)" in verdict.sentence
    by_bytes = reaches(run_of(5_000, rate_asked=Iops(5_000).at(run_of(1).block_size)), "80,000 IOPS")
    assert "limited its own load to 19.53 MiB/s" in by_bytes.sentence


def test_a_rate_limit_far_above_explains_nothing():
    assert reaches(run_of(60_000, rate_asked=Iops(5_120_000)), "80,000 IOPS").outcome is Outcome.VIOLATED


@pytest.mark.parametrize(
    ("load", "says"),
    [
        (GeneratorLoad(99.2), "its busiest job used 99 % of a CPU"),
        (GeneratorLoad(12.0, 199.0, 2), "its jobs used 100 % of all 2 CPUs"),
    ],
)
def test_a_saturated_generator_measured_itself(load, says):
    verdict = reaches(run_of(60_000, generator=load), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith(f"the load generator was the limit: {says}")


def test_a_generator_with_room_explains_nothing():
    assert (
        reaches(run_of(60_000, generator=GeneratorLoad(50.0, 120.0, 2)), "80,000 IOPS").outcome
        is Outcome.VIOLATED
    )


def test_a_run_that_drifted_is_inconclusive():
    verdict = reaches(run_of(60_000, values=range(80_000, 40_000, -500)), "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "not steady: 70,250 IOPS in the first half, 50,250 IOPS in the second" in verdict.sentence


@pytest.mark.parametrize("counters", [None, ThrottleDelta(60)])
def test_a_volume_that_breaks_in_a_run_is_violated_with_the_second(counters):
    run = run_of(2_250, on=M5, volumes=GP3, values=[3_000] * 30 + [1_500] * 30, counters=counters)
    for verdict in (reaches(run, ceiling("gp3 vol-0def IOPS", run)), reaches(run, "3,000 IOPS")):
        assert (verdict.outcome, verdict.bound_by) == (Outcome.VIOLATED, ())
        assert "the rate fell to 1,500 IOPS after 30 s, no known ceiling explains it" in verdict.sentence


def test_a_volume_that_breaks_on_a_region_is_violated_unless_the_machine_was_late():
    values = [3_000] * 40 + [1_500] * 20
    how = {"on": M5, "volumes": GP3, "values": values, "outstanding": 64, "counters": ThrottleDelta(60, 45)}
    calm = reaches(run_of(2_500, delay=delay_of(25, 0.5), **how), "3,000 IOPS")
    assert calm.outcome is Outcome.VIOLATED
    assert "the rate fell to 1,500 IOPS after 40 s" in calm.sentence
    late = reaches(run_of(2_500, delay=delay_of(15, 10), **how), "3,000 IOPS")
    assert (late.outcome, late.machine_limited) == (Outcome.INCONCLUSIVE, True)


def test_a_fall_of_a_load_that_cannot_ask_for_more_breaks_no_promise():
    run = run_of(2_250, on=M5, volumes=GP3, values=[3_000] * 30 + [1_500] * 30, outstanding=2)
    assert reaches(run, "3,000 IOPS").outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("counters", [None, ThrottleDelta(60, 0.0, 0.0, 0.0, 0.0)])
def test_a_rate_far_above_every_limit_says_nothing_of_the_volume(counters):
    run = run_of(41_335, on=M5, volumes=GP3, counters=counters)
    for verdict in (reaches(run, ceiling("gp3 vol-0def IOPS", run)), reaches(run, "3,000 IOPS", share=0.9)):
        assert (verdict.outcome, verdict.bound_by) == (Outcome.INCONCLUSIVE, ())
        assert "41,335 IOPS is 1,278 % above gp3 vol-0def IOPS, 3,000 IOPS" in verdict.sentence
        assert "the wrong device" in verdict.sentence


def test_a_mean_made_of_seconds_far_above_and_far_below_says_nothing():
    cached = run_of(3_100, on=M5, volumes=GP3, values=[21_000] * 4 + [1_820] * 56)
    verdict = reaches(cached, "3,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "7 % of the seconds lie more than 25 % above every limit, up to 21,000 IOPS" in verdict.sentence
    once = run_of(3_030, on=M5, volumes=GP3, values=[5_000] + [3_000] * 59)
    assert reaches(once, "3,000 IOPS").outcome is Outcome.HELD


def test_a_generator_or_a_shallow_load_beside_a_limit_breaks_no_promise():
    busy = GeneratorLoad(100.0, 100.0, 8)
    for how, named in (({"generator": busy}, "100 % of a CPU"), ({"outstanding": 7}, "7 I/Os outstanding")):
        run = run_of(9_061, "256k", **how)
        verdict = reaches(run, "80,000 IOPS")
        assert (verdict.outcome, verdict.bound_by) == (Outcome.INCONCLUSIVE, ())
        assert "c5.18xlarge EBS throughput or the load" in verdict.sentence
        assert named in verdict.sentence
        counted = dataclasses.replace(run, counters=ThrottleDelta(60, 0, 0, 0, 59))
        assert reaches(counted, "80,000 IOPS").outcome is Outcome.VIOLATED


def test_a_depth_that_suffices_for_the_limit_is_not_the_cause():
    verdict = reaches(run_of(9_061, "256k", outstanding=16), "80,000 IOPS")
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]


@pytest.mark.parametrize(
    ("share", "alone"), [(None, True), (0.0, True), (0.1, True), (0.12, False), (0.5, False)]
)
def test_a_volume_that_served_other_loads_too_is_not_judged(share, alone):
    run = dataclasses.replace(run_of(1_500, on=M5, volumes=GP3), share_of_others=share)
    verdicts = [reaches(run, "3,000 IOPS"), capped_by(run, "3,000 IOPS"), steady(run)]
    verdicts.append(latency_at_most(run, Latency(0.5, 0.001, 1.0), {"mean": "5 ms"}))
    for verdict in verdicts:
        assert (verdict.outcome is not Outcome.INCONCLUSIVE) == alone
        assert alone or f"at least {share:.0%}".replace("%", " %") in verdict.sentence


@pytest.mark.parametrize("counters", [None, ThrottleDelta(60, 57), ThrottleDelta(60)])
@pytest.mark.parametrize("iops", [2_400, 2_700, 2_930])
def test_a_broken_promise_is_not_its_own_cause(iops, counters):
    run = run_of(iops, on=M5, volumes=GP3, counters=counters)
    for target in (ceiling("gp3 vol-0def IOPS", run), "3,000 IOPS"):
        verdict = reaches(run, target, within=0.01)
        assert (verdict.outcome, verdict.bound_by) == (Outcome.VIOLATED, ())
        assert "limited by" not in verdict.sentence


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (run_of(60_000), "no known ceiling explains it, and there are no throttle counters"),
        (
            run_of(60_000, counters=ThrottleDelta(60)),
            "no known ceiling explains it, and no throttle counter saw one act",
        ),
        (run_of(60_000, envelope=False), "its ceilings are not known, so none explains it"),
    ],
)
def test_what_nothing_explains_is_violated(run, says):
    verdict = reaches(run, "80,000 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.bound_by == ()
    assert verdict.sentence == f"violated: 60,000 of 80,000 IOPS (75 %, at least 90 % required); {says}"


def test_counters_name_a_ceiling_the_rate_does_not_show():
    verdict = reaches(run_of(60_000, counters=ThrottleDelta(60, 55)), "80,000 IOPS")
    assert verdict.bound_by == ()
    assert "io2 vol-0abc IOPS acted by its counter" in verdict.sentence
    lower = reaches(run_of(2_000, on=M5, volumes=GP3, counters=ThrottleDelta(60, 55)), "10,000 IOPS")
    assert "gp3 vol-0def IOPS, 3,000 IOPS (exceeded for 55 of 60 s by its throttle counter)" in lower.sentence


def test_counters_deny_a_ceiling_that_only_lies_near():
    run = run_of(9_061, "256k", machine=WEAK_MACHINE, counters=ThrottleDelta(60))
    verdict = reaches(run, "80,000 IOPS")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited


def test_counters_tell_tied_ceilings_apart():
    run = run_of(80_000, counters=ThrottleDelta(60, 1, 0, 58, 0))
    verdict = reaches(run, "100,000 IOPS")
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS IOPS"]
    both = reaches(run_of(80_000), "100,000 IOPS")
    assert both.sentence.endswith(
        "limited by io2 vol-0abc IOPS (80,000 IOPS) and c5.18xlarge EBS IOPS (80,000 IOPS)"
    )


def test_a_spent_burst_is_named():
    run = run_of(301, on=M5, volumes=(("vol-2", gp2(size_gib=100)),))
    verdict = reaches(run, ceiling("gp2 vol-2 IOPS", run))
    assert verdict.sentence == (
        "violated: 301 of 3,000 IOPS (10 %, at least 90 % required); "
        "limited by gp2 vol-2 IOPS, 300 IOPS (burst spent)"
    )
    instance = reaches(run_of(12_010, on=M5), "18,750 IOPS")
    assert instance.sentence.endswith("limited by m5.2xlarge EBS IOPS, 12,000 IOPS (burst spent)")


def test_an_iops_ceiling_counts_large_ios_as_several():
    volumes = (("vol-3", gp3(size_gib=100, throughput_mib=750)),)
    run = run_of(750, "1m", volumes=volumes)
    assert reaches(run, ceiling("gp3 vol-3 IOPS", run)).sentence.startswith("held: 750 of 750 IOPS")
    plain = reaches(run, "3,000 IOPS")
    assert "gp3 vol-3 IOPS (3,000 IOPS = 750 IOPS at 1 MiB)" in plain.sentence


def test_a_little_above_all_limits_is_remarked():
    verdict = reaches(run_of(86_000), "80,000 IOPS")
    assert verdict.outcome is Outcome.HELD
    assert "7 % above io2 vol-0abc IOPS, 80,000 IOPS: look for a cache" in verdict.sentence


@pytest.mark.parametrize("rate", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("share", [None, 0.99])
def test_a_run_without_a_rate_is_a_failed_measurement(rate, share):
    verdict = reaches(run_of(rate), "80,000 IOPS", share=share)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "look at the workload's own output" in verdict.sentence


def test_a_share_of_the_time_is_judged_on_the_series():
    flat = reaches(run_of(80_000, values=[80_000] * 300), "80,000 IOPS", share=0.999)
    assert flat.outcome is Outcome.HELD
    assert flat.sentence == (
        "held: 100.0 % of 300 one-second samples at or above 72,000 IOPS "
        "(95 % interval 98.7 % to 100.0 %), consistent with 99.9 %"
    )
    assert flat.details["share_interval"][1] == 1.0
    bad = reaches(run_of(79_000, values=[80_000] * 297 + [40_000] * 3), "80,000 IOPS", share=0.999)
    assert bad.outcome is Outcome.VIOLATED
    assert "99.0 % of 300 one-second samples" in bad.sentence
    assert "not consistent with 99.9 %; the samples below: no known ceiling" in bad.sentence


def test_seconds_lost_to_a_weak_machine_are_no_broken_promise():
    values = [80_000] * 200 + [45_000] * 100
    verdict = reaches(run_of(68_000, values=values, machine=WEAK_MACHINE), "80,000 IOPS", share=0.999)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited


def test_seconds_at_a_ceiling_are_bound_by_it():
    run = run_of(9_061, "256k", values=[9_061] * 60)
    verdict = reaches(run, "4,000 MiB/s", share=0.99)
    assert verdict.outcome is Outcome.VIOLATED
    assert [one.label for one in verdict.bound_by] == ["c5.18xlarge EBS throughput"]


@pytest.mark.parametrize("values", [[], [80_000] * 4])
def test_a_series_too_short_for_a_share_is_inconclusive(values):
    verdict = reaches(run_of(80_000, values=values), "80,000 IOPS", share=0.999)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert f"{len(values)} one-second samples are too few to judge a share of 99.9 %" in verdict.sentence
    assert reaches(run_of(80_000, series=False), "80,000 IOPS", share=0.9).outcome is Outcome.INCONCLUSIVE


def test_a_short_last_interval_is_not_held_against_a_share():
    values = [80_000] * 59 + [20_000]
    seconds = [float(number + 1) for number in range(59)] + [59.25]
    verdict = reaches(run_of(80_000, values=values, seconds=seconds), "80,000 IOPS", share=0.999)
    assert "100.0 % of 59 one-second samples" in verdict.sentence


def test_wilson_interval_is_the_published_one():
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


@pytest.mark.parametrize("bare", [3000, 3000.0])
def test_a_bare_number_has_no_unit(bare):
    with pytest.raises(TypeError, match=r"has no unit: write reaches\('3,000 IOPS'\)"):
        reaches(run_of(80_000), bare)


@pytest.mark.parametrize("wrong", [None, True, [1], object()])
def test_what_is_no_target_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="3,000 IOPS"):
        reaches(run_of(80_000), wrong)


@pytest.mark.parametrize("wrong", ["3000", "quick", "0 IOPS", Iops(0), Iops(math.nan), Throughput(-1.0)])
def test_a_target_that_is_no_rate_is_a_value_error(wrong):
    with pytest.raises(ValueError, match=r"IOPS|MiB/s"):
        reaches(run_of(80_000), wrong)


@pytest.mark.parametrize("within", [10, 1, 1.5, -0.1, math.nan])
def test_a_wrong_tolerance_is_a_sentence(within):
    with pytest.raises(ValueError, match="share of 1"):
        reaches(run_of(80_000), "80,000 IOPS", within=within)


def test_a_tolerance_in_per_cent_shows_how_to_write_it():
    with pytest.raises(ValueError, match=r"within=10 means 1,000 %.*write within=0.1 for 10 %"):
        reaches(run_of(80_000), "80,000 IOPS", within=10)
    with pytest.raises(ValueError, match=r"share=99.9.*write share=0.999 for 99.9 %"):
        reaches(run_of(80_000), "80,000 IOPS", share=99.9)
    with pytest.raises(ValueError, match=r"within=100 means 10,000 %: .* below 1, such as 0\.10") as refused:
        reaches(run_of(80_000), "80,000 IOPS", within=100)
    assert "write" not in str(refused.value)
    with pytest.raises(TypeError, match="within=None"):
        reaches(run_of(80_000), "80,000 IOPS", within=None)


@pytest.mark.parametrize("wrong", ["x", "10", "0.1", "4,5 %", "100 %", "-1 %", "5 % more", "%"])
def test_a_tolerance_as_a_text_is_per_cent(wrong):
    assert reaches(run_of(76_001), "80,000 IOPS", within="5 %").outcome is Outcome.HELD
    assert reaches(run_of(75_999), "80,000 IOPS", within="5%").outcome is not Outcome.HELD
    assert reaches(run_of(80_000), "80,000 IOPS", share="99.9 %").outcome is Outcome.HELD
    with pytest.raises(ValueError, match=f"within='{wrong}'"):
        reaches(run_of(80_000), "80,000 IOPS", within=wrong)


@pytest.mark.parametrize("share", [0, -1, math.nan])
def test_a_wrong_share_is_a_sentence(share):
    with pytest.raises(ValueError, match="share"):
        reaches(run_of(80_000), "80,000 IOPS", share=share)


def test_the_share_shown_never_rounds_across_the_bound():
    verdict = reaches(run_of(71_999), "80,000 IOPS")
    assert verdict.outcome is Outcome.VIOLATED
    assert "(89.999 %, at least 90 % required)" in verdict.sentence


def test_the_bound_itself_is_held():
    for tenth in range(1, 10):
        target = Iops(3_000)
        verdict = reaches(run_of((1 - tenth / 10) * 3_000), target, within=tenth / 10)
        assert verdict.outcome is Outcome.HELD, verdict


def test_details_are_plain_values():
    run = run_of(9_061, "256k", counters=ThrottleDelta(60, 0, 0, 0, 59), generator=GeneratorLoad(10.0))
    details = reaches(run, "80,000 IOPS").details
    assert json.loads(json.dumps(details))["measured"] == 9_061
    assert details["counters"]["instance_throughput_exceeded_s"] == 59
    assert details["outstanding_mean"] == pytest.approx(1_024)
    assert details["envelope"][0].startswith("c5.18xlarge EBS throughput")


machines = st.sampled_from([None, WEAK_MACHINE, STRONG_MACHINE])
counters = st.none() | st.builds(ThrottleDelta, st.just(60.0), *[st.floats(0, 60)] * 4)
loads = st.none() | st.builds(GeneratorLoad, st.floats(0, 100))
own_limits = st.none() | st.builds(Iops, st.floats(1, 1e6))


@given(
    st.floats(0.1, 1e6),
    st.sampled_from(["4k", "64k", "256k", "1m"]),
    st.sampled_from(["80,000 IOPS", "4,000 MiB/s", "1 IOPS"]),
    st.floats(0, 0.99),
    machines,
    counters,
    loads,
    own_limits,
    st.integers(1, 2_048),
    st.booleans(),
)
def test_held_exactly_when_the_mean_is_within(
    iops, block, target, within, machine, counted, load, own, outstanding, sequential
):
    run = run_of(
        iops,
        block,
        machine=machine,
        counters=counted,
        generator=load,
        rate_asked=own,
        outstanding=outstanding,
        sequential=sequential,
    )
    verdict = reaches(run, target, within=within)
    share = verdict.measured / verdict.asked
    if share < (1 - within) * (1 - 1e-6):
        assert verdict.outcome is not Outcome.HELD
    elif share > (1 - within) * (1 + 1e-6):
        beyond = iops > 1.1 * run.envelope.promised.limit_iops.per_second
        assert verdict.outcome is (Outcome.INCONCLUSIVE if beyond else Outcome.HELD)
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence
    assert not verdict.machine_limited or verdict.outcome is Outcome.INCONCLUSIVE
    assert not verdict.machine_limited or machine is not None
    assert not verdict.bound_by or verdict.outcome is Outcome.VIOLATED
    json.dumps(verdict.details)


@given(st.floats(1, 87_999), st.floats(1, 87_999), st.floats(0, 0.5))
def test_faster_is_never_worse(one, other, within):
    slow, fast = sorted((one, other))
    if reaches(run_of(slow), "80,000 IOPS", within=within).outcome is Outcome.HELD:
        assert reaches(run_of(fast), "80,000 IOPS", within=within).outcome is Outcome.HELD


@given(st.lists(st.floats(1, 8e4), min_size=5, max_size=80), st.floats(0.01, 1), st.data())
def test_more_good_seconds_are_never_worse(values, share, data):
    worse = reaches(run_of(fmean(values), values=values), "80,000 IOPS", share=share)
    lifted = list(values)
    lifted[data.draw(st.integers(0, len(values) - 1))] = 80_000.0
    better = reaches(run_of(fmean(lifted), values=lifted), "80,000 IOPS", share=share)
    assert worse.outcome is not Outcome.HELD or better.outcome is Outcome.HELD
    assert worse.sentence.startswith(f"{worse.outcome.value}: ")


@given(st.integers(1, 5_000), st.data())
def test_a_wilson_interval_holds_its_share(samples, data):
    good = data.draw(st.integers(0, samples))
    low, high = wilson_interval(good, samples)
    assert 0 <= low <= good / samples <= high <= 1


def test_c5_is_what_the_exact_figures_stand_on():
    assert C5.ebs_throughput.limit == Throughput.from_mb(2_375)
