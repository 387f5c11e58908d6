"""The delay that the machine under an embedded region added: its share, what it explains, and the verdicts."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_runs import CALM, GP3, LATE, M5, STRONG_MACHINE, delay_of, run_of

from pytest_cloudbench import Iops, Outcome
from pytest_cloudbench.evidence.restorable import plain, restored
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.comparison import outperforms, resembles
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.machine_delay import (
    TOO_MUCH,
    machine_explains,
    machine_share,
    machine_to_blame,
    rate_on_time,
    waited_without_need,
)
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun, not_worse_than
from pytest_cloudbench.verdicts.observation import MachineDelay
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.run import run_of as view


def gp3_run(iops, block="4k", **how):
    return run_of(iops, block, on=M5, volumes=GP3, **how)


def test_without_a_region_there_is_no_share():
    run = run_of(1_000)
    assert machine_share(view(run)) is None
    assert not view(run).on_region
    assert not machine_to_blame(view(run))


def test_the_share_follows_from_the_regions_count_or_the_loads_latency():
    served = run_of(1_000, outstanding=1, delay=delay_of(0.6, 0.4))
    assert machine_share(view(served)) == pytest.approx(0.4)
    before_it = run_of(1_000, outstanding=2, delay=delay_of(0.6, 0.4))  # an I/O took 2 ms
    assert machine_share(view(before_it)) == pytest.approx(0.7)


def test_more_than_the_queues_hold_waits_before_the_region():
    """1,024 at a limit of 3,000: the region sees 128 of them, each of which waits 42.7 ms."""
    run = gp3_run(3_000, outstanding=1_024, delay=delay_of(128 / 3, 0.1))
    assert machine_share(view(run)) < 0.01
    starved = gp3_run(1_500, outstanding=1_024, delay=delay_of(128 / 3, 0.1))
    assert machine_share(view(starved)) == pytest.approx(0.5, abs=0.01)
    spread = gp3_run(3_000, outstanding=1_024, delay=delay_of(1_024 / 3, 0.1, volumes=8))
    assert machine_share(view(spread)) < 0.01


@pytest.mark.parametrize("changes", [{"latency_mean_s": math.nan}, {"keeps_outstanding": False}])
def test_a_load_without_latencies_of_single_ios_does_not_show_it(changes):
    run = SimpleNamespace(**{**vars(run_of(100, outstanding=64, delay=delay_of(0.6, 0.1))), **changes})
    assert machine_share(view(run)) == pytest.approx(1 / 7)


def test_the_pieces_of_a_large_io_are_answered_one_after_another():
    """1 MiB at 125 MiB/s: four pieces after 2, 4, 6 and 8 ms, with nothing of the machine."""
    run = gp3_run(125, "1m", outstanding=1, delay=delay_of(5))
    assert machine_share(view(run)) == 0


@given(st.floats(1e-5, 1), st.floats(0, 1), st.integers(1, 4_096), st.floats(1, 1e6), st.integers(1, 30))
def test_a_share_is_a_share_and_never_below_what_the_region_counted(modelled, late, depth, iops, volumes):
    run = run_of(iops, outstanding=depth, delay=MachineDelay(1_000, modelled, late, volumes))
    assert late / (modelled + late) - 1e-9 <= machine_share(view(run)) < 1


@given(st.floats(0.01, 100), st.floats(0, 10), st.floats(0.01, 100))
def test_the_machine_explains_a_mean_only_if_the_model_alone_keeps_the_limit(modelled_ms, late_ms, limit_ms):
    mean_s = (modelled_ms + late_ms) / 1000
    run = run_of(1 / mean_s, outstanding=1, delay=delay_of(modelled_ms, late_ms))
    explained = machine_explains(view(run), "mean", mean_s, limit_ms / 1000, mean_s)
    if abs(modelled_ms / limit_ms - 1) > 1e-6:
        assert explained == (modelled_ms <= limit_ms)


def test_the_threshold_decides_percentiles_that_the_model_does_not_pass_alone():
    def explained(late_ms, p99_ms, limit_ms):
        mean_s = (0.6 + late_ms) / 1000
        run = run_of(1 / mean_s, outstanding=1, delay=delay_of(0.6, late_ms))
        return machine_explains(view(run), "p99", p99_ms / 1000, limit_ms / 1000, mean_s)

    assert TOO_MUCH == 0.10
    assert not explained(0.05, 1.3, 1.0)
    assert explained(0.08, 1.3, 1.0)
    assert explained(0.05, 1.05, 1.0)  # hardly above: its share of the percentile explains it
    assert not explained(0.08, 1.3, 0.5)  # even the modelled mean is above


def test_a_few_late_ios_move_the_rare_percentiles_most():
    mean_s = 0.00062
    run = run_of(1 / mean_s, outstanding=1, delay=delay_of(0.6, 0.02))
    assert machine_explains(view(run), "p999", 0.005, 0.002, mean_s)
    assert not machine_explains(view(run), "p999", 0.050, 0.002, mean_s)
    assert machine_explains(view(run), "max", 5.0, 0.1, mean_s)


def test_a_load_too_shallow_for_the_modelled_latency_is_its_own_limit():
    verdict = reaches(gp3_run(1_600, outstanding=1, delay=delay_of(0.6, 0.01)), "3,000 IOPS")
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, False)
    for words in (
        "only 1 I/O outstanding",
        "modelled latency 0.6 ms",
        "at least 2 ",
        "raise iodepth or numjobs",
    ):
        assert words in verdict.sentence


def test_a_deep_enough_load_was_held_back_by_the_machine():
    verdict = reaches(run_of(45_000, outstanding=64, delay=LATE), "80,000 IOPS")
    assert (verdict.outcome, verdict.machine_limited, verdict.bound_by) == (Outcome.INCONCLUSIVE, True, ())
    for words in ("mean latency 1.42 ms", "0.3 ms of it modelled", "added 79 %"):
        assert words in verdict.sentence
    assert verdict.details["machine_delay"]["late_s"] == 0.0008
    assert verdict.details["machine_share"] == pytest.approx(0.79, abs=0.01)


@pytest.mark.parametrize(("outstanding", "machine"), [(22, False), (23, True), (24, True)])
def test_a_disturbed_machine_explains_a_depth_at_the_edge(outstanding, machine):
    """24 are needed for 80,000 IOPS of 0.3 ms, but for 5 %."""
    verdict = reaches(run_of(15_000, outstanding=outstanding, delay=LATE), "80,000 IOPS")
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, machine)


def test_on_aws_one_millisecond_is_reckoned_with():
    assert "at least 80 are needed" in reaches(run_of(45_000, outstanding=64), "80,000 IOPS").sentence


@given(
    st.floats(1, 70_000),
    st.integers(1, 2_048),
    st.floats(0.01, 5),
    st.floats(0, 50),
    st.none() | st.builds(ThrottleDelta, st.just(60.0), *[st.floats(0, 29)] * 4),
)
def test_no_unexplained_shortfall_on_a_region_is_violated(iops, depth, modelled, late, counters):
    run = run_of(iops, outstanding=depth, delay=delay_of(modelled, late), counters=counters)
    for verdict in (reaches(run, "80,000 IOPS"), reaches(run, "80,000 IOPS", share=0.99)):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert verdict.machine_limited != ("outstanding" in verdict.sentence)


def test_a_counter_at_its_ceiling_outweighs_the_machine_and_one_far_below_does_not():
    acted = ThrottleDelta(60, 59)
    at_it = gp3_run(3_000, outstanding=64, delay=delay_of(15, 6), counters=acted)
    assert reaches(at_it, "10,000 IOPS").outcome is Outcome.VIOLATED
    below = gp3_run(2_000, outstanding=64, delay=delay_of(15, 17), counters=acted)
    for verdict in (reaches(below, "10,000 IOPS"), capped_by(below, "3,000 IOPS")):
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    calm = gp3_run(2_000, outstanding=64, delay=delay_of(32, 0.1), counters=acted)
    assert reaches(calm, "2,900 IOPS").outcome is Outcome.VIOLATED


def stalled_run(
    *,
    stall_s=0.32,
    counted=True,
    timed=True,
    length_s=6.0,
    outstanding=8,
    block="256k",
    limit=125,
    fails_to=1.0,
):
    """A load at gp3's throughput, served ``fails_to`` of ``limit`` MiB/s, while its machine stood still once.

    What the load has in flight is served before the stall bites. The region counts the rest of the stall as late if
    its own process stood still, the load times it if its I/Os had been sent.
    """
    mib = Size.parse(block).mib
    iops, pieces = limit * fails_to / mib, max(1, int(mib * 4))
    slot_s, asked = 1 / iops, outstanding
    lost_s = max(0.0, stall_s - asked * slot_s)
    rate = iops * (1 - lost_s / length_s)
    ios = rate * length_s
    modelled_s = (asked - (pieces - 1) / 2 / pieces) * slot_s - (asked * slot_s / 2) * asked / ios
    late_s = asked * lost_s / ios if counted else 0.0
    found = gp3_run(
        rate, block, outstanding=asked, samples=int(length_s), sequential=True,
        delay=delay_of(modelled_s * 1000, late_s * 1000),
        counters=ThrottleDelta(length_s + 1, volume_throughput_exceeded_s=length_s + 0.7 - lost_s),
    )  # fmt: skip
    return found if timed else dataclasses.replace(found, latency_mean_s=asked * slot_s)


@pytest.mark.parametrize("block", ["128k", "256k", "1m"])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("timed", [True, False])
def test_a_stall_of_the_machine_below_a_limit_that_acted_breaks_no_promise(block, counted, timed):
    """It costs 5.1 % of the rate: less than `TOO_MUCH` of the delay, but all that is missing."""
    run = stalled_run(
        block=block, counted=counted, timed=timed, stall_s=0.306 + 8 * Size.parse(block).mib / 125
    )
    assert run.throughput_mib == pytest.approx(118.6, abs=0.1)
    assert machine_share(view(run)) < TOO_MUCH
    for verdict in (capped_by(run, "125 MiB/s"), reaches(run, "125 MiB/s", within=0.05)):
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
        assert "would have served up to 125." in verdict.sentence
        assert "MiB/s if each I/O had taken as long as modelled" in verdict.sentence
        assert verdict.bound_by == ()


@given(
    st.floats(0, 0.55), st.sampled_from(["128k", "256k", "1m"]), st.booleans(), st.sampled_from([4, 8, 32])
)
def test_no_stall_below_a_limit_that_was_kept_is_violated(stall_s, block, counted, outstanding):
    run = stalled_run(stall_s=stall_s, block=block, counted=counted, outstanding=outstanding)
    for within in (0.01, 0.05, 0.1):
        for verdict in (capped_by(run, "125 MiB/s", within=within), reaches(run, "125 MiB/s", within=within)):
            assert verdict.outcome is not Outcome.VIOLATED


@given(st.floats(0.3, 0.93), st.floats(0, 0.05), st.booleans())
def test_a_limit_kept_too_low_is_violated_however_much_the_machine_stood_still(fails_to, stall_s, counted):
    """The model itself is too slow: being on time would not have helped."""
    run = stalled_run(stall_s=stall_s, fails_to=fails_to, counted=counted)
    verdict = capped_by(run, "125 MiB/s")
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.VIOLATED, False)


@pytest.mark.parametrize("counted", [True, False])
def test_runs_that_only_a_stall_sets_apart_are_not_told_apart(counted):
    """It costs 9.9 % of the second run: less than the threshold."""
    steady, stalled = stalled_run(stall_s=0), stalled_run(stall_s=0.6, counted=counted)
    for verdict in (
        outperforms(steady, stalled, by=0.05),
        outperforms(stalled, steady, by=-0.05),
        resembles(steady, stalled, within=0.05),
        resembles(stalled, steady, within=0.05),
    ):
        assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    slow = stalled_run(stall_s=0.05, fails_to=0.8, counted=counted)
    assert outperforms(steady, slow, by=0.05).outcome is Outcome.HELD
    assert resembles(steady, slow, within=0.05).outcome is Outcome.VIOLATED


def test_a_run_whose_load_stood_still_is_no_regression():
    """The region counts nothing of it, and the load did not time it."""
    before = [EarlierRun(f"run-{number}", stalled_run(stall_s=0), {}) for number in range(3)]
    stalled = stalled_run(stall_s=0.6, counted=False, timed=False)
    verdict = not_worse_than(stalled, Earlier(tuple(before), {}), by="5%")
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    slow = stalled_run(stall_s=0.05, fails_to=0.8)
    assert not_worse_than(slow, Earlier(tuple(before), {}), by="5%").outcome is Outcome.VIOLATED


def test_the_rate_on_time_is_that_of_the_i_os_that_the_region_holds():
    """Of 1,024 outstanding I/Os it holds 128, each 42.7 ms by the model: 3,000 a second."""
    assert rate_on_time(view(gp3_run(2_800, delay=delay_of(128 / 3)))).per_second == pytest.approx(3_000)
    spread = gp3_run(2_800, delay=delay_of(1_024 / 3, volumes=8))
    assert rate_on_time(view(spread)).per_second == pytest.approx(3_000)
    acted = ThrottleDelta(60, 0, 60)
    large = gp3_run(125, "1m", outstanding=1, delay=delay_of(5), counters=acted)
    assert rate_on_time(view(large)).per_second == 125
    assert rate_on_time(view(gp3_run(125, "1m", outstanding=1, delay=delay_of(5)))) is None
    assert rate_on_time(view(gp3_run(2_800))) is None
    assert rate_on_time(view(gp3_run(2_800, rate_asked=Iops(2_800), delay=CALM))) is None


def test_a_rate_at_a_ceiling_without_its_counters_word_may_be_of_a_disturbed_machine():
    late = gp3_run(3_000, outstanding=16, delay=delay_of(1, 4))
    verdict = capped_by(late, "3,000 IOPS")
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "gp3 vol-0def IOPS or the machine under the embedded region" in verdict.sentence
    assert reaches(late, "10,000 IOPS").machine_limited
    calm = gp3_run(3_000, outstanding=16, delay=delay_of(5.3, 0.01))
    assert capped_by(calm, "3,000 IOPS").outcome is Outcome.HELD
    assert reaches(calm, "10,000 IOPS").outcome is Outcome.VIOLATED


def test_a_rate_far_below_every_ceiling_is_the_loads_own_and_can_be_compared():
    one = gp3_run(1_650, outstanding=1, delay=delay_of(0.6, 0.006), machine=STRONG_MACHINE)
    half = gp3_run(800, outstanding=1, delay=delay_of(1.2, 0.01), machine=STRONG_MACHINE)
    assert outperforms(one, half, by=0.5).outcome is Outcome.HELD
    late = dataclasses.replace(half, machine_delay=delay_of(0.6, 0.6))
    verdict = outperforms(one, late, by=0.5)
    assert (verdict.outcome, verdict.machine_limited) == (Outcome.INCONCLUSIVE, True)
    assert "in the second run, the machine under the embedded region" in verdict.sentence


def test_a_load_that_fell_behind_its_own_rate_kept_all_in_flight():
    behind = run_of(40_000, outstanding=64, rate_asked=Iops(100_000), delay=CALM)
    assert machine_share(view(behind)) == pytest.approx(1 - 0.3 / 1.6)


def test_it_is_kept_and_restored():
    assert restored(plain(CALM)) == CALM


def paced_run(asked, *, waited_s, **how):
    counters = ThrottleDelta(10.0, volume_iops_exceeded_s=waited_s)
    run = gp3_run(2_700, outstanding=64, delay=delay_of(64 / 2.7, 0.01), **how)
    return SimpleNamespace(**{**vars(run), "rate_asked": asked, "counters": counters})


def test_ios_that_came_in_bursts_are_the_machines():
    """2,700 asked of 3,000: evenly, they would not wait for the limit."""
    run = paced_run(Iops(2_700), waited_s=1.2)
    assert waited_without_need(view(run)) is not None
    assert machine_explains(view(run), "mean", 64 / 2_700, 1e-3, 64 / 2_700)


@pytest.mark.parametrize(("asked", "waited_s"), [(Iops(2_700), 0.1), (Iops(2_990), 5.0), (None, 5.0)])
def test_waiting_for_a_limit_is_the_loads_own_if_it_asks_for_as_much(asked, waited_s):
    run = paced_run(asked, waited_s=waited_s)
    assert waited_without_need(view(run)) is None
    assert not machine_explains(view(run), "mean", 64 / 2_700, 1e-3, 64 / 2_700)
