"""`reaches` of a network: which part of the run is judged, what explains a shortfall, and what decides nothing."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import (
    C5_2XL,
    C5_18XL,
    GOODPUT,
    M5_2XL,
    M5_8XL,
    M5_LARGE,
    T2_MEDIUM,
    burst,
    machine,
    network_run,
    type_of,
)
from synthetic_runs import C5, GP3, run_of

from pytest_cloudbench import Iops, Outcome, Throughput
from pytest_cloudbench.limits.network import flow_limit
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.reaches import reaches

PEAK, BASELINE = M5_2XL.network_peak, M5_2XL.network_baseline
IDLE = AllowanceDelta(60.0)


def test_the_peak_is_judged_before_the_rate_fell():
    verdict = reaches(network_run(values=burst(1_260, 1_800), streams=5), PEAK)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: 9.93 of 10 Gbit/s (99.3 %, at least 90 % required) in the first 1,260 s (21 min), before the "
        "rate fell to 2.49 Gbit/s"
    )
    assert verdict.promise == "reaches m5.2xlarge network bandwidth, 10 Gbit/s, within 10 %"
    assert isinstance(verdict.measured, Bandwidth)


def test_the_baseline_is_judged_after_the_rate_fell():
    verdict = reaches(network_run(values=burst(1_260, 1_800), streams=5), BASELINE)
    assert verdict.sentence == (
        "held: 2.49 of 2.5 Gbit/s (99.5 %, at least 90 % required) after 1,260 s (21 min), when the rate had "
        "fallen from 9.93 Gbit/s"
    )


def test_a_plain_rate_is_judged_on_the_whole_run():
    run = network_run(values=burst(1_260, 1_800), streams=5)
    assert reaches(run, "7 Gbit/s").sentence.startswith("held: 7.7 of 7 Gbit/s")
    missed = reaches(run, "9.5 Gbit/s")
    assert missed.outcome is Outcome.VIOLATED
    assert missed.sentence == (
        "violated: 7.7 of 9.5 Gbit/s (81 %, at least 90 % required); the rate fell to 2.49 Gbit/s after "
        "1,260 s (21 min), limited by m5.2xlarge network baseline, 2.5 Gbit/s (its network credits are spent)"
    )
    assert missed.bound_by


def test_credits_that_were_gone_before_explain_a_missed_peak():
    verdict = reaches(network_run(2.4825, streams=5), PEAK)
    assert verdict.sentence == (
        "violated: 2.48 of 10 Gbit/s (25 %, at least 90 % required); limited by m5.2xlarge network baseline, "
        "2.5 Gbit/s (its network credits are spent)"
    )


def test_a_machine_that_happens_to_carry_the_baseline_does_not_show_spent_credits():
    """The embedded region's own counters say that nothing was above an allowance."""
    none = AllowancePair(IDLE, IDLE)
    verdict = reaches(network_run(2.4825, streams=5, on=machine(3.4), counters=none), PEAK)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "the machine under the embedded region was the limit" in verdict.sentence
    elsewhere = reaches(network_run(2.4825, streams=5, counters=none), PEAK)
    assert elsewhere.outcome is Outcome.VIOLATED
    shaped = AllowancePair(AllowanceDelta(60.0, bw_out_exceeded=5_000), IDLE)
    spent = reaches(network_run(2.4825, streams=5, on=machine(3.4), counters=shaped), PEAK)
    assert spent.outcome is Outcome.VIOLATED
    assert "network baseline" in spent.sentence


def test_credits_that_were_not_spent_are_remarked():
    verdict = reaches(network_run(9.93, streams=5), BASELINE)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.endswith("; well above it: its network credits were not spent")


def test_one_flow_explains_a_shortfall():
    verdict = reaches(network_run(4.96, client=C5_18XL), C5_18XL.network_peak)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 4.96 of 25 Gbit/s (20 %, at least 90 % required); limited by a single flow's limit, 5 Gbit/s "
        "outside a cluster placement group"
    )
    inside = reaches(network_run(9.93, client=C5_18XL, cluster=True), C5_18XL.network_peak)
    assert inside.sentence.endswith(
        "limited by a single flow's limit, 10 Gbit/s in a cluster placement group"
    )


