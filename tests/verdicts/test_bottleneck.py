"""What held a run back: who is suspected, on which figures, and who leads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_networks import C5_18XL, burst, machine, network_run
from synthetic_runs import C5, CALM, GP3, LATE, M5, STRONG_MACHINE, delay_of, run_of
from test_burst_ends_at import falling

from pytest_cloudbench import Bottleneck, Iops
from pytest_cloudbench.verdicts.attribution import bottleneck_of
from pytest_cloudbench.verdicts.bottleneck import Kind, Standing
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.run import run_of as view_of

BUSY, ROOM = GeneratorLoad(100.0, 120.0, 8), GeneratorLoad(40.0, 80.0, 8)


def found(run) -> Bottleneck:
    return bottleneck_of(view_of(run))


def gp3_run(iops=3_000, **asked):
    return run_of(iops, on=M5, volumes=GP3, **asked)


def suspect(bottleneck, kind):
    return next(one for one in bottleneck.suspects if one.kind is kind)


@pytest.mark.parametrize(
    ("run", "kinds"),
    [
        (gp3_run(), [Kind.CEILING]),
        (gp3_run(2_990, counters=ThrottleDelta(60, 58), generator=BUSY), [Kind.CEILING]),
        (gp3_run(generator=BUSY), [Kind.CEILING, Kind.GENERATOR]),
        (gp3_run(outstanding=2), [Kind.LOAD, Kind.CEILING]),
        (gp3_run(2_000, generator=BUSY), [Kind.GENERATOR]),
        (gp3_run(2_000, outstanding=1), [Kind.LOAD]),
        (gp3_run(2_000, rate_asked=Iops(2_000)), [Kind.LOAD]),
        (gp3_run(2_000, generator=ROOM), [Kind.UNKNOWN]),
        (gp3_run(2_000, delay=LATE), [Kind.MACHINE]),
        (gp3_run(1_900, outstanding=1, delay=delay_of(0.5, 0.01)), [Kind.LOAD]),
        (gp3_run(1_000, outstanding=2, delay=delay_of(0.5, 1.5)), [Kind.MACHINE]),
        (gp3_run(3_000, delay=LATE, outstanding=16), [Kind.CEILING, Kind.MACHINE]),
        (gp3_run(values=[4_000, 2_000] * 30), [Kind.UNKNOWN]),
        (falling(2_000), [Kind.CREDITS]),
        (run_of(80_000), [Kind.CEILING, Kind.CEILING]),
        (network_run(4.96, client=C5_18XL), [Kind.CEILING]),
        (network_run(12, client=C5_18XL, streams=5), [Kind.UNKNOWN]),
        (network_run(12, client=C5_18XL, streams=5, on=machine(12)), [Kind.MACHINE]),
        (network_run(values=burst(1_260, 3_600)), [Kind.CREDITS]),
    ],
)
def test_who_leads(run, kinds):
    assert [one.kind for one in found(run).leading] == kinds


def test_figures_for_and_against_are_data():
    bottleneck = found(gp3_run(2_985, counters=ThrottleDelta(60, 58), generator=ROOM, outstanding=64))
    assert bottleneck.name == "gp3 vol-0def IOPS"
    assert "2,985 IOPS" in bottleneck.sentence
    ceiling = suspect(bottleneck, Kind.CEILING)
    assert ceiling.standing is Standing.SHOWN
    rate, counter = ceiling.evidence_for
    assert (rate.value, rate.compared_with, rate.unit) == (2_985, 3_000, "IOPS")
    assert (counter.value, counter.compared_with, counter.unit) == (58, 30, "s")
    generator = suspect(bottleneck, Kind.GENERATOR)
    assert generator.standing is Standing.EXCLUDED
    assert [(one.value, one.compared_with) for one in generator.evidence_against] == [(40, 95), (80, 760)]
    (depth,) = suspect(bottleneck, Kind.LOAD).evidence_against
    assert (depth.value, depth.compared_with) == (64, pytest.approx(3))
    others = [one for one in bottleneck.suspects if one.kind is Kind.CEILING][1:]
    assert others
    assert all(one.standing is Standing.EXCLUDED and one.evidence_against for one in others)
    assert not any("limited by" in one.sentence for one in others)
    assert json.loads(json.dumps(bottleneck.to_dict()))["suspects"][0]["name"] == "gp3 vol-0def IOPS"


def test_two_that_cannot_be_told_apart_are_both_named():
    bottleneck = found(run_of(80_000))
    assert bottleneck.name == "io2 vol-0abc IOPS or c5.18xlarge EBS IOPS"
    assert [one.ceiling for one in bottleneck.leading][1].same_as(C5.ebs_iops)


def test_a_run_that_fell_is_told_by_its_end():
    bottleneck = found(falling(2_000))
    assert bottleneck.sentence.startswith("after 2,000 s (33.3 min), 300 IOPS; ")


def test_a_damaged_run_has_no_bottleneck():
    bottleneck = found(run_of(0.0))
    assert (bottleneck.name, bottleneck.leading[0].kind) == ("nothing known", Kind.UNKNOWN)
    assert "no I/O completed" in bottleneck.sentence


def test_a_region_whose_machine_was_on_time_while_a_limit_acted_excludes_it():
    counters = ThrottleDelta(60, 59)
    calm = found(gp3_run(2_000, outstanding=64, delay=delay_of(31, 0.5), counters=counters))
    assert suspect(calm, Kind.MACHINE).standing is Standing.EXCLUDED
    unknown = found(gp3_run(2_000, outstanding=64, machine=STRONG_MACHINE))
    assert suspect(unknown, Kind.MACHINE).standing is Standing.POSSIBLE
    late = found(gp3_run(2_000, outstanding=64, delay=delay_of(15, 17), counters=counters))
    assert suspect(late, Kind.MACHINE).standing is Standing.LIKELY


@given(
    st.floats(1, 1e5),
    st.integers(1, 2_048),
    st.none() | st.builds(ThrottleDelta, st.just(60.0), *[st.floats(0, 60)] * 4),
    st.none() | st.builds(GeneratorLoad, st.floats(0, 100)),
    st.none() | st.just(Iops(40_000)),
    st.none() | st.sampled_from([CALM, LATE]),
)
def test_suspects_are_ranked_and_somebody_leads(iops, depth, counters, load, own, delay):
    run = run_of(iops, outstanding=depth, counters=counters, generator=load, rate_asked=own, delay=delay)
    bottleneck = found(run)
    standings = [one.standing for one in bottleneck.suspects]
    assert standings == sorted(standings, reverse=True)
    assert bottleneck.leading
    assert bottleneck.leading[0] is bottleneck.suspects[0]
    assert all(one.standing > Standing.EXCLUDED for one in bottleneck.leading)
    assert len([one for one in bottleneck.suspects if one.kind is Kind.UNKNOWN]) == 1
    assert "\n" not in bottleneck.sentence
    for one in bottleneck.suspects:
        assert one.name
        assert one.sentence
