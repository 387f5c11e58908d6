"""`drops_to`: when the rate fell and to what, and every way of not showing it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import (
    C5_18XL,
    M5_2XL,
    M5_8XL,
    M5_LARGE,
    T2_MEDIUM,
    burst,
    machine,
    network_run,
)
from synthetic_runs import M5, run_of

from pytest_cloudbench import Iops, Outcome, gp2
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.observation import GeneratorLoad

BASELINE = M5_2XL.network_baseline
GP2 = (("vol-0123", gp2(size_gib=100)),)


def bursting(at_s=1_260, seconds=1_800, after=2.4825, **more):
    asked = {name: more.pop(name) for name in ("spread", "seed", "before", "interval") if name in more}
    if "interval" in asked:
        more["interval"] = asked["interval"]
    return network_run(values=burst(at_s, seconds, after=after, **asked), streams=5, **more)


def test_a_burst_that_ends_at_the_baseline():
    verdict = drops_to(bursting(), BASELINE)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == (
        "held: dropped after 1,260 s (21 min) from 9.93 Gbit/s to 2.49 of 2.5 Gbit/s (99.5 %, 95 to 105 % "
        "required), m5.2xlarge network baseline"
    )
    assert verdict.promise == "drops to m5.2xlarge network baseline, 2.5 Gbit/s within 5 %"
    assert verdict.asked == Bandwidth.from_gbit(2.5)
    assert verdict.measured.gbit == pytest.approx(2.4825, rel=0.01)
    assert verdict.bound_by


@pytest.mark.parametrize("level", [M5_2XL.network_peak, "2.5 Gbit/s", Bandwidth.from_gbit(2.5)])
def test_the_level_may_be_given_in_several_ways(level):
    """A peak that bursts stands for its baseline."""
    assert drops_to(bursting(), level).outcome is Outcome.HELD


def test_compressed_time_is_named():
    run = bursting(interval=6.0, time_compression=60.0)
    verdict = drops_to(run, BASELINE)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.startswith("held: dropped after 1,260 s (21 min) from")
    assert verdict.sentence.endswith("; time compressed 60 times")
    assert verdict.details["time_compression"] == 60.0


def test_a_fall_to_another_level_is_violated():
    above = drops_to(bursting(after=3.1), BASELINE)
    assert above.outcome is Outcome.VIOLATED
    assert above.sentence == (
        "violated: dropped after 1,260 s (21 min) from 9.93 Gbit/s to 3.11 of 2.5 Gbit/s (124 %, 95 to 105 % "
        "required), above m5.2xlarge network baseline, 2.5 Gbit/s"
    )
    below = drops_to(bursting(after=0.745, server=M5_LARGE), BASELINE)
    assert below.outcome is Outcome.VIOLATED
    assert below.sentence.endswith(
        "below m5.2xlarge network baseline, 2.5 Gbit/s; limited by m5.large network baseline, 750 Mbit/s (the "
        "server's end, its network credits are spent)"
    )


def test_a_fall_that_the_machine_may_have_made_is_inconclusive():
    verdict = drops_to(bursting(after=1.2, on=machine(13)), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited


def test_several_falls_are_named_and_the_last_decides():
    values = burst(600, 1_200, after=5.0, spread=0.002) + burst(0, 600, spread=0.002)
    verdict = drops_to(network_run(values=values, streams=5), BASELINE)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.startswith(
        "held: dropped after 600 s (10 min) from 9.93 Gbit/s to 5 Gbit/s and after 1,200 s (20 min) to 2.48 of"
    )
    assert len(verdict.details["falls"]) == 2
    further = drops_to(network_run(values=burst(600, 1_200) + burst(0, 600, after=1.0), streams=5), BASELINE)
    assert further.outcome is Outcome.VIOLATED


def test_no_fall_in_a_run_longer_than_any_burst_is_violated():
    verdict = drops_to(network_run(9.93, samples=3_600, streams=5), BASELINE)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: no lasting fall in 3,600 s (60 min): 9.93 Gbit/s at the start, 9.93 Gbit/s at the end, "
        "2.5 Gbit/s required"
    )


@pytest.mark.parametrize("compression", [1.0, 60.0])
@pytest.mark.parametrize("minutes", [6, 59])
def test_no_fall_in_a_run_that_a_burst_may_outlast_proves_nothing(minutes, compression):
    """A burst of a larger type lasts 40 minutes, whether they are sixty times shorter by the clock or not."""
    samples, second_s = (minutes * 60, 1.0) if compression == 1 else (minutes * 10, 6.0)
    run = network_run(9.93, samples=samples, streams=5, interval=second_s, time_compression=compression)
    verdict = drops_to(run, BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    told = "; by the EC2 user guide bursts last 5 to 60 minutes: lengthen the run"
    assert verdict.sentence.removesuffix("; time compressed 60 times").endswith(told)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (
            60,
            "no lasting fall in 60 s: 9.93 Gbit/s at the start, 9.93 Gbit/s at the end; by the EC2 user guide",
        ),
        (10, "10 samples are too few to see a lasting fall, at least 20 are needed: lengthen the run"),
        (0, "nothing arrived, so nothing was measured"),
    ],
)
def test_a_run_too_short_to_show_it_is_inconclusive(samples, text):
    verdict = drops_to(network_run(9.93 if samples else 0.0, samples=samples, streams=5), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert text in verdict.sentence


def test_a_run_at_the_level_throughout_has_no_drop():
    verdict = drops_to(network_run(2.4825, samples=1_800, streams=5), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence == (
        "inconclusive: no drop: 2.48 of 2.5 Gbit/s (99.3 %, 95 to 105 % required) throughout, so there was nothing "
        "to fall from: the credits were spent before the run; let them fill again, or stop and start the instance"
    )


def test_a_type_that_does_not_burst_never_drops():
    run = network_run(9.93, samples=600, client=M5_8XL, streams=4)
    verdict = drops_to(run, M5_8XL.network_baseline)
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence.endswith("is not the end of any burst: it holds from the start")


def test_a_job_that_asked_for_the_level_shows_no_drop():
    run = network_run(2.48, samples=600, streams=5, rate_asked=Bandwidth.from_gbit(2.5))
    verdict = drops_to(run, BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("throughout; the job limited its own load to 2.5 Gbit/s")


def test_a_rate_always_below_the_level_says_why():
    slow = network_run(1.0165, samples=600, client=M5_2XL, server=T2_MEDIUM, streams=5)
    verdict = drops_to(slow, BASELINE)
    assert verdict.outcome is Outcome.VIOLATED
    assert "no lasting fall: 1.02 of 2.5 Gbit/s (41 %" in verdict.sentence
    assert "limited by t2.medium network bandwidth" in verdict.sentence
    weak = drops_to(network_run(1.5, samples=600, streams=5, on=machine(1.6)), BASELINE)
    assert weak.outcome is Outcome.INCONCLUSIVE
    assert weak.machine_limited


def test_something_else_at_its_limit_is_inconclusive():
    busy = network_run(6.0, samples=600, streams=5, generator=GeneratorLoad(99.0))
    verdict = drops_to(busy, BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "the load generator was the limit: its busiest process used 99 % of a CPU" in verdict.sentence
    weak = network_run(6.0, samples=600, streams=5, on=machine(6.2))
    assert drops_to(weak, BASELINE).machine_limited
    level = network_run(4.96, samples=3_600, client=C5_18XL, streams=1, on=machine(13))
    assert drops_to(level, "1 Gbit/s").outcome is Outcome.VIOLATED


def test_a_rate_that_came_back_shows_no_drop_and_on_a_busy_machine_no_violation():
    """A machine that carries less than the baseline lets credits fill again, so the peak comes back."""
    values = burst(1_260, 1_620, after=2.0) + burst(300, 300)
    there = drops_to(network_run(values=values, streams=5, on=machine(45)), BASELINE)
    assert there.outcome is Outcome.INCONCLUSIVE
    assert there.machine_limited
    assert "19 % of the time it was more than 10 % below 9.92 Gbit/s and came back" in there.sentence
    assert there.sentence.endswith("the machine under the embedded region may be why")
    longer = burst(1_260, 1_620, after=2.0) + burst(2_000, 2_000)
    assert drops_to(network_run(values=longer, streams=5), BASELINE).outcome is Outcome.VIOLATED
    steady = network_run(values=burst(3_600, 3_600), streams=5, on=machine(45))
    assert drops_to(steady, BASELINE).outcome is Outcome.VIOLATED


def test_a_plain_rate_all_along_says_nothing_of_credits():
    run = network_run(4.96, samples=600, client=C5_18XL, streams=1)
    verdict = drops_to(run, "5 Gbit/s")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith(
        "throughout, so there was nothing to fall from: nothing bursts above it, or the burst was over before"
    )


def test_a_fall_just_before_the_end_is_inconclusive():
    verdict = drops_to(bursting(at_s=1_790), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith(
        "from 9.93 Gbit/s to 2.51 Gbit/s, only 10 s before the end: too short to tell that it stays: lengthen "
        "the run"
    )


def test_a_rate_that_has_not_settled_is_inconclusive():
    falling = [9.9 - 7 * index / 600 for index in range(600)]
    verdict = drops_to(network_run(values=falling, streams=5), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert (
        "no fall at one moment: the rate went from 9.21 Gbit/s at the start to 3.61 Gbit/s"
        in verdict.sentence
    )
    recovering = [9.93] * 300 + [2.48 + index / 150 for index in range(300)]
    verdict = drops_to(network_run(values=recovering, streams=5), BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "had not settled: 2.9" in verdict.sentence


def test_headers_of_small_segments_do_not_make_another_level():
    run = bursting(before=9.5, after=2.5 * 1_448 / 1_514, spread=0.001, mss=1_448)
    verdict = drops_to(run, BASELINE, within=0.01)
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence.endswith("; headers take up to 4.6 % of the wire")


def test_the_end_of_a_gp2_burst():
    values = [3_000] * 2_000 + [300] * 400
    run = run_of(2_550, on=M5, volumes=GP2, values=values, samples=2_400)
    (iops, _) = [one for one in run.envelope.ceilings if one.scope == "volume"]
    verdict = drops_to(run, iops)
    assert verdict.sentence == (
        "held: dropped after 2,000 s (33.3 min) from 3,000 IOPS to 300 of 300 IOPS (100.0 %, 95 to 105 % "
        "required), gp2 vol-0123 IOPS"
    )
    assert drops_to(run, "300 IOPS").outcome is Outcome.HELD
    early = drops_to(run_of(3_000, on=M5, volumes=GP2, samples=600), iops)
    assert early.outcome is Outcome.INCONCLUSIVE
    assert early.sentence.endswith("bursts last at least 2,000 s (33.3 min): lengthen the run")
    late = drops_to(run_of(3_000, on=M5, volumes=GP2, samples=2_400), iops)
    assert late.outcome is Outcome.VIOLATED


def test_credits_last_longer_at_a_lower_rate():
    """A burst's usual length is that at the full peak; what is not used of it goes on being earned."""
    slow = network_run(5 * 0.9927, samples=3_600, streams=1)
    verdict = drops_to(slow, BASELINE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith(
        "; by the EC2 user guide bursts last 5 to 60 minutes, 3 times as long at this rate as at 10 Gbit/s: "
        "lengthen the run"
    )
    assert drops_to(slow, "2.5 Gbit/s").outcome is Outcome.INCONCLUSIVE
    longer = network_run(5 * 0.9927, samples=10_900, streams=1)
    assert drops_to(longer, BASELINE).outcome is Outcome.VIOLATED


def test_a_bucket_of_a_volume_lasts_longer_at_a_lower_rate():
    run = run_of(1_500, on=M5, volumes=GP2, samples=2_100)
    (iops, _) = [one for one in run.envelope.ceilings if one.scope == "volume"]
    verdict = drops_to(run, iops)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "bursts last at least 2,000 s (33.3 min), 2.25 times as long at this rate" in verdict.sentence
    assert drops_to(run, "300 IOPS").outcome is Outcome.INCONCLUSIVE
    for level in (iops, "300 IOPS"):
        shorter = run_of(1_500, on=M5, volumes=GP2, samples=4_400)
        assert drops_to(shorter, level).outcome is Outcome.INCONCLUSIVE
        longer = run_of(1_500, on=M5, volumes=GP2, samples=4_600)
        assert drops_to(longer, level).outcome is Outcome.VIOLATED


@pytest.mark.parametrize("values", [[3_000] * 10 + [0] * 100, [0] * 50 + [3_000] * 10 + [0] * 50])
def test_a_run_of_which_most_was_nothing_has_a_verdict(values):
    for embedded in (None, machine(45)):
        run = run_of(sum(values) / len(values), on=M5, volumes=GP2, values=values, machine=embedded)
        assert drops_to(run, "300 IOPS").outcome is not Outcome.HELD
        net = network_run(values=[value / 300 for value in values], streams=5, on=embedded)
        assert drops_to(net, BASELINE).outcome is not Outcome.HELD


def test_a_ceiling_that_acted_before_the_fall_explains_no_level_below():
    values, machines = [3_000] * 400 + [200] * 200, (None, machine(45))
    alone, embedded = (
        drops_to(
            run_of(
                2_067, on=M5, volumes=GP2, values=values, machine=each, counters=ThrottleDelta(600.0, 400.0)
            ),
            "300 IOPS",
        )
        for each in machines
    )
    assert alone.bound_by == ()
    assert (embedded.outcome, embedded.machine_limited) == (Outcome.INCONCLUSIVE, True)


def test_bad_levels_show_how_to_write_them():
    with pytest.raises(TypeError, match="not a limit or rate of a network"):
        drops_to(bursting(), Iops(5))
    with pytest.raises(TypeError, match=r"drops_to\(2.5\) has no unit: write drops_to\('2.5 Gbit/s'\)"):
        drops_to(bursting(), 2.5)
    with pytest.raises(TypeError, match="not a limit or rate of storage"):
        drops_to(run_of(3_000), BASELINE)
    with pytest.raises(ValueError, match="share of 1"):
        drops_to(bursting(), BASELINE, within=5)


def test_details_are_plain_values():
    details = json.loads(json.dumps(drops_to(bursting(spread=0.0), BASELINE).details))
    (fall,) = details["falls"]
    assert fall["before"] * 8 / 1e9 == pytest.approx(9.93)
    assert fall["standard_errors"] is None
    assert details["method_parameters"]["smallest_fall"] == 0.10


@given(st.floats(0.3, 9.0), st.floats(0.0, 0.3), st.integers(0, 5), st.integers(60, 280))
def test_held_exactly_when_the_last_level_is_within(after, within, seed, at_s):
    run = bursting(at_s=at_s, seconds=320, after=after, spread=0.001, seed=seed)
    if after > 0.88 * 9.93:
        return
    verdict = drops_to(run, "2.5 Gbit/s", within=within)
    share = after / 2.5
    if (1 - within) * 1.005 < share < (1 + within) * 0.995:
        assert verdict.outcome is Outcome.HELD
        (fall,) = verdict.details["falls"]
        assert abs(fall["at_s"] - at_s) <= 1
    elif share < (1 - within) * 0.985 or share > (1 + within) * 1.005:
        assert verdict.outcome is not Outcome.HELD
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence


@given(st.lists(st.floats(0, 12), max_size=80), st.sampled_from([BASELINE, "1 Gbit/s"]), st.booleans())
def test_whatever_the_series_there_is_one_sentence(values, level, embedded):
    run = network_run(values=values, streams=5, on=machine(13) if embedded else None)
    verdict = drops_to(run, level)
    assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
    assert "\n" not in verdict.sentence
    assert not verdict.machine_limited or embedded
    assert verdict.outcome is not Outcome.HELD or verdict.details["falls"]
    json.dumps(verdict.details)