def test_several_flows_at_their_own_limit_say_so():
    verdict = reaches(network_run(14.9, client=C5_18XL, streams=3), C5_18XL.network_peak)
    assert verdict.sentence.endswith(
        "limited by a single flow's limit, 3 x 5 Gbit/s = 15 Gbit/s outside a cluster placement group, each "
        "stream at its own"
    )
    unequal = network_run(14.9, client=C5_18XL, streams=3, each=[8.9, 4.0, 2.0])
    assert "no known limit explains it" in reaches(unequal, C5_18XL.network_peak).sentence


@pytest.mark.parametrize(
    ("client", "server", "end"), [(T2_MEDIUM, M5_2XL, "client"), (M5_2XL, T2_MEDIUM, "server")]
)
def test_the_slower_end_is_named(client, server, end):
    run = network_run(1.0165, client=client, server=server, streams=5)
    verdict = reaches(run, PEAK)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence.endswith(f"limited by t2.medium network bandwidth, 1.02 Gbit/s (the {end}'s end)")


def test_counters_distinguish_equal_ends():
    counters = AllowancePair(AllowanceDelta(60.0, bw_out_exceeded=12_345), IDLE)
    run = network_run(9.93, client=C5_2XL, server=M5_2XL, streams=5, counters=counters)
    verdict = reaches(run, "20 Gbit/s")
    assert verdict.sentence.endswith(
        "limited by c5.2xlarge network bandwidth, 10 Gbit/s (the client's end); 12,345 packets above the "
        "client's outbound bandwidth allowance"
    )
    silent = network_run(9.93, client=C5_2XL, server=M5_2XL, streams=5, counters=AllowancePair(IDLE, None))
    assert [one.owner for one in reaches(silent, "20 Gbit/s").bound_by] == ["m5.2xlarge"]


def test_a_saturated_generator_is_inconclusive():
    busy = GeneratorLoad(99.6)
    verdict = reaches(network_run(18.9, client=C5_18XL, streams=5, generator=busy), C5_18XL.network_peak)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence == (
        "inconclusive: 18.9 of 25 Gbit/s (76 %, at least 90 % required); the load generator was the limit: its "
        "busiest process used 100 % of a CPU (iperf3 3.12, 1 process)"
    )
    assert not verdict.machine_limited
    many = GeneratorLoad(80.0, 196.0, 2)
    embedded = network_run(18.9, client=C5_18XL, streams=5, generator=many, on=machine(40), processes=4)
    verdict = reaches(embedded, C5_18XL.network_peak)
    assert verdict.machine_limited
    assert verdict.sentence.endswith("its processes used 98 % of all 2 CPUs (iperf3 3.12, 4 processes)")


def test_a_saturated_generator_near_a_limit_leaves_it_open():
    run = network_run(4.96, client=C5_18XL, generator=GeneratorLoad(99.0))
    verdict = reaches(run, C5_18XL.network_peak)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "a single flow's limit or the load generator held it back" in verdict.sentence
    counters = AllowancePair(AllowanceDelta(60.0, bw_out_exceeded=9_000), None)
    sure = network_run(2.48, generator=GeneratorLoad(99.0), counters=counters)
    assert reaches(sure, PEAK).outcome is Outcome.VIOLATED


def test_a_rate_that_the_machine_cannot_carry_is_inconclusive():
    run = network_run(18.9, client=C5_18XL, streams=5, on=machine(19.5))
    verdict = reaches(run, C5_18XL.network_peak)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert verdict.sentence.endswith(
        "no promised limit held it back: the machine under the embedded region was the limit (its network "
        "carries about 19.5 Gbit/s from one process without any shaping)"
    )
    busy = reaches(network_run(8.0, client=C5_18XL, streams=5, on=machine(19.5)), C5_18XL.network_peak)
    assert "busy with other work or with the load itself" in busy.sentence
    either = reaches(network_run(4.96, client=C5_18XL, on=machine(5.2)), C5_18XL.network_peak)
    assert either.machine_limited
    assert "a single flow's limit or the machine under the embedded region held it back" in either.sentence


