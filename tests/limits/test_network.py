"""The ceilings of the network between two instances: ends, flows, and which one binds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.limits.bandwidth_weighting import UnsupportedOption
from pytest_cloudbench.limits.ceilings import FLOW, INSTANCE, MACHINE
from pytest_cloudbench.limits.envelope import MachineLimits
from pytest_cloudbench.limits.instances import OVERRIDES, InstanceLimits
from pytest_cloudbench.limits.network import (
    BOTH_ENDS,
    CLIENT_END,
    SERVER_END,
    NetworkEnvelope,
    flow_limit,
    network_envelope,
)
from pytest_cloudbench.limits.network_options import NetworkOptions
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Throughput


def type_of(name, *cards):
    found = [
        {
            "NetworkCardIndex": number,
            **({"PeakBandwidthInGbps": peak} if peak is not None else {}),
            **({"BaselineBandwidthInGbps": base} if base is not None else {}),
        }
        for number, (peak, base) in cards
    ]
    return InstanceLimits.from_describe({"InstanceType": name, "NetworkInfo": {"NetworkCards": found}})


def simple(name, peak, base):
    return type_of(name, (0, (peak, base)))


M5 = simple("m5.2xlarge", 10.0, 2.5)
T2 = simple("t2.medium", 1.024, 0.256)
C5 = simple("c5.18xlarge", 25.0, 25.0)
MACHINE_13 = MachineLimits(Iops(1), Throughput(1), "probe", network=Throughput.from_gbit(13))


@pytest.fixture(scope="module")
def limits():
    catalogue = pytest.importorskip("moto.ec2.models.instance_types").INSTANCE_TYPES
    return {name: InstanceLimits.from_describe(entry) for name, entry in catalogue.items()}


def test_a_type_that_bursts_has_a_peak_and_a_baseline():
    peak, baseline = M5.network_peak, M5.network_baseline
    assert str(peak) == "m5.2xlarge network bandwidth, 10 Gbit/s"
    assert peak.base == Bandwidth.from_gbit(2.5)
    assert peak.note == "while network credits last, then 2.5 Gbit/s"
    assert str(baseline) == "m5.2xlarge network baseline, 2.5 Gbit/s"
    assert (peak.scope, baseline.scope, baseline.base) == (INSTANCE, INSTANCE, None)
    assert isinstance(peak.limit, Bandwidth)
    assert M5.network_peak == peak
    assert M5.network_baseline == baseline
    assert peak.source == "EC2 DescribeInstanceTypes"


def test_a_type_that_does_not_burst_holds_its_peak():
    assert C5.network_peak.base is None
    assert C5.network_peak.note == ""
    assert C5.network_baseline.limit == C5.network_peak.limit == Bandwidth.from_gbit(25)


def test_a_type_without_figures_has_neither():
    for bare in (type_of("old.large"), type_of("old.large", (0, (None, None)))):
        assert bare.network_peak is None
        assert bare.network_baseline is None
    only_base = simple("x.large", None, 1.0)
    assert only_base.network_peak.limit == Bandwidth.from_gbit(1)
    assert simple("x.large", 1.0, None).network_baseline is None


def test_the_first_card_counts_wherever_it_stands_in_the_answer():
    two = type_of("c6in.32xlarge", (1, (100.0, 100.0)), (0, (200.0, 200.0)))
    assert two.network_peak.limit == Bandwidth.from_gbit(200)


def test_every_known_type_has_figures(limits):
    for one in limits.values():
        peak, baseline = one.network_peak, one.network_baseline
        assert peak.limit >= baseline.limit > Throughput(0)
        assert (peak.base is None) == (peak.limit == baseline.limit)
    stated = [one for one in limits.values() if one.network_cards[0].peak > one.network_cards[0].baseline]
    flat = {one.name.partition(".")[0] for one in stated if one.network_peak.base is None}
    assert len(stated) >= 625
    assert {"m4", "c4"} <= flat
    assert flat.isdisjoint({"t2", "m5", "c5", "m6i"})
    assert limits["t2.2xlarge"].network_peak.limit == Bandwidth.from_gbit(1.024)
    metal = InstanceLimits.from_describe(OVERRIDES["i3.metal"])
    assert metal.network_peak.limit == Bandwidth.from_gbit(25)
    assert "from memory" in metal.network_peak.source


def test_a_network_that_aws_describes_by_a_word_has_its_measured_rate(limits):
    m4, t2 = limits["m4.large"].network_peak, limits["t2.medium"].network_peak
    assert (m4.limit, m4.base) == (Bandwidth.from_gbit(0.45), None)
    assert (t2.limit, t2.base) == (Bandwidth.from_gbit(0.512), Bandwidth.from_gbit(0.256))
    assert m4.note == 'AWS calls it "Moderate" and states a peak of 1.2 Gbit/s, which was not measured'
    assert "2018" in m4.source
    assert limits["m5.2xlarge"].network_peak.source == limits["m5.2xlarge"].source


def test_one_flow_is_limited_to_5_gbit_or_10_in_a_cluster():
    outside, inside = flow_limit(False), flow_limit(True)
    assert str(outside) == "a single flow's limit, 5 Gbit/s"
    assert inside.limit == Bandwidth.from_gbit(10)
    assert outside.scope == FLOW
    assert "EC2 user guide" in outside.source
    assert outside.same_as(inside)


def test_either_end_limits_five_streams_of_an_equal_pair():
    found = network_envelope(M5, M5, streams=5, cluster=False)
    (end,) = found.binding
    assert (end.label, end.detail) == ("m5.2xlarge network bandwidth", BOTH_ENDS)
    assert found.limit_throughput == Bandwidth.from_gbit(10)
    assert [str(level.throughput) for level in found.levels_of(end)] == ["10 Gbit/s", "2.5 Gbit/s"]
    assert found.levels_of(end)[1].how == "network credits spent"
    assert found.bandwidth_of(found.ordered[1]) == Bandwidth.from_gbit(25)
    assert found.explain() == [
        "m5.2xlarge network bandwidth: 10 Gbit/s (binds); either end; while network credits last, then "
        "2.5 Gbit/s",
        "a single flow's limit: 5 Gbit/s x 5 streams = 25 Gbit/s (150 % above); outside a cluster placement "
        "group",
    ]


@pytest.mark.parametrize(("client", "server", "end"), [(T2, M5, CLIENT_END), (M5, T2, SERVER_END)])
def test_the_slower_end_decides(client, server, end):
    found = network_envelope(client, server, streams=5, cluster=False)
    (slower,) = found.binding
    assert (slower.label, slower.detail) == ("t2.medium network bandwidth", end)
    assert found.limit_throughput == Bandwidth.from_gbit(1.024)
    assert found.ordered[1].owner == "m5.2xlarge"


@pytest.mark.parametrize(("cluster", "gbit"), [(False, 5), (True, 10)])
def test_the_flow_limits_one_stream_of_a_large_instance(cluster, gbit):
    found = network_envelope(C5, C5, streams=1, cluster=cluster)
    assert found.binding[0].scope == FLOW
    assert found.limit_throughput == Bandwidth.from_gbit(gbit)
    assert isinstance(found.throughput_of(found.ordered[1]), Bandwidth)


def test_the_machine_is_a_ceiling_but_no_promise():
    found = network_envelope(C5, C5, streams=5, cluster=False, machine=MACHINE_13)
    (machine,) = found.machine
    assert (machine.scope, machine.label) == (MACHINE, "the machine under the embedded region network")
    assert found.binding == (machine,)
    promised = found.promised
    assert isinstance(promised, NetworkEnvelope)
    assert (promised.streams, promised.machine) == (5, ())
    silent = MachineLimits(Iops(1), Throughput(1))
    assert network_envelope(C5, C5, streams=5, cluster=False, machine=silent).machine == ()


def test_unknown_ends_have_no_ceiling():
    found = network_envelope(None, type_of("old.large"), streams=2, cluster=True)
    assert [ceiling.scope for ceiling in found.ceilings] == [FLOW]
    one = network_envelope(M5, None, streams=2, cluster=True)
    assert one.find(M5.network_peak).detail == CLIENT_END


@pytest.mark.parametrize("streams", [0, -1])
def test_a_load_needs_a_stream(streams):
    with pytest.raises(ValueError, match="at least one stream"):
        network_envelope(M5, M5, streams=streams, cluster=False)


gbits = st.floats(0.01, 200)


@given(gbits, gbits, st.floats(0.01, 1), st.integers(1, 128), st.booleans(), st.none() | gbits)
def test_the_lowest_ceiling_binds(client, server, share, streams, cluster, carried):
    one, other = simple("a.large", client, client * share), simple("b.large", server, server)
    on = MachineLimits(Iops(1), Throughput(1), network=Bandwidth.from_gbit(carried)) if carried else None
    found = network_envelope(one, other, streams=streams, cluster=cluster, machine=on)
    flows = streams * (10 if cluster else 5)
    lowest = min(client, server, flows, *([carried] if carried else []))
    assert found.limit_throughput.gbit == pytest.approx(lowest)
    assert found.binding[0] in found.ceilings
    back = network_envelope(other, one, streams=streams, cluster=cluster, machine=on)
    assert back.limit_throughput == found.limit_throughput
    assert len(found.explain()) == len(found.ceilings)
    for ceiling in found.ceilings:
        levels = [level.throughput for level in found.levels_of(ceiling)]
        assert levels == sorted(levels, reverse=True)
        assert levels[0] == found.throughput_of(ceiling)


@given(gbits, st.integers(1, 64))
def test_more_streams_never_allow_less(peak, streams):
    one = simple("a.large", peak, peak)
    few = network_envelope(one, one, streams=streams, cluster=False).limit_throughput
    more = network_envelope(one, one, streams=streams + 1, cluster=False).limit_throughput
    assert more >= few


@given(st.booleans(), st.integers(1, 8), st.floats(1, 200))
def test_ena_express_raises_the_limit_of_one_flow_up_to_the_instance_s(cluster, streams, gbit):
    both = simple("x9.large", gbit, gbit)
    without, with_it = (
        network_envelope(both, both, streams=streams, cluster=cluster, ena_express=express)
        for express in (False, True)
    )
    assert with_it.limit_throughput == Bandwidth.from_gbit(min(25 * streams, gbit))
    assert with_it.limit_throughput >= without.limit_throughput
    (flow,) = (one for one in with_it.ceilings if one.scope == FLOW)
    assert flow.detail == "with ENA Express"


@pytest.mark.parametrize(
    ("weighting", "express", "expected"),
    [
        ("default", False, NetworkOptions()),
        ("vpc-1", True, NetworkOptions("vpc-1", True)),
        ("ebs-1", "udp", NetworkOptions("ebs-1", True, True)),
    ],
)
def test_network_options_as_a_user_gives_them(weighting, express, expected):
    assert NetworkOptions.of(weighting, express) == expected


@pytest.mark.parametrize(
    ("weighting", "express"), [("vpc-2", False), (None, False), ("default", "tcp"), ("default", 1)]
)
def test_invalid_network_options_are_refused(weighting, express):
    with pytest.raises(ValueError, match=r"invalid (bandwidth_weighting|ena_express)="):
        NetworkOptions.of(weighting, express)


def test_a_type_without_ena_express_is_refused(limits):
    NetworkOptions(ena_express=True).check(limits["m6i.8xlarge"])
    with pytest.raises(UnsupportedOption, match=r"m5\.large does not support ENA Express"):
        NetworkOptions(ena_express=True).check(limits["m5.large"])
