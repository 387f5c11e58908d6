"""`steady`: no drop, no drift, little scatter; and who else may have caused it."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import C5_18XL, burst, machine, network_run, noise
from synthetic_runs import GP3, LATE, M5, STRONG_MACHINE, run_of

from pytest_cloudbench import Outcome
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.steady import steady


def noisy(spread, count=60, memory=0.0, **more):
    return network_run(
        values=[5 * factor for factor in noise(count, spread, random.Random(3), memory)], **more
    )


def test_a_steady_rate():
    verdict = steady(noisy(0.01))
    assert verdict.outcome is Outcome.HELD
    assert verdict.sentence == "held: 100.0 % of 60 seconds within 5 % of 4.99 Gbit/s, no drift and no drop"
    assert verdict.promise == "steady within 5 %"
    assert verdict.details["share_wanted"] == 0.90


def test_a_few_seconds_apart_are_still_steady():
    values = [5.0] * 57 + [0.5, 9.0, 1.0]
    assert steady(network_run(values=values)).outcome is Outcome.HELD
    assert steady(network_run(values=values), within=0.0).outcome is Outcome.HELD


def test_scatter_is_not_steady():
    verdict = steady(noisy(0.2))
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: 27 % of 60 seconds within 5 % of 4.73 Gbit/s, at least 90 % required"
    )
    assert steady(noisy(0.2), within=0.5).outcome is Outcome.HELD


def test_a_drop_is_not_steady():
    verdict = steady(network_run(values=burst(1_260, 1_800)))
    assert verdict.outcome is Outcome.VIOLATED
    assert verdict.sentence == (
        "violated: the rate dropped after 1,260 s (21 min) from 9.93 Gbit/s to 2.49 Gbit/s"
    )
    late = steady(network_run(values=burst(1_790, 1_800), on=machine(13)))
    assert late.outcome is Outcome.VIOLATED


def test_a_drop_to_where_nothing_promised_lies_is_the_machines_on_an_embedded_region():
    values = [4.96] * 50 + [2.1] * 10
    verdict = steady(network_run(values=values, client=C5_18XL, on=machine(13)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert "dropped after 50 s from 4.96 Gbit/s to 2.1 Gbit/s" in verdict.sentence
    assert "the machine under the embedded region may be why" in verdict.sentence
    assert steady(network_run(values=values, client=C5_18XL)).outcome is Outcome.VIOLATED


def test_a_drift_is_not_steady():
    verdict = steady(network_run(values=[5 + index / 60 for index in range(60)]))
    assert verdict.sentence == (
        "violated: the rate drifted: 5.24 Gbit/s in the first half, 5.74 Gbit/s in the second"
    )


def test_what_the_machine_may_have_caused_is_inconclusive():
    verdict = steady(noisy(0.2, on=machine(13)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.machine_limited
    assert verdict.sentence.endswith("; the machine under the embedded region may be why")
    busy = steady(noisy(0.2, generator=GeneratorLoad(98.0)))
    assert busy.outcome is Outcome.INCONCLUSIVE
    assert not busy.machine_limited
    assert "its busiest process used 98 % of a CPU" in busy.sentence


def test_few_seconds_tell_little():
    verdict = steady(network_run(values=[5.0] * 8 + [2.0] * 2))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.sentence.endswith("too few seconds to tell: lengthen the run")
    fewer = steady(network_run(5.0, samples=4))
    assert "4 one-second samples are too few to see whether the rate was steady" in fewer.sentence
    assert steady(network_run(0.0)).outcome is Outcome.INCONCLUSIVE


def test_tenths_of_seconds_are_put_together():
    run = network_run(values=[4.0, 6.0] * 150, interval=6.0, time_compression=60.0)
    assert steady(run).sentence.startswith("held: 100.0 % of 30 seconds")


def test_iops_are_judged_as_well():
    run = run_of(3_001, on=M5, volumes=GP3)
    assert steady(run).sentence == (
        "held: 100.0 % of 60 seconds within 5 % of 3,001 IOPS, no drift and no drop"
    )
    wild = run_of(3_000, values=[1_000, 5_000] * 30, machine=STRONG_MACHINE, delay=LATE)
    assert steady(wild).machine_limited
    assert "0.3 ms of it modelled" in steady(wild).sentence


def test_a_wrong_tolerance_is_a_sentence():
    with pytest.raises(ValueError, match="share of 1"):
        steady(noisy(0.01), within=5)


@given(st.lists(st.floats(0.1, 20), max_size=100), st.floats(0, 0.9), st.floats(0, 0.9), st.booleans())
def test_a_wider_tolerance_is_never_stricter(values, one, other, embedded):
    run = network_run(values=values, on=machine(13) if embedded else None)
    narrow, wide = sorted((one, other))
    strict, mild = steady(run, within=narrow), steady(run, within=wide)
    assert strict.outcome is not Outcome.HELD or mild.outcome is Outcome.HELD
    for verdict in (strict, mild):
        assert verdict.sentence.startswith(f"{verdict.outcome.value}: ")
        assert "\n" not in verdict.sentence
        assert not verdict.machine_limited or embedded
        json.dumps(verdict.details)