def test_a_bitrate_below_the_target_is_the_jobs_own():
    run = network_run(0.45, rate_asked=Bandwidth.from_mbit(450))
    verdict = reaches(run, PEAK)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the job limited its own load to 450 Mbit/s" in verdict.sentence
    assert reaches(run, "450 Mbit/s").outcome is Outcome.HELD
    assert reaches(network_run(7, rate_asked=Throughput.from_gbit(12)), PEAK).outcome is Outcome.VIOLATED


def test_lost_datagrams_are_named():
    verdict = reaches(network_run(7, client=M5_8XL, streams=4, lost_percent=12.0), M5_8XL.network_peak)
    assert verdict.sentence.endswith("; 12 % of the datagrams were lost")


def test_other_allowances_are_named_if_nothing_else_explains():
    counters = AllowancePair(IDLE, AllowanceDelta(60.0, pps_exceeded=70, conntrack_exceeded=1))
    verdict = reaches(network_run(7, client=M5_8XL, streams=4, counters=counters), M5_8XL.network_peak)
    assert verdict.sentence.endswith(
        "no known limit explains it, but the instances counted 70 packets above the server's packet rate "
        "allowance and 1 packets above the server's tracked connections allowance"
    )
    none = network_run(7, client=M5_8XL, streams=4, counters=AllowancePair(IDLE, IDLE))
    assert reaches(none, M5_8XL.network_peak).sentence.endswith("and no allowance counter saw one act")


def test_a_drift_that_nothing_explains_is_inconclusive():
    run = network_run(values=[9.0 - index / 15 for index in range(60)], client=M5_8XL, streams=4)
    assert reaches(run, "10 Gbit/s").sentence.endswith(
        "the rate was not steady: 8.03 Gbit/s in the first half, 6.03 Gbit/s in the second"
    )


@pytest.mark.parametrize("target", [PEAK, flow_limit(False)])
@pytest.mark.parametrize("client", [M5_2XL, M5_8XL])
def test_a_fall_to_another_level_does_not_end_a_burst(target, client):
    for values in ([9.93] * 30 + [4.0] * 300, [9.93] * 45 + [4.0] * 14, [9.93] * 100 + [0.0] * 300):
        for on in (None, machine(45)):
            run = network_run(values=values, streams=2, client=client, on=on)
            verdict = reaches(run, client.network_peak if target is PEAK else target)
            assert "before the rate fell" not in verdict.sentence
            assert verdict.outcome is not Outcome.HELD
            assert "before the rate fell" not in capped_by(run, "10 Gbit/s").sentence


def test_a_peak_lasts_until_the_rate_is_at_a_baseline():
    run = network_run(values=[9.93] * 60 + [5.0] * 600 + [2.4825] * 300, streams=5)
    verdict = reaches(run, PEAK)
    assert verdict.outcome is not Outcome.HELD
    assert "in the first 660 s (11 min), before the rate fell to 2.48 Gbit/s" in verdict.sentence


def test_a_ceiling_of_no_envelope_has_its_own_baseline():
    fell = network_run(values=burst(1_260, 1_800), streams=5, envelope=False)
    assert reaches(fell, PEAK).outcome is Outcome.HELD
    unknown = network_run(values=burst(1_260, 1_800), streams=5, envelope=False)
    assert reaches(unknown, M5_8XL.network_peak).outcome is not Outcome.HELD


def test_a_network_that_fell_silent_has_verdicts():
    run = network_run(values=[9.93] * 100 + [0.0] * 300, streams=5, on=machine(45))
    for verdict in (
        reaches(run, "9 Gbit/s"),
        reaches(run, PEAK, share=0.99),
        reaches(run, BASELINE),
        drops_to(run, BASELINE),
        capped_by(run, BASELINE),
    ):
        assert verdict.outcome is not Outcome.HELD


def test_headers_do_not_count_as_a_shortfall():
    short = network_run(10 * GOODPUT, client=M5_8XL, streams=4)
    verdict = reaches(short, M5_8XL.network_peak, within=0.0)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.endswith("; headers take up to 0.8 % of the wire")
    assert reaches(network_run(9.8, client=M5_8XL, streams=4), "10 Gbit/s", within=0.0).outcome is (
        Outcome.VIOLATED
    )
    small = network_run(10 * 1_448 / 1_514, client=M5_8XL, streams=4)
    assert reaches(small, "10 Gbit/s", within=0.0).outcome is Outcome.VIOLATED
    known = network_run(10 * 1_448 / 1_514, client=M5_8XL, streams=4, mss=1_448)
    assert "headers take up to 4.6 % of the wire" in reaches(known, "10 Gbit/s", within=0.0).sentence


