"""EBS cards: the limits of an instance for volumes on some or all of its cards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench import io1, io2, recorded_limits
from pytest_cloudbench.limits.bandwidth_weighting import UnsupportedOption
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Size, Throughput


def figures(iops, mb):
    return {f"{which}{name}": value for which in ("Baseline", "Maximum") for name, value in
            (("Iops", iops), ("ThroughputInMBps", mb))}  # fmt: skip


def instance(*cards, hypervisor="nitro"):
    """Return an instance with such cards, (IOPS, MB/s) each."""
    total = [sum(column) for column in zip(*cards, strict=True)]
    described = [{"EbsCardIndex": index, **figures(*card)} for index, card in enumerate(cards)]
    ebs = {"EbsOptimizedInfo": figures(*total)}
    if len(cards) > 1:
        ebs["EbsCards"] = described
    return InstanceLimits.from_describe(
        {"InstanceType": "x9.metal", "Hypervisor": hypervisor, "EbsInfo": ebs}
    )


M8GN = instance((240_000, 7_500), (240_000, 7_500))
CARDS = st.lists(st.tuples(st.integers(1_000, 10**6), st.integers(100, 10_000)), min_size=2, max_size=4)


def test_one_card_is_half_of_the_instance():
    iops, throughput = M8GN.ebs_ceilings([1])
    assert (iops.limit, throughput.limit) == (Iops(240_000), Throughput.from_mb(7_500))
    assert iops.label == "x9.metal card 1 EBS IOPS"
    assert "1 on card 1" in iops.note


@pytest.mark.parametrize("cards", [[], [0, 1], [1, 0, 0, 1]])
def test_all_cards_alike_are_the_instance(cards):
    assert [one.limit for one in M8GN.ebs_ceilings(cards)] == [Iops(480_000), Throughput.from_mb(15_000)]
    assert M8GN.ebs_ceilings(cards)[0] == M8GN.ebs_iops


def test_the_card_with_more_volumes_holds_an_even_load_back():
    iops, throughput = M8GN.ebs_ceilings([0, 1, 0, 1, 0])
    assert iops.limit.per_second == pytest.approx(400_000)
    assert throughput.limit.bytes_per_second == pytest.approx(12_500e6)
    assert iops.label == "x9.metal cards 0 and 1 EBS IOPS"


def test_a_card_that_the_type_lacks_is_refused():
    for limits, card in ((M8GN, 2), (instance((1_000, 100)), 1)):
        with pytest.raises(UnsupportedOption, match=f"EBS card {card}"):
            limits.check_options(card=card)


@given(CARDS, st.data())
def test_an_even_load_puts_no_card_above_its_limit(cards, data):
    limits = instance(*cards)
    used = data.draw(st.lists(st.integers(0, len(cards) - 1), min_size=1, max_size=20))
    iops, throughput = (ceiling.limit for ceiling in limits.ebs_ceilings(used))
    shares = {index: used.count(index) / len(used) for index in used}
    for limit, column in ((iops.per_second, 0), (throughput.bytes_per_second / 1e6, 1)):
        loads = [limit * share / cards[index][column] for index, share in shares.items()]
        assert max(loads) == pytest.approx(1)  # one card is full, none is above its limit
        assert limit <= sum(card[column] for card in cards) * (1 + 1e-9)


@given(CARDS, st.integers(1_000, 10**6))
def test_recorded_limits_are_shared_by_the_cards(cards, recorded):
    limits = instance(*cards).with_recorded(recorded_limits(ebs_iops=recorded, source="a test"))
    assert sum(card.maximum.iops.per_second for card in limits.ebs_cards) == pytest.approx(recorded)
    assert limits.ebs_card(1).maximum.throughput == Throughput.from_mb(cards[1][1])
    assert "as recorded" in limits.ebs_ceilings([0])[0].note


def test_a_volume_s_envelope_has_its_card():
    volume = ("vol-0a", io2(size_gib=4_000, iops=256_000))
    of_one = storage_envelope(M8GN, [volume], Size.parse("4k"), sequential=False, cards=[1])
    assert [one.label for one in of_one.binding] == ["x9.metal card 1 EBS IOPS"]
    assert of_one.limit_iops == Iops(240_000)
    both = storage_envelope(M8GN, [volume] * 2, Size.parse("4k"), sequential=False, cards=[0, 1])
    assert both.limit_iops == Iops(480_000)


@pytest.mark.parametrize(
    ("spec", "iops", "mib"),
    [
        (io1(size_gib=2_000, iops=64_000), 32_000, 500),
        (io2(size_gib=2_000, iops=256_000), 32_000, 4_000),
        (io2(size_gib=2_000, iops=32_000), 32_000, 4_000),
        (io1(size_gib=2_000, iops=20_000), 20_000, 500),
    ],
)
def test_a_volume_before_nitro_has_32_000_iops(spec, iops, mib):
    xen = instance((100_000, 10_000), hypervisor="xen")
    found = {
        one.quantity: one
        for one in storage_envelope(xen, [("vol-0a", spec)], Size.parse("4k"), sequential=False).ceilings
    }
    assert found["volume IOPS"].limit == Iops(iops)
    assert found["volume throughput"].limit == Throughput.from_mib(mib)
    assert ("not built on Nitro" in found["volume IOPS"].note) == (spec.iops > 32_000)
    assert str(spec) in found["volume IOPS"].detail


@given(st.integers(100, 256_000), st.integers(1, 5))
def test_the_limit_before_nitro_is_one_of_each_volume(iops, count):
    volumes = [(f"vol-{n}", io2(size_gib=4_000, iops=iops)) for n in range(count)]
    for limits, most in ((instance((10**7, 10**5), hypervisor="xen"), 32_000), (M8GN, 256_000)):
        found = storage_envelope(limits, volumes, Size.parse("4k"), sequential=False)
        (ceiling,) = (one for one in found.ceilings if one.quantity == "volume IOPS")
        assert ceiling.limit == Iops(count * min(iops, most))
