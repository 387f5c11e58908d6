"""`capped_by` of a network: flows, ends, credits, and everything that makes it unproven."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import C5_2XL, C5_18XL, M5_2XL, M5_8XL, T2_MEDIUM, burst, machine, network_run
from synthetic_runs import C5

from pytest_cloudbench import Outcome
from pytest_cloudbench.limits.network import flow_limit
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.counters import AllowanceDelta, AllowancePair
from pytest_cloudbench.verdicts.observation import GeneratorLoad

PEAK, BASELINE, FLOW = M5_2XL.network_peak, M5_2XL.network_baseline, flow_limit(False)
IDLE = AllowanceDelta(60.0)
OUT = AllowanceDelta(60.0, bw_out_exceeded=9_000)


def one_flow(gbit=4.9635, **more):
    return network_run(gbit, client=C5_18XL, **more)


def test_one_flow_is_capped_by_its_limit():
    verdict = capped_by(one_flow(), FLOW)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: 4.96 of 5 Gbit/s (99.3 %), capped by a single flow's limit; c5.18xlarge network bandwidth "
        "would allow 25 Gbit/s"
    )
    assert verdict.promise == "capped by a single flow's limit, 5 Gbit/s, within 5 %"
    assert [one.label for one in verdict.bound_by] == ["a single flow's limit"]
    assert capped_by(one_flow(9.93, cluster=True), FLOW).outcome is Outcome.HELD


def test_headers_do_not_make_it_a_violation():
    assert capped_by(one_flow(), FLOW, within=0.0).outcome is Outcome.HELD
    verdict = capped_by(one_flow(5 * 1_448 / 1_514, mss=1_448), "5 Gbit/s", within=0.01)
    assert verdict.outcome is Outcome.HELD
    assert "; headers take up to 4.6 % of the wire; c5.18xlarge" in verdict.sentence
    assert capped_by(one_flow(4.9), FLOW, within=0.01).outcome is Outcome.VIOLATED


def test_each_of_several_flows_sits_at_its_limit():
    verdict = capped_by(network_run(14.9, client=C5_18XL, streams=3), FLOW)
    assert verdict.sentence.startswith(
        "held: 14.9 of 15 Gbit/s (99.3 %), capped by a single flow's limit, 3 streams each at 5 Gbit/s; "
    )
    unequal = capped_by(network_run(14.9, client=C5_18XL, streams=3, each=[8.9, 4, 2]), FLOW)
    assert unequal.outcome is Outcome.INCONCLUSIVE
    assert "the streams are unequal, 2 Gbit/s to 8.9 Gbit/s" in unequal.sentence


def test_an_instance_did_not_limit_one_flow():
    verdict = capped_by(one_flow(), C5_18XL.network_peak)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 4.96 of 25 Gbit/s (20 %, 95 to 105 % required), so not at c5.18xlarge network bandwidth; "
        "limited by a single flow's limit, 5 Gbit/s outside a cluster placement group"
    )


@pytest.mark.parametrize(("client", "server"), [(T2_MEDIUM, M5_2XL), (M5_2XL, T2_MEDIUM)])
def test_the_slower_end_caps_a_mismatched_pair(client, server):
    run = network_run(1.0165, client=client, server=server, streams=5)
    verdict = capped_by(run, T2_MEDIUM.network_peak)
    assert verdict.sentence == (
        "held: 1.02 of 1.02 Gbit/s (99.3 %), capped by t2.medium network bandwidth; m5.2xlarge network "
        "bandwidth would allow 10 Gbit/s"
    )
    assert capped_by(run, PEAK).outcome is Outcome.VIOLATED


def test_peak_and_baseline_have_their_own_parts_of_the_run():
    run = network_run(values=burst(1_260, 1_800), streams=5)
    assert capped_by(run, PEAK).sentence.startswith("held: 9.93 of 10 Gbit/s (99.3 %) in the first 1,260 s")
    spent = capped_by(run, BASELINE)
    assert spent.sentence.startswith("held: 2.49 of 2.5 Gbit/s (99.5 %) after 1,260 s (21 min), when")
    assert "capped by m5.2xlarge network baseline; " in spent.sentence
    assert capped_by(run, "10 Gbit/s").outcome is Outcome.HELD
    assert capped_by(run, "2.5 Gbit/s").outcome is Outcome.HELD


def test_credits_that_are_not_spent_or_were_spent_before():
    early = capped_by(network_run(9.93, streams=5), BASELINE)
    assert early.outcome is Outcome.VIOLATED
    assert early.sentence.endswith("; above m5.2xlarge network baseline: its network credits were not spent")
    late = capped_by(network_run(2.4825, streams=5), PEAK)
    assert late.outcome is Outcome.VIOLATED
    assert late.sentence.endswith("m5.2xlarge network baseline, 2.5 Gbit/s (its network credits are spent)")


def test_the_baseline_of_a_type_that_does_not_burst_is_its_peak():
    assert capped_by(network_run(9.93, client=M5_8XL, streams=4), M5_8XL.network_baseline).outcome is (
        Outcome.HELD
    )


def test_a_rate_above_one_flow_names_the_reason():
    verdict = capped_by(one_flow(9.93), FLOW)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence.endswith(
        "above a single flow's limit: a cluster placement group or ENA Express allows one flow more"
    )
    other = capped_by(network_run(12, client=M5_8XL, streams=4), M5_8XL.network_peak)
    assert other.sentence.endswith("look for other instances or a figure that has changed")


@pytest.mark.parametrize(
    ("streams", "cluster", "figure", "told"),
    [
        (
            3,
            False,
            "5 Gbit/s",
            "outside a cluster placement group is 5 Gbit/s for each; for all of them write",
        ),
        (
            3,
            False,
            "10 Gbit/s",
            "outside a cluster placement group is 5 Gbit/s for each; for all of them write",
        ),
        (2, True, "10 Gbit/s", "in a cluster placement group is 10 Gbit/s for each; for all of them write"),
    ],
)
def test_the_figure_of_one_flow_is_not_that_of_several(streams, cluster, figure, told):
    each = 10 if cluster else 5
    run = network_run(0.9927 * each * streams, client=C5_18XL, streams=streams, cluster=cluster)
    verdict = capped_by(run, figure)
    assert verdict.outcome is Outcome.VIOLATED
    said = verdict.sentence.partition("; ")[2]
    assert said == (
        f"a figure speaks of all {streams} streams together: a single flow's limit {told} "
        f"capped_by('{each * streams} Gbit/s')"
    )
    assert capped_by(run, f"{each * streams} Gbit/s")
    other = capped_by(run, "8 Gbit/s").sentence
    assert other.endswith("above the given limit: look for other instances or a figure that has changed")


def test_limits_of_one_figure_cannot_be_told_apart():
    run = network_run(9.93, client=M5_8XL, streams=2)
    for target in (FLOW, M5_8XL.network_peak):
        verdict = capped_by(run, target)
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "2 x 5 Gbit/s = 10 Gbit/s outside a cluster placement group" in verdict.sentence
        assert verdict.sentence.endswith("are too close to tell apart without allowance counters")
        assert len(verdict.bound_by) == 2
    assert capped_by(run, "10 Gbit/s").outcome is Outcome.HELD


def test_counters_distinguish_them():
    acted = network_run(9.93, client=M5_8XL, streams=2, counters=AllowancePair(OUT, IDLE))
    held = capped_by(acted, M5_8XL.network_peak)
    assert held.outcome is Outcome.HELD
    assert "(9,000 packets above the client's outbound bandwidth allowance)" in held.sentence
    assert held.sentence.endswith(
        "a single flow's limit lies at 10 Gbit/s too, but nothing shows that it acted"
    )
    denied = capped_by(acted, FLOW)
    assert denied.outcome is Outcome.INCONCLUSIVE
    assert denied.sentence.endswith(
        "the instances counted 9,000 packets above the client's outbound bandwidth allowance"
    )
    idle = network_run(9.93, client=M5_8XL, streams=2, counters=AllowancePair(IDLE, IDLE))
    assert capped_by(idle, FLOW).outcome is Outcome.HELD


def test_unequal_streams_distinguish_them():
    run = network_run(9.93, client=M5_8XL, streams=2, each=[6.5, 3.43])
    assert capped_by(run, M5_8XL.network_peak).outcome is Outcome.HELD
    assert capped_by(run, FLOW).outcome is Outcome.INCONCLUSIVE


def test_equal_ends_of_unlike_types():
    run = network_run(9.93, client=C5_2XL, server=M5_2XL, streams=5)
    verdict = capped_by(run, PEAK)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "(the server's end) and c5.2xlarge network bandwidth, 10 Gbit/s (the client's end)" in (
        verdict.sentence
    )
    counted = network_run(9.93, client=C5_2XL, server=M5_2XL, streams=5, counters=AllowancePair(IDLE, OUT))
    assert capped_by(counted, PEAK).outcome is Outcome.HELD
    assert capped_by(counted, C5_2XL.network_peak).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("asked", [4.97, 5.0, 5.2])
def test_a_demand_not_above_the_limit_proves_nothing(asked):
    verdict = capped_by(one_flow(rate_asked=Bandwidth.from_gbit(asked)), FLOW)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "ask for more than the limit, or leave the bitrate out" in verdict.sentence
    assert capped_by(one_flow(rate_asked=Bandwidth.from_gbit(8)), FLOW).outcome is Outcome.HELD


def test_a_demand_hardly_above_needs_the_counters_word():
    own = Bandwidth.from_gbit(10.2)
    counters = AllowancePair(OUT, None)
    counted = network_run(9.93, client=M5_8XL, streams=4, rate_asked=own, counters=counters)
    assert capped_by(counted, M5_8XL.network_peak).outcome is Outcome.HELD
    plain = network_run(9.93, client=M5_8XL, streams=4, rate_asked=own)
    assert capped_by(plain, M5_8XL.network_peak).outcome is Outcome.INCONCLUSIVE


def test_a_plateau_needs_samples_and_no_drift():
    few = capped_by(one_flow(samples=3), FLOW)
    assert "3 one-second samples are too few to see a plateau, at least 4 are needed" in few.sentence
    moved = capped_by(one_flow(values=[5.4] * 30 + [4.6] * 30), FLOW)
    assert moved.outcome is not Outcome.HELD
    drifted = capped_by(one_flow(values=[5.3 - index / 100 for index in range(60)]), FLOW)
    assert drifted.sentence.endswith("not steady: 5.16 Gbit/s in the first half, 4.86 Gbit/s in the second")


def test_the_machine_or_the_generator_at_the_same_place():
    verdict = capped_by(one_flow(on=machine(5.2)), FLOW)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "its network carries about 5.2 Gbit/s from one process" in verdict.sentence
    assert capped_by(one_flow(on=machine(13)), FLOW).outcome is Outcome.HELD
    busy = capped_by(one_flow(generator=GeneratorLoad(100.0)), FLOW)
    assert busy.sentence.endswith(
        "or the load generator held it there: its busiest process used 100 % of a CPU (iperf3 3.12, 1 process)"
    )
    counters = AllowancePair(OUT, None)
    sure = network_run(
        9.93, client=M5_8XL, streams=4, generator=GeneratorLoad(100.0), on=machine(10), counters=counters
    )
    assert capped_by(sure, M5_8XL.network_peak).outcome is Outcome.HELD


def test_a_rate_below_it_because_of_the_machine_is_not_violated():
    run = network_run(18.9, client=C5_18XL, streams=5, on=machine(19.5))
    verdict = capped_by(run, C5_18XL.network_peak)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited


def test_a_figure_that_is_no_limit_of_the_run_shows_nothing():
    verdict = capped_by(network_run(9.93, client=C5_18XL, streams=5, server=T2_MEDIUM), "10 Gbit/s")
    assert (verdict.outcome, verdict.bound_by) == (Outcome.INCONCLUSIVE, ())
    assert "10 Gbit/s is not a limit of this run" in verdict.sentence
    assert "t2.medium network bandwidth, 1.02 Gbit/s" in verdict.sentence


def test_an_end_that_was_not_in_the_run_is_refused():
    with pytest.raises(
        ValueError, match=r"m5.2xlarge network bandwidth.*not a limit of this run.*c5.18xlarge"
    ):
        capped_by(one_flow(), PEAK)


@pytest.mark.parametrize("values", [[7, 3] * 10, [6.4, 6.4, 3.6, 3.6] * 5])
@pytest.mark.parametrize("counters", [None, AllowancePair(OUT, IDLE)])
def test_a_rate_that_alternates_around_a_limit_is_not_capped(values, counters):
    verdict = capped_by(network_run(5, client=C5_18XL, values=values, counters=counters), FLOW)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "no limit yields such seconds" in verdict.sentence


def test_a_lower_limit_that_did_not_act_is_named():
    run = network_run(4.96, client=C5_18XL, server=T2_MEDIUM)
    verdict = capped_by(run, FLOW)
    assert verdict.sentence.endswith(
        "though t2.medium network bandwidth is lower, 1.02 Gbit/s, and did not hold it back"
    )


def test_a_ceiling_needs_no_envelope():
    verdict = capped_by(network_run(9.93, envelope=False), PEAK)
    assert verdict.sentence == "held: 9.93 of 10 Gbit/s (99.3 %), capped by m5.2xlarge network bandwidth"
    spent = network_run(values=burst(1_260, 1_800), envelope=False)
    assert capped_by(spent, BASELINE).outcome is Outcome.HELD


@pytest.mark.parametrize("gbit", [0.0, math.nan])
def test_a_run_without_a_rate_is_a_failed_measurement(gbit):
    verdict = capped_by(network_run(gbit), "5 Gbit/s")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "look at the workload's own output" in verdict.sentence


def test_targets_of_storage_are_refused():
    with pytest.raises(TypeError, match="not a limit or rate of a network"):
        capped_by(network_run(9.93), C5.ebs_throughput)


ends = st.sampled_from([M5_2XL, C5_2XL, M5_8XL, C5_18XL, T2_MEDIUM])
deltas = st.builds(AllowanceDelta, st.just(60.0), *[st.integers(0, 10_000)] * 3)


@given(
    st.floats(0.001, 60),
    ends,
    ends,
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([PEAK, BASELINE, FLOW, "10 Gbit/s", "1.024 Gbit/s", "400 Mbit/s"]),
    st.floats(0, 0.4),
    st.none() | st.floats(0.5, 40).map(machine),
    st.none() | st.builds(AllowancePair, st.none() | deltas, st.none() | deltas),
    st.none() | st.builds(GeneratorLoad, st.floats(0, 100)),
)
def test_nothing_is_held_away_from_a_limit(
    gbit, client, server, streams, cluster, target, within, on, counters, load
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
    )
    if target in (PEAK, BASELINE) and PEAK.owner not in {one.owner for one in run.envelope.promised.ceilings}:
        with pytest.raises(ValueError, match="not a limit of this run"):
            capped_by(run, target, within=within)
        return
    verdict = capped_by(run, target, within=within)
    if verdict.outcome is Outcome.HELD:
        share = verdict.measured / verdict.asked
        assert (1 - within) * (1 - 0.008) * (1 - 1e-6) <= share <= (1 + within) * (1 + 1e-6)
        assert verdict.bound_by
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence
    assert not any(word in verdict.sentence for word in ("iodepth", "I/O", "IOPS", "MiB/s", "disk"))
    assert not verdict.machine_limited or (on is not None and verdict.outcome is Outcome.INCONCLUSIVE)
    assert not any(one.scope == "machine" for one in verdict.bound_by)