def test_headers_are_those_of_what_the_job_asked_for():
    """As `Iperf3Job.asked` names it: a segment's size where no end told of one, a datagram's length."""
    segments = network_run(10 * 1_448 / 1_518, client=M5_8XL, streams=4, asked={"mss_bytes": 1_448})
    assert "headers take up to 4.6 % of the wire" in reaches(segments, "10 Gbit/s", within=0.0).sentence
    small = {"lost_percent": 0.0, "asked": {"length_bytes": 512}}
    datagrams = network_run(10 * 512 / 558, client=M5_8XL, streams=4, **small)
    assert "headers take up to 8.2 % of the wire" in reaches(datagrams, "10 Gbit/s", within=0.0).sentence


def test_faster_than_anything_promised_is_remarked():
    verdict = reaches(network_run(9.93, client=C5_18XL), flow_limit(False))
    assert verdict.outcome is Outcome.HELD
    assert "above a single flow's limit, 5 Gbit/s: look for a cluster placement group" in verdict.sentence


def test_a_share_of_the_time_is_judged_on_its_part_of_the_run():
    run = network_run(values=burst(1_260, 1_800, spread=0.001), streams=5)
    assert reaches(run, PEAK, share=0.999).sentence.startswith(
        "held: 100.0 % of 1,258 one-second samples at or above 8.93 Gbit/s (95 % interval"
    )
    assert "100.0 % of 538 one-second" in reaches(run, BASELINE, share=0.999).sentence
    bad = reaches(run, "9.5 Gbit/s", share=0.99)
    assert bad.outcome is Outcome.VIOLATED
    assert "the samples below: limited by m5.2xlarge network baseline" in bad.sentence
    short = reaches(network_run(9.93, samples=4), PEAK, share=0.9)
    assert "4 one-second samples are too few" in short.sentence


def test_tenths_of_seconds_are_put_together_for_a_share():
    values = [9.0, 11.0] * 150
    run = network_run(values=values, interval=6.0, time_compression=60.0)
    assert "of 30 one-second samples" in reaches(run, PEAK, within=0.05, share=0.99).sentence


@pytest.mark.parametrize("gbit", [0.0, math.nan, math.inf])
def test_a_run_without_a_rate_is_a_failed_measurement(gbit):
    verdict = reaches(network_run(gbit), PEAK)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "look at the workload's own output" in verdict.sentence


def test_targets_of_storage_are_refused():
    run = network_run(9.93)
    for wrong in (Iops(5), "5 IOPS", C5.ebs_throughput, C5.ebs_iops):
        with pytest.raises(TypeError, match=r"not a limit or rate of a network; pass .*network_peak"):
            reaches(run, wrong)
    for wrong in (PEAK, BASELINE, flow_limit(False)):
        with pytest.raises(TypeError, match=r"not a limit or rate of storage; pass .*ebs_volume.iops"):
            reaches(run_of(3_000, volumes=GP3), wrong)


def test_bad_targets_show_how_to_write_them():
    run = network_run(9.93)
    with pytest.raises(TypeError, match=r"reaches\(10\) has no unit: write reaches\('10 Gbit/s'\)"):
        reaches(run, 10)
    with pytest.raises(TypeError, match=r"there is no such ceiling here .*network_peak"):
        reaches(run, None)
    with pytest.raises(ValueError, match=r"write within=0.05 for 5 %"):
        reaches(run, PEAK, within=5)
    with pytest.raises(ValueError, match="above zero"):
        reaches(run, "0 Gbit/s")


def test_details_are_plain_values():
    counters = AllowancePair(AllowanceDelta(60.0, 1, 2), None)
    run = network_run(values=burst(1_260, 1_800), streams=5, counters=counters, generator=GeneratorLoad(40.0))
    details = json.loads(json.dumps(reaches(run, PEAK).details))
    assert details["falls"][0]["at_s"] == pytest.approx(1_260, abs=1)
    assert details["method"].startswith("segmentation")
    assert details["counters"]["client"]["bw_out_exceeded"] == 2
    assert len(details["streams"]) == 5
    assert details["envelope"][0].startswith("m5.2xlarge network bandwidth")


ends = st.sampled_from([M5_2XL, M5_LARGE, C5_2XL, M5_8XL, C5_18XL, T2_MEDIUM])
deltas = st.builds(AllowanceDelta, st.just(60.0), *[st.integers(0, 10_000)] * 3)
counted = st.none() | st.builds(AllowancePair, st.none() | deltas, st.none() | deltas)
loads = st.none() | st.builds(GeneratorLoad, st.floats(0, 100))
machines = st.none() | st.floats(0.5, 40).map(machine)
storage_words = ("iodepth", "I/O", "block size", "IOPS", "KiB", "MiB", "disk")


@given(
    st.floats(0.001, 60),
    ends,
    ends,
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([PEAK, BASELINE, flow_limit(False), "9.5 Gbit/s", "400 Mbit/s"]),
    st.floats(0, 0.9),
    machines,
    counted,
    loads,
    st.none() | st.floats(0.01, 40).map(Bandwidth.from_gbit),
)
def test_held_exactly_when_the_mean_is_within(
    gbit, client, server, streams, cluster, target, within, on, counters, load, own
):
    run = network_run(
        gbit,
        client=client,
        server=server,
        streams=streams,
        cluster=cluster,
        on=on,
        counters=counters,
        generator=load,
        rate_asked=own,
    )
    verdict = reaches(run, target, within=within)
    share = verdict.measured / verdict.asked
    if share >= (1 - within) * (1 + 1e-6):
        assert verdict.outcome is Outcome.HELD
    elif share < (1 - within) * (1 - 0.008):
        assert verdict.outcome is not Outcome.HELD
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence
    assert not any(word in verdict.sentence for word in storage_words)
    assert "bit/s" in verdict.sentence
    assert not verdict.machine_limited or (on is not None and verdict.outcome is Outcome.INCONCLUSIVE)
    assert not verdict.bound_by or verdict.outcome is Outcome.VIOLATED
    assert not any(one.scope == "machine" for one in verdict.bound_by)
    json.dumps(verdict.details)


@given(st.floats(0.01, 30), st.floats(0.01, 30), st.floats(0, 0.5))
def test_faster_is_never_worse(one, other, within):
    slow, fast = sorted((one, other))
    if reaches(network_run(slow), PEAK, within=within).outcome is Outcome.HELD:
        assert reaches(network_run(fast), PEAK, within=within).outcome is Outcome.HELD


@pytest.mark.parametrize("slow_is_client", [True, False])
def test_two_ends_of_one_type_with_other_limits_are_two_limits(slow_is_client):
    """Recorded limits belong to an instance: its neighbour of the same type may have others."""
    slow, fast = type_of("m5.8xlarge", 0.8), type_of("m5.8xlarge", 4.0)
    client, server = (slow, fast) if slow_is_client else (fast, slow)
    run = network_run(0.794, client=client, server=server, streams=4)
    assert reaches(run, slow.network_peak).outcome is Outcome.HELD
    assert capped_by(run, slow.network_peak).outcome is Outcome.HELD
    verdict = reaches(run, fast.network_peak)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.asked == Bandwidth.from_gbit(4)
    (limit,) = verdict.bound_by
    assert limit.limit == Bandwidth.from_gbit(0.8)
    assert limit.detail == ("the client's end" if slow_is_client else "the server's end")
    claim = capped_by(run, fast.network_peak)
    assert claim.outcome is Outcome.VIOLATED
    assert [each.limit for each in claim.bound_by] == [Bandwidth.from_gbit(0.8)]


def test_the_baselines_of_two_ends_of_one_type_may_differ():
    early, late = type_of("m5.2xlarge", 4.0, 0.5), type_of("m5.2xlarge", 4.0, 1.0)
    run = network_run(client=early, server=late, streams=4, values=burst(100, 300, 3.972, 0.4965))
    assert drops_to(run, early.network_baseline).outcome is Outcome.HELD
    assert drops_to(run, late.network_baseline).outcome is not Outcome.HELD
